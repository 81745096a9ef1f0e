"""The replay memory against plain lists of what the agent saw, did and got; its screens, compressed too."""

import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import lz4.block
import numpy as np
import psutil
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from simple_dqn.config import MemoryConfig
from simple_dqn.device import Device, DeviceScreens
from simple_dqn.errors import UserError
from simple_dqn.replay import ENTRY, OBJECT, CompressedScreens, ReplayMemory
from simple_dqn.types import Experience, Ids, Minibatch, Screens, Step, on_host
from tests.command_line import Logs, Patch

DISCOUNT = 0.9


def make_memory(
    games: int, size: int, shape: tuple[int, int], kind: str = "none", seed: int = 0, **settings: Any
) -> ReplayMemory:
    """Return a memory whose screens are plain (none), compressed (lz4), or on the device cpu or cuda."""
    compression = "lz4" if kind == "lz4" else "none"
    config, screens = MemoryConfig(replay_size=size, replay_compression=compression, **settings), None
    if kind in ("cpu", "cuda"):
        device = Device(torch.device(kind), "float32")
        screens = DeviceScreens(config.rows(games), games, shape, device)
    return ReplayMemory(config, games, shape, DISCOUNT, np.random.default_rng(seed), screens)


@dataclass
class Transition:
    prestate: list[int]  # numbers of the screens
    rewards: list[float]
    poststate: list[int]
    terminal: bool
    discount: float


def as_transitions(minibatch: Minibatch) -> Iterator[tuple[int, Transition]]:
    both = (np.asarray(states, int) for states in (minibatch.prestates, minibatch.poststates))
    pre, post = (states[..., 0, 0] * 256 + states[..., 0, 1] for states in both)
    columns = (minibatch.actions, pre, minibatch.rewards, post, minibatch.terminals, minibatch.discounts)
    for number, *values in zip(*(column.tolist() for column in columns), strict=True):
        yield number, Transition(*values)


def transitions_of(memory: ReplayMemory, numbers: Ids) -> Minibatch:
    sampler: Any = SimpleNamespace(draw=lambda *_: (numbers, np.ones(len(numbers), np.float32)))
    return memory.sample(len(numbers), sampler=sampler)


def first_step(screens: Screens) -> Step:
    """Return the step that begins E new games with `screens` uint8 [E, H, W]."""
    games = len(screens)
    actions, rewards = np.zeros(games, np.int64), np.zeros(games, np.float32)
    terminals, truncations, resets = np.zeros((3, games), np.bool_)
    return Step(screens, actions, rewards, terminals, truncations, resets, np.ones(games, np.bool_))


def contents(memory: ReplayMemory) -> Experience:
    """Return a copy of what `memory` holds, by rows of its ring: oldest first until the ring is full."""
    ring, screens = memory._ring, memory._screens
    held, indices = ring.held, np.arange(ring.held * ring.games)
    shown = np.array(on_host(screens.gather(indices[:, np.newaxis], np.zeros((len(indices), 0), np.bool_))))
    return Experience(
        screens=shown.reshape(held, ring.games, *shown.shape[2:]),
        actions=memory._actions[:held].copy(),
        rewards=memory._rewards[:held].copy(),
        terminals=ring.terminals[:held].copy(),
        starts=ring.starts[:held].copy(),
    )


def oldest_first(memory: ReplayMemory) -> Experience:
    held, position = contents(memory), memory._ring.written % memory._ring.rows
    return Experience._make(np.roll(array, -position, axis=0) for array in held)


SPELLED = (1, 2)  # two bytes that spell the number of the experience
EVENTS = ("goes on", "life lost", "game over", "cut off", "restarted")


def screen(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return screens uint8 [E, 1, 2] that differ for each of `numbers`; zero is the black screen."""
    return np.stack([numbers // 256, numbers % 256], axis=-1)[..., np.newaxis, :].astype(np.uint8)


@dataclass
class Story:
    games: int
    history_length: int
    n_step: int
    sampler: str
    kind: str  # of the memory's screens
    rows: int
    events: list[list[str]]

    def steps(self) -> Iterator[Step]:
        """The steps in which it happens; actions and screens are the experience's number, from 1."""
        starts = np.ones(self.games, np.bool_)
        for t, events in enumerate(self.events):
            numbers = t * self.games + np.arange(self.games) + 1
            _, lost, over, cut, restarted = (np.array(events) == event for event in EVENTS)
            starts = starts | restarted
            lost, over, cut = lost & ~starts, over & ~starts, cut & ~starts
            rewards = np.where(starts, 0, numbers / 8).astype(np.float32)
            actions = np.where(starts, 0, numbers)
            yield Step(screen(numbers), actions, rewards, over | lost, cut, over | cut, starts)
            starts = over | cut

    def memory(self) -> ReplayMemory:
        return make_memory(
            self.games, self.rows * self.games, SPELLED, self.kind, sampler=self.sampler,
            history_length=self.history_length, n_step=self.n_step,
        )  # fmt: skip


class ListMemory:
    """One game's memory as lists: it follows each episode from its beginning, and never looks back."""

    def __init__(self, history_length: int, n_step: int, rows: int) -> None:
        self.history_length, self.n_step = history_length, n_step
        self.rows: deque[tuple[int, Transition | None]] = deque(maxlen=rows)
        self.episode: list[int] = []

    def add(self, number: int, start: bool, reward: float, terminal: bool) -> None:
        if start or not self.rows:
            self.episode = [number]
            self.rows.append((number, None))
        else:
            prestate = self.state()
            self.episode.append(number)
            self.rows.append((number, Transition(prestate, [reward], self.state(), terminal, DISCOUNT)))
        if terminal:
            self.episode = [number]

    def state(self) -> list[int]:
        return ([0] * self.history_length + self.episode)[-self.history_length :]

    def transitions(self) -> dict[int, Transition]:
        """Those whose screens are all held, or that are as old as the memory's first, by number."""
        full, held = len(self.rows) == self.rows.maxlen, list(self.rows)
        result = {}
        for place in range(self.history_length if full else 0, len(held) - self.n_step + 1):
            number, first = held[place]
            if first is not None:
                result[number] = self.of_many_steps(first, [one for _, one in held[place + 1 :]])
        return result

    def of_many_steps(self, first: Transition, others: list[Transition | None]) -> Transition:
        """Return `first` together with those of the next steps that are still of its episode."""
        together, last = [first], first
        for one in others[: self.n_step - 1]:
            if last.terminal or one is None:
                break
            together.append(last := one)
        rewards = [one.rewards[0] for one in together] + [0.0] * (self.n_step - len(together))
        discount = float(np.float32(DISCOUNT ** len(together)))
        return Transition(first.prestate, rewards, last.poststate, last.terminal, discount)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    games = draw(st.integers(1, 4))
    history_length, n_step = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    rows = draw(st.integers(history_length + n_step, history_length + n_step + 12))
    # Mostly games go on, so that whole windows lie within an episode too.
    event = st.sampled_from(("goes on",) * draw(st.sampled_from((1, 12))) + EVENTS)
    step = st.lists(event, min_size=games, max_size=games)
    length = draw(st.integers(1, 3 * rows))
    events = draw(st.lists(step, min_size=length, max_size=length))
    sampler = draw(st.sampled_from(("uniform", "prioritized")))
    kind = draw(st.sampled_from(("none", "lz4", "cpu")))
    return Story(games, history_length, n_step, sampler, kind, rows, events)


def expected_transitions(story: Story) -> dict[int, Transition]:
    lists = [ListMemory(story.history_length, story.n_step, story.rows) for _ in range(story.games)]
    for t, step in enumerate(story.steps()):
        for e, memory in enumerate(lists):
            number = t * story.games + e + 1
            memory.add(number, bool(step.starts[e]), float(step.rewards[e]), bool(step.terminals[e]))
    return {number: one for memory in lists for number, one in memory.transitions().items()}


@given(stories())
@settings(max_examples=100)
def test_samples_are_all_the_transitions_of_a_plain_list_and_no_others(story: Story) -> None:
    memory = story.memory()
    for step in story.steps():
        memory.add(step)
    held = min(len(story.events), story.rows)
    assert memory.count == held * story.games
    expected = expected_transitions(story)
    if held < story.history_length + story.n_step or not expected:
        with pytest.raises(UserError, match="raise --random_steps"):
            memory.sample(1)
        return
    drawn = list(as_transitions(memory.sample(900)))
    for number, transition in drawn:
        assert transition == expected[number]
    assert {number for number, _ in drawn} == set(expected)


SCREEN_SHAPE, ATARI = (9, 7), (84, 84)


def feed(memories: list[ReplayMemory], games: int, steps: int, seed: int = 1) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        noise = rng.integers(0, 256, (games, *SCREEN_SHAPE), np.uint8)  # unlike one gray, incompressible
        step = first_step(np.where(rng.random((games, 1, 1)) < 0.5, noise, noise[:, :1, :1])[:, ::-1])
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
    first, second = (make_memory(3, 60, SCREEN_SHAPE, kind, seed=len(kind)) for kind in kinds.split())
    feed([first], 3, steps)
    feed([second], 3, 25, seed=2)
    second.set_state(first.get_state(), [oldest_first(first)])
    for _ in range(3):
        assert_same(first.sample(16), second.sample(16))
        np.testing.assert_array_equal(first.sample_states(5), second.sample_states(5))
        np.testing.assert_array_equal(contents(first).screens, contents(second).screens)
        feed([first, second], 3, 11, seed=3)


def bytes_of(memory: ReplayMemory) -> int:
    """Return the bytes of the screens and of all other arrays that the memory fills."""
    values = [value for part in (memory, memory._ring) for value in vars(part).values()]
    return memory._screens.nbytes + sum(value.nbytes for value in values if isinstance(value, np.ndarray))


def test_bytes_that_are_held(monkeypatch: Patch) -> None:
    screens = CompressedScreens(5, 1, ATARI)
    noise = np.random.default_rng(1).integers(0, 256, (1, *ATARI), np.uint8)
    for row in (0, 1, 1, 4):
        screens.write(row, noise)
    block = len(lz4.block.compress(noise[0], store_size=False))
    assert screens.nbytes == 5 * ENTRY + 3 * (OBJECT + block)
    available(monkeypatch, lambda: 10**11)
    before = psutil.Process().memory_info().rss
    memory = make_memory(1, 1_000_000, ATARI)
    assert 7_056_000_000 < bytes_of(memory) <= 7_200_000_000
    assert psutil.Process().memory_info().rss - before < 100_000_000


def available(monkeypatch: Patch, count: Callable[[], int]) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=count()))
    monkeypatch.setattr("simple_dqn.machine.control_group_allowances", lambda: [])


@pytest.mark.parametrize(("kind", "free", "words", "refused"), [
    ("none", 30_000_000, r"needs 7\.07 GB of memory .* spare 0\.027 GB: --replay_size (\d+) fits", True),
    ("lz4", 200_000_000, r"needs 0\.299 GB to 2\.42 GB of memory .* --replay_size (\d+) fits", True),
    ("lz4", 2_000_000_000, r"0\.299 GB to 2\.42 GB .* 1\.8 GB.* --replay_size (\d+) fits in any case", False),
])  # fmt: skip
def test_too_little_memory_is_reported_with_a_size_that_fits(
    kind: str, free: int, words: str, refused: bool, monkeypatch: Patch,
    caplog: Logs,
) -> None:  # fmt: skip
    available(monkeypatch, lambda: free)
    with pytest.raises(UserError, match=r"^--replay_size 1000000 ") if refused else nullcontext() as error:
        make_memory(1, 1_000_000, ATARI, kind)
    found = re.search(words, str(error.value) if error else caplog.messages.pop())
    assert found
    caplog.clear()
    assert bytes_of(make_memory(1, int(found[1]), ATARI, kind)) <= free
    assert refused or not caplog.messages
    with pytest.raises(UserError) if kind == "none" else nullcontext():
        make_memory(1, round(1.1 * int(found[1])), ATARI, kind)


def test_a_rollout_that_does_not_fit_is_refused(monkeypatch: Patch) -> None:
    available(monkeypatch, lambda: 10**9)
    config = MemoryConfig(rollout_steps=10_000)
    with pytest.raises(UserError, match=r"^--rollout_steps 10000 needs 4\.53 GB .*: lower it or --workers$"):
        ReplayMemory(config, 64, ATARI, 0.99, np.random.default_rng(0))


def test_memory_that_runs_short_ends_the_run(monkeypatch: Patch) -> None:
    screens = CompressedScreens(100_000, 1, ATARI)
    noise = np.random.default_rng(0).integers(0, 256, (1, *ATARI), np.uint8)
    words = r"takes 0\.3 GB for 4\d{4} of 100000 experiences .* 0\.09\d+ GB left: lower"
    available(monkeypatch, lambda: 400_000_000 - screens.nbytes)
    with pytest.raises(UserError, match=words):  # noqa: PT012
        for row in range(100_000):
            screens.write(row, noise)
    np.testing.assert_array_equal(screens.gather(np.array([[1]]), np.zeros((1, 0), np.bool_))[0], noise)
