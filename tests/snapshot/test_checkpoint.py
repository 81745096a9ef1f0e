"""Checkpoints: what is written, what is kept, and which one is taken up."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.snapshot import (
    CheckpointFolder,
    Keeper,
    Snapshot,
    archive,
    check_fits,
    checkpoint_folder,
    experience_log,
    locked,
)
from simple_dqn.types import Step

ROWS = 6  # that the memory holds


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keeper(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keeper]:
    monkeypatch.setattr(experience_log, "EXPERIENCES", 4)
    keeper = Keeper(tmp_path / "pong", "pong", 6, Config(), clock)
    yield keeper
    keeper.close()


def play(keeper: Keeper, first: int, end: int) -> None:
    """Let the memory take in the rows from `first` to `end`, whose screens show their number."""
    for row in range(first, end):
        keeper.log(Step.start(np.full((1, 2, 2), row, np.uint8)))


def rows(checkpoints: CheckpointFolder) -> list[int]:
    """Return the rows that the newest checkpoint brings back."""
    saved = checkpoints.newest()
    assert saved is not None
    return [row for piece in saved.experience() for row in piece.screens[:, 0, 0, 0].tolist()]


def number(checkpoints: CheckpointFolder) -> Any:
    """Return the number that the newest checkpoint was given as its run."""
    saved = checkpoints.newest()
    return saved and saved.run["number"]


def hold(gate: threading.Event) -> None:
    """Keep the thread that writes busy until `gate` opens."""
    assert gate.wait(60)


def keep(keeper: Keeper, number: int, held: int = ROWS) -> None:
    keeper.save_checkpoint({"number": number, "array": np.array([number])}, held, wait=True)


def settled(keeper: Keeper) -> CheckpointFolder:
    """Wait until all is written, and return the folder as another process would find it."""
    keeper._background.wait()
    return CheckpointFolder(keeper.folder)


def test_a_run_and_what_it_remembers_come_back(keeper: Keeper) -> None:
    assert CheckpointFolder(keeper.folder).newest() is None
    play(keeper, 0, 10)
    keep(keeper, 1)
    assert number(settled(keeper)) == 1
    assert rows(settled(keeper)) == [4, 5, 6, 7, 8, 9]


def test_the_last_two_are_kept_and_the_chunks_that_they_name(keeper: Keeper) -> None:
    for n in range(1, 6):
        play(keeper, 10 * (n - 1), 10 * n)
        keep(keeper, n)
    names = sorted(path.name for path in settled(keeper).folder.iterdir())
    assert [name for name in names if name.startswith("run")] == ["run_000004.npz", "run_000005.npz"]
    assert [name for name in names if name.startswith("experience")] == [
        f"experience_{first:010d}-{end:010d}.lz4"
        for first, end in [(34, 38), (38, 40), (44, 48), (48, 50)]  # rows 34 to 39, and 44 to 49
    ]


def test_a_state_is_copied_before_training_goes_on(keeper: Keeper) -> None:
    gate = threading.Event()
    keeper._background.submit(hold, gate)
    array = np.zeros(3)
    keeper.save_checkpoint({"number": 1, "nested": {"array": array}}, 0)
    array[:] = 7
    gate.set()
    saved = settled(keeper).newest()
    assert saved is not None
    assert saved.run["nested"]["array"].tolist() == [0, 0, 0]


def test_while_the_disk_is_busy_the_next_checkpoint_waits_and_not_the_training(
    keeper: Keeper, clock: Clock
) -> None:
    gate = threading.Event()
    keeper._background.submit(hold, gate)
    for n in (1, 2):
        keeper.save_checkpoint({"number": n}, 0)  # returns at once, though nothing can be written
    clock.now += 10_000
    assert not keeper.is_due(0, 0)
    gate.set()
    assert number(settled(keeper)) == 1
    assert keeper.is_due(0, 0)


def test_checkpoints_are_due_by_the_clock(keeper: Keeper, clock: Clock, tmp_path: Path) -> None:
    never = Keeper(tmp_path / "x", "pong", 6, Config.from_flags({"checkpoint_minutes": 0}), clock)
    clock.now = 599
    assert not keeper.is_due(0, 0)
    clock.now = 600
    assert keeper.is_due(0, 0)
    keep(keeper, 1)
    settled(keeper)
    assert not keeper.is_due(0, 0)
    clock.now = 1200
    assert keeper.is_due(0, 0)
    assert not never.is_due(0, 0)


@pytest.mark.parametrize("pattern", ["run_*", "experience_*"])
@pytest.mark.parametrize("how", ["cut", "flip", "remove", "empty"])
def test_a_damaged_one_is_said_and_the_one_before_is_used(
    keeper: Keeper, caplog: pytest.LogCaptureFixture, pattern: str, how: str
) -> None:
    for n in (1, 2):
        play(keeper, 10 * (n - 1), 10 * n)
        keep(keeper, n)
    path = sorted(settled(keeper).folder.glob(pattern))[-1]
    whole = path.read_bytes()
    middle = len(whole) // 2
    spoilt = {
        "cut": whole[:-3], "empty": b"", "remove": None,
        "flip": whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1 :],
    }[how]  # fmt: skip
    path.unlink()
    if spoilt is not None:
        path.write_bytes(spoilt)
    again = CheckpointFolder(keeper.folder)
    assert number(again) == 1
    assert rows(again) == [4, 5, 6, 7, 8, 9]
    if (pattern, how) != ("run_*", "remove"):  # Nothing tells of a checkpoint that is not there at all.
        assert f"{path.parent / 'run_000002.npz'} cannot be used" in caplog.text


def test_a_run_that_took_one_up_leaves_it_until_the_next_is_written(keeper: Keeper, tmp_path: Path) -> None:
    for n in (1, 2):
        play(keeper, 10 * (n - 1), 10 * n)
        keep(keeper, n)
    folder = settled(keeper).folder
    (folder / "run_000002.npz").write_bytes(b"damaged")
    saved = CheckpointFolder(folder).newest()
    assert saved is not None
    again = Keeper(tmp_path / "pong", "pong", 6, Config())
    again.resume(saved)
    play(again, 10, 15)
    assert number(CheckpointFolder(folder)) == 1
    keep(again, 3)
    again.close()
    assert number(CheckpointFolder(folder)) == 3
    assert rows(CheckpointFolder(folder)) == [9, 10, 11, 12, 13, 14]
    assert sorted(path.name for path in folder.glob("run_*")) == ["run_000001.npz", "run_000003.npz"]


def test_an_end_at_any_write_leaves_what_was_whole(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    play(keeper, 0, 10)
    keep(keeper, 1)
    settled(keeper)
    writes = archive.write

    def dying(path: Path, state: dict[str, Any]) -> None:
        path.with_name(f".{path.name}.1.part").write_bytes(b"half")
        raise UserError("cannot write: dead")

    monkeypatch.setattr(archive, "write", dying)
    play(keeper, 10, 20)
    keep(keeper, 2)
    assert number(settled(keeper)) == 1
    assert rows(settled(keeper)) == [4, 5, 6, 7, 8, 9]
    monkeypatch.setattr(archive, "write", writes)
    keep(keeper, 3)
    assert number(settled(keeper)) == 3
    assert rows(settled(keeper)) == [14, 15, 16, 17, 18, 19]


def test_a_disk_without_room_costs_a_line_and_not_the_run(
    keeper: Keeper, caplog: pytest.LogCaptureFixture
) -> None:
    keeper.folder.write_text("a file where the folder should be")
    play(keeper, 0, 10)
    with caplog.at_level(logging.WARNING):
        keep(keeper, 1)
        settled(keeper)
    assert "Training continues" in caplog.text
    keeper.folder.unlink()
    keep(keeper, 2)
    assert rows(settled(keeper)) == [4, 5, 6, 7, 8, 9]


def test_a_snapshot_that_cannot_be_written_costs_a_line_and_is_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    keeper = Keeper(tmp_path / "file" / "pong", "pong", 6, Config())
    for epoch in (1, 2):
        path = keeper.save_snapshot(epoch, 10 * epoch, {"output.weight": np.full(3, epoch, np.float32)})
    assert caplog.text.count("tries again at the next checkpoint") == 2
    (tmp_path / "file").unlink()
    keep(keeper, 1, held=0)
    keeper.close()
    assert Snapshot.load(path).weights["output.weight"].tolist() == [2, 2, 2]
    assert Snapshot.load(path.with_name("pong_1.pkl")).total_train_steps == 10


def test_no_checkpoint_gets_ahead_of_a_snapshot_and_a_run_that_lost_one_says_so(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path / "pong", "pong", 6, Config())
    keeper.save_snapshot(1, 10, {"output.weight": np.ones(3, np.float32)})
    keep(keeper, 1, held=0)
    assert number(settled(keeper)) == 1
    keeper.require_snapshots()
    (tmp_path / "pong_2.pkl").mkdir()  # what cannot be replaced by a file
    keeper.save_snapshot(2, 20, {"output.weight": np.ones(3, np.float32)})
    keep(keeper, 2, held=0)
    assert number(settled(keeper)) == 1
    with pytest.raises(UserError, match=r"pong_2\.pkl could not be written: .*resume\.sh .*pong_checkpoint"):
        keeper.require_snapshots()
    (tmp_path / "pong_2.pkl").rmdir()
    keep(keeper, 3, held=0)
    assert number(settled(keeper)) == 3
    keeper.require_snapshots()


def test_while_a_disk_takes_nothing_no_more_is_held_than_the_memory_has(
    keeper: Keeper, tmp_path: Path
) -> None:
    (tmp_path / "pong_1.pkl").mkdir()
    (tmp_path / "pong_checkpoint").write_text("where a folder should be")
    keeper.save_snapshot(1, 10, {"output.weight": np.ones(3, np.float32)})
    for first in range(0, 80, 8):
        play(keeper, first, first + 8)
        keep(keeper, 1, held=8)
    keeper._background.wait()
    assert sum(chunk.end - chunk.first for chunk in keeper._log._unwritten) == 8


def test_what_fails_in_the_background_otherwise_is_not_hidden(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(CheckpointFolder, "write", broken)
    keep(keeper, 1)
    settled(keeper)
    with pytest.raises(ZeroDivisionError):
        keep(keeper, 2)


def test_the_names_of_a_run_are_its_own(tmp_path: Path) -> None:
    prefix = tmp_path / "snapshots" / "pong"
    with (
        locked(prefix),
        locked(prefix.with_name("pong_2")),
        pytest.raises(UserError, match=rf"another run \(process {os.getpid()}\).*another label"),
        locked(prefix),
    ):
        pass
    with locked(prefix):
        assert checkpoint_folder(prefix).is_dir()
    assert list(prefix.parent.iterdir()) == []


def test_the_claim_goes_with_the_process(tmp_path: Path) -> None:
    prefix = tmp_path / "pong"
    program = (
        "import os, sys; from pathlib import Path; from simple_dqn.snapshot import locked\n"
        f"with locked(Path({str(prefix)!r})): print('mine', flush=True); sys.stdin.read()"
    )
    source = str(Path(__file__).parents[2] / "src")
    other = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": source},
    )  # fmt: skip
    assert other.stdout is not None
    assert other.stdout.readline() == b"mine\n"
    with pytest.raises(UserError, match=f"process {other.pid}"), locked(prefix):
        pass
    other.kill()
    other.wait()
    with locked(prefix):
        pass


def test_what_a_killed_run_left_half_written_is_removed(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    folder = tmp_path / "pong_checkpoint"
    folder.mkdir()
    gone = [
        tmp_path / f".pong_3.pkl.{dead.pid}.part",
        folder / f".run_000003.npz.{dead.pid}.part",
        folder / f".run_000004.npz.{os.getpid()}.part",
    ]
    stays = [
        tmp_path / f".pong_3.pkl.{os.getppid()}.part",  # of a program that lives
        tmp_path / f".breakout_3.pkl.{dead.pid}.part",
        tmp_path / "pong_3.pkl",
    ]
    for path in [*gone, *stays]:
        path.touch()
    with locked(tmp_path / "pong"):
        assert not any(path.exists() for path in gone)
        assert all(path.exists() for path in stays)


def test_snapshots_name_no_place_and_come_back_whole(tmp_path: Path) -> None:
    config = Config.from_flags({"game": "/home/me/pong.rom", "csv_file": "/home/me/x.csv", "frame_skip": 3})
    keeper = Keeper(tmp_path / "pong", "pong", 6, config)
    path = keeper.save_snapshot(4, 1000, {"conv1": np.arange(3, dtype=np.float32)})
    assert path.name == "pong_4.pkl"
    assert b"/home/me" not in path.read_bytes()
    snapshot = Snapshot.load(path)
    assert (snapshot.game, snapshot.epoch, snapshot.actions, snapshot.total_train_steps) == (
        "pong",
        4,
        6,
        1000,
    )
    assert snapshot.weights["conv1"].tolist() == [0, 1, 2]
    assert Config.from_flags(snapshot.flags).environment.frame_skip == 3
    assert [entry.name for entry in tmp_path.iterdir()] == ["pong_4.pkl"]


def test_snapshots_of_others_are_refused(tmp_path: Path) -> None:
    snapshot = Snapshot("pong", 1, 6, 10, {}, {})
    check_fits(tmp_path / "a.pkl", snapshot, "pong", 6)
    with pytest.raises(UserError, match="trained on pong, not on breakout"):
        check_fits(tmp_path / "a.pkl", snapshot, "breakout", 6)
    with pytest.raises(UserError, match="6 actions and pong is played with 18"):
        check_fits(tmp_path / "a.pkl", snapshot, "pong", 18)


@pytest.mark.parametrize(
    "content", [{}, {"format": "another"}, {"format": "simple-dqn snapshot 1", "epoch": "x"}]
)
def test_archives_that_are_no_snapshots_are_refused(tmp_path: Path, content: dict[str, object]) -> None:
    archive.write(tmp_path / "a.pkl", content)
    with pytest.raises(UserError, match=r"a\.pkl"):
        Snapshot.load(tmp_path / "a.pkl")
