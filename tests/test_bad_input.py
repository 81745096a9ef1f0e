"""Every kind of bad input: one line on stderr, exit code 2, no file left behind; and signals and streams."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, TypeAlias

import numpy as np
import pytest

from simple_dqn import __version__, main
from simple_dqn.config import Config
from simple_dqn.errors import EXTRAS, Interrupt, LostError, UserError, call_foreign, exit_code, printable
from simple_dqn.files import kind_of
from simple_dqn.presets import PRESETS, USUAL
from simple_dqn.snapshot import Snapshot
from simple_dqn.verbs.play import finish
from tests.command_line import NEON, PROJECT, Capsys, Patch, python

# Carries out commands; prints for each its exit code, complaints, whether PyTorch is imported, and the files.
WATCHED = """
import io, json, os, sys
from contextlib import redirect_stderr
from pathlib import Path
from simple_dqn.main import run
ends = []
for command in json.load(sys.stdin):
    os.environ["SIMPLE_DQN_PROGRAM"] = f"./{command[0]}.sh"
    with redirect_stderr(io.StringIO()) as complaints:
        code = run(command)
    files = sorted(map(str, Path().rglob("*")))
    ends.append((code, complaints.getvalue(), "torch" in sys.modules, files))
json.dump(ends, sys.stdout)
"""
# What may change a terminal, and is no end of a line.
CONTROLS = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]")
SHORT = [
    "--random_steps", "50", "--train_steps", "20", "--test_steps", "20", "--replay_size", "1000",
    "--preset", "simple_dqn",
]  # fmt: skip


Ended: TypeAlias = CompletedProcess[str]
Verb = Callable[..., Ended]


@pytest.fixture
def verb(folder: Path, monkeypatch: Patch, capsys: Capsys) -> Verb:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(folder))

    def run(*arguments: str) -> Ended:
        monkeypatch.setenv("SIMPLE_DQN_PROGRAM", f"./{arguments[0]}.sh")
        capsys.readouterr()
        return CompletedProcess(arguments, main.run(arguments), *capsys.readouterr())

    return run


def snapshot(game: str = "pong", actions: int = 6, flags: dict[str, Any] | None = None) -> Snapshot:
    return Snapshot(
        game=game, epoch=1, actions=actions, total_train_steps=20,
        flags={**Config().shared_flags(), **(flags or {})}, weights={"x": np.zeros(3, np.float32)},
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "not_a_rom.bin").write_bytes(b"x" * 4096)
    (tmp_path / "services.yaml").write_text("services:\n")
    (tmp_path / "hub.yaml").write_text("load_weights: hf://stranger/repo\n")
    (tmp_path / "file").write_text("a file where a folder should be")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    snapshot().save(tmp_path / "pong_1.pkl")
    snapshot(game="breakout", actions=4).save(tmp_path / "breakout_1.pkl")
    numbers = {"environment": "gym", "observation": "vector", "network": "mlp", "history_length": 1}
    snapshot(game="CartPole-v1", actions=2, flags=numbers).save(tmp_path / "CartPole-v1_1.pkl")
    snapshot(actions=18).save(tmp_path / "full_1.pkl")
    whole = (tmp_path / "pong_1.pkl").read_bytes()
    (tmp_path / "cut_1.pkl").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "steps.csv").write_text("epoch,phase,steps\n1,train,5\n")
    (tmp_path / "curve.csv").write_text("epoch,phase,steps,average_reward\n1,train,1,1\n1,test,1,1\n")
    return tmp_path


# Code of the user's own, with a fault each.
FILES = {
    "none.py": "import gymnasium",
    "two.py": "import gymnasium\nfor name in 'ab':\n    gymnasium.register(name, entry_point=dict)\n",
    "syntax.py": "class Half(:\n    pass\n",
    "raises.py": "1 / 0\n",
    "exits.py": "import sys\nsys.exit(3)\n",
    "lacks.py": "import no_such_module\n",
    "refuses.py": "import simple_dqn\nsimple_dqn.register_network('tiny', 5)\n",
}
# Command => words of the complaint.
ROWS = r"""
train roms/brekout.rom => no file roms/brekout.rom and no game called 'brekout' | breakout
train 0123456789 => game like pong
train '' --environment ale => no game was named
train ALE/MsPacman-v9 --environment ale => did you mean ms_pacman
train combat => no game called 'combat'
train => game
train pong --preset slow => 'slow' | quick | --config
train pong --keep best --test_steps 0 --random_steps 900 => --keep best | --test_steps
test pong_1.pkl --json breakout_1.pkl => cannot write breakout_1.pkl: it is a file of another kind | --json
nvis pong_1.pkl --visualization_file breakout_1.pkl => it is a file of another kind
snapshot export pong_1.pkl --safetensors breakout_1.pkl => breakout_1.pkl
test pong_1.pkl --json / => cannot write /: / is a folder | --json
resume pong_1.pkl --play_games 3 => --play_games is not for a training: use
sweep pong --config hub.yaml => a settings file cannot choose an address: give --load_weights hf://stranger/repo
train pong --config hub.yaml => a settings file cannot choose an address: give --load_weights hf://stranger/repo
train pong --csv_file pong_1.pkl => cannot write pong_1.pkl: it is not a CSV of statistics
train pong --display_screen true => there is no display | --display_screen
train pong --record_screen_path file/screens => cannot write screens to file/screens
train pong --record_sound_filename absent/pong.wav => cannot write sound to absent/pong.wav
train pong --record_sound_filename not_a_rom.bin --processes 1 => cannot write not_a_rom.bin
record pong_1.pkl --emulator warp => --emulator warp has no colors
train pong --workers=-- => argument --workers: '--' is not a value
resume pong_1.pkl --save_weights_prefix none => a run continues as pong
sweep catch --gpus_per_run 1e-300 => --gpus_per_run 1e-300 is below 0.01
train pong --keep worst => --keep | 'worst' | best
train pong --config services.yaml --config=no.yaml => --config is given twice
sweep pong --compare a= --compare 'b=--double true' => --compare is given twice
train pong --replay_size 900000000 => --replay_size 900000000 | fits | --replay_compression
train pong --backend cpu --replay_device gpu => --replay_device gpu | no GPU with room for
test pong_1.pkl --track wandb => --track wandb accompanies a CSV
train CartPole-v99 --environment gym => CartPole
train Cartpole-v1 => 'Cartpole-v1': did you mean CartPole-v1
train cartpool => an id like CartPole-v1
sweep catch Cartpole-v1 => 'Cartpole-v1': did you mean CartPole-v1
train hf://me/pong => hf://me/pong is a snapshot, not a game: ./resume.sh hf://me/pong --epochs N
sweep hf://me/pong => hf://me/pong is a snapshot, not a game: ./resume.sh hf://me/pong
train pong --csv_file services.csv => cannot write services.yaml: it is not a settings file
train pong --save_weights_prefix file/pong => cannot write to file | make it a writable folder, or use another
train pong --save_weights_prefix . => --save_weights_prefix . is a folder
train pong --load_weights missing_3.pkl => missing_3.pkl does not exist
train pong --screen_width 8 => screen
train pong --screen_width 1024 --screen_height 1024 --network mlp => weights, too many | --screen_width
train pong --environment catch => --environment catch plays catch, not pong | leave it out
train pong --epochs 1e300 => --epochs | too large
resume pong_7.pkl => pong_7.pkl does not exist | pong_1.pkl
test cut_1.pkl => cut_1.pkl cannot be used (it is cut off or damaged): copy or download it again
test full_1.pkl => 18 actions | 6
test pong_1.pkl --protocol machado --minimal_action_set false => 6 actions | --minimal_action_set
test pong_1.pkl --environment catch --protocol nature => for Atari games | --play_games 30
test pong_1.pkl --test_steps 0 => nothing to test | --play_games
test pong_1.pkl --protocol nature --test_steps 500 => --protocol nature counts games | leave out --test_steps
test pong_1.pkl --play_games 2 --test_steps 500 => --play_games counts games | leave out --test_steps
sweep => give GAME, or --suite nature7 or atari5
sweep breakout pnog => pnog | did you mean pong
sweep pong --random_seed 3 => --random_seed is not for a sweep | --seeds | leave it out
sweep pong --environment x.py => --environment: invalid choice | ale, gym, catch
sweep pong --backend gpu => --backend gpu | --gpus_per_run
sweep pong --name ../x => --name '../x' | folder's name
sweep pong --cpus_per_run 5000 => --cpus_per_run 5000 is too large: lower it
sweep pong --compare 'a=--threads 2' => --threads is not for a sweep
sweep pong --compare 'a=--import x.py' => --import is for all settings
sweep pong --compare a= 'a=--double true' => two settings of --compare have the same name
sweep pong --compare 'a=--backend gpu' => --backend gpu | --gpus_per_run
sweep pong --compare 'a=--config x.yaml' => a: unknown flag --config
sweep pong OWN => games of one kind
sweep pong --preset quick --compare a= 'b=--preset fast_dqn --target_steps 1' => --target_steps
sweep pong --compare a= 'b=--no_such 1' => b: unknown flag --no_such (see ./sweep.sh --help)
train none.py => none.py registers no environment | gymnasium.register
train two.py => registers a, b | --import two.py
train OWN --repeat_action_probability 0.5 => --repeat_action_probability
play games/none.py => cannot read
train no.py => cannot read | no.py
train Count-v1 => no environment 'Count-v1' | --import
train no_such_module:Count-v1 => --import no_such_module | no such module
train pong --import gamez => no such module
train pong --import README.md => no such module: install it, or give the path of its file, FILE.py
train pong --import= => --import '' | give a file
train pong --import --epochs => --import '--epochs' | give a file
train pong --import syntax.py => syntax.py, line 1
train pong --import raises.py => raises.py, line 1 | ZeroDivisionError
train pong --import exits.py => exits.py, line 2 | SystemExit
train pong --import lacks.py => lacks.py | no_such_module
train pong --import refuses.py => 5 is not a network
train pong --target_rule mine => --target_rule mine is not registered | --import FILE.py
train pong --csv_file x.csv --track mine => --track mine is not registered | --import FILE.py
plot x.csv --import raises.py => --import
play roms/pong.rom => not a terminal
play roms/pong.rom --display window => there is no display
sweep CartPole-v1 --terminal_on_life_loss false => --terminal_on_life_loss works only with Atari games
sweep pong --emulator warp --color_averaging true => --emulator warp cannot average colors: add
sweep catch --workers 2 --processes 9 => --processes 9 is more than the games of --workers 2: lower it
sweep compare => NAME=CSV,CSV
sweep compare a=none.py => does not begin with the names of columns | plot.sh reads others with --skiprows 0
sweep compare a=steps.csv => there is no field 'average_reward' in steps.csv
train Pendulum-v1 => Pendulum-v1 has no discrete actions
sweep Pendulum-v1 --environment gym => Pendulum-v1 has no discrete actions
train Blackjack-v1 => observes several things | --observation pixels
train FrozenLake-v1 --observation vector => --observation vector | Discrete | --observation pixels
train pong --observation vector => --observation vector | leave it out
train catch --observation vector => --observation vector | leave it out
train CartPole-v1 --network nature => --network nature | leave it out
nvis CartPole-v1_1.pkl => nvis needs images | another snapshot
train pong --save_weights_prefix PADDING => --save_weights_prefix | too long | 200
nvis pong_1.pkl --game pong => unknown flag --game
nvis pong_1.pkl --environment catch => was trained on pong, not on catch
snapshot convert pong_1.pkl x.pkl --game breakout => was trained on pong, not on breakout
snapshot show hf://me/catch => .venv/bin/python -m pip install huggingface_hub== | safetensors== | extra `hub`
snapshot card pong_1.pkl --push me/catch => --push needs packages | the extra `hub`
snapshot export pong_1.pkl --safetensors => --safetensors needs packages | the extra `hub`
snapshot export pong_1.pkl x.onnx --onnx => --onnx needs packages | pip install onnx== | the extra `onnx`
train pong --csv_file x.csv --track wandb => --track wandb needs packages | wandb== | extra `wandb`
train catch --environment catch --random_steps 900 --cluster local => --cluster needs packages
sweep pong --cluster local => --cluster needs packages | pip install 'ray>= | the extra `cluster`
"""
AT_ONCE = r"""
train pong_1.pkl => pong_1.pkl is a snapshot, not a game: ./resume.sh pong_1.pkl --epochs N trains
play pong_200 => did you mean snapshots/trained/pong_200.pkl?
test snapshots/pong_7.pkl => does not exist: snapshots/trained holds pong_200.pkl
play breakout_77.prm --workers 2 => one game at a time is shown
nvis breakout_77.prm --workers 2 => one game at a time is shown
play breakout_77.prm --network small => was trained with --network neon
play not_a_rom.bin => not a ROM that ALE can play
test pong_1.pkl --screen_width 64 => with --screen_width 84, | not fit --screen_width 64
test pong_1.pkl --network small => trained with --network nature
test CartPole-v1_1.pkl --observation pixels => with --observation vector, | give --observation vector
test pong_1.pkl --distributional c51 => trained with --distributional none
test atoms_1.pkl --atoms 7 => trained with --atoms 51
train pong --load_weights breakout_1.pkl => trained on breakout, not on pong
train pong --load_weights pong_1.pkl => give --screen_width 84 --screen_height 84 --network nature
train pong --play_games 1 --load_weights breakout_1.pkl => trained on breakout
sweep pong breakout --load_weights quick_1.pkl => trained on pong, not on breakout
profile_test pong --load_weights breakout_1.pkl => trained on breakout
test pong_1.pkl --load_weights full_1.pkl => --load_weights full_1.pkl | pong_1.pkl
"""


def table(text: str) -> list[tuple[list[str], list[str]]]:
    lines = [line.split(" => ") for line in text.strip().splitlines()]
    return [(shlex.split(command), words.split(" | ")) for command, words in lines]


def test_refused_before_pytorch_is_imported(folder: Path) -> None:
    (folder / "snapshots" / "trained").mkdir(parents=True)
    shutil.copy(folder / "pong_1.pkl", folder / "snapshots" / "trained" / "pong_200.pkl")
    snapshot(flags=PRESETS[USUAL]).save(folder / "quick_1.pkl")
    shutil.copy(NEON, folder / "breakout_77.prm")
    snapshot(flags={"distributional": "c51"}).save(folder / "atoms_1.pkl")
    before = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
    given = json.dumps([command for command, _ in table(AT_ONCE)])
    done = python("-P", "-c", WATCHED, cwd=folder, given=given, SIMPLE_DQN_HOME=str(folder))
    for (command, words), (code, complaints, *rest) in zip(
        table(AT_ONCE), json.loads(done.stdout), strict=True
    ):
        complaint = one_complaint(CompletedProcess(command, code, "", complaints), command[0])
        assert all(word in complaint for word in words), complaint
        assert rest == [False, before], command


def test_a_flag_that_a_command_does_not_use_is_ignored(verb: Verb) -> None:
    shown = "--csv_file --tensorboard --test_steps"
    unused = {
        "play --workers 2": f"{shown} --track", "record --play_games 0": f"{shown} --visualization_filters",
        "nvis --visualization_file .": f"{shown} --play_games", "test --test_steps 0": "--visualization_file",
    }  # fmt: skip
    for command, flags in unused.items():
        (name, *others), more = command.split(), flags.split()
        given = [f"{flag}={'wandb' if flag == '--track' else 1}" for flag in more]
        done = verb(name, "pong_1.pkl", "--replay_size", "10", "--epochs", "1e3", *given, *others)
        ignored = [line.partition("Ignored")[2] for line in done.stderr.splitlines() if "Ignored" in line]
        names = ", ".join(["--replay_size", "--epochs", *more])
        assert ignored == [f", as this command does not use them: {names}"]
        assert "replay" not in one_complaint(done, name)  # each command ends by a complaint of another flag


def test_bad_input(verb: Verb, folder: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)  # no extra is installed
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    before = files_in(folder)
    own = str(PROJECT / "examples" / "flappy_bird.py")
    for command, words in table(ROWS.replace("PADDING", "x" * 230).replace("OWN", own)):
        if command[0] == "train" and "--random_steps" not in command:
            command = [*command, *(flag for flag in SHORT if flag not in ("--replay_size", "1000"))]
        complaint = one_complaint(verb(*command), command[0])
        assert all(word in complaint for word in words), complaint
        assert files_in(folder) == before, command


def one_complaint(done: Ended, name: str) -> str:
    """Return the last line of a command that was refused as it should be."""
    lines = done.stderr.splitlines()
    assert done.returncode == 2, done.stderr
    assert [line for line in lines if line.startswith(f"./{name}.sh: ")] == lines[-1:]
    assert "Traceback" not in done.stderr
    assert not CONTROLS.search(done.stdout + done.stderr)
    return lines[-1]


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if not path.is_dir())


CATCH = ["train", "catch", "--environment", "catch", *SHORT, "--backend", "cpu"]
READERS = [
    ["train", "PATH", *SHORT],
    ["train", "pong", "--import", "PATH.py", *SHORT],
    ["train", "pong", "--config", "PATH"],
    [*CATCH, "--load_weights", "PATH"],
    ["sweep", "pong", "--load_weights", "PATH"],
    *([name, "PATH"] for name in ("resume", "test", "play", "record", "nvis", "plot")),
    ["plot", "a=PATH,PATH"],
    ["snapshot", "show", "PATH"],
]
WRITERS = [
    [*CATCH, "--csv_file", "PATH"],
    [*CATCH, "--save_weights_prefix", "PATH/x"],
    ["train", "pong", *SHORT, "--backend", "cpu", "--record_sound_filename", "PATH"],
    ["train", "pong", *SHORT, "--backend", "cpu", "--record_screen_path", "PATH"],
    ["test", "pong_1.pkl", "--json", "PATH"],
    ["nvis", "pong_1.pkl", "--visualization_file", "PATH"],
    ["plot", "curve.csv", "--fields", "average_reward", "--png_file", "PATH"],
    ["snapshot", "convert", "pong_1.pkl", "PATH"],
]
# No program can open these as files, as root or not; `loop` is a link to itself, `file` no folder.
NO_FILES = ["loop", "file/x", "x" * 300, "a\0b", "a\udcffb", "a\ud800b", "pipe", "/dev/zero", "folder"]
NOTHING_TO_READ = ["sparse", "zip", "pickle", "/dev/stdin", "\x1b[2J\n\u202e", "**"]


@pytest.mark.parametrize(
    "command", READERS + WRITERS, ids=lambda command: " ".join(word for word in command if word not in SHORT)
)
def test_a_path_that_is_no_file_is_one_line(verb: Verb, folder: Path, command: list[str]) -> None:
    for name in ("pipe", "pipe.py"):
        os.mkfifo(folder / name)
    for name in ("loop", "loop.py"):
        (folder / name).symlink_to(name)
    for name, start in (("sparse", b""), ("sparse.py", b""), ("zip", b"PK\3\4"), ("pickle", b"\x80\2")):
        with (folder / name).open("wb") as file:
            file.write(start)
            file.truncate(40 << 30)
    (folder / "folder").mkdir()
    before = files_in(folder)
    for path in NO_FILES if command in WRITERS else NO_FILES + NOTHING_TO_READ:
        if path == "folder" and any(word in ("PATH/x", "--record_screen_path") for word in command):
            continue
        complaint = one_complaint(verb(*(word.replace("PATH", path) for word in command)), command[0])
        assert len(complaint) < 1000
        assert printable(path) in complaint, complaint
        assert files_in(folder) == before, path


def test_what_files_and_labels_say_is_escaped(verb: Verb, folder: Path) -> None:
    snapshot = Snapshot("pong", 1, 6, 20, Config().shared_flags(), {"\x1b[2J\n": np.zeros(3, np.float32)})
    snapshot.save(folder / "odd_1.pkl")
    for words, shown in (
        (("snapshot", "show", "odd_1.pkl"), r"\x1b[2J\n"),
        (("sweep", "compare", "\x1b[31m=curve.csv"), r"\x1b[31m: "),
    ):
        done = verb(*words)
        assert done.returncode == 0
        assert not CONTROLS.search(done.stdout)
        assert shown in done.stdout
    for label in ("a*", "a/b", ".a", "a\nb", "\x1b[2J", "x" * 300, "?", "[a]", "$(a)"):
        assert "cannot be part of a file's name: use up to 100 letters, digits, spaces" in one_complaint(
            verb(*CATCH[:2], label, *CATCH[2:]), "train"
        )
    one_complaint(verb(*CATCH[:2], "a\0b", *CATCH[2:]), "train")


def test_a_folder_that_may_not_be_entered_is_no_missing_file(monkeypatch: Patch) -> None:
    def refuse(path: Path) -> None:  # as root may enter every folder
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(UserError, match=r"^cannot use x: Permission denied: give another path$"):
        kind_of(Path("x"))


MAIN = f"{sys.executable} -m simple_dqn.main"
PREPARED = f'{sys.executable} -c "import os, sys; from simple_dqn.errors import *; prepare_streams(); {{}}"'
SPEAKING = PREPARED.format(r"sys.exit(exit_code('x', lambda: print('a line\n' * 10**6, flush=True)))")


def test_the_extras_are_those_of_pyproject() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    ours = {name: list(pins) for name, pins in EXTRAS.items()}
    assert ours == {name: project["optional-dependencies"][name] for name in EXTRAS}


@pytest.mark.parametrize(("text", "shown"), [
    ("pong ± 😀", "pong ± 😀"), ("\x1b[2J\x07", r"\x1b[2J\x07"), ("a\nb\r\tc", r"a\nb\r\tc"),
    ("\x9b31m\x7f\u2028", r"\x9b31m\x7f\u2028"), ("\u202egnp", r"\u202egnp"),
    ("\udcff\ud800", r"\udcff\ud800"), (r"\x1b", r"\x1b"),
])  # fmt: skip
def test_no_control_character_is_printed(text: str, shown: str) -> None:
    assert printable(text) == printable(shown) == str(UserError(text)) == shown


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_asks_and_is_told_by_its_number(number: int) -> None:
    before = signal.getsignal(number)

    def work() -> None:
        with Interrupt() as interrupt:
            assert not interrupt.requested
            os.kill(os.getpid(), number)
            assert interrupt.requested
            # As `timeout` and a closed terminal send them: at once, to the group and to the process.
            for other in (signal.SIGHUP, signal.SIGTERM):
                os.kill(os.getpid(), other)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)  # again, or for the first time after another
        finish(interrupt)

    assert exit_code("x", work) == 128 + number
    assert signal.getsignal(number) == before


def test_a_run_by_nohup_goes_on_when_the_terminal_is_closed() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Interrupt() as interrupt:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not interrupt.requested
    signal.signal(signal.SIGHUP, before)


STOPPED = """
import os, sys
from pathlib import Path
from simple_dqn import main
from simple_dqn.files import replacing
def write(words, program):
    with replacing(Path("picture.png")) as part:
        part.write_text("half of it")
        os.kill(os.getpid(), int(words[0]))
main.function_of = lambda verb: write
main.console()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_temporary_file(number: int, tmp_path: Path) -> None:
    done = python("-c", STOPPED, "plot", str(int(number)), cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "")
    assert not list(tmp_path.iterdir())


# A command, PYTHONUNBUFFERED, its exit code, its output, and a part of its one line of complaint.
@pytest.mark.parametrize(("command", "unbuffered", "code", "out", "complaint"), [
    (f"{MAIN} --help > /dev/full", "1", 2, "", "No space left"),
    (f"{MAIN} train --help all > /dev/full", "", 2, "", "No space left"),
    (f"{MAIN} --help >&-", "", 2, "", "simple-dqn: cannot write to standard output: Bad file descriptor"),
    (f"{MAIN} --help <&- >&- 2>&-", "", 2, "", ""),
    (f"{MAIN} trian 2> /dev/full", "", 2, "", ""),
    (f"{MAIN} trian", "", 2, "", "simple-dqn: there is no verb 'trian': usage: simple-dqn VERB"),
    (f"{MAIN} --version 2>&-", "1", 0, f"simple-dqn {__version__}\n", ""),
    # A reader who leaves ends the program without a word.
    *((f"{SPEAKING} | head -n 1", one, 128 + signal.SIGPIPE, "a line\n", "") for one in ("", "1")),
    # No file takes the number of a closed stream; a letter that the output lacks is no error.
    (PREPARED.format("sys.exit(os.open(os.devnull, os.O_RDONLY))") + " <&- >&- 2>&-", "", 3, "", ""),
    (PREPARED.format("exit_code('x', lambda: print('ε'))"), "", 0, "?\n", ""),
])  # fmt: skip
def test_streams_full_or_closed(command: str, unbuffered: str, code: int, out: str, complaint: str) -> None:
    variables = {"PYTHONUNBUFFERED": unbuffered, "PYTHONIOENCODING": "latin1:strict"}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": f"{PROJECT}/src"} | variables,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (code, out), done.stderr
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == (complaint != "")


@pytest.mark.parametrize(("error", "complaint"), [
    (UserError("it is so: do this"), "it is so: do this\n"), (LostError("it has ended"), "it has ended\n"),
    (PermissionError(13, "Permission denied", "a\x1bb"), r"cannot use a\x1bb: Permission denied"),
    (OSError(36, "File name too long", b"\xff.csv"), r"cannot use \udcff.csv: File name too long"),
    (OSError(28, "No space left on device"), "cannot write: No space left on device"),
])  # fmt: skip
def test_what_the_user_can_mend_is_a_line(error: Exception, complaint: str, capsys: Capsys) -> None:
    def work() -> None:
        raise error

    assert exit_code("x", work) == (1 if isinstance(error, LostError) else 2)
    assert capsys.readouterr().err.startswith(f"x: {complaint}")


def test_an_error_in_a_package_whose_name_begins_like_this_ones_has_its_place() -> None:
    file = f"{PROJECT}/src/simple_dqn_rules/mine.py"
    with pytest.raises(UserError, match=rf"\({re.escape(file)}, line 2\)"):
        call_foreign("it", lambda: exec(compile("\n1 / 0", file, "exec")))


def test_a_broken_pipe_that_is_not_standard_output_is_raised(capfd: Capsys) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with capfd.disabled(), pytest.raises(BrokenPipeError):
        exit_code("x", lambda: os.write(writing, b"x"))
    os.close(writing)
