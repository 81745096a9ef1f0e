"""Transitions of the replay memory against plain lists of what the agent saw, did and got."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from simple_dqn.errors import UserError
from simple_dqn.replay import ReplayMemory
from simple_dqn.types import Step
from tests.replay_memory.transitions import DISCOUNT, Transition, as_transitions, make_memory

SCREEN_SHAPE = (1, 2)  # two bytes that spell the number of the experience
EVENTS = ("goes on", "life lost", "game over", "cut off", "restarted")


def screen(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return screens uint8 [E, 1, 2] that differ for each of `numbers`; zero is the black screen."""
    return np.stack([numbers // 256, numbers % 256], axis=-1)[..., np.newaxis, :].astype(np.uint8)


@dataclass
class Story:
    """What happens to E games: an event for each game and step."""

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
            self.games, self.rows * self.games, SCREEN_SHAPE, self.kind, sampler=self.sampler,
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


def remembered(story: Story) -> dict[int, Transition]:
    """Return all transitions that a memory should hold after `story`, by their number."""
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
    expected = remembered(story)
    if held < story.history_length + story.n_step or not expected:
        with pytest.raises(UserError, match="raise --random_steps"):
            memory.sample(1)
        return
    drawn = list(as_transitions(memory.sample(900)))
    for number, transition in drawn:
        assert transition == expected[number]
    assert {number for number, _ in drawn} == set(expected)
