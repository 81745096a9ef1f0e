"""The pages: each command is read by the parser of its verb, and the tables are as their data say."""

import ast
import contextlib
import io
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import matplotlib.font_manager  # noqa: F401  asks a program for the system's fonts, once on each machine
import pytest

from scripts.tables import TableError, documents, renewed, stale
from scripts.tables import main as make_tables
from scripts.tables import read as read_table
from simple_dqn import rules
from simple_dqn.environment.atari import game_of, known_games
from simple_dqn.errors import UserError
from simple_dqn.main import VERBS
from simple_dqn.verbs.settings import resolve
from tests.command_line import PROJECT, Capsys, Patch, ReadError, only_reading, read

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:^ {4}.*\S.*\n)+", re.MULTILINE)
SPAN = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")
FLAG = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")
# How a line, or a piece of text, begins that is a command of this project.
OURS = re.compile(r"(\S+=\S+ |taskset -c \S+ )*(\./)?(\w+\.sh\b|make\b|pytest\b|simple-dqn\b|\S*python\d? )")
# A word in the place of what the reader is to give.
PLACEHOLDER = re.compile(r"…|<.*>|[A-Z]+(_[A-Z]+)*")
# Words that may stand before the program in a command line: assignments and `taskset`.
BEFORE = re.compile(r"^(\w+=\S* |taskset -c \S+ )+")


@dataclass
class Command:
    program: str  # such as `train.sh`, which may be spelled `./train.sh` or `simple-dqn train`
    arguments: list[str]
    inline: bool  # in the text, where it may be cut short

    def __str__(self) -> str:
        return " ".join([self.program, *self.arguments])

    @property
    def verb(self) -> str:
        return self.program.removesuffix(".sh")


def is_placeholder(word: str) -> bool:
    """Return whether the reader puts something else there: `…`, `SNAPSHOT`, `<file>`, `FILE.py:CLASS`."""
    return PLACEHOLDER.fullmatch(Path(word.partition(":")[0]).stem) is not None


def pages() -> list[Path]:
    """Return every document in reading order, without the lab notebook, whose commands are of its day, and
    without `upgrading.md`, which lists removed names.
    """
    docs = {*(PROJECT / "docs").glob("*.md")} - {PROJECT / "docs" / "upgrading.md"}
    folders = [PROJECT / folder / "README.md" for folder in ("roms", "snapshots", "results", "videos")]
    return [PROJECT / "README.md", *folders, PROJECT / "CONTRIBUTING.md", *sorted(docs)]


def commands(text: str) -> Iterator[Command]:
    """Yield the commands of this project in a document: those in its blocks, and those in its text."""
    found: list[tuple[int, str, bool]] = []
    rest = text
    for pattern, group in ((FENCE, 2), (INDENTED, 0)):
        for block in pattern.finditer(rest):
            found += [(block.start(group), line, False) for line in lines(block[group])]
        rest = pattern.sub(lambda block: " " * len(block[0]), rest)
    found += [(span.start(), " ".join(span[1].split()), True) for span in SPAN.finditer(rest)]
    for _, line, inline in sorted(found, key=lambda item: item[0]):
        if OURS.match(line):
            yield from (Command(program, words, inline) for program, *words in readings(line))


def lines(block: str) -> list[str]:
    joined = re.sub(r"\\\n\s*", " ", block)
    return [re.sub(r"(^|\s+)#.*", "", line).strip() for line in joined.splitlines() if line.strip()]


def readings(line: str) -> Iterator[list[str]]:
    line = re.sub(r"\s*\[[^\]]*\]", "", BEFORE.sub("", line)).replace("\\|", "|")
    for program, *words in product(*(word.split("|") for word in shlex.split(line))):
        if program == "simple-dqn" and words:
            program, words = f"{words[0]}.sh", words[1:]
        yield [program.removeprefix("./"), *words]


def flags(text: str) -> set[str]:
    blocks = [block[2] for block in FENCE.finditer(text)] + [block[0] for block in INDENTED.finditer(text)]
    spans = [span[1] for span in SPAN.finditer(FENCE.sub("", text))]
    return {flag for piece in blocks + spans for flag in FLAG.findall(piece)}


TABLES = (
    "environments", "emulator", "replay", "networks", "training", "learning", "playing", "checkpoint",
    "cluster", "cluster_plan", "step_limit",
)  # fmt: skip
PAGE = "examples/dqn.py"  # which dqn.sh runs
DIAGRAM = PROJECT / "docs" / "pictures" / "update.svg"
SOAKS = ("fuzz_snapshots", "trainings")
# Files that are the reader's own, or another project's.
THEIRS = {"dqn_atari.py", "roms/mine.bin"}
# Flags with a file that is written; all other files must be there.
WRITING = {"--json", "--csv_file", "--png_file", "--visualization_file"}
A_FILE = re.compile(r".+\.(pkl|csv|rom|bin|py|md|json|npz|html|png)|(snapshots|results|roms|videos|docs)/.+")
# What trainings write, whose names begin with the game. tests/soak/run_documents.py carries them out.
WRITTEN = re.compile(r"(snapshots|results)/(sweep/)?(\w+?)(_\d+|_checkpoint)?(\.\w+)?")
# A link to a file of code, whose text is a name that the file defines: [`NAME`](../src/file.py).
LINKED_NAME = re.compile(r"\[`(\w+)`\]\(([\w./]+\.py)\)")


def check(command: Command) -> None:
    """Read `command` by its own parser, and look for the files that it names."""
    program, words = command.program, command.arguments
    words = ["pong.rom" if word == "…" and not number else word for number, word in enumerate(words)]
    words = [word for word in words if word != "…"]
    if words[:3] == ["-m", "pip", "install"]:
        return
    if words[:2] == ["-m", "pytest"]:
        program, words = "pytest", words[2:]
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
        assert set(words) <= set(targets), f"the Makefile has no {words}"
    elif program in ("pytest", "bench.sh", "dqn.sh") or program.endswith("python"):
        words = [PAGE, *words] if program == "dqn.sh" else words
        check_files(words, {})
        if program != "pytest" and words and words != ["scripts/curves.py"]:  # it has no flags, and would run
            read_benchmark(words)
    else:
        assert command.verb in VERBS, f"there is no {program}"
        assert (PROJECT / program).exists(), f"there is no {program}"
        given = read_verb(command.verb, words, command.inline)
        if command.verb == "train" and given:
            rules.check(resolve(given, fixed={"csv_file": "x.csv"}))
        check_files([word for word in words if word != str(given.get("target"))], given)


def read_verb(verb: str, words: list[str], may_be_cut_short: bool) -> dict[str, Any]:
    try:
        return read(verb, words).given
    except UserError as error:
        if may_be_cut_short and "the following arguments are required" in str(error):
            return {}
        raise
    except SystemExit:  # --help
        return {}


def read_benchmark(words: list[str]) -> ReadError | None:
    """Return what a table of bench.sh, or a script, reads."""
    name, complaints = words[0], io.StringIO()
    with (
        only_reading(),
        patch("signal.signal"),  # examples/dqn.py would let Ctrl-C, and tests that send it, end this process
        patch.object(subprocess, "Popen", side_effect=AssertionError(f"{name} did not stop at its flags")),
        patch.object(sys, "argv", words),
        contextlib.redirect_stderr(complaints),
    ):
        try:
            if name.endswith(".py"):
                runpy.run_path(str(PROJECT / name), run_name="__main__")
            else:
                assert name in TABLES, f"bench.sh has no table {name}"
                runpy.run_module(name, run_name="__main__", alter_sys=True)
        except ReadError as outcome:
            return outcome
        except SystemExit as end:
            if end.code:
                raise AssertionError(complaints.getvalue()) from end
    return None


def check_files(words: list[str], given: dict[str, Any]) -> None:
    """Require that each file which is named is there, is written by a training, or is the reader's own."""
    for before, word in zip(["", *words], words, strict=False):
        for file in word.split("=", 1)[-1].split(","):  # plot.sh takes NAME=CSV,CSV
            known = not A_FILE.fullmatch(file) or before in WRITING or is_there(file, given)
            assert known, f"{file} is neither in the project nor written by a training"


def is_there(word: str, given: dict[str, Any]) -> bool:
    stem = written[3] if (written := WRITTEN.fullmatch(word)) else ""
    is_written = stem and (game_of(stem) or (PROJECT / "examples" / f"{stem}.py").exists())
    is_rom = Path(word).suffix == ".rom" and Path(word).stem in known_games()
    is_id = given.get("environment") == "gym" and word == given["game"]
    others = word in THEIRS or is_placeholder(word)
    return bool(is_written or is_rom or is_id or (PROJECT / word).exists() or others)


# Flags on the pages that `known_flags` does not find.
OTHER_FLAGS = {
    "--game", "--onnx", "--safetensors", "--push", "--float16",  # of `snapshot.sh`
    "--logdir",  # TensorBoard's
    "--generate", "--head", "--address", "--node-ip-address", "--port", "--num-cpus",  # Ray's, and these:
    "--include-dashboard", "--node-manager-port", "--object-manager-port", "--min-worker-port",
    "--max-worker-port",
}  # fmt: skip


def known_flags() -> set[str]:
    needed = {"doctor": [], "plot": ["x.csv"], "snapshot": ["show", "x"]}
    parsers = [read(verb, needed.get(verb, ["pong"])).parser for verb in VERBS]
    for name in [*TABLES, PAGE, *(f"tests/soak/{name}.py" for name in SOAKS)]:
        outcome = read_benchmark([name, "pong"] if name in ("learning", PAGE) else [name])
        assert outcome is not None
        parsers.append(outcome.parser)
    return {flag for parser in parsers for action in parser._actions for flag in action.option_strings}


def test_every_command_and_flag_is_read_by_its_own_parser(tmp_path: Path, monkeypatch: Patch) -> None:
    (tmp_path / "examples").symlink_to(PROJECT / "examples")
    monkeypatch.chdir(tmp_path)  # where examples/tune.py may add to its study
    wrong, count = [], 0
    for page in pages():
        for command in commands(page.read_text()):
            count += 1
            try:
                check(command)
            except (AssertionError, UserError) as error:
                wrong.append(f"{page.relative_to(PROJECT)}: {command}: {error}")
    assert not wrong, "\n".join(wrong)
    assert count > 60
    shown, known = {str(page): flags(page.read_text()) for page in pages()}, known_flags() | OTHER_FLAGS
    unknown = {page: those - known for page, those in shown.items()}
    assert not [page for page, those in unknown.items() if those], unknown
    assert set[str]().union(*shown.values()) >= OTHER_FLAGS


def test_linked_names_and_those_of_the_diagram_exist() -> None:
    found = [(page, *link) for page in pages() for link in LINKED_NAME.findall(page.read_text())]
    assert len(found) > 15
    for page, name, path in found:
        code = (page.parent / path).read_text()
        definition = rf"^(\s*def|\s*class) {name}\b|^{name}\b[^=]* = "
        assert re.search(definition, code, re.MULTILINE), f"{page.name}: {path} does not define {name}"
    tree = ast.parse((PROJECT / PAGE).read_text())
    known = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    known |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    # Text of the class `math` is formulas.
    texts = re.findall(
        r"<text [^>]*?\d\">(.+?)</text>", re.sub(r"(?s)<g [^>]*math.*?</g>", "", DIAGRAM.read_text())
    )
    names = [name for text in texts for name in re.split(r"\W+", text)]
    assert len(names) > 15
    assert {*names} <= known


@pytest.mark.parametrize(("text", "words"), [
    ("```sh\n./train.sh pong --learning_rat 1\n```\n", "unknown flag --learning_rat: did you mean"),
    ("text\n\n    ./train.sh pong \\\n        --frame_skip 0\n", "at least 1"),
    ("it is `./train.sh … --resumee true`", "unknown flag --resumee"),
    ("`./play.sh snapshots/trained/pong_1.pkl`", "neither in the project nor written by a training"),
    ("`./bench.sh trainings`", "no table trainings"),
    ("`taskset -c 0 ./train.sh … --concurrent true --train_steps 25`", "whole periods"),
])  # fmt: skip
def test_a_command_that_would_not_work_is_found(text: str, words: str) -> None:
    (command,) = commands(text)
    with pytest.raises((AssertionError, UserError), match=re.escape(words)):
        check(command)


ABOUT = "# command: ./bench.sh replay\n# machine: 2 cores\n"
SPEED = ABOUT + 'who,steps/s,game,"change, %"\nhere,1204,pong,-5.5\nthere,97,catch,\n"a, b",97,pong,-2\n'


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "docs" / "data").mkdir(parents=True)
    (tmp_path / "docs" / "data" / "speed.csv").write_text(SPEED)
    return tmp_path / "docs" / "data"


def test_every_table_is_as_its_data_say() -> None:
    assert not stale(PROJECT), "make tables"
    text = "".join(path.read_text() for path in documents(PROJECT))
    for path in (PROJECT / "docs" / "data").glob("*.csv"):
        assert read_table(path).rows
        shown = f"<!-- table: {path.stem} " in text or f"(data/{path.name})" in text
        assert shown, f"{path.name} is shown nowhere"


def test_a_stale_document_is_found_and_updated(data: Path, monkeypatch: Patch, capsys: Capsys) -> None:
    page, first = data.parents[1] / "README.md", 'speed | who, steps/s, "change, %" | game=pong'
    second = 'speed | game, "change, %"'
    text = f"a\n\n<!-- table: {first} -->\n{{}}<!-- end -->\nb | <!-- x -->\n"
    text += f"<!-- table: {second} -->\n{{}}<!-- end -->\n"
    page.write_text(text.format("old\n", ""))
    page.with_name("other.md").write_text("no table\n")
    monkeypatch.setattr("scripts.tables.HOME", page.parent)
    assert make_tables(["--check"]) == 1
    assert capsys.readouterr().out == "README.md: tables are out of date: run make tables\n"
    assert make_tables([]) == make_tables(["--check"]) == 0
    assert page.read_text() == text.format(
        "| who | steps/s | change, % |\n|---|---|---|\n| here | 1,204 | −5.5 |\n| a, b | 97 | −2 |\n",
        "| game | change, % |\n|---|---|\n| pong | −5.5 |\n| catch | |\n| pong | −2 |\n",
    )
    (data / "speed.csv").write_text(SPEED.replace("here", "nowhere"))
    assert make_tables(["--check"]) == 1
    page.write_text("<!-- table: sped -->\n<!-- end -->\n")
    assert make_tables([]) == 2
    assert "README.md: cannot read" in capsys.readouterr().err


@pytest.mark.parametrize(("csv", "text", "words"), [
    (SPEED, "speed | whom -->\n<!-- end -->\n", "no column 'whom': choose from who, steps/s"),
    (SPEED, "speed | who | game=golf -->\n<!-- end -->\n", "no row with game=golf"),
    (SPEED, "speed -->\nnever ends\n", "lacks its first or its last"),
    (SPEED.replace("# machine", "# mach"), "speed -->\n<!-- end -->\n", "does not say its machine"),
    (SPEED + "one\n", "speed -->\n<!-- end -->\n", "a row has 1 cells and the header 4"),
    (ABOUT + "a,a\n1,2\n", "speed -->\n<!-- end -->\n", "two columns have the same name"),
    ("", "speed -->\n<!-- end -->\n", "does not say its command"),
])  # fmt: skip
def test_a_wrong_marker_or_csv_is_told(data: Path, csv: str, text: str, words: str) -> None:
    (data / "speed.csv").write_text(csv)
    with pytest.raises(TableError, match=words):
        renewed(f"<!-- table: {text}", data)
