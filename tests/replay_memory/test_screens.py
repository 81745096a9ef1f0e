"""Screens in memory and in a memory-mapped file, and what stands in their way."""

import re
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from simple_dqn.config import MemoryConfig
from simple_dqn.errors import UserError
from simple_dqn.replay_memory import ReplayMemory
from simple_dqn.types import Minibatch, Step

GAMES, SCREEN_SHAPE, ROWS = 2, (3, 5), 12
FILE_SIZE = ROWS * GAMES * 3 * 5


def memory_in(file: Path | None) -> ReplayMemory:
    config = MemoryConfig(replay_size=ROWS * GAMES, replay_file=None if file is None else str(file))
    return ReplayMemory(config, GAMES, SCREEN_SHAPE, 0.99, np.random.default_rng(0))


def fill(memory: ReplayMemory, steps: int) -> None:
    rng = np.random.default_rng(1)
    for t in range(steps):
        step = Step.start(rng.integers(0, 256, (GAMES, *SCREEN_SHAPE), np.uint8))
        step.starts[:] = t % 9 == 0
        memory.add(step)


def assert_same(one: Minibatch, other: Minibatch) -> None:
    for name in Minibatch.__slots__:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_file_and_memory_hold_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_memory = memory_in(None)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=0))
    in_file = memory_in(tmp_path / "replay")
    for memory in (in_memory, in_file):
        fill(memory, ROWS + 5)
    for batch_size in (1, 32):
        assert_same(in_memory.sample(batch_size), in_file.sample(batch_size))
    assert (tmp_path / "replay").read_bytes() == in_memory.contents().screens.tobytes()


def test_new_file_has_its_size_and_takes_no_disk(tmp_path: Path) -> None:
    file = tmp_path / "replay"
    config = MemoryConfig(replay_size=10_000, replay_file=str(file))
    ReplayMemory(config, 1, (84, 84), 0.99, np.random.default_rng(0))
    assert file.stat().st_size == 10_000 * 84 * 84
    assert file.stat().st_blocks * 512 < 1_000_000


def test_file_of_an_earlier_run_is_used_again(tmp_path: Path) -> None:
    fill(memory_in(tmp_path / "replay"), ROWS)
    again, fresh = memory_in(tmp_path / "replay"), memory_in(None)
    for memory in (again, fresh):
        fill(memory, 6)
    assert_same(again.sample(32), fresh.sample(32))


def test_file_in_use_is_refused(tmp_path: Path) -> None:
    first = memory_in(tmp_path / "replay")
    with pytest.raises(UserError, match="in use by another run"):
        memory_in(tmp_path / "replay")
    del first
    memory_in(tmp_path / "replay")


def test_file_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text("epoch,phase\n")
    with pytest.raises(UserError, match=f"exists and is not a replay memory of {FILE_SIZE} bytes"):
        memory_in(tmp_path / "results.csv")
    assert (tmp_path / "results.csv").read_text() == "epoch,phase\n"


@pytest.mark.parametrize("name", ["absent/replay", "", "results.csv/replay"])
def test_path_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "results.csv").write_text("epoch,phase\n")
    with pytest.raises(UserError, match=r"cannot be written \(.+\): name a file that can"):
        memory_in(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["results.csv"]


def test_disk_with_too_little_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=FILE_SIZE - 1))
    with pytest.raises(UserError, match="lower --replay_size"):
        memory_in(tmp_path / "replay")
    assert not (tmp_path / "replay").exists()


@contextmanager
def files_limited() -> Iterator[None]:
    """Let no file of this process grow beyond a hundred bytes: pytest's own log neither."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_file_that_cannot_grow_is_not_left_behind(tmp_path: Path) -> None:
    with files_limited(), pytest.raises(UserError, match="cannot be written"):
        memory_in(tmp_path / "replay")
    assert not (tmp_path / "replay").exists()


def memory_for(replay_size: int) -> ReplayMemory:
    config = MemoryConfig(replay_size=replay_size)
    return ReplayMemory(config, 1, (84, 84), 0.99, np.random.default_rng(0))


def test_too_little_memory_names_a_size_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=30_000_000))
    with pytest.raises(UserError, match="--replay_file PATH keeps the screens on disk") as error:
        memory_for(1_000_000)
    message = str(error.value)
    assert message.startswith(
        "--replay_size 1000000 needs 7.07 GB of memory and this machine can spare 0.027 GB"
    )
    found = re.search(r"--replay_size (\d+) fits", message)
    assert found
    fits = int(found[1])
    assert memory_for(fits).nbytes <= 30_000_000
    with pytest.raises(UserError):
        memory_for(round(1.1 * fits))


def test_million_experiences_take_what_was_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=10**11))
    monkeypatch.setattr("simple_dqn.machine.control_group_allowances", lambda: [])
    process = psutil.Process()
    before = process.memory_info().rss
    memory = memory_for(1_000_000)
    assert 7_056_000_000 < memory.nbytes <= 7_200_000_000
    assert process.memory_info().rss - before < 100_000_000  # nothing is taken before it is filled
