"""Every command in README.md and the other pages, read by the parser of its own verb."""

import contextlib
import io
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import matplotlib.font_manager  # noqa: F401  asks a program for the system's fonts, once on each machine
import pytest

from simple_dqn import rules
from simple_dqn.environment.atari import game_of, known_games
from simple_dqn.errors import UserError
from simple_dqn.main import VERBS
from simple_dqn.verbs.settings import resolve
from tests.command_line import ReadError, only_reading, read
from tests.documents import HOME, Command, commands, flags, is_placeholder, pages

TABLES = (
    "environments", "emulator", "replay", "networks", "training", "learning", "playing", "checkpoint",
    "cluster", "cluster_plan", "step_limit",
)  # fmt: skip
SOAKS = ("fuzz_snapshots", "kill_trainings", "fail_system", "memory_growth")
# Files that are the reader's own, or another project's.
THEIRS = {"dqn_atari.py", "roms/mine.bin"}
# Flags with a file that is written; all other files must be there.
WRITING = {"--json", "--csv_file", "--png_file", "--visualization_file"}
A_FILE = re.compile(r".+\.(pkl|csv|rom|bin|py|md|json|npz|html|png)|(snapshots|results|roms|videos|docs)/.+")


# A link to a file of code, whose text is a name that the file defines: [`NAME`](../src/file.py).
LINKED_NAME = re.compile(r"\[`(\w+)`\]\(([\w./]+\.py)\)")


class WrongError(Exception):
    """A command in a document would not work; the message says why."""


def check(command: Command, made: set[str]) -> None:
    """Read `command` by its own parser, and look for the files that it names.

    Args:
        command: Of a document.
        made: The files that the commands before it make, to which its own are added.

    Raises:
        WrongError: It would not work.
    """
    program, words = command.program, command.arguments
    words = ["pong.rom" if word == "…" and not number else word for number, word in enumerate(words)]
    words = [word for word in words if word != "…"]
    if words[:3] == ["-m", "pip", "install"]:
        return
    if words[:2] == ["-m", "pytest"]:
        program, words = "pytest", words[2:]
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (HOME / "Makefile").read_text(), re.MULTILINE)
        require(set(words) <= set(targets), f"the Makefile has no {words}")
    elif program in ("pytest", "bench.sh") or program.endswith("python"):
        check_files(words, {}, made)
        if program != "pytest" and words:
            read_benchmark(words)
    else:
        require(command.verb in VERBS and (HOME / program).exists(), f"there is no {program}")
        given = read_verb(command.verb, words, command.inline)
        if command.verb == "train" and given:
            rules.check(resolve(given, fixed={"csv_file": "x.csv"}))
            made |= written_by_training(given)
        if command.verb == "resume" and "epochs" in given:
            prefix = re.sub(r"_(\d+\.pkl|checkpoint)$", "", str(given["snapshot"]))
            prefix = re.sub(r"^snapshots/trained/(.+)$", r"snapshots/\1_trained", prefix)
            made |= {f"{prefix}_{epoch}.pkl" for epoch in range(1, given["epochs"] + 1)}
        if "target" in given:  # of `snapshot.sh convert` and `average`
            made.add(str(given["target"]))
        check_files(words, given, made)


def require(condition: bool, message: str) -> None:
    if not condition:
        raise WrongError(message)


def read_verb(verb: str, words: list[str], may_be_cut_short: bool) -> dict[str, Any]:
    """Return what a verb reads; nothing, if the command is cut short."""
    try:
        return read(verb, words).given
    except UserError as error:
        if may_be_cut_short and "the following arguments are required" in str(error):
            return {}
        raise WrongError(str(error)) from error
    except SystemExit:  # --help
        return {}


def read_benchmark(words: list[str]) -> ReadError | None:
    """Return what a table of bench.sh, or a script, reads."""
    name = words[0]
    complaints = io.StringIO()
    with (
        only_reading(),
        patch.object(subprocess, "Popen", side_effect=AssertionError(f"{name} did not stop at its flags")),
        patch.object(sys, "argv", words),
        patch.object(sys, "path", [str(HOME / "benchmarks"), str(HOME / "tests" / "soak"), *sys.path]),
        contextlib.redirect_stderr(complaints),
    ):
        try:
            if name.endswith(".py"):
                runpy.run_path(str(HOME / name), run_name="__main__")
            else:
                require(name in TABLES, f"bench.sh has no table {name}")
                runpy.run_module(name, run_name="__main__", alter_sys=True)
        except ReadError as outcome:
            return outcome
        except SystemExit as end:
            require(not end.code, complaints.getvalue())
    return None


def written_by_training(given: dict[str, Any]) -> set[str]:
    """Return the files that a training writes, of which the snapshots are one for each epoch."""
    game = Path(given["game"]).stem
    name = f"{game}_{given['label']}" if "label" in given else game
    epochs = resolve(given).run.epochs
    snapshots = {f"snapshots/{name}_{epoch}.pkl" for epoch in range(1, epochs + 1)}
    return {f"results/{name}.csv", f"snapshots/{name}_checkpoint", *snapshots}


def check_files(words: list[str], given: dict[str, Any], made: set[str]) -> None:
    """Require that each file which is named is there, is made by a command before, or is the reader's own."""
    before = ""
    for word in words:
        if before in WRITING:
            made.add(word)
        else:
            for file in word.split("=", 1)[-1].split(","):  # plot.sh takes NAME=CSV,CSV
                if A_FILE.fullmatch(file) and not is_there(file, given, made):
                    raise WrongError(f"{file} is neither in the project nor made by a command before")
        before = word


def is_there(word: str, given: dict[str, Any], made: set[str]) -> bool:
    rom = Path(word).suffix == ".rom" and Path(word).stem in known_games()
    if word.endswith(".pkl") and word in made:
        own = {path.stem for path in (HOME / "examples").glob("*.py")}
        run = Path(word).stem.rpartition("_")[0]
        assert game_of(run) or run in own
    return (
        rom
        or word in made
        or (HOME / word).exists()
        or word in THEIRS
        or is_placeholder(word)
        or (given.get("environment") == "gym" and word == given["game"])
    )


def known_flags() -> set[str]:
    """Return every flag of every verb, table and script."""
    needed = {"doctor": [], "plot": ["x.csv"], "snapshot": ["show", "x"]}
    parsers = [read(verb, needed.get(verb, ["pong"])).parser for verb in VERBS]
    for name in [*TABLES, *(f"tests/soak/{name}.py" for name in SOAKS)]:
        outcome = read_benchmark([name, "pong"] if name == "learning" else [name])
        assert outcome is not None
        parsers.append(outcome.parser)
    return {flag for parser in parsers for action in parser._actions for flag in action.option_strings} | {
        "--game", "--onnx", "--version",  # of `snapshot.sh show` and `export`, and of the command line itself
        "--logdir",  # TensorBoard's
        "--headless", "--hide-scrollbars", "--window-size", "--screenshot",  # Chromium's
        "--flag",  # any
        "--generate", "--head", "--address", "--node-ip-address", "--port", "--num-cpus",  # Ray's, and these:
        "--include-dashboard", "--node-manager-port", "--object-manager-port", "--min-worker-port",
        "--max-worker-port",
    }  # fmt: skip


def test_every_command_is_read_by_its_own_parser_and_finds_its_files() -> None:
    made: set[str] = set()
    wrong, count = [], 0
    for page in pages():
        for command in commands(page.read_text()):
            count += 1
            try:
                check(command, made)
            except (WrongError, UserError) as error:
                wrong.append(f"{page.relative_to(HOME)}: {command}: {error}")
    assert not wrong, "\n".join(wrong)
    assert count > 60


def test_every_flag_in_the_text_exists() -> None:
    known = known_flags()
    unknown = {str(page): flags(page.read_text()) - known for page in pages()}
    assert not [page for page, those in unknown.items() if those], unknown


def test_every_name_that_a_page_links_to_is_defined_in_its_file() -> None:
    found = [(page, *link) for page in pages() for link in LINKED_NAME.findall(page.read_text())]
    assert len(found) > 15
    for page, name, path in found:
        code = (page.parent / path).read_text()
        definition = rf"^(\s*def|\s*class) {name}\b|^{name}\b[^=]* = "
        assert re.search(definition, code, re.MULTILINE), f"{page.name}: {path} does not define {name}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("```sh\n./train.sh pong --learning_rat 1\n```\n", "unknown flag --learning_rat: did you mean"),
        ("text\n\n    ./train.sh pong \\\n        --frame_skip 0\n", "at least 1"),
        ("it is `./train.sh … --resumee true`", "unknown flag --resumee"),
        ("`./play.sh snapshots/pong_10.pkl`", "neither in the project nor made by a command before"),
        ("`./bench.sh trainings`", "no table trainings"),
        ("`taskset -c 0 ./train.sh … --concurrent true --train_steps 25`", "whole periods"),
    ],
)
def test_a_command_that_would_not_work_is_found(text: str, words: str) -> None:
    (command,) = commands(text)
    with pytest.raises((WrongError, UserError), match=re.escape(words)):
        check(command, set())
