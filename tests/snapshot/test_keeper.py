"""The keeper: what it writes and keeps, which checkpoint is used, and a disk that takes nothing."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path

import numpy as np
import pytest

from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.snapshot import CheckpointFolder, Keeper, Snapshot, checkpoint, locked, pack, unpack
from simple_dqn.types import Step

ROWS = 6  # that the memory holds
WEIGHTS = {"output.weight": np.ones(3, np.float32)}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kept(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keeper]:
    monkeypatch.setattr(checkpoint, "EXPERIENCES", 4)
    made = Keeper(tmp_path / "pong", "pong", 6, Config(), clock)
    yield made
    made.close()


def play(kept: Keeper, first: int, end: int) -> None:
    """Log the rows from `first` to `end`, whose screens show their number."""
    for row in range(first, end):
        kept.log(Step.start(np.full((1, 2, 2), row, np.uint8)))


def save(kept: Keeper, number: int, held: int = ROWS) -> None:
    kept.save_checkpoint({"number": number, "array": np.array([number])}, held, wait=True)


def newest(kept: Keeper) -> tuple[int | None, list[int]]:
    """Return the number and the rows of the newest checkpoint, as another process would find it."""
    futures.wait([kept._last])
    saved = CheckpointFolder(kept.folder).newest()
    if saved is None:
        return None, []
    return saved.run["number"], [
        row for one in saved.experience() for row in one.screens[:, 0, 0, 0].tolist()
    ]


def test_a_chunk_takes_little_room_and_other_bytes_are_none() -> None:
    quiet = Step.start(np.random.default_rng(0).integers(0, 256, (1, 3, 5), np.uint8))
    assert len(pack([quiet] * 400)) < 400 * quiet.screens.nbytes / 5
    for content in (b"", b"nonsense", pack([quiet])[:-9], b"\x04\x22\x4d\x18" + bytes(30)):
        with pytest.raises(UserError, match="damaged"):
            unpack(content)


def test_the_last_two_are_kept_and_the_chunks_that_they_name(kept: Keeper) -> None:
    assert newest(kept) == (None, [])
    for n in range(1, 6):
        play(kept, 10 * (n - 1), 10 * n)
        save(kept, n)
    assert newest(kept) == (5, list(range(44, 50)))
    chunks = [(34, 38), (38, 40), (44, 48), (48, 50)]  # with rows 34 to 39, and 44 to 49
    assert sorted(path.name for path in kept.folder.iterdir()) == [
        *(f"experience_{first:010d}-{end:010d}.lz4" for first, end in chunks),
        *("run_000004.npz", "run_000005.npz"),
    ]


def test_training_goes_on_while_the_disk_is_busy(kept: Keeper, clock: Clock) -> None:
    gate, array = threading.Event(), np.zeros(3)
    kept._submit(gate.wait, 60)
    for n in (1, 2):  # the second is postponed
        kept.save_checkpoint({"number": n, "nested": {"array": array}}, 0)
    array[:] = 7  # the state was copied
    clock.now += 10_000
    assert not kept.is_due(0, 0)
    gate.set()
    assert newest(kept)[0] == 1
    saved = CheckpointFolder(kept.folder).newest()
    assert saved is not None
    assert saved.run["nested"]["array"].tolist() == [0, 0, 0]
    assert kept.is_due(0, 0)


def test_checkpoints_are_due_by_the_clock(kept: Keeper, clock: Clock) -> None:
    for now, due in ((599, False), (600, True), (1199, False), (1200, True)):
        clock.now = now
        assert kept.is_due(0, 0) == due
        if now == 600:
            save(kept, 1)
            futures.wait([kept._last])


@pytest.mark.parametrize("pattern", ["run_*", "experience_*"])
@pytest.mark.parametrize("damage", [lambda old: old[:-3], lambda old: old[:99] + b"?" + old[100:], None])
def test_the_one_before_a_damaged_checkpoint_is_used(
    kept: Keeper, tmp_path: Path, pattern: str, damage: Callable[[bytes], bytes] | None
) -> None:
    for n in (1, 2):
        play(kept, 10 * (n - 1), 10 * n)
        save(kept, n)
    futures.wait([kept._last])
    path = sorted(kept.folder.glob(pattern))[-1]
    if damage:
        path.write_bytes(damage(path.read_bytes()))
    else:
        path.unlink()
    assert newest(kept) == (1, [4, 5, 6, 7, 8, 9])
    # A run that continues from it leaves it until the next one is written.
    saved = CheckpointFolder(kept.folder).newest()
    assert saved is not None
    again = Keeper(tmp_path / "pong", "pong", 6, Config())
    again.resume(saved)
    play(again, 10, 15)
    assert newest(again)[0] == 1
    save(again, 3)
    again.close()
    assert newest(again) == (3, [9, 10, 11, 12, 13, 14])
    assert len(list(kept.folder.glob("run_*"))) == 2


def test_a_disk_without_room_costs_a_line_and_not_the_run(
    kept: Keeper, caplog: pytest.LogCaptureFixture
) -> None:
    kept.folder.write_text("where a folder should be")
    for first in range(0, 80, 8):
        play(kept, first, first + 8)
        save(kept, 1, held=8)
    futures.wait([kept._last])
    assert "No checkpoint was written" in caplog.text
    assert len(kept._unwritten) == 2  # chunks with the 8 rows that the memory has
    kept.folder.unlink()
    save(kept, 2, held=8)
    assert newest(kept) == (2, list(range(72, 80)))


def test_no_checkpoint_gets_ahead_of_a_snapshot(kept: Keeper, caplog: pytest.LogCaptureFixture) -> None:
    kept.save_snapshot(1, 10, WEIGHTS)
    save(kept, 1, held=0)
    kept.require_snapshots()
    blocked = kept.prefix.with_name("pong_2.pkl")
    blocked.mkdir()
    for epoch in (2, 3):
        kept.save_snapshot(epoch, 10 * epoch, WEIGHTS)
    assert caplog.text.count("tries again later") == 2
    save(kept, 2, held=0)
    assert newest(kept)[0] == 1
    with pytest.raises(UserError, match=r"pong_2\.pkl could not be written: .*resume\.sh .*pong_checkpoint"):
        kept.require_snapshots()
    blocked.rmdir()
    save(kept, 3, held=0)
    assert newest(kept)[0] == 3
    kept.require_snapshots()
    assert Snapshot.load(blocked).total_train_steps == 20
    assert Snapshot.load(kept.prefix.with_name("pong_3.pkl")).epoch == 3


def test_what_fails_in_the_thread_otherwise_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Keeper(tmp_path / "pong", "pong", 6, Config())
    monkeypatch.setattr(CheckpointFolder, "write", lambda *_: 1 // 0)
    save(kept, 1)
    for call in (kept.close, lambda: save(kept, 2)):
        with pytest.raises(ZeroDivisionError):
            call()


def test_snapshots_name_no_place(tmp_path: Path) -> None:
    config = Config.from_flags({"game": "/home/me/pong.rom", "csv_file": "/home/me/x.csv", "frame_skip": 3})
    path = Keeper(tmp_path / "pong", "pong", 6, config).save_snapshot(4, 1000, WEIGHTS)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name] == ["pong_4.pkl"]
    assert b"/home/me" not in path.read_bytes()
    assert Snapshot.load(path).flags["frame_skip"] == 3


def test_a_lock_ends_with_its_process_and_its_unfinished_files_are_removed(tmp_path: Path) -> None:
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
    with (
        pytest.raises(UserError, match=rf"another run \(process {other.pid}\).*another label"),
        locked(prefix),
    ):
        pass
    with locked(prefix.with_name("pong_2")):  # has other files
        pass
    other.kill()
    other.wait()
    gone = [tmp_path / ".pong_3.pkl.77.part", tmp_path / "pong_checkpoint" / ".run_000003.npz.77.part"]
    stays = [tmp_path / name for name in (".pong_2_3.pkl.77.part", ".breakout_3.pkl.77.part", "pong_3.pkl")]
    for path in [*gone, *stays]:
        path.touch()
    with locked(prefix):
        assert [path.exists() for path in [*gone, *stays]] == [False, False, True, True, True]
