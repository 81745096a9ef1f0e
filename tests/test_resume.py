"""A run that was killed goes on as if nothing had happened: against the run that never stopped."""

import csv
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent import futures
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ale_py.roms
import numpy as np
import pytest

from simple_dqn import main, schedules
from simple_dqn.agent import Agent
from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.run import Phase, Run
from simple_dqn.snapshot import CheckpointFolder, Keeper, Snapshot
from simple_dqn.types import CheckpointState
from simple_dqn.verbs.resume import check_flags

PROJECT = Path(__file__).parents[1]
SMALL = [
    "--preset", "simple_dqn",
    "--random_steps", "160", "--train_steps", "120", "--test_steps", "60", "--replay_size", "240",
    "--screen_width", "36", "--screen_height", "36", "--batch_size", "8", "--target_steps", "40",
    "--exploration_decay_steps", "300", "--backend", "cpu", "--random_seed", "0", "--epochs", "2",
]  # fmt: skip
CATCH = ["catch", "--environment", "catch"]
PRIORITIZED = ["--prioritized", "true", "--priority_beta_steps", "200"]
TIMES = ("total_time", "epoch_time", "steps_per_second")
OFTEN = 16  # steps between checkpoints
MOMENTS = [("train", 1, 40), ("test", 1, 24), ("train", 2, 80)]
KINDS = {
    "serial": CATCH,
    "several games": [*CATCH, "--workers", "4"],
    "games that end beyond the test's steps": [*CATCH, "--workers", "3"],
    "concurrent": [*CATCH, "--workers", "2", "--concurrent", "true"],
    "overlapped": [*CATCH, "--workers", "4", "--overlap", "true"],
    "adam": [*CATCH, "--optimizer", "adam", "--datatype", "bfloat16", "--average_updates", "50%"],
    "without a target network": [*CATCH, "--target_steps", "0"],
    "rollouts": [
        *[*CATCH, "--workers", "4", "--rollout_steps", "5", "--target_steps", "0"],
        *["--replay_size", "1000000", "--average_updates", "50%", "--optimizer", "radam"],
    ],
    "compressed screens": [*CATCH, "--replay_compression", "lz4"],
    "many steps": [*CATCH, "--n_step", "3", "--workers", "2"],
    "prioritized": [*CATCH, *PRIORITIZED, "--n_step", "3"],
    "prioritized, concurrent": [*CATCH, *PRIORITIZED, "--workers", "2", "--concurrent", "true"],
    "prioritized, many steps, concurrent": [
        *CATCH,
        *PRIORITIZED,
        "--n_step",
        "3",
        "--workers",
        "2",
        "--concurrent",
        "true",
    ],
    "atari": ["pong", "--repeat_action_probability", "0.25"],
    "atari in processes": [
        *["pong", "--workers", "2", "--processes", "2", "--concurrent", "true"],
        *["--max_game_frames", "200"],
    ],
    "games that cannot be saved": ["CartPole-v1", "--environment", "gym", "--checkpoint_steps", "40"],
}
KILLED_AT = {
    "serial": [("random", 0, 80), ("test", 1, 0), *MOMENTS, ("test", 2, 48)],
    "games that cannot be saved": [("random", 0, 80), ("test", 1, 40), ("train", 2, 80)],
    "games that end beyond the test's steps": [("test", 1, 57), ("test", 1, 60), ("test", 2, 66)],
    "atari in processes": [*MOMENTS, ("test", 2, 80)],
}


def command(kind: str) -> list[str]:
    """Return the game and the flags of `kind`, whose own flags replace those of `SMALL`."""
    game, *flags = KINDS[kind]
    return [game, *SMALL, *flags]


def rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV, without its times."""
    with path.open() as file:
        return [{k: v for k, v in row.items() if k not in TIMES} for row in csv.DictReader(file)]


def outcome(home: Path) -> tuple[list[dict[str, str]], list[dict[str, np.ndarray]]]:
    """Return what a run came to: its rows, and the weights after each epoch."""
    (results,) = home.glob("results/*.csv")
    return rows(results), [Snapshot.load(path).weights for path in sorted(home.glob("snapshots/*.pkl"))]


def assert_same(one: Path, other: Path) -> None:
    (rows_of_one, weights_of_one), (rows_of_other, weights_of_other) = outcome(one), outcome(other)
    assert rows_of_one == rows_of_other
    assert len(weights_of_one) == len(weights_of_other)
    for a, b in zip(weights_of_one, weights_of_other, strict=True):
        assert a.keys() == b.keys()
        assert all(np.array_equal(a[name], b[name]) for name in a)


def leave_behind(monkeypatch: pytest.MonkeyPatch, moments: list[tuple[str, int, int]]) -> None:
    """Make many checkpoints, and at `moments` copy the folder as a run killed there leaves it."""
    save_checkpoint, write = Keeper.save_checkpoint, CheckpointFolder.write

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

    monkeypatch.setattr(Keeper, "_interval_is_over", True)
    monkeypatch.setattr(Keeper, "save_checkpoint", often)
    monkeypatch.setattr(CheckpointFolder, "write", copying)


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_run_goes_on_exactly(
    tmp_path: Path, start: Callable[..., int], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    moments = KILLED_AT.get(kind, MOMENTS)
    monkeypatch.setattr(
        schedules, "SAFE_POINT_STEPS", 40
    )  # steps, so that there is a checkpoint at each moment
    assert start("whole", "train", *command(kind), "--checkpoint_minutes", "0") == 0
    with monkeypatch.context() as patch:
        leave_behind(patch, moments)
        assert start("watched", "train", *command(kind)) == 0
    assert_same(tmp_path / "watched", tmp_path / "whole")
    for name, epoch, done in moments:
        folder = f"{name}-{epoch}-{done}"
        (checkpoints,) = (tmp_path / folder / "snapshots").glob("*_checkpoint")
        assert start(folder, "resume", f"snapshots/{checkpoints.name}") == 0
        assert_same(tmp_path / folder, tmp_path / "whole")


@pytest.mark.parametrize("kind", ["serial", "many steps", "prioritized, concurrent"])
@pytest.mark.parametrize("after", [2, 80])
def test_ctrl_c_while_the_memory_is_filled_leaves_the_rest_to_be_filled(
    tmp_path: Path, start: Callable[..., int], monkeypatch: pytest.MonkeyPatch, kind: str, after: int
) -> None:
    assert start("whole", "train", *command(kind)) == 0
    count = Run._is_end_at_safe_point

    def stopping(self: Run, steps: int) -> bool:
        if self.phase.done + steps == after:
            os.kill(os.getpid(), signal.SIGINT)
        return count(self, steps)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_is_end_at_safe_point", stopping)
        assert start("stopped", "train", *command(kind)) == 128 + signal.SIGINT
    assert not list((tmp_path / "stopped").glob("snapshots/*.pkl"))
    assert start("stopped", "resume", "snapshots/catch_checkpoint") == 0
    assert_same(tmp_path / "stopped", tmp_path / "whole")


# Games that cannot be saved begin anew where a run was stopped.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "games that cannot be saved"])
def test_ctrl_c_in_mid_phase_goes_on_exactly(
    tmp_path: Path, start: Callable[..., int], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(schedules, "SAFE_POINT_STEPS", 40)
    assert start("whole", "train", *command(kind)) == 0
    count = Run._is_end_at_safe_point
    for name, epoch, done in KILLED_AT.get(kind, MOMENTS):
        if name == "random" or not done:
            continue

        def stopping(self: Run, steps: int, moment: tuple[str, int, int] = (name, epoch, done)) -> bool:
            if (self.phase.name, self.phase.epoch, self.phase.done + steps) == moment:
                os.kill(os.getpid(), signal.SIGINT)
            return count(self, steps)

        folder = f"{name}-{epoch}-{done}"
        with monkeypatch.context() as patch:
            patch.setattr(Run, "_is_end_at_safe_point", stopping)
            assert start(folder, "train", *command(kind)) == 128 + signal.SIGINT
        stopped_rows, snapshots = outcome(tmp_path / folder)
        assert (stopped_rows[-1]["phase"], int(stopped_rows[-1]["steps"])) == (name, done)
        assert len(snapshots) == epoch
        last = next((tmp_path / folder / "snapshots").glob(f"*_{epoch}.pkl"))
        assert start(folder, "resume", f"snapshots/{last.name}") == 0
        assert_same(tmp_path / folder, tmp_path / "whole")
        assert len(list((tmp_path / folder).glob("**/*.csv"))) == 1


def train_until_killed(home: Path, seconds: float, *arguments: str) -> int:
    """Carry out `train` in another process, kill it a while after its first checkpoint; return its end."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "simple_dqn.main", "train", *arguments],
        cwd=home, stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(PROJECT / "src"), "SIMPLE_DQN_HOME": "."},
    )  # fmt: skip
    while process.poll() is None and not list(home.glob("snapshots/*_checkpoint/run_*.npz")):
        time.sleep(0.02)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    return process.wait()


def test_train_again_with_resume_after_kill_9(tmp_path: Path, start: Callable[..., int]) -> None:
    command = [*CATCH, *SMALL, "--train_steps", "600", "--checkpoint_minutes", "0.002"]
    start("whole", "train", *command)
    (tmp_path / "killed").mkdir()
    code = train_until_killed(tmp_path / "killed", 0.3, *command, "--resume")
    assert start("killed", "train", *command, "--resume", "true") == 0
    assert code == -signal.SIGKILL
    assert_same(tmp_path / "killed", tmp_path / "whole")
    left = {path.name for path in (tmp_path / "killed" / "snapshots").iterdir()}
    assert left == {"catch_1.pkl", "catch_2.pkl", "catch_checkpoint"}


def test_a_damaged_checkpoint_is_said_and_the_one_before_is_used(
    tmp_path: Path,
    start: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as patch:
        leave_behind(patch, [("train", 2, 80), ("train", 2, 100)])
        assert start("whole", "train", *CATCH, *SMALL) == 0
    for folder, pattern in (("train-2-80", "run_*.npz"), ("train-2-100", "experience_*.lz4")):
        newest = sorted((tmp_path / folder / "snapshots" / "catch_checkpoint").glob(pattern))[-1]
        content = bytearray(newest.read_bytes())
        content[len(content) // 2] ^= 1
        newest.write_bytes(content)
        capsys.readouterr()
        assert start(folder, "resume", "snapshots/catch_1.pkl") == 0
        log = capsys.readouterr().err
        assert "trying the previous checkpoint" in log
        assert newest.name in log
        assert_same(tmp_path / folder, tmp_path / "whole")
        assert not newest.exists()


def test_the_snapshot_says_which_checkpoint_is_meant(
    tmp_path: Path, start: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    start("run", "train", *CATCH, *SMALL, "--epochs", "3", "--test_steps", "0")
    capsys.readouterr()
    assert start("run", "resume", "snapshots/catch_2.pkl", "--epochs", "3") == 0
    assert "train 3, step 0" in capsys.readouterr().err
    assert start("run", "resume", "snapshots/catch_1.pkl", "--epochs", "2") == 0
    log = capsys.readouterr().err
    assert "are lost" in log
    assert "kept as snapshots/catch_before_checkpoint" in log
    assert start("run", "resume", "snapshots/catch_before_checkpoint", "--epochs", "4") == 0


def test_a_resume_from_another_folder_writes_to_the_same_files(
    tmp_path: Path, start: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ["--csv_file", "catch.csv"]
    assert start("run", "train", *CATCH, *SMALL, *files, "--epochs", "1") == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert (
        main.run(["resume", str(tmp_path / "run" / "snapshots" / "catch_checkpoint"), "--epochs", "2"]) == 0
    )
    assert not list((tmp_path / "elsewhere").iterdir())
    assert start("whole", "train", *CATCH, *SMALL, *files) == 0
    assert rows(tmp_path / "run" / "catch.csv") == rows(tmp_path / "whole" / "catch.csv")


def test_a_snapshot_that_was_put_in_its_place_does_not_lead_to_the_checkpoint(
    tmp_path: Path, start: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    start("run", "train", *CATCH, *SMALL)
    path = tmp_path / "run" / "snapshots" / "catch_2.pkl"
    snapshot = Snapshot.load(path)
    weights = {name: values / 2 for name, values in snapshot.weights.items()}
    path.unlink()
    replace(snapshot, weights=weights).save(path)
    capsys.readouterr()
    assert start("run", "resume", "snapshots/catch_2.pkl", "--epochs", "3") == 0
    log = capsys.readouterr().err
    assert "has no checkpoint that follows snapshots/catch_2.pkl" in log
    assert "kept as snapshots/catch_before_checkpoint" in log
    # What was made of it has checkpoints that follow on it.
    assert start("run", "resume", "snapshots/catch_3.pkl", "--epochs", "4") == 0
    assert "train 4, step 0" in capsys.readouterr().err


def test_a_run_that_began_with_weights_goes_on_from_their_snapshot(
    tmp_path: Path,
    start: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    start("run", "train", *CATCH, *SMALL, "--epochs", "1")
    begun = ["--start_epoch", "1", "--load_weights", "snapshots/catch_1.pkl"]
    with monkeypatch.context() as patch:
        leave_behind(patch, [("train", 2, 40)])
        start("run", "train", *CATCH, *SMALL, *begun)
    assert start("train-2-40", "resume", "snapshots/catch_1.pkl") == 0
    assert "train 2, step 40" in capsys.readouterr().err


def test_after_an_error_in_mid_epoch_the_newest_snapshot_leads_to_the_checkpoint(
    tmp_path: Path, start: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    learn = Agent.learn

    def failing(self: Agent, steps: int) -> None:
        if self.total_train_steps == 200:  # of which 120 made the first epoch
            raise RuntimeError("a bug")
        learn(self, steps)

    with monkeypatch.context() as patch:
        leave_behind(patch, [])
        patch.setattr(Agent, "learn", failing)
        with pytest.raises(RuntimeError, match="a bug"):
            start("run", "train", *CATCH, *SMALL)
    newest = max((tmp_path / "run" / "snapshots").glob("*.pkl"), key=lambda path: path.stat().st_mtime_ns)
    assert start("run", "resume", str(newest)) == 0
    assert start("whole", "train", *CATCH, *SMALL) == 0
    assert_same(tmp_path / "run", tmp_path / "whole")


def test_a_new_run_does_not_take_over_the_checkpoints_of_another(
    tmp_path: Path, start: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    start("run", "train", *CATCH, *SMALL)
    checkpoints = tmp_path / "run" / "snapshots" / "catch_checkpoint"
    kept = {path.name: path.read_bytes() for path in checkpoints.iterdir()}
    assert start("run", "train", *CATCH, *SMALL, "--random_seed", "7", "--epochs", "1") == 0
    before = tmp_path / "run" / "snapshots" / "catch_before_checkpoint"
    assert {path.name: path.read_bytes() for path in before.iterdir()} == kept
    saved = CheckpointFolder(checkpoints).newest()
    assert saved is not None
    assert saved.run["flags"]["random_seed"] == 7
    # Nor does a third take the place of the first: what was moved away stays until somebody removes it.
    assert start("run", "train", *CATCH, *SMALL, "--random_seed", "8", "--epochs", "1") == 0
    assert {path.name: path.read_bytes() for path in before.iterdir()} == kept
    saved = CheckpointFolder(before.with_name("catch_before_2_checkpoint")).newest()
    assert saved is not None
    assert saved.run["flags"]["random_seed"] == 7
    # Of those that are left each is named, and what comes is numbered after them.
    before.rename(before.with_name("catch_before_3_checkpoint"))
    assert start("run", "train", *CATCH, *SMALL, "--random_seed", "9", "--epochs", "1") == 0
    assert before.with_name("catch_before_4_checkpoint").is_dir()
    assert not before.exists()
    capsys.readouterr()
    # The snapshots of the first run were renamed with its checkpoints; one that is put back leads to them.
    assert start("run", "resume", "snapshots/catch_2.pkl", "--epochs", "3") == 2
    assert "did you mean snapshots/catch_before_2.pkl?" in capsys.readouterr().err
    (before.parent / "catch_before_2.pkl").rename(before.parent / "catch_2.pkl")
    assert start("run", "resume", "snapshots/catch_2.pkl", "--epochs", "3") == 0
    assert "One is in snapshots/catch_before_3_checkpoint" in capsys.readouterr().err


def test_resume_true_does_not_begin_anew_over_checkpoints_that_cannot_be_read(
    tmp_path: Path, start: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert start("run", "train", *CATCH, *SMALL) == 0
    snapshots = {path: path.read_bytes() for path in (tmp_path / "run" / "snapshots").glob("*.pkl")}
    for path in (tmp_path / "run" / "snapshots" / "catch_checkpoint").glob("run_*.npz"):
        path.write_bytes(path.read_bytes()[:100])
    assert start("run", "train", *CATCH, *SMALL, "--epochs", "3", "--resume", "true") == 2
    assert "no checkpoint in snapshots/catch_checkpoint can be read" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in snapshots} == snapshots


def test_a_run_that_is_complete_is_no_error_to_train_again(
    start: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", *CATCH, *SMALL, "--train_steps", "40", "--test_steps", "0"]
    for _ in range(2):
        assert start("run", *command, "--resume") == 0
    assert "Nothing is left to do: the run has 2 epochs" in capsys.readouterr().err


def test_resume_without_a_checkpoint_begins(tmp_path: Path, start: Callable[..., int]) -> None:
    assert start("run", "train", *CATCH, *SMALL, "--epochs", "1", "--resume", "true") == 0
    assert [row["phase"] for row in rows(tmp_path / "run" / "results" / "catch.csv")] == [
        "random",
        "train",
        "test",
    ]


@pytest.mark.parametrize(
    ("flag", "value", "words"),
    [
        ("replay_size", "300", ["started with --replay_size 240", "leave out --replay_size"]),
        ("random_seed", "1", ["started with --random_seed 0"]),
        ("optimizer", "adam", ["started with --optimizer rmsprop"]),
        ("decay_rate", "0.9", ["started with --decay_rate 0.95"]),
        ("save_weights_prefix", "other", ["leave out --save_weights_prefix"]),
        ("epochs", "1", ["larger --epochs"]),
    ],
)
def test_flags_that_contradict_the_run_get_a_line(
    tmp_path: Path, start: Callable[..., int], capsys: pytest.CaptureFixture[str], flag: str, value: str,
    words: list[str],
) -> None:  # fmt: skip
    start("run", "train", *CATCH, *SMALL, "--train_steps", "40", "--test_steps", "0")
    assert start("run", "resume", "snapshots/catch_checkpoint", f"--{flag}", value) == 2
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert all(word in complaint for word in words)


def test_flags_that_can_change_are_told(caplog: pytest.LogCaptureFixture) -> None:
    saved = {"learning_rate": 0.1, "csv_file": "a", "workers": 2}
    with caplog.at_level("INFO"):
        check_flags(saved, {"learning_rate": 0.2, "csv_file": "b", "workers": 2})
    assert [record.getMessage() for record in caplog.records] == [
        "From now on --learning_rate is 0.2 instead of 0.1"
    ]
    with pytest.raises(UserError, match="--workers 2 and cannot continue with 3"):
        check_flags(saved, {"workers": 3})


def test_auto_is_what_it_meant_when_the_run_began(
    tmp_path: Path, start: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", *CATCH, *SMALL, "--datatype", "auto", "--train_steps", "40", "--test_steps", "0"]
    assert start("run", *command) == 0
    (checkpoint,) = sorted((tmp_path / "run" / "snapshots" / "catch_checkpoint").glob("run_*.npz"))[-1:]
    saved = CheckpointFolder(checkpoint.parent).newest()
    assert saved is not None
    settled = saved.run["flags"]["datatype"]
    assert settled != "auto"
    assert start("run", *command, "--epochs", "3", "--resume") == 0
    later = CheckpointFolder(checkpoint.parent).newest()
    assert later is not None
    assert (later.run["flags"]["datatype"], later.run["phase"]["epoch"]) == (settled, 4)


@pytest.mark.parametrize(("first", "then"), [("bfloat16", "float32"), ("float32", "bfloat16")])
def test_a_run_continues_in_another_datatype(
    tmp_path: Path, start: Callable[..., int], first: str, then: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on a processor without bfloat16 instructions: nothing but the rounding changes."""
    command = ["train", *CATCH, *SMALL, "--train_steps", "40", "--test_steps", "0", "--average_updates", "20"]
    assert start("run", *command, "--datatype", first) == 0
    folder = CheckpointFolder(tmp_path / "run" / "snapshots" / "catch_checkpoint")
    before = folder.newest()
    assert start("run", *command, "--datatype", then, "--epochs", "3", "--resume") == 0
    assert f"From now on --datatype is {then} instead of {first}" in capsys.readouterr().err
    after = folder.newest()
    assert before is not None
    assert after is not None
    assert (after.run["flags"]["datatype"], after.run["phase"]["epoch"]) == (then, 4)
    assert 2 * after.run["agent"]["network"]["updates"] == 3 * before.run["agent"]["network"]["updates"]


def test_a_folder_that_was_copied_after_a_resume_has_a_csv_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(home: Path, *arguments: str) -> None:
        home.mkdir(exist_ok=True)
        monkeypatch.chdir(home)
        monkeypatch.setenv("SIMPLE_DQN_HOME", str(home))  # as the scripts set it
        assert main.run(arguments) == 0

    first, copy = tmp_path / "run", tmp_path / "copy"
    start(first, "train", *CATCH, *SMALL, "--train_steps", "40", "--test_steps", "0", "--epochs", "1")
    start(first, "resume", "snapshots/catch_checkpoint", "--epochs", "2")
    shutil.copytree(first, copy)
    before = (first / "results" / "catch.csv").read_text()
    start(copy, "resume", "snapshots/catch_checkpoint", "--epochs", "3")
    assert (first / "results" / "catch.csv").read_text() == before
    assert rows(copy / "results" / "catch.csv")[-1]["epoch"] == "3"


def test_folders_that_are_none_get_a_line(
    tmp_path: Path, start: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run" / "snapshots" / "pong_checkpoint").mkdir(parents=True)
    assert start("run", "resume", "snapshots") == 2
    assert start("run", "resume", "snapshots/pong_checkpoint") == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("simple-dqn")]
    assert "is not a folder of checkpoints" in lines[0]
    assert "has no usable checkpoint" in lines[1]


def test_a_loss_that_is_no_number_stops_the_run_before_it_is_saved(
    tmp_path: Path,
    start: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as patch:
        leave_behind(patch, [])
        command = ["train", *CATCH, *SMALL, "--optimizer", "adam"]
        assert start("run", *command, "--epochs", "1") == 0
        assert (
            start("run", "resume", "snapshots/catch_1.pkl", "--epochs", "3", "--learning_rate", "1e30") == 2
        )
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert "the loss of update 3" in complaint  # 30 updates made an epoch
    assert "training step 1" in complaint
    assert (
        "lower --learning_rate, and go on from before with ./resume.sh snapshots/catch_checkpoint"
        in complaint
    )
    assert not (tmp_path / "run" / "snapshots" / "catch_2.pkl").exists()
    saved = CheckpointFolder(tmp_path / "run" / "snapshots" / "catch_checkpoint").newest()
    assert saved is not None
    assert all(np.isfinite(values).all() for values in saved.run["agent"]["network"]["online"].values())


LIMITS = {"a full disk": "RLIMIT_FSIZE", "no more files": "RLIMIT_NOFILE"}


@pytest.mark.parametrize("fault", LIMITS)
def test_training_goes_on_or_ends_with_a_line_when_the_system_gives_out(
    tmp_path: Path, start: Callable[..., int], capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    """In the middle of training no file can grow, or none be opened, any more."""
    command = ["train", *CATCH, *SMALL, "--train_steps", "600", "--checkpoint_minutes", "0.001"]
    program = f"""
import resource
from simple_dqn import main, schedules
from simple_dqn.snapshot import CheckpointFolder
write = CheckpointFolder.write
def last(self, run, *others):
    write(self, run, *others)
    if run["phase"]["name"] == "train" and run["phase"]["done"]:
        resource.setrlimit(resource.{LIMITS[fault]}, (3, resource.getrlimit(resource.{LIMITS[fault]})[1]))
CheckpointFolder.write = last
raise SystemExit(main.run({command!r}))
"""
    (tmp_path / "faulty").mkdir()
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=tmp_path / "faulty", capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(PROJECT / "src"), "SIMPLE_DQN_HOME": "."},
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "Training continues" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("simple-dqn train: ")
    assert start("whole", *command) == 0
    capsys.readouterr()
    assert start("faulty", *command, "--resume") == 0
    assert "Continuing from" in capsys.readouterr().err
    for copy in (tmp_path / "faulty" / "results").glob("catch_*.csv"):
        copy.unlink()  # rows written after the checkpoint, by a machine slow to write it
    assert_same(tmp_path / "faulty", tmp_path / "whole")


def test_a_second_run_of_the_same_name_is_refused(
    tmp_path: Path, start: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*CATCH, *SMALL, "--epochs", "100", "--checkpoint_minutes", "0.001"]
    first = subprocess.Popen(
        [sys.executable, "-P", "-m", "simple_dqn.main", "train", *command],
        cwd=tmp_path, stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(PROJECT / "src"), "SIMPLE_DQN_HOME": "."},
    )  # fmt: skip
    try:
        while not list(tmp_path.glob("snapshots/catch_1.pkl")):
            assert first.poll() is None
            time.sleep(0.02)
        for arguments in (
            ["train", *command],
            ["train", *command, "--resume"],
            ["resume", "snapshots/catch_1.pkl"],
        ):
            capsys.readouterr()
            assert start(".", *arguments) == 2
            complaint = capsys.readouterr().err.splitlines()[-1]
            assert f"is being written by another run (process {first.pid})" in complaint
        assert first.poll() is None
    finally:
        first.kill()
        first.wait()
    assert start(".", "resume", "snapshots/catch_checkpoint", "--epochs", "0") == 2
    assert "give a larger --epochs" in capsys.readouterr().err


def _without(state: CheckpointState, name: str) -> CheckpointState:
    return {key: value for key, value in state.items() if key != name}


def test_a_test_that_an_earlier_version_saved_begins_anew(
    tmp_path: Path, start: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        leave_behind(patch, [("test", 1, 24)])
        # As in version 1.0.0.
        get_state = Run.get_state
        patch.setattr(Run, "get_state", lambda self: _without(get_state(self), "schedule"))
        patch.setattr("simple_dqn.agent.Tester.get_state", lambda self, games: self._player.get_state(games))
        assert start("watched", "train", *CATCH, *SMALL, "--epochs", "1") == 0
    assert start("test-1-24", "resume", "snapshots/catch_checkpoint") == 0
    last = rows(tmp_path / "test-1-24" / "results" / "catch.csv")[-1]
    assert (last["phase"], last["steps"], last["nr_games"]) == ("test", "60", "7")


def test_no_checkpoint_begins_several_games_of_a_test_anew(
    tmp_path: Path, start: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    cart_pole = ["CartPole-v1", "--environment", "gym", "--checkpoint_steps", "20", "--workers", "2"]
    written: list[tuple[str, int]] = []
    write = CheckpointFolder.write

    def noting(self: CheckpointFolder, run: CheckpointState, *others: Any) -> None:
        write(self, run, *others)
        written.append((run["phase"]["name"], run["phase"]["done"]))

    monkeypatch.setattr(CheckpointFolder, "write", noting)
    assert start("run", "train", *cart_pole, *SMALL, "--epochs", "1") == 0
    assert ("train", 40) in written
    assert [done for name, done in written if name == "test"] == [0]


@pytest.mark.parametrize(
    "flags", [["--preset", "strong"], ["--average_updates", "1%", "--exploration_decay_steps", "10%"]]
)
def test_a_longer_run_keeps_the_schedules_with_which_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    configs: list[Config] = []

    def stop(config: Config, *_: Any, **__: Any) -> None:
        configs.append(config)
        raise UserError("far enough")

    for verb in ("train", "resume"):
        monkeypatch.setattr(f"simple_dqn.verbs.{verb}.make_run", stop)
    command = ["train", "pong", *flags, "--random_seed", "0"]
    assert main.run([*command, "--epochs", "10"]) == 2
    recorded = configs[0].flags()
    state = {"flags": recorded, "phase": asdict(Phase("train", 2)), "statistics": {"tally": {"steps": 0}}}
    saved = SimpleNamespace(run=state, path=tmp_path)
    monkeypatch.setattr(CheckpointFolder, "usable", lambda self, fits: iter([saved]))
    assert main.run([*command, "--epochs", "20", "--resume"]) == 2
    later = configs[1].flags()
    assert later["epochs"] == 20
    assert recorded["average_updates"] > 0
    for name in ("learning_rate_decay_updates", "average_updates", "exploration_decay_steps"):
        assert later[name] == recorded[name]


def test_a_rom_is_recorded_with_its_folder_and_a_name_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    shutil.copy(str(ale_py.roms.get_rom_path("pong")), "mine.bin")
    begun: list[str] = []
    monkeypatch.setattr(
        "simple_dqn.verbs.train.begin", lambda config, writers: begun.append(config.environment.game)
    )
    for game in ("mine.bin", "pong", "roms/pong.rom"):
        assert main.run(["train", game]) == 0
    assert begun == [str(tmp_path / "mine.bin"), "pong", "roms/pong.rom"]
    Path("CartPole-v1").touch()
    assert main.run(["train", "CartPole-v1", "--environment", "gym"]) == 0
    assert begun[3] == "CartPole-v1"


OTHERS: dict[str, Any] = {
    "environment": "catch", "workers": 3, "minimal_action_set": False, "replay_size": 999, "rollout_steps": 7,
    "history_length": 2, "screen_width": 40, "screen_height": 40, "network": "small",
    "normalization": "layer", "dueling": True, "noisy": True, "distributional": "c51", "atoms": 7,
    "quantiles": 7,
    "optimizer": "adam", "decay_rate": 0.5, "priority_exponent": 0.1, "random_seed": 5,
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_the_state_depends_on_cannot_change(name: str) -> None:
    with pytest.raises(UserError, match=f"--{name} .*{OTHERS[name]}"):
        check_flags({**Config().flags(), "random_seed": 0}, {name: OTHERS[name]})
