import logging
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.snapshot import Checkpoint, Keeper, Snapshot, archive, check_fits


def memory(value: int) -> dict[str, object]:
    return {"screens": np.full((3, 2), value, np.uint8), "position": value}


def test_a_run_and_its_memory_come_back(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "pong_checkpoint")
    assert checkpoint.load_run() is None
    checkpoint.save({"trained": 1}, memory(7))
    again = Checkpoint(tmp_path / "pong_checkpoint")
    assert again.load_run() == {"trained": 1}
    loaded = again.load_memory()
    assert loaded is not None
    assert loaded["screens"].tolist() == [[7, 7]] * 3


def test_a_run_without_a_new_memory_keeps_the_one_before(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.save({"tested": 0}, memory(1))
    checkpoint.save({"tested": 1}, None)
    assert checkpoint.load_run() == {"tested": 1}
    loaded = checkpoint.load_memory()
    assert loaded is not None
    assert loaded["position"] == 1


def test_only_the_memory_that_is_named_is_kept(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    for value in range(4):
        checkpoint.save({"trained": value}, memory(value))
    assert len(list(tmp_path.glob("memory_*"))) == 1
    loaded = checkpoint.load_memory()
    assert loaded is not None
    assert loaded["position"] == 3


@pytest.mark.parametrize("writes", [0, 1])
def test_an_end_between_any_two_writes_leaves_a_pair_that_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.save({"trained": 1}, memory(1))
    write, done = archive.write, 0

    def dying(path: Path, state: dict[str, object]) -> None:
        nonlocal done
        if done == writes:
            raise KeyboardInterrupt
        done += 1
        write(path, state)

    monkeypatch.setattr(archive, "write", dying)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save({"trained": 2}, memory(2))
    assert checkpoint.load_run() == {"trained": 1}
    loaded = checkpoint.load_memory()
    assert loaded is not None
    assert loaded["position"] == 1


def test_a_disk_without_room_costs_the_memory_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = Checkpoint(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with caplog.at_level(logging.WARNING):
        checkpoint.save({"trained": 1}, memory(1))
    assert "A resume will refill it" in caplog.text
    assert checkpoint.load_run() == {"trained": 1}
    assert checkpoint.load_memory() is None


def test_snapshots_name_no_place_and_come_back_whole(tmp_path: Path) -> None:
    config = Config.from_flags({"game": "/home/me/pong.rom", "csv_file": "/home/me/x.csv", "frame_skip": 3})
    keeper = Keeper(tmp_path / "pong", "pong", 6, config)
    path = keeper.keep_weights(4, 1000, {"conv1": np.arange(3, dtype=np.float32)})
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
