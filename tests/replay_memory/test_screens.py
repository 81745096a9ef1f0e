"""Compressed screens against plain ones, and the memory that both take."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import lz4.block
import numpy as np
import psutil
import pytest
import torch

from simple_dqn.errors import UserError
from simple_dqn.replay import ENTRY, OBJECT, CompressedScreens, ReplayMemory
from simple_dqn.types import Minibatch, Screens, Step
from tests.contents import contents_of, oldest_first
from tests.replay_memory.transitions import make_memory

SCREEN_SHAPE, ATARI = (9, 7), (84, 84)


def memory_of(
    kind: str, games: int, size: int, shape: tuple[int, int] = SCREEN_SHAPE, **how: Any
) -> ReplayMemory:
    return make_memory(games, size, shape, kind, **how)


def screens_of(rng: np.random.Generator, games: int, shape: tuple[int, int] = SCREEN_SHAPE) -> Screens:
    """Return screens of which some are noise, which nothing compresses, and some are of one gray."""
    noise = rng.integers(0, 256, (games, *shape), np.uint8)
    return np.where(rng.random((games, 1, 1)) < 0.5, noise, noise[:, :1, :1])[:, ::-1]  # strided


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
        values = (getattr(batch, name) for batch in (one, other))
        ours, theirs = (each.cpu().numpy() if isinstance(each, torch.Tensor) else each for each in values)
        np.testing.assert_array_equal(ours, theirs, name)


@pytest.mark.parametrize("kinds", ["none lz4", "lz4 none", "cpu lz4", "lz4 cpu"])
@pytest.mark.parametrize("steps", [8, 33])  # part of the ring, all of it and some again
def test_what_is_held_passes_from_any_kind_to_any(kinds: str, steps: int) -> None:
    first, second = (memory_of(kind, 3, 60, seed=len(kind)) for kind in kinds.split())
    feed([first], 3, steps)
    feed([second], 3, 25, seed=2)
    second.set_state(first.get_state(), [oldest_first(first)])
    for _ in range(3):
        assert_same(first.sample(16), second.sample(16))
        np.testing.assert_array_equal(first.sample_states(5), second.sample_states(5))
        np.testing.assert_array_equal(contents_of(first).screens, contents_of(second).screens)
        feed([first, second], 3, 11, seed=3)


def test_bytes_are_those_of_the_blocks_that_are_held() -> None:
    screens = CompressedScreens(5, 1, ATARI)
    noise = np.random.default_rng(1).integers(0, 256, (1, *ATARI), np.uint8)
    for row in (0, 1, 1, 4):
        screens.write(row, noise)
    block = len(lz4.block.compress(noise[0], store_size=False))
    assert screens.nbytes == 5 * ENTRY + 3 * (OBJECT + block)


def test_million_experiences_take_nothing_before_they_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    available(monkeypatch, lambda: 10**11)
    before = psutil.Process().memory_info().rss
    memory = memory_of("none", 1, 1_000_000, ATARI)
    assert 7_056_000_000 < memory.nbytes <= 7_200_000_000
    assert psutil.Process().memory_info().rss - before < 100_000_000


def available(monkeypatch: pytest.MonkeyPatch, count: Callable[[], int]) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=count()))
    monkeypatch.setattr("simple_dqn.machine.control_group_allowances", lambda: [])


@pytest.mark.parametrize(("kind", "free", "words", "refused"), [
    ("none", 30_000_000, r"needs 7\.07 GB of memory .* spare 0\.027 GB: --replay_size (\d+) fits", True),
    ("lz4", 200_000_000, r"needs 0\.299 GB to 2\.42 GB of memory .* --replay_size (\d+) fits", True),
    ("lz4", 2_000_000_000, r"0\.299 GB to 2\.42 GB .* 1\.8 GB.* --replay_size (\d+) fits in any case", False),
])  # fmt: skip
def test_too_little_memory_is_said_before_the_run_with_a_size_that_fits(
    kind: str, free: int, words: str, refused: bool, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    available(monkeypatch, lambda: free)
    with pytest.raises(UserError, match=r"^--replay_size 1000000 ") if refused else nullcontext() as error:
        memory_of(kind, 1, 1_000_000, ATARI)
    found = re.search(words, str(error.value) if error else caplog.messages.pop())
    assert found
    caplog.clear()
    assert memory_of(kind, 1, int(found[1]), ATARI).nbytes <= free
    assert refused or not caplog.messages
    with pytest.raises(UserError) if kind == "none" else nullcontext():
        memory_of(kind, 1, round(1.1 * int(found[1])), ATARI)


def test_memory_that_runs_short_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    screens = CompressedScreens(100_000, 1, ATARI)
    noise = np.random.default_rng(0).integers(0, 256, (1, *ATARI), np.uint8)
    words = r"takes 0\.3 GB for 4\d{4} of 100000 experiences .* 0\.09\d+ GB left: lower"
    available(monkeypatch, lambda: 400_000_000 - screens.nbytes)
    with pytest.raises(UserError, match=words):  # noqa: PT012
        for row in range(100_000):
            screens.write(row, noise)
    np.testing.assert_array_equal(screens.gather(np.array([[1]]), None)[0], noise)
