"""A run that was killed goes on as if nothing had happened: against the run that never stopped."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent import futures
from dataclasses import replace
from pathlib import Path
from typing import Any

import ale_py.roms
import numpy as np
import pytest

from simple_dqn import main, schedules
from simple_dqn.config import Config, words
from simple_dqn.errors import UserError
from simple_dqn.run import Phase, Run
from simple_dqn.snapshot import Checkpoint, CheckpointFolder, Keeper, Snapshot, locked
from simple_dqn.types import CheckpointState
from simple_dqn.verbs.train import check_flags
from tests.command_line import CATCH, Capsys, Patch, catch, rows, snapshots

Start = Callable[..., int]
Moment = tuple[str, int, int]  # phase, epoch, steps
PROJECT = Path(__file__).parents[1]
BRIEF = ["train", *catch(epochs=2)]
LONG: dict[str, Any] = {
    "random_steps": 160, "train_steps": 120, "test_steps": 60, "replay_size": 240, "batch_size": 8,
    "target_steps": 40, "exploration_decay_steps": 300, "epochs": 2,
}  # fmt: skip
TRAIN = ["train", *catch(**LONG)]
CHECKPOINTS = "snapshots/catch_checkpoint"
OFTEN = 16  # steps between checkpoints
MOMENTS = [("train", 1, 40), ("test", 1, 24), ("train", 2, 80)]
PRIORITIZED = "--sampler prioritized --priority_beta_steps 200"
KINDS = {
    "serial": "",
    "concurrent": "--workers 2 --schedule concurrent",
    "overlapped": "--workers 4 --schedule overlapped",
    "rollouts": (
        "--workers 4 --rollout_steps 5 --target_steps 0 --replay_size 1000000 --average_updates 50% "
        "--optimizer radam"
    ),
}
RARE = {
    "prioritized, many steps, concurrent": f"{PRIORITIZED} --n_step 3 --workers 2 --schedule concurrent",
    "games that end beyond the test's steps": "--workers 3 --replay_compression lz4",
    "adam": "--optimizer adam --datatype bfloat16 --average_updates 50%",
    "atari in processes": "--workers 2 --processes 2 --schedule concurrent --max_game_frames 200",
    "games that cannot be saved": "--checkpoint_steps 40",
    "without a target network": "--target_steps 0",
    "many steps": "--n_step 3 --workers 2",
    "atari": "--repeat_action_probability 0.25",
}
KILLED_AT = {
    "serial": [("random", 0, 80), ("test", 1, 0), *MOMENTS, ("test", 2, 48)],
    "games that cannot be saved": [("random", 0, 80), ("test", 1, 40), ("train", 2, 80)],
    "games that end beyond the test's steps": [("test", 1, 57), ("test", 1, 60), ("test", 2, 66)],
    "atari in processes": [*MOMENTS, ("test", 2, 60)],
}
# Ctrl-C while the memory is filled leaves the rest to be filled.
STOPPED_EARLY = {"serial": [("random", 0, 2)], "many steps": [("random", 0, 2), ("random", 0, 80)]}
EVERY_KIND = [*KINDS, *(pytest.param(kind, marks=pytest.mark.nightly) for kind in RARE)]


def command(kind: str) -> list[str]:
    """Return the command that trains `kind`, whose own flags replace those of `LONG`."""
    game = "pong" if "atari" in kind else "CartPole-v1" if "cannot" in kind else "catch"
    return ["train", game, *words({**CATCH, **LONG}), *{**KINDS, **RARE}[kind].split()]


def outcome(home: Path) -> tuple[list[dict[str, str]], list[dict[str, np.ndarray]]]:
    """Return what a run came to: its rows, and the weights after each epoch."""
    (results,) = home.glob("results/*.csv")
    return rows(results), [Snapshot.load(path).weights for path in sorted(home.glob("snapshots/*.pkl"))]


def assert_same(one: Path, other: Path) -> None:
    (rows_of_one, weights_of_one), (rows_of_other, weights_of_other) = outcome(one), outcome(other)
    assert rows_of_one == rows_of_other
    for a, b in zip(weights_of_one, weights_of_other, strict=True):
        assert a.keys() == b.keys()
        assert all(np.array_equal(a[name], b[name]) for name in a)


def newest(home: Path, name: str = "catch") -> Checkpoint:
    saved = CheckpointFolder(home / "snapshots" / f"{name}_checkpoint").newest()
    assert saved is not None
    return saved


def leave_behind(monkeypatch: Patch, moments: list[Moment]) -> None:
    """Make many checkpoints, and at `moments` copy the folder as a run killed there leaves it."""
    save_checkpoint, write, is_due = Keeper.save_checkpoint, CheckpointFolder.write, Keeper.is_due

    def often(self: Keeper, run: CheckpointState, held: int, wait: bool = False) -> None:
        phase = Phase(**run["phase"])
        if phase.done % OFTEN and (phase.name, phase.epoch, phase.done) not in moments:
            return
        save_checkpoint(self, run, held, wait=True)
        futures.wait([self._last])  # so that the copy is of this moment: training would go on meanwhile

    def copying(self: CheckpointFolder, run: CheckpointState, *others: Any) -> None:
        write(self, run, *others)
        phase = Phase(**run["phase"])
        if (phase.name, phase.epoch, phase.done) in moments:
            name = f"../{phase.name}-{phase.epoch}-{phase.done}"
            shutil.copytree(".", name, ignore=shutil.ignore_patterns("lock"))

    monkeypatch.setattr(Keeper, "is_due", lambda self, *steps: self._can_save or is_due(self, *steps))
    monkeypatch.setattr(Keeper, "save_checkpoint", often)
    monkeypatch.setattr(CheckpointFolder, "write", copying)


def stop_at(monkeypatch: Patch, name: str, epoch: int, done: int) -> None:
    """Press Ctrl-C at this moment."""
    count = Run._is_end_at_safe_point

    def stopping(self: Run, steps: int) -> bool:
        if (self.phase.name, self.phase.epoch, self.phase.done + steps) == (name, epoch, done):
            os.kill(os.getpid(), signal.SIGINT)
        return count(self, steps)

    monkeypatch.setattr(Run, "_is_end_at_safe_point", stopping)


@pytest.fixture(autouse=True)
def _safe_points(monkeypatch: Patch) -> None:
    """Let there be a checkpoint at each moment."""
    monkeypatch.setattr(schedules, "SAFE_POINT_STEPS", 40)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_run_that_was_killed_or_stopped_goes_on_exactly(
    tmp_path: Path, start: Start, monkeypatch: Patch, kind: str, capsys: Capsys
) -> None:
    moments = KILLED_AT.get(kind, MOMENTS)
    assert start("whole", *command(kind), "--checkpoint_minutes", "0") == 0
    with monkeypatch.context() as patch:
        leave_behind(patch, moments)
        assert start("watched", *command(kind)) == 0
    assert_same(tmp_path / "watched", tmp_path / "whole")
    for name, epoch, done in moments:
        folder = f"{name}-{epoch}-{done}"
        (checkpoints,) = (tmp_path / folder / "snapshots").glob("*_checkpoint")
        assert start(folder, "resume", f"snapshots/{checkpoints.name}") == 0
        assert_same(tmp_path / folder, tmp_path / "whole")
    # Games that cannot be saved begin anew where a run was stopped.
    for name, epoch, done in [] if "cannot" in kind else [*STOPPED_EARLY.get(kind, []), moments[-1]]:
        home = tmp_path / f"stopped-{name}-{done}"
        with monkeypatch.context() as patch:
            stop_at(patch, name, epoch, done)
            assert start(home.name, *command(kind)) == 128 + signal.SIGINT
        told, (stopped_rows, weights) = capsys.readouterr().err, outcome(home)
        assert f"Next: ./resume.sh {CHECKPOINTS} continues the run" in told or "atari" in kind
        ended = [(row["phase"], int(row["steps"])) for row in stopped_rows[-1:]]
        assert ended == ([(name, done)] if epoch else [])
        assert len(weights) == epoch
        last = next(home.glob(f"snapshots/*_{epoch or 'checkpoint'}*"))
        assert start(home.name, "resume", f"snapshots/{last.name}") == 0
        assert_same(home, tmp_path / "whole")
        assert len(list(home.glob("**/*.csv"))) == 1


# In the middle of training the process is killed, no file can grow any more, or none can be opened.
FAULTS = {
    "kill": "os.kill(os.getpid(), signal.SIGKILL)",
    "full": "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))",  # enough for the CSV
    "no more files": "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
}


@pytest.mark.parametrize("fault", ["kill", "full", pytest.param("no more files", marks=pytest.mark.nightly)])
def test_train_again_with_resume_after_a_fault(
    tmp_path: Path, start: Start, capsys: Capsys, fault: str
) -> None:
    home, often = tmp_path / "faulty", [*TRAIN, "--checkpoint_minutes", "0.001"]
    program = f"""
import os, resource, signal
from simple_dqn import main
from simple_dqn.snapshot import CheckpointFolder
write = CheckpointFolder.write
def last(self, run, *others):
    write(self, run, *others)
    if run["phase"]["name"] == "train" and run["phase"]["done"]:
        {FAULTS[fault]}
CheckpointFolder.write = last
raise SystemExit(main.run({often!r}))
"""
    home.mkdir()
    environment = os.environ | {"PYTHONPATH": str(PROJECT / "src"), "SIMPLE_DQN_HOME": "."}
    process = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=home, stderr=subprocess.PIPE, text=True, env=environment
    )
    if fault == "kill":
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 2
        assert "Training continues" in process.stderr
        assert process.stderr.splitlines()[-1].startswith("simple-dqn train: ")
    assert "Traceback" not in process.stderr
    assert start("whole", *TRAIN) == 0
    capsys.readouterr()
    assert start("faulty", *TRAIN, "--resume") == 0
    assert "Continuing from" in capsys.readouterr().err
    for copy in home.glob("results/catch.*.csv"):
        copy.unlink()  # rows written after the checkpoint, by a machine slow to write it
    assert_same(home, tmp_path / "whole")
    left = {path.name for path in (home / "snapshots").iterdir()}
    assert left == {"catch_1.pkl", "catch_2.pkl", "catch_checkpoint"}


def test_the_snapshot_tells_which_checkpoint_is_meant(finished: Path, capsys: Capsys) -> None:
    # Another snapshot in the place of the last one does not lead to its checkpoint.
    path = Path("snapshots/catch_2.pkl")
    snapshot = Snapshot.load(path)
    replace(snapshot, weights={name: values / 2 for name, values in snapshot.weights.items()}).save(path)
    assert main.run(["resume", f"{path}", "--epochs", "3"]) == 0
    assert f"has no checkpoint that follows {path}" in capsys.readouterr().err
    # What was made of it has checkpoints that follow on it.
    assert main.run(["resume", "snapshots/catch_3.pkl", "--epochs", "4"]) == 0
    assert "train 4, step 0" in capsys.readouterr().err


def test_a_run_that_began_with_weights_keeps_the_epochs_that_count_as_done_and_goes_on_from_them(
    tmp_path: Path, finished: Path, monkeypatch: Patch, capsys: Capsys
) -> None:
    files = snapshots(finished)
    begun = ["--start_epoch", "1", "--load_weights", "snapshots/catch_1.pkl", "--random_seed", "1"]
    with monkeypatch.context() as patch:
        leave_behind(patch, [("train", 2, 32)])
        assert main.run([*BRIEF, *begun]) == 0
    now = snapshots(finished)
    assert now.keys() == {*files, "catch_before_2.pkl"}
    assert now["catch_1.pkl"] == files["catch_1.pkl"]
    assert now["catch_before_2.pkl"] == files["catch_2.pkl"] != now["catch_2.pkl"]
    monkeypatch.chdir(tmp_path / "train-2-32")
    capsys.readouterr()
    assert main.run(["resume", "snapshots/catch_1.pkl"]) == 0
    assert "train 2, step 32" in capsys.readouterr().err


def test_a_resume_from_another_folder_writes_to_the_same_files_but_for_a_copy(
    tmp_path: Path, start: Start, monkeypatch: Patch
) -> None:
    first, copy = tmp_path / "run", tmp_path / "copy"
    assert start("run", *BRIEF, "--csv_file", "catch.csv", "--epochs", "1") == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main.run(["resume", str(first / CHECKPOINTS), "--epochs", "2"]) == 0
    assert not list((tmp_path / "elsewhere").iterdir())
    assert [row["epoch"] for row in rows(first / "catch.csv")] == ["0", "1", "2"]
    shutil.copytree(first, copy)
    before = (first / "catch.csv").read_text()
    monkeypatch.chdir(copy)
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(copy))  # as the scripts set it
    assert main.run(["resume", CHECKPOINTS, "--epochs", "3"]) == 0
    assert (first / "catch.csv").read_text() == before
    assert rows(copy / "results" / "catch.csv")[-1]["epoch"] == "3"


def test_what_cannot_go_on_is_a_line(finished: Path, capsys: Capsys) -> None:
    files = snapshots(finished)

    def told(*arguments: str, code: int = 2) -> str:
        assert main.run(arguments) == code
        return capsys.readouterr().err.splitlines()[-1]

    with locked(finished / "snapshots" / "catch"):
        for arguments in (BRIEF, [*BRIEF, "--resume"], ["resume", "snapshots/catch_1.pkl"]):
            assert f"is being written by another run (process {os.getpid()})" in told(*arguments)
    assert "Nothing is left to do: the run has 2 epochs" in told(*BRIEF, "--resume", code=0)
    (finished / "snapshots" / "pong_checkpoint").mkdir()
    for flags, complaint in {
        f"{CHECKPOINTS} --replay_size 300": "leave out --replay_size",
        f"{CHECKPOINTS} --save_weights_prefix other": "leave out --save_weights_prefix",
        f"{CHECKPOINTS} --epochs 1": "larger --epochs",
        "snapshots/pong_checkpoint": "has no usable checkpoint",
    }.items():
        assert complaint in told("resume", *flags.split())
    for path in (finished / CHECKPOINTS).glob("run_*.npz"):
        path.write_bytes(path.read_bytes()[:100])
    last = told(*BRIEF, "--epochs", "3", "--resume", "true")
    assert "no checkpoint in snapshots/catch_checkpoint can be read" in last
    assert snapshots(finished) == files


OTHERS: dict[str, Any] = {
    "environment": "catch", "workers": 3, "minimal_action_set": False, "replay_size": 999, "rollout_steps": 7,
    "history_length": 2, "screen_width": 40, "screen_height": 40, "network": "small",
    "normalization": "layer", "dueling": True, "noisy": True, "distributional": "c51", "atoms": 7,
    "quantiles": 7, "optimizer": "adam", "decay_rate": 0.5, "priority_exponent": 0.1, "random_seed": 5,
}  # fmt: skip


def test_what_the_state_depends_on_cannot_change_and_other_changes_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name, value in OTHERS.items():
        with pytest.raises(UserError, match=f"--{name} .*{value}"):
            check_flags({**Config().flags(), "random_seed": 0}, {name: value})
    saved = {"learning_rate": 0.1, "csv_file": "a", "workers": 2}
    with caplog.at_level("INFO"):
        check_flags(saved, {"learning_rate": 0.2, "csv_file": "b", "workers": 2})
    assert caplog.messages == ["From now on --learning_rate is 0.2 instead of 0.1"]


@pytest.mark.parametrize(("first", "then"), [("auto", "auto"), ("bfloat16", "float32")])
def test_a_run_continues_in_another_datatype(
    tmp_path: Path, start: Start, first: str, then: str, capsys: Capsys
) -> None:
    """As on a processor without bfloat16 instructions; auto is what it meant when the run began."""
    command = [*BRIEF, "--average_updates", "20", "--resume", "--datatype"]
    assert start("run", *command, first) == 0
    before = newest(tmp_path / "run")
    settled = before.run["flags"]["datatype"] if then == "auto" else then
    assert settled in ("float32", "bfloat16")
    assert start("run", *command, then, "--epochs", "3") == 0
    change = f"From now on --datatype is {then} instead of {first}"
    assert (change in capsys.readouterr().err) == (first != then)
    after = newest(tmp_path / "run")
    assert (after.run["flags"]["datatype"], after.run["phase"]["epoch"]) == (settled, 4)
    updates = [saved.run["agent"]["network"]["updates"] for saved in (before, after)]
    assert 2 * updates[1] == 3 * updates[0]


def test_a_loss_that_is_no_number_stops_the_run_before_it_is_saved(
    tmp_path: Path, start: Start, monkeypatch: Patch, capsys: Capsys
) -> None:
    with monkeypatch.context() as patch:
        leave_behind(patch, [])
        assert start("run", *TRAIN, "--optimizer", "adam", "--epochs", "1") == 0
        change = ["--epochs", "3", "--learning_rate", "1e30"]
        assert start("run", "resume", "snapshots/catch_1.pkl", *change) == 2
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert "the loss of update 3" in complaint  # 30 updates made an epoch
    assert "training step 1" in complaint
    assert f"lower --learning_rate, and go on from before with ./resume.sh {CHECKPOINTS}" in complaint
    assert not (tmp_path / "run" / "snapshots" / "catch_2.pkl").exists()
    weights = newest(tmp_path / "run").run["agent"]["network"]["online"].values()
    assert all(np.isfinite(values).all() for values in weights)


def test_no_checkpoint_begins_several_games_of_a_test_anew(start: Start, monkeypatch: Patch) -> None:
    written: list[tuple[str, int]] = []
    write = CheckpointFolder.write

    def noting(self: CheckpointFolder, run: CheckpointState, *others: Any) -> None:
        write(self, run, *others)
        written.append((run["phase"]["name"], run["phase"]["done"]))

    monkeypatch.setattr(CheckpointFolder, "write", noting)
    flags = catch(checkpoint_steps=20, workers=2, train_steps=80, test_steps=40)[1:]
    assert start("run", "train", "CartPole-v1", *flags) == 0
    assert ("train", 40) in written
    assert [done for name, done in written if name == "test"] == [0]


ROLLOUTS = {
    "workers": 4, "rollout_steps": 5, "train_frequency": 4, "random_steps": 0, "target_steps": 0,
    "replay_size": 1_000_000,
}  # fmt: skip


@pytest.mark.parametrize("flags", [
    {"average_updates": "50%", "exploration_decay_steps": "10%"}, {"preset": "strong", **ROLLOUTS}
])  # fmt: skip
def test_a_longer_run_keeps_the_schedules_with_which_it_began(
    tmp_path: Path, start: Start, flags: dict[str, Any]
) -> None:
    recorded = []
    for epochs in (2, 4):
        assert start("run", "train", *catch(**flags, epochs=epochs), "--resume") == 0
        recorded.append(newest(tmp_path / "run").run["flags"])
    assert [one["epochs"] for one in recorded] == [2, 4]
    assert 0 < recorded[0]["exploration_decay_steps"] < 80
    for name in ("learning_rate_decay_updates", "average_updates", "exploration_decay_steps"):
        assert recorded[0][name] == recorded[1][name]


def test_a_rom_is_recorded_with_its_folder_and_a_name_as_it_is(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    shutil.copy(str(ale_py.roms.get_rom_path("pong")), "mine.bin")
    Path("CartPole-v1").touch()
    begun: list[str] = []
    begin = "simple_dqn.verbs.train.begin"
    monkeypatch.setattr(begin, lambda config, writers: begun.append(config.environment.game))
    for command in ("mine.bin", "pong", "roms/pong.rom", "CartPole-v1 --environment gym"):
        assert main.run(["train", *command.split()]) == 0
    assert begun == [str(tmp_path / "mine.bin"), "pong", "roms/pong.rom", "CartPole-v1"]
