"""A run that was killed goes on as if nothing had happened; a second run of a name keeps earlier files."""

import itertools
import os
import shutil
import signal
from concurrent import futures
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import ale_py.roms
import numpy as np
import pytest

import simple_dqn
from simple_dqn import main, schedules
from simple_dqn.command_line import read as read_settings
from simple_dqn.config import Config, as_word, words
from simple_dqn.environment.catch import CatchGame
from simple_dqn.errors import UserError, call_foreign
from simple_dqn.run import Phase, Run
from simple_dqn.snapshot import Snapshot
from simple_dqn.snapshot.checkpoint import Checkpoint, CheckpointFolder
from simple_dqn.snapshot.saver import Saver, locked, set_aside, snapshots_after
from simple_dqn.types import CheckpointState
from simple_dqn.verbs.train import check_flags
from tests.command_line import (
    CATCH,
    PROJECT,
    Capsys,
    Logs,
    Patch,
    Start,
    Told,
    catch,
    python,
    read,
    rows,
    watch,
)

Moment = tuple[str, int, int]  # phase, epoch, steps
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
ROLLOUTS = "--workers 4 --rollout_steps 5 --target_steps 0 --replay_size 1e6"
KINDS = {
    "serial": "",
    "concurrent": "--workers 2 --schedule concurrent",
    "overlapped": "--workers 4 --schedule overlapped",
    "rollouts": f"{ROLLOUTS} --average_updates 50% --optimizer radam",
    "numbers of games that cannot be saved": "--network auto --checkpoint_steps 40",
}
RARE = {
    "prioritized, many steps, concurrent": f"{PRIORITIZED} --n_step 3 --workers 2 --schedule concurrent",
    "games that end beyond the test's steps": "--workers 3 --replay_compression lz4",
    "adam": "--optimizer adam --datatype bfloat16 --average_updates 50%",
    "atari in processes": "--workers 2 --processes 2 --schedule concurrent --max_game_frames 200",
    "without a target network": "--target_steps 0",
    "many steps": "--n_step 3 --workers 2",
    "atari": "--repeat_action_probability 0.25",
}
RESTARTED = [("train", 2, 0), ("train", 2, 80)]
KILLED_AT = {
    "serial": [("random", 0, 80), ("test", 1, 0), *MOMENTS, ("test", 2, 48)],
    "numbers of games that cannot be saved": [("random", 0, 80), ("test", 1, 40), *RESTARTED],
    "games that end beyond the test's steps": [("test", 1, 57), ("test", 1, 60), ("test", 2, 66)],
    "atari in processes": [*MOMENTS, ("test", 2, 60)],
}
# Ctrl-C while the memory is filled leaves the rest to be filled.
STOPPED_EARLY = {"serial": [("random", 0, 2)], "many steps": [("random", 0, 2), ("random", 0, 80)]}
EVERY_KIND = [*KINDS, *(pytest.param(kind, marks=pytest.mark.nightly) for kind in RARE)]


def command(kind: str) -> list[str]:
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


def snapshots(home: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (home / "snapshots").glob("*.pkl")}


def newest(home: Path) -> Checkpoint:
    return next(CheckpointFolder(home / CHECKPOINTS).usable())


def leave_behind(monkeypatch: Patch, moments: list[Moment]) -> None:
    """Make many checkpoints, and at `moments` copy the folder as a run killed there leaves it."""
    save_checkpoint, write, is_due = Saver.save_checkpoint, CheckpointFolder.write, Saver.is_due

    def often(self: Saver, run: CheckpointState, held: int, wait: bool = False) -> None:
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

    monkeypatch.setattr(Saver, "is_due", lambda self, *steps: self._can_save or is_due(self, *steps))
    monkeypatch.setattr(Saver, "save_checkpoint", often)
    monkeypatch.setattr(CheckpointFolder, "write", copying)


def stop_at(monkeypatch: Patch, name: str, epoch: int, done: int) -> None:
    def stop(run: Run, steps: int) -> None:
        if (run.phase.name, run.phase.epoch, run.phase.done + steps) == (name, epoch, done):
            os.kill(os.getpid(), signal.SIGINT)

    watch(Run, "_on_safe_point", stop, monkeypatch)


@pytest.fixture(autouse=True)
def _safe_points(monkeypatch: Patch) -> None:
    """Let there be a checkpoint at each moment."""
    monkeypatch.setattr(schedules, "SAFE_POINT_STEPS", 40)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_resumed_exactly(tmp_path: Path, start: Start, monkeypatch: Patch, kind: str, capsys: Capsys) -> None:
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
        assert f"Next: {PROJECT}/resume.sh {CHECKPOINTS} continues the run" in told or "atari" in kind
        ended = [(row["phase"], int(row["steps"])) for row in stopped_rows[-1:]]
        assert ended == ([(name, done)] if epoch else [])
        assert len(weights) == epoch
        last = next(home.glob(f"snapshots/*_{epoch or 'checkpoint'}*"))
        assert start(home.name, "resume", f"snapshots/{last.name}") == 0
        assert_same(home, tmp_path / "whole")
        assert len(list(home.glob("**/*.csv"))) == 1
    if "cannot" in kind:
        return
    (tmp_path / "called").mkdir()
    monkeypatch.chdir(tmp_path / "called")
    stops, flags = 0, read("train", command(kind)[1:]).given
    while simple_dqn.train(**flags, on_step=lambda row: True, every=80, resume=True).stopped:
        stops += 1
    assert stops >= 3
    assert_same(tmp_path / "called", tmp_path / "whole")


# In the middle of training the process is killed, no file can grow any more, or none can be opened.
FAULTS = {
    "kill": "os.kill(os.getpid(), signal.SIGKILL)",
    "full": "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))",  # enough for the CSV
    "no more files": "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
}


def test_no_resume_is_offered_without_a_checkpoint(start: Start, monkeypatch: Patch, capsys: Capsys) -> None:
    def full(*_: Any) -> None:
        raise UserError("no room")

    stop_at(monkeypatch, "train", 1, 40)
    monkeypatch.setattr(CheckpointFolder, "write", full)
    assert start("full", *command("serial"), "--checkpoint_minutes", "0") == 128 + signal.SIGINT
    told = capsys.readouterr().err
    assert "No checkpoint was written: no room" in told
    assert "continues" not in told


@pytest.mark.parametrize("fault", ["kill", "full", pytest.param("no more files", marks=pytest.mark.nightly)])
def test_train_with_resume_after_a_fault(tmp_path: Path, start: Start, capsys: Capsys, fault: str) -> None:
    home, often = tmp_path / "faulty", [*TRAIN, "--checkpoint_minutes", "0.001"]
    program = f"""
import os, resource, signal
from simple_dqn import main
from simple_dqn.snapshot.checkpoint import CheckpointFolder
write = CheckpointFolder.write
def last(self, run, *others):
    write(self, run, *others)
    if run["phase"]["name"] == "train" and run["phase"]["done"]:
        {FAULTS[fault]}
CheckpointFolder.write = last
raise SystemExit(main.run({often!r}))
"""
    home.mkdir()
    process = python("-P", "-c", program, cwd=home, SIMPLE_DQN_HOME=".")
    assert process.returncode == (-signal.SIGKILL if fault == "kill" else 2)
    if fault != "kill":
        assert "Training continues" in process.stderr
        assert process.stderr.splitlines()[-1].startswith("simple-dqn train: ")
    assert "Traceback" not in process.stderr
    assert start("whole", *TRAIN) == start("faulty", *TRAIN, "--resume") == 0
    assert "Continuing from" in capsys.readouterr().err
    for copy in home.glob("results/catch.*.csv"):
        copy.unlink()  # rows written after the checkpoint, by a machine slow to write it
    assert_same(home, tmp_path / "whole")
    left = {path.name for path in (home / "snapshots").iterdir()}
    assert left == {"catch_1.pkl", "catch_2.pkl", "catch_checkpoint"}


def test_a_run_with_weights_goes_on(tmp_path: Path, finished: Path, monkeypatch: Patch, told: Told) -> None:
    files = snapshots(finished)
    begun = ["--start_epoch", "1", "--load_weights", "snapshots/catch_1.pkl", "--random_seed", "1"]
    with monkeypatch.context() as patch:
        leave_behind(patch, [("random", 0, 32), ("train", 2, 32)])
        assert main.run([*BRIEF, *begun]) == 0
    now = snapshots(finished)
    assert now.keys() == {*files, "catch_before_2.pkl"}
    assert now["catch_1.pkl"] == files["catch_1.pkl"]
    assert now["catch_before_2.pkl"] == files["catch_2.pkl"] != now["catch_2.pkl"]
    monkeypatch.chdir(tmp_path / "train-2-32")
    assert "train 2, step 32" in told("resume", "snapshots/catch_1.pkl")
    monkeypatch.chdir(tmp_path / "random-0-32")
    assert "will be overwritten" not in told("resume", CHECKPOINTS)


def test_a_signal_in_the_start_up_changes_no_file(finished: Path, monkeypatch: Patch, told: Told) -> None:
    before = {path: path.read_bytes() for path in finished.rglob("*.*")}
    watch(Run, "__init__", lambda *_: os.kill(os.getpid(), signal.SIGTERM), monkeypatch)
    for command in (BRIEF, ["resume", "snapshots/catch_1.pkl"], ["resume", CHECKPOINTS, "--epochs", "3"]):
        assert ("continues" in told(*command, code=128 + signal.SIGTERM)) == (command[0] == "resume")
        assert {path: path.read_bytes() for path in finished.rglob("*.*")} == before


def test_a_resume_from_another_folder_or_of_a_copy(tmp_path: Path, start: Start, monkeypatch: Patch) -> None:
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


def test_resume_refuses_in_one_line(finished: Path, told: Told) -> None:
    files = snapshots(finished)
    with locked(finished / "snapshots" / "catch"):
        for arguments in (BRIEF, [*BRIEF, "--resume"], ["resume", "snapshots/catch_1.pkl"]):
            assert f"is being written by another run (process {os.getpid()})" in told(*arguments, code=2)
    assert "Nothing is left to do: the run has 2 epochs" in told(*BRIEF, "--resume")
    (finished / "snapshots" / "pong_checkpoint").mkdir()
    for flags, complaint in {
        f"{CHECKPOINTS} --replay_size 300": "give --replay_size 100",
        f"{CHECKPOINTS} --save_weights_prefix other": "leave out --save_weights_prefix",
        f"{CHECKPOINTS} --epochs 1": "larger --epochs",
        "snapshots/pong_checkpoint": f"has no usable checkpoint: train again: {PROJECT}/train.sh GAME",
    }.items():
        assert complaint in told("resume", *flags.split(), code=2).splitlines()[-1]
    for path in (finished / CHECKPOINTS).glob("run_*.npz"):
        path.write_bytes(path.read_bytes()[:100])
    said = told(*BRIEF, "--epochs", "3", "--resume", "true", code=2)
    assert "no checkpoint in snapshots/catch_checkpoint can be read" in said.splitlines()[-1]
    assert "give snapshots/catch_2.pkl, the last snapshot" in told("resume", CHECKPOINTS, code=2)
    assert snapshots(finished) == files


OTHERS: dict[str, Any] = {
    "environment": "catch", "workers": 3, "minimal_action_set": False, "replay_size": 999, "rollout_steps": 7,
    "history_length": 2, "screen_width": 40, "screen_height": 40, "network": "small",
    "normalization": "layer", "dueling": True, "noisy": True, "distributional": "c51", "atoms": 7,
    "quantiles": 7, "optimizer": "adam", "decay_rate": 0.5, "priority_exponent": 0.1, "random_seed": 5,
    "initializer": "gaussian", "noisy_sigma": 0.1, "random_steps": 7, "start_epoch": 1,
}  # fmt: skip


def test_a_resume_refuses_some_changed_settings_and_logs_the_others(caplog: Logs) -> None:
    for name, value in OTHERS.items():
        with pytest.raises(UserError, match=f"{as_word(value)}: give --{name} (?!{as_word(value)},)"):
            check_flags({**Config().flags(), "random_seed": 0}, {name: value})
    for name, was, now in (("datatype", "float64", "float32"), ("cluster", "local", "none")):
        with pytest.raises(UserError, match="cannot continue with"):
            check_flags({name: was}, {name: now})
    with pytest.raises(UserError, match=r"cannot choose an address: give --cluster 10\.0\.0\.1:6379"):
        check_flags({"cluster": "10.0.0.1:6379"}, {})
    saved = {"learning_rate": 0.1, "csv_file": "a", "workers": 2, "threads": 1}
    with caplog.at_level("INFO"):
        check_flags(saved, {"learning_rate": 0.2, "csv_file": "b", "workers": 2, "threads": 2})
    changes = ("learning_rate is 0.2 instead of 0.1", "threads is 2 instead of 1")
    assert caplog.messages == [f"From now on --{change}" for change in changes]


@pytest.mark.parametrize(("first", "then"), [("auto",) * 2, ("bfloat16", "float32"), ("float32", "float16")])
def test_a_run_changes_datatype(tmp_path: Path, start: Start, first: str, then: str, capsys: Capsys) -> None:
    """As on a processor without bfloat16 instructions; auto is what it meant when the run began."""
    command = [*BRIEF, "--average_updates", "20", "--resume", "--datatype"]
    assert start("run", *command, first) == 0
    before = newest(tmp_path / "run")
    settled = before.run["flags"]["datatype"] if then == "auto" else then
    assert settled in ("float32", "bfloat16", "float16")
    assert start("run", *command, then, "--epochs", "3") == 0
    change = f"From now on --datatype is {then} instead of {first}"
    assert (change in capsys.readouterr().err) == (first != then)
    after = newest(tmp_path / "run")
    assert (after.run["flags"]["datatype"], after.run["phase"]["epoch"]) == (settled, 4)
    updates = [saved.run["agent"]["network"]["updates"] for saved in (before, after)]
    assert 2 * updates[1] == 3 * updates[0]


def test_a_loss_of_nan_ends_it(tmp_path: Path, start: Start, monkeypatch: Patch, capsys: Capsys) -> None:
    with monkeypatch.context() as patch:
        leave_behind(patch, [])
        assert start("run", *TRAIN, "--optimizer", "adam", "--epochs", "1") == 0
        change = ["--epochs", "3", "--learning_rate", "1e30"]
        assert start("run", "resume", "snapshots/catch_1.pkl", *change) == 2
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert "the loss of update 3" in complaint  # 30 updates made an epoch
    assert "training step 1" in complaint
    assert "lower --learning_rate, and continue from the last checkpoint with" in complaint
    assert f" {PROJECT}/resume.sh {CHECKPOINTS}" in complaint
    assert not (tmp_path / "run" / "snapshots" / "catch_2.pkl").exists()
    weights = newest(tmp_path / "run").run["agent"]["network"]["online"].values()
    assert all(np.isfinite(values).all() for values in weights)


def test_an_environment_that_fails_is_one_line_with_the_way_back(
    start: Start, monkeypatch: Patch, capsys: Capsys
) -> None:
    class OwnError(BaseException): ...

    def fail() -> None:
        raise OwnError("broken")

    steps = itertools.count()
    watch(CatchGame, "act", lambda *_: next(steps) == 75 and call_foreign("step()", fail), monkeypatch)
    assert start("run", *BRIEF) == 2
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert "step() failed: OwnError: broken" in complaint
    assert complaint.endswith(f" the last checkpoint with {PROJECT}/resume.sh {CHECKPOINTS}")


def test_no_checkpoint_begins_several_games_of_a_test_anew(start: Start, monkeypatch: Patch) -> None:
    written: list[tuple[str, int]] = []

    def note(_: CheckpointFolder, run: CheckpointState, *_others: Any) -> None:
        written.append((run["phase"]["name"], run["phase"]["done"]))

    watch(CheckpointFolder, "write", note, monkeypatch)
    flags = catch(network="auto", checkpoint_steps=20, workers=2, train_steps=80, test_steps=40)[1:]
    assert start("run", "train", "CartPole-v1", *flags) == 0
    assert ("train", 40) in written
    assert [done for name, done in written if name == "test"] == [0]


@pytest.mark.parametrize("flags", [
    "--average_updates 50% --exploration_decay_steps 10%",
    f"--preset strong {ROLLOUTS} --train_frequency 4 --random_steps 0",
])  # fmt: skip
def test_a_longer_run_keeps_its_decay_schedules(tmp_path: Path, start: Start, flags: str) -> None:
    recorded = []
    for epochs in (2, 4):
        assert start("run", "train", *catch(epochs=epochs), *flags.split(), "--resume") == 0
        recorded.append(newest(tmp_path / "run").run["flags"])
    assert [one["epochs"] for one in recorded] == [2, 4]
    assert 0 < recorded[0]["exploration_decay_steps"] < 80
    for name in ("learning_rate_decay_updates", "average_updates", "exploration_decay_steps"):
        assert recorded[0][name] == recorded[1][name]


def test_a_rom_is_recorded_with_its_folder_and_a_name_as_it_is(home: Path, monkeypatch: Patch) -> None:
    shutil.copy(str(ale_py.roms.get_rom_path("pong")), "mine.bin")
    Path("CartPole-v1").touch()
    begin = Mock(side_effect=UserError("the run would begin"))
    monkeypatch.setattr("simple_dqn.verbs.train.opened", begin)
    for command in ("mine.bin", "pong", "roms/pong.rom", "CartPole-v1 --environment gym"):
        assert main.run(["train", *command.split()]) == 2
    games = [call.args[0].environment.game for call in begin.call_args_list]
    assert games == [str(home / "mine.bin"), "pong", "roms/pong.rom", "CartPole-v1"]


def names(start: str, *epochs: int) -> set[str]:
    return {f"{start}_{epoch}.pkl" for epoch in epochs}


def test_each_run_of_a_name_keeps_the_files_of_those_before(finished: Path, told: Told) -> None:
    first = snapshots(finished)
    assert first.keys() == names("catch", 1, 2)
    said = told(*BRIEF, "--random_seed", "1", "--epochs", "1")
    assert "The files of an earlier run are kept as snapshots/catch_before_..." in said
    second = snapshots(finished)
    assert second.keys() == names("catch", 1) | names("catch_before", 1, 2)
    assert {name.replace("_before", ""): second[name] for name in second if "before" in name} == first
    assert main.run([*BRIEF, "--random_seed", "2", "--epochs", "1"]) == 0
    third = snapshots(finished)
    assert third.keys() == second.keys() | names("catch_before_2", 1)
    assert third["catch_before_2_1.pkl"] == second["catch_1.pkl"]
    assert third["catch_before_2.pkl"] == first["catch_2.pkl"]
    # The first goes on under its new name, by its checkpoint.
    said = told("resume", "snapshots/catch_before_2.pkl", "--epochs", "3")
    assert "train 3, step 0" in said
    assert "are lost" not in said
    assert snapshots(finished).keys() == third.keys() | names("catch_before", 3)
    # A snapshot that is put back in its place leads to its checkpoint.
    (finished / "snapshots" / "catch_before_2_1.pkl").rename(finished / "snapshots" / "catch_1.pkl")
    said = told("resume", "snapshots/catch_1.pkl", "--epochs", "2")
    assert f"{PROJECT}/resume.sh snapshots/catch_before_2_checkpoint continues from one that does" in said


def test_the_settings_of_an_earlier_run_have_the_number_of_its_csv(finished: Path) -> None:
    shutil.rmtree("snapshots/catch_checkpoint")
    main.run(["resume", "snapshots/catch_1.pkl", "--learning_rate", "0.001"])  # keeps a copy of the CSV
    main.run([*BRIEF, "--learning_rate", "0.002"])
    ends = {path.name.removeprefix("catch.") for path in (finished / "results").iterdir()}
    assert ends == {"csv", "yaml", "1.csv", "1.yaml", "2.csv", "2.yaml"}
    rates = [read_settings(f"results/catch{n}.yaml")["learning_rate"] for n in (".1", ".2", "")]
    assert rates == [0.00025, 0.001, 0.002]


def test_a_run_stopped_before_its_first_row_leaves_no_results_to_keep(finished: Path) -> None:
    for _ in range(3):
        assert simple_dqn.train("catch", on_step=lambda _: True, every=8, **CATCH).stopped
    ends = {path.name.removeprefix("catch.") for path in (finished / "results").iterdir()}
    assert ends == {"csv", "yaml", "1.csv", "1.yaml"}
    assert len(Path("results/catch.csv").read_text().splitlines()) == 1


def test_a_run_can_begin_with_weights_that_it_renames(finished: Path, told: Told) -> None:
    first = snapshots(finished)
    weights = ["--load_weights", "snapshots/catch_2.pkl", "--random_steps", "60", "--learning_rate", "1e-30"]
    assert main.run([*BRIEF, *weights, "--epochs", "1"]) == 0
    began, now = (Snapshot.load(Path(f"snapshots/catch_{end}.pkl")).weights for end in ("before_2", "1"))
    assert all(np.array_equal(began[name], now[name]) for name in began)
    assert snapshots(finished)["catch_before_2.pkl"] == first["catch_2.pkl"]
    hint = "snapshots/catch_2.pkl does not exist: did you mean snapshots/catch_before_2.pkl?\n"
    assert told(*BRIEF, *weights, "--epochs", "1", code=2).endswith(hint)


def test_a_resume_renames_nothing_that_it_goes_on_from(finished: Path, told: Told) -> None:
    assert "earlier run" not in told(*BRIEF, "--epochs", "3", "--resume", "true")
    assert "earlier run" not in told("resume", "snapshots/catch_checkpoint", "--epochs", "4")
    assert snapshots(finished).keys() == names("catch", 1, 2, 3, 4)
    # From the last snapshot but one, with a checkpoint: the same run goes on and rewrites the later files.
    said = told("resume", "snapshots/catch_3.pkl", "--epochs", "4")
    assert "from snapshots/catch_4.pkl on, will be overwritten" in said
    assert snapshots(finished).keys() == names("catch", 1, 2, 3, 4)
    # From a snapshot without a checkpoint of its run: the later files belong to another run.
    before = snapshots(finished)
    said = told("resume", "snapshots/catch_1.pkl", "--epochs", "2")
    assert "are kept as snapshots/catch_before_..." in said
    now = snapshots(finished)
    assert now.keys() == names("catch", 1, 2) | names("catch_before", 2, 3, 4)
    assert now["catch_1.pkl"] == before["catch_1.pkl"]
    assert now["catch_before_4.pkl"] == before["catch_4.pkl"]


def test_a_trained_agent_goes_on_under_a_label(finished: Path, told: Told) -> None:
    trained = finished / "snapshots" / "trained"
    trained.mkdir()
    agent = (finished / "snapshots" / "catch_2.pkl").rename(trained / "catch_2.pkl").read_bytes()
    own, results = snapshots(finished), (finished / "results" / "catch.csv").read_text()
    said = told("resume", "snapshots/trained/catch_2.pkl", "--epochs", "3")
    assert "catch_2.pkl remains unchanged: the run continues as snapshots/catch_trained_..." in said
    assert [path.name for path in trained.iterdir()] == ["catch_2.pkl"]
    assert (trained / "catch_2.pkl").read_bytes() == agent
    assert snapshots(finished).keys() == {*own, "catch_trained_3.pkl"}
    assert (finished / "results" / "catch.csv").read_text() == results
    assert main.run(["resume", "snapshots/catch_trained_3.pkl", "--epochs", "4"]) == 0
    trained_rows = rows(finished / "results" / "catch_trained.csv")
    assert [row["epoch"] for row in trained_rows if row["phase"] == "train"] == ["3", "4"]
    assert next(CheckpointFolder(finished / "snapshots" / "catch_trained_checkpoint").usable(), None)
    said = told(*BRIEF, "--save_weights_prefix", str(trained / "catch"), code=2)
    assert "give another --save_weights_prefix" in said.splitlines()[-1]
    assert [path.name for path in trained.iterdir()] == ["catch_2.pkl"]


def test_only_snapshots_of_the_very_name_are_renamed(tmp_path: Path) -> None:
    others = {
        "pong.pkl", "pong_x_3.pkl", "pong_3_4.pkl", "pong_3.pkl.txt", "xpong_3.pkl", "breakout_3.pkl",
        "pong_before_2.pkl", "pong_before_3_1.pkl", "pong_2.pkl",
    }  # fmt: skip
    for name in (*others, "pong_3.pkl", "pong_10.pkl"):
        (tmp_path / name).touch()
    assert [path.name for path in snapshots_after(tmp_path / "pong", 2)] == ["pong_3.pkl", "pong_10.pkl"]
    set_aside(tmp_path / "pong", 2)  # not as `pong_before`, whose epoch 2 is `pong_before_2.pkl`
    assert {path.name for path in tmp_path.iterdir()} == others | names("pong_before_2", 3, 10)
