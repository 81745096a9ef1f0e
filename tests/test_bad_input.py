"""Every kind of bad input, through the scripts: one line on stderr, exit code 2, no file left behind."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simple_dqn.config import Config
from simple_dqn.presets import PRESETS, USUAL
from simple_dqn.snapshot import Snapshot

PROJECT = Path(__file__).parents[1]
# Runs a verb, and says on standard output whether PyTorch was imported.
WATCHED = """
import sys
from simple_dqn.main import run
code = run(sys.argv[1:])
print("PyTorch was imported" if "torch" in sys.modules else "no PyTorch")
sys.exit(code)
"""
SHORT = [
    "--random_steps", "50", "--train_steps", "20", "--test_steps", "20", "--replay_size", "1000",
    "--preset", "simple_dqn",
]  # fmt: skip


def verb(
    name: str, *arguments: str, folder: Path, program: Sequence[str] = ("-m", "simple_dqn.main")
) -> subprocess.CompletedProcess[str]:
    """Run `./NAME.sh`, with `folder` as the project's and the current one."""
    command = [sys.executable, "-P", *program, name, *arguments]
    environment = os.environ | {
        "SIMPLE_DQN_HOME": str(folder), "SIMPLE_DQN_PROGRAM": f"./{name}.sh",
        "PYTHONPATH": f"{PROJECT / 'src'}:{PROJECT}",
    }  # fmt: skip
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def snapshot(game: str = "pong", actions: int = 6, flags: dict[str, Any] | None = None) -> Snapshot:
    return Snapshot(
        game=game, epoch=1, actions=actions, total_train_steps=20,
        flags={**Config().shared_flags(), **(flags or {})}, weights={"x": np.zeros(3, np.float32)},
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with some files that users might give by mistake."""
    (tmp_path / "not_a_rom.bin").write_bytes(b"x" * 4096)
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "file").write_text("a file where a folder should be")
    snapshot().save(tmp_path / "pong_1.pkl")
    snapshot(game="breakout", actions=4).save(tmp_path / "breakout_1.pkl")
    snapshot(actions=18).save(tmp_path / "full_1.pkl")
    whole = (tmp_path / "pong_1.pkl").read_bytes()
    (tmp_path / "cut_1.pkl").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "other.csv").write_text(
        "epoch,phase,steps,nr_games,average_reward\n0,random,10,1,2\n1,train,10,1,2\n"
    )
    return tmp_path


ROWS = [
    (["train", "roms/pnog.rom"], ["roms/pnog.rom", "pong"]),
    (["train"], ["game"]),
    (["train", "not_a_rom.bin"], ["not_a_rom.bin", "MD5 "]),
    (["train", "pong", "--frame_skip", "0"], ["--frame_skip", "at least 1"]),
    (["train", "pong", "--batch_size", "0"], ["--batch_size", "at least 1"]),
    (["train", "pong", "--history_length", "0"], ["--history_length", "at least 1"]),
    (["train", "pong", "--exploration_rate_end", "2"], ["--exploration_rate_end", "at most 1"]),
    (["train", "pong", "--replay_size", "3"], ["--replay_size 3", "at least 5"]),
    (["train", "pong", "--replay_size", "100", "--batch_size", "200"], ["--batch_size 200", "--replay_size"]),
    (
        ["train", "pong", "--replay_size", "900000000"],
        ["--replay_size 900000000", "fits", "--replay_compression"],
    ),
    (
        ["train", "pong", "--backend", "cpu", "--replay_device", "gpu"],
        ["--replay_device gpu", "no GPU with room for"],
    ),
    (
        ["train", "catch", "--environment", "catch", "--emulator", "warp"],
        ["--emulator warp plays --environment ale, not catch"],
    ),
    (
        ["train", "pong", "--csv_file", "none", "--tensorboard", "true"],
        ["--tensorboard true accompanies a CSV: give --csv_file"],
    ),
    (["test", "pong_1.pkl", "--track", "wandb"], ["--track wandb accompanies a CSV"]),
    (["train", "pong", "--no_such_flag", "1"], ["unknown flag --no_such_flag"]),
    (["train", "pong", "a/label"], ["label 'a/label'"]),
    (
        ["train", "pong", "--random_steps", "2", "--train_frequency", "1", *SHORT[2:]],
        ["raise --random_steps"],
    ),
    (["train", "CartPole-v99", "--environment", "gym"], ["CartPole"]),
    (["train", "pong", "--csv_file", "file/x.csv"], ["file/x.csv"]),
    (["train", "pong", "--save_weights_prefix", "file/x"], ["snapshots cannot be written"]),
    (["train", "pong", "--save_weights_prefix", "."], ["--save_weights_prefix . is a folder"]),
    (["train", "pong", "--load_weights", "missing_3.pkl"], ["missing_3.pkl does not exist"]),
    (["train", "pong", "--load_weights", "breakout_1.pkl"], ["breakout_1.pkl", "trained on breakout"]),
    (["train", "pong", "--screen_width", "8"], ["screen"]),
    (["resume", "pong_7.pkl"], ["pong_7.pkl does not exist", "pong_1.pkl"]),
    (["resume", "cut_1.pkl"], ["cut_1.pkl is damaged"]),
    (["resume", "pong_1.pkl", "--epochs", "1"], ["--epochs"]),
    (["resume", "."], [". is not a folder of checkpoints"]),
    (["test", "cut_1.pkl"], ["cut_1.pkl is damaged"]),
    (["test", "file"], ["file is not a snapshot"]),
    (["test", "full_1.pkl"], ["18 actions", "6"]),
    (
        ["test", "pong_1.pkl", "--protocol", "machado", "--minimal_action_set", "false"],
        ["6 actions", "--minimal_action_set"],
    ),
    (
        ["test", "pong_1.pkl", "--environment", "catch", "--protocol", "nature"],
        ["--protocol nature is for Atari games", "--play_games 30"],
    ),
    (["test", "pong_1.pkl", "--json", "."], [". is a folder", "--json"]),
    (["test", "pong_1.pkl", "--test_steps", "0"], ["nothing to test", "--play_games"]),
    (["test", "pong_1.pkl", "--protocol", "imaginary"], ["imaginary", "nature"]),
    (
        ["train", "pong", "--tensorboard", "true", "--csv_file", "mine"],
        ["--csv_file mine", "such as mine.csv"],
    ),
    (["sweep"], ["GAME"]),
    (["sweep", "breakout", "pnog"], ["pnog", "did you mean pong"]),
    (["sweep", "pong", "--seeds", "0"], ["--seeds", "0 is too small: give at least 1"]),
    (["sweep", "pong", "--cpus_per_run", "some"], ["--cpus_per_run", "a whole number"]),
    (["sweep", "pong", "--gpus_per_run", "-1"], ["--gpus_per_run", "-1 is too small: give at least 0"]),
    (
        ["sweep", "pong", "--random_seed", "3"],
        ["--random_seed is not for a sweep", "--seeds", "leave it out"],
    ),
    (["sweep", "pong", "--csv_file", "x.csv"], ["--csv_file is not for a sweep", "--name"]),
    (["sweep", "pong", "--environment", "x.py"], ["--environment x.py is one game", "among the games"]),
    (["sweep", "pong", "--save_weights_prefix", "x"], ["--save_weights_prefix is not for a sweep"]),
    (["sweep", "pong", "--backend", "gpu"], ["--backend gpu", "--gpus_per_run"]),
    (["sweep", "pong", "--batch_size", "0"], ["--batch_size", "at least 1"]),
    (["sweep", "pong", "--n_step", "3", "--max_reward", "-0.5"], ["--n_step 3"]),
    (["sweep", "pong", "--name", "../x"], ["--name '../x'", "folder's name"]),
    (["sweep", "pong", "--cpus_per_run", "5000"], ["--cpus_per_run 5000 is more than this machine has"]),
    (["sweep", "pong", "--compare", "double"], ["'double' is no setting: give NAME=FLAGS"]),
    (
        ["sweep", "pong", "--compare", "a=", "b=--dubble 1"],
        ["b: unknown flag --dubble: did you mean --double"],
    ),
    (["sweep", "pong", "--compare", "a=--threads 2"], ["--threads is not for a sweep"]),
    (["sweep", "pong", "--compare", "a=", "a=--double true"], ["two settings of --compare have one name"]),
    (["sweep", "pong", "--compare", "a=--n_step 3 --max_reward -0.5"], ["--n_step 3"]),
    (["sweep", "pong", "--compare", "a=--backend gpu"], ["--backend gpu", "--gpus_per_run"]),
    (["sweep", "pong", "--compare", "a=--config x.yaml"], ["a: unknown flag --config"]),
    (["sweep", "pong", "--config", "missing.yaml"], ["cannot read missing.yaml"]),
    (["sweep", "pong", "--no_such_flag", "1"], ["unknown flag --no_such_flag"]),
    (["plot", "empty.csv"], ["empty.csv"]),
    (["plot", "missing.csv"], ["missing.csv"]),
    (["plot", "other.csv", "--fields", "happiness"], ["happiness", "average_reward"]),
]


# Refused before PyTorch is imported, which takes seconds.
AT_ONCE = [
    (["train", "PongNoFrameskip-v4"], ["did you mean pong? (or add --environment gym for"]),
    (["train", "ALE/Pong-v5"], ["did you mean pong? (or add --environment gym for"]),
    (["train", "ALE/MsPacman-ram-v5"], ["did you mean ms_pacman?"]),
    (["train", "CartPole-v1"], ["add --environment gym for Gymnasium's CartPole-v1"]),
    (["train", "pong_1.pkl"], ["pong_1.pkl is a snapshot, not a game: ./resume.sh pong_1.pkl"]),
    (["train", "pong", "--lr", "0.1"], ["did you mean --learning_rate?"]),
    (["train", "pong", "--slip_probability", "0.05"], ["--slip_probability is gone: leave it out"]),
    (["play", "snapshots/pong_200"], ["did you mean snapshots/trained/pong_200.pkl?"]),
    (["play", "pong_200"], ["did you mean snapshots/trained/pong_200.pkl?"]),
    (["test", "snapshots/pong_200"], ["did you mean snapshots/trained/pong_200.pkl?"]),
    (["test", "snapshots/pong_200.prm"], ["did you mean snapshots/trained/pong_200.pkl?"]),
    (["test", "snapshots/pong_7.pkl"], ["does not exist: snapshots/trained holds pong_200.pkl"]),
    (["play", "snapshot.txt", "--workers", "2"], ["one game at a time is shown"]),
    (["play", "breakout_77.prm", "--workers", "2"], ["one game at a time is shown"]),
    (["play", "breakout_77.prm", "--network", "small"], ["was trained with --network neon"]),
    (["play", "not_a_rom.bin"], ["not a ROM that ALE can play"]),
    (["test", "file"], ["file is not a snapshot: give one"]),
    (
        ["test", "pong_1.pkl", "--screen_width", "64"],
        ["with --screen_width 84,", "not fit --screen_width 64"],
    ),
    (["test", "pong_1.pkl", "--screen_height", "64"], ["trained with --screen_height 84"]),
    (["test", "pong_1.pkl", "--history_length", "2"], ["trained with --history_length 4"]),
    (["test", "pong_1.pkl", "--network", "small"], ["trained with --network nature"]),
    (["test", "pong_1.pkl", "--dueling"], ["trained with --dueling false"]),
    (["test", "pong_1.pkl", "--noisy"], ["trained with --noisy false"]),
    (["test", "pong_1.pkl", "--layer_norm"], ["trained with --normalization none"]),
    (["test", "pong_1.pkl", "--batch_norm"], ["trained with --normalization none"]),
    (["test", "pong_1.pkl", "--distributional", "c51"], ["trained with --distributional none"]),
    (["test", "atoms_1.pkl", "--atoms", "7"], ["trained with --atoms 51"]),
    (["record", "pong_1.pkl", "--screen_width", "64"], ["trained with --screen_width 84"]),
    (["nvis", "pong_1.pkl", "--screen_width", "64"], ["trained with --screen_width 84"]),
    (["train", "pong", "--load_weights", "breakout_1.pkl"], ["trained on breakout, not on pong"]),
    (
        ["train", "pong", "--load_weights", "pong_1.pkl"],
        ["give --screen_width 84 --screen_height 84 --network nature --normalization none"],
    ),
    (["train", "pong", "--play_games", "1", "--load_weights", "breakout_1.pkl"], ["trained on breakout"]),
    (["sweep", "pong", "breakout", "--load_weights", "quick_1.pkl"], ["trained on pong, not on breakout"]),
    (["profile_test", "pong", "--load_weights", "breakout_1.pkl"], ["trained on breakout"]),
    *(
        ([name, "pong_1.pkl", "--load_weights", "full_1.pkl"], ["--load_weights full_1.pkl", "pong_1.pkl"])
        for name in ("resume", "test", "play", "record", "nvis")
    ),
]


@pytest.mark.parametrize(("command", "words"), AT_ONCE, ids=lambda part: " ".join(part)[:60])
def test_refused_before_pytorch_is_imported(folder: Path, command: list[str], words: list[str]) -> None:
    (folder / "snapshots" / "trained").mkdir(parents=True)
    shutil.copy(folder / "pong_1.pkl", folder / "snapshots" / "trained" / "pong_200.pkl")
    shutil.copy(folder / "pong_1.pkl", folder / "snapshot.txt")
    snapshot(flags=PRESETS[USUAL]).save(folder / "quick_1.pkl")
    shutil.copy(PROJECT / "tests" / "data" / "breakout_1.pkl", folder / "breakout_77.prm")
    snapshot(flags={"distributional": "c51"}).save(folder / "atoms_1.pkl")
    before = sorted(folder.rglob("*"))
    done = verb(*command, folder=folder, program=("-c", WATCHED))
    assert done.returncode == 2, done.stderr
    complaint = [line for line in done.stderr.splitlines() if line.startswith(f"./{command[0]}.sh: ")]
    assert len(complaint) == 1, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in complaint[0]
    assert done.stdout == "no PyTorch\n"
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    "command",
    [
        ["play", "--workers", "2"],
        ["record", "--play_games", "0"],
        ["nvis", "--visualization_file", "."],
        ["test", "--test_steps", "0"],
    ],
)
def test_a_flag_of_training_is_ignored_where_nothing_is_trained(folder: Path, command: list[str]) -> None:
    name, *others = command
    flags = ("--replay_size", "10", "--epochs", "1e3", *others)
    done = verb(name, "pong_1.pkl", *flags, folder=folder)
    lines = [line for line in done.stderr.splitlines() if "Ignored" in line]
    assert [line.partition("Ignored")[2] for line in lines] == [
        ", as only training uses them: --replay_size, --epochs"
    ]
    complaint = done.stderr.splitlines()[-1]
    assert complaint.startswith(f"./{name}.sh: ")
    assert done.returncode == 2
    assert "replay" not in complaint  # each command ends by a complaint of another flag


@pytest.mark.parametrize(("command", "words"), ROWS, ids=lambda part: " ".join(part)[:60])
def test_bad_input(folder: Path, command: list[str], words: list[str]) -> None:
    before = sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    if command[0] == "train" and "--random_steps" not in command:
        command = [*command, *(flag for flag in SHORT if flag not in ("--replay_size", "1000"))]
    done = verb(*command, folder=folder)
    complaint = [line for line in done.stderr.splitlines() if line.startswith(f"./{command[0]}.sh: ")]
    assert done.returncode == 2, done.stderr
    assert len(complaint) == 1, done.stderr
    assert done.stderr.rstrip().endswith(complaint[0])
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in complaint[0]
    after = sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    assert after == before


def test_no_verb_and_an_unknown_one(tmp_path: Path) -> None:
    for name in ("", "trian"):
        done = verb(name, folder=tmp_path)
        assert done.returncode == 2
        assert all(word in done.stderr for word in ("train, resume, test, ", "plot", "profile_train"))
