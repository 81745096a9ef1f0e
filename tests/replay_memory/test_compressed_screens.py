"""Compressed screens against plain ones, and how much memory they take."""

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lz4.block
import numpy as np
import psutil
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from simple_dqn import rules
from simple_dqn.config import Config, MemoryConfig
from simple_dqn.errors import UserError
from simple_dqn.replay_memory import ReplayMemory
from simple_dqn.replay_memory.compressed_screens import ENTRY, OBJECT, CompressedScreens
from simple_dqn.replay_memory.screens import HostScreens
from simple_dqn.types import Experience, Minibatch, Screens, Step
from tests.contents import contents_of

SCREEN_SHAPE = (9, 7)
KINDS = ("none", "lz4")


def memory_of(
    compression: str,
    games: int,
    size: int,
    shape: tuple[int, int] = SCREEN_SHAPE,
    seed: int = 0,
    **settings: Any,
) -> ReplayMemory:
    config = MemoryConfig(replay_size=size, replay_compression=compression, **settings)
    return ReplayMemory(config, games, shape, 0.99, np.random.default_rng(seed))


def screens_of(rng: np.random.Generator, games: int, shape: tuple[int, int] = SCREEN_SHAPE) -> Screens:
    """Return screens of which some are noise, which nothing compresses, and some are of one grey."""
    noise = rng.integers(0, 256, (games, *shape), np.uint8)
    return np.where(rng.random((games, 1, 1)) < 0.5, noise, noise[:, :1, :1])


def feed(memories: list[ReplayMemory], games: int, steps: int, seed: int = 1) -> None:
    """Give each of `memories` the same `steps` steps, in which games end and lives are lost."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        step = Step.start(screens_of(rng, games))
        step.actions[:] = rng.integers(0, 6, games)
        step.rewards[:] = rng.random(games)
        step.terminals[:] = rng.random(games) < 0.1
        step.starts[:] = rng.random(games) < 0.1
        for memory in memories:
            memory.add(step)


def assert_same(one: Minibatch, other: Minibatch) -> None:
    for name in Minibatch.__slots__:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)


# A small ring may hold the starts of games and no transition: then there is nothing to draw.
@given(
    games=st.integers(1, 5),
    rows=st.integers(8, 30),
    steps=st.integers(12, 90),
    n_step=st.integers(1, 4),
    prioritized=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=60)
def test_minibatches_are_those_of_plain_screens(
    games: int, rows: int, steps: int, n_step: int, prioritized: bool, seed: int
) -> None:
    plain, compressed = (
        memory_of(kind, games, rows * games, n_step=n_step, prioritized=prioritized) for kind in KINDS
    )
    feed([plain, compressed], games, steps, seed)
    assume(len(plain._ring.transitions()))
    for batch_size in (1, 32, 32, 7):
        assert_same(plain.sample(batch_size), compressed.sample(batch_size))
    np.testing.assert_array_equal(plain.sample_states(5), compressed.sample_states(5))
    np.testing.assert_array_equal(contents_of(plain).screens, contents_of(compressed).screens)


def oldest_first(memory: ReplayMemory) -> Experience:
    """Return what `memory` holds as a log of it would have it."""
    contents, position = contents_of(memory), memory.get_state()["ring"]["position"]
    rolled = {
        field.name: np.roll(getattr(contents, field.name), -position, axis=0) for field in fields(contents)
    }
    return Experience(**rolled)


@pytest.mark.parametrize("giver", KINDS)
@pytest.mark.parametrize("taker", KINDS)
@pytest.mark.parametrize("steps", [8, 20, 33])  # part of the ring, all of it, and some again
def test_what_is_held_passes_from_any_kind_to_any(giver: str, taker: str, steps: int) -> None:
    first, second = memory_of(giver, 3, 60), memory_of(taker, 3, 60, seed=5)
    feed([first], 3, steps)
    feed([second], 3, 25, seed=2)
    second.set_state(first.get_state(), [oldest_first(first)])
    for _ in range(3):
        assert_same(first.sample(16), second.sample(16))
        feed([first, second], 3, 11, seed=3)


@pytest.mark.parametrize("noisy", [False, True])
def test_screens_of_any_order_and_size(noisy: bool) -> None:
    """Rows are written at random, over several arenas, so none lies where it would in a ring."""
    rng, shape, rows, games = np.random.default_rng(3), (84, 84), 130, 3
    plain, compressed = HostScreens(rows, games, shape), CompressedScreens(rows, games, shape)
    for row in [*range(rows), *rng.integers(0, rows, 400).tolist()]:
        screens = rng.integers(0, 256, (games, *shape), np.uint8) if noisy else screens_of(rng, games, shape)
        plain.write(row, screens)
        compressed.write(row, screens)
    every = np.arange(rows * games)[:, np.newaxis]
    np.testing.assert_array_equal(plain.gather(every, None), compressed.gather(every, None))
    windows = rng.integers(0, rows * games, (20, 5))
    hidden = rng.random((20, 3)) < 0.3
    np.testing.assert_array_equal(plain.gather(windows, hidden), compressed.gather(windows, hidden))
    np.testing.assert_array_equal(plain.gather(windows, None), compressed.gather(windows, None))


def test_screens_that_are_parts_of_others_are_kept() -> None:
    wide = np.random.default_rng(0).integers(0, 256, (2, 9, 14), np.uint8)
    screens = CompressedScreens(4, 2, SCREEN_SHAPE)
    screens.write(0, wide[:, :, ::2])
    np.testing.assert_array_equal(screens.gather(np.array([[0, 1]]), None)[0], wide[:, :, ::2])


def resident_bytes() -> int:
    """Return the bytes of memory that this process really has."""
    return int(psutil.Process().memory_info().rss)


def test_memory_does_not_grow_over_wraps() -> None:
    """Blocks of 50 to 7,000 bytes replace each other, in no order of lengths, twenty times over."""
    rng, rows, shape = np.random.default_rng(4), 3000, (84, 84)
    pool = rng.integers(0, 256, (50, 1, *shape), np.uint8)
    for lines, screen in enumerate(pool):
        screen[:, 84 * lines // 50 :] = 0
    lengths = [len(lz4.block.compress(screen, store_size=False)) for screen in pool]
    screens, held, resident = CompressedScreens(rows, 1, shape), [], []
    for _ in range(20):
        numbers = rng.integers(50, size=rows)
        for row, number in enumerate(numbers):
            screens.write(row, pool[number])
        held.append(screens.nbytes)
        resident.append(resident_bytes())
        assert screens.nbytes == (ENTRY + OBJECT) * rows + sum(lengths[number] for number in numbers)
    assert max(resident) - resident[0] < max(held) - held[0] + 2**20


FILL = """
import numpy as np, psutil
from simple_dqn.replay_memory.compressed_screens import CompressedScreens

rows, shape = 4000, (84, 84)
pool = np.random.default_rng(4).integers(0, 256, (50, 1, *shape), np.uint8)
CompressedScreens(rows, 1, shape).write(0, pool[0])  # what the library itself takes
before = psutil.Process().memory_info().rss
screens = CompressedScreens(rows, 1, shape)
empty = screens.nbytes
for row in range(rows):
    screens.write(row, pool[row % 50])
print(empty, screens.nbytes, psutil.Process().memory_info().rss - before)
"""


def test_bytes_are_those_really_held() -> None:
    """In a process of its own, whose heap has no room left by other tests."""
    source = Path(__file__).parents[2] / "src"
    command = [sys.executable, "-P", "-c", FILL]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(source)}, capture_output=True)
    empty, told, resident = map(int, done.stdout.split())
    assert empty < 100_000
    assert told > 4000 * 84 * 84  # noise does not shrink
    assert abs(resident - told) < 0.05 * told


def available(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=count))
    monkeypatch.setattr("simple_dqn.machine.control_group_allowances", lambda: [])


def test_memory_that_may_be_too_little_is_said_before(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    available(monkeypatch, 2_000_000_000)
    memory_of("lz4", 1, 1_000_000, (84, 84))
    [message] = caplog.messages
    assert message.startswith("--replay_size 1000000 takes 0.299 GB to 2.42 GB of memory")
    found = re.search(r"can spare 1.8 GB: --replay_size (\d+) would fit", message)
    assert found
    caplog.clear()
    memory_of("lz4", 1, int(found[1]), (84, 84))
    assert not caplog.messages
    with pytest.raises(UserError, match=r"--replay_size 1000000 needs 7\.07 GB"):
        memory_of("none", 1, 1_000_000, (84, 84))


def test_memory_that_is_surely_too_little_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    available(monkeypatch, 200_000_000)
    with pytest.raises(UserError, match=r"--replay_size 1000000 needs 0\.299 GB of memory"):
        memory_of("lz4", 1, 1_000_000, (84, 84))


def test_memory_that_runs_short_is_said_and_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    screens = CompressedScreens(100_000, 1, (84, 84))
    noise = np.random.default_rng(0).integers(0, 256, (1, 84, 84), np.uint8)

    def fill() -> None:
        for row in range(100_000):
            available(monkeypatch, 400_000_000 - screens.nbytes)
            screens.write(row, noise)

    with pytest.raises(
        UserError, match=r"takes 0\.3 GB for 4\d{4} of 100000 experiences .* 0\.09\d+ GB left: lower"
    ):
        fill()
    [message] = caplog.messages
    assert "so all will take 0.712 GB more, and this machine has 0.398 GB left" in message
    np.testing.assert_array_equal(screens.gather(np.array([[1]]), None)[0], noise)


def test_screens_lie_in_one_place() -> None:
    rules.check(Config.from_flags({"replay_compression": "lz4"}))
    rules.check(Config.from_flags({"replay_compression": "lz4", "replay_device": "memory"}))
    with pytest.raises(UserError, match="--replay_compression lz4 keeps the screens in RAM and"):
        rules.check(Config.from_flags({"replay_compression": "lz4", "replay_device": "gpu"}))
