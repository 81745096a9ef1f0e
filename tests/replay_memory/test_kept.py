"""Experience that is kept for good, and what is overwritten beside it, against plain lists."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simple_dqn.config import MemoryConfig
from simple_dqn.errors import UserError
from simple_dqn.replay_memory import ReplayMemory
from simple_dqn.replay_memory.prioritized import Prioritized
from simple_dqn.types import Experience, Step
from tests.replay_memory.transitions import Transition, as_transitions

DISCOUNT = 0.9


@dataclass(frozen=True)
class Setting:
    """A memory that keeps its first `kept` rows, and how much happens."""

    games: int
    history_length: int
    n_step: int
    prioritized: bool
    compression: str
    kept: int  # rows
    others: int  # rows that are overwritten
    steps: int  # after those that are kept
    seed: int

    def memory(self, file: Path | None = None) -> ReplayMemory:
        config = MemoryConfig(
            replay_size=(self.kept + self.others) * self.games, history_length=self.history_length,
            n_step=self.n_step, prioritized=self.prioritized, replay_compression=self.compression,
            replay_file=None if file is None else str(file),
        )  # fmt: skip
        return ReplayMemory(config, self.games, (1, 2), DISCOUNT, np.random.default_rng(self.seed))

    def events(self) -> list[Step]:
        """All steps; action, reward and screen, two bytes, are the experience's number, from 1."""
        rng = np.random.default_rng(self.seed)
        steps = []
        for t in range(self.kept + self.steps):
            numbers = t * self.games + np.arange(self.games) + 1
            steps.append(
                replace(
                    Step.start(np.stack([numbers // 256, numbers % 256], axis=-1)[:, None].astype(np.uint8)),
                    actions=numbers,
                    rewards=numbers.astype(np.float32),
                    terminals=rng.random(self.games) < 0.1,
                    starts=(rng.random(self.games) < 0.1) | (t in (0, self.kept)),
                )
            )
        return steps


@st.composite
def all_settings(draw: st.DrawFn) -> Setting:
    history_length, n_step = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    needed = history_length + n_step
    kept, others = (needed + draw(st.integers(0, 9)) for _ in range(2))
    return Setting(
        draw(st.integers(1, 4)), history_length, n_step, draw(st.booleans()),
        draw(st.sampled_from(("none", "lz4"))), kept, others, draw(st.integers(0, 4 * others)),
        draw(st.integers(0, 999)),
    )  # fmt: skip


def feed(memory: ReplayMemory, setting: Setting, steps: Sequence[Step], first: int = 0) -> None:
    """Let `memory` take in `steps`, of which the first is that number `first` of all."""
    for t, step in enumerate(steps, first + 1):
        memory.add(step)
        if t == setting.kept:
            memory.keep()


@dataclass
class Row:
    """What one game brought in one step."""

    number: int
    start: bool
    terminal: bool


class Part:
    """Rows of one game that follow each other: those that are kept, or the latest of the others."""

    def __init__(self, rows: list[Row], setting: Setting) -> None:
        self.rows, self.history_length, self.n_step = rows, setting.history_length, setting.n_step

    def transitions(self, first: int, end: int) -> dict[int, Transition]:
        """Return the transitions whose first row is one from `first` to `end`, by number."""
        return {self.rows[t].number: self.transition(t) for t in range(first, end) if not self.rows[t].start}

    def transition(self, t: int) -> Transition:
        e, after = t, self.rows[t + 1 : t + self.n_step]
        while after and not self.rows[e].terminal and not after.pop(0).start:
            e += 1
        rewards = [float(row.number) for row in self.rows[t : e + 1]]
        return Transition(
            self.state(self.before(t)),
            rewards + [0.0] * (self.n_step - len(rewards)),
            self.state([*self.before(e), self.rows[e].number]),
            self.rows[e].terminal,
            float(np.float32(DISCOUNT ** len(rewards))),
        )

    def before(self, t: int) -> list[int]:
        """Return the screens of row t's episode before it."""
        screens: list[int] = []
        for row in reversed(self.rows[:t]):
            screens.insert(0, row.number)
            if row.start or row.terminal:
                break
        return screens

    def state(self, screens: list[int]) -> list[int]:
        return ([0] * self.history_length + screens)[-self.history_length :]


def expected(setting: Setting, steps: Sequence[Step]) -> dict[int, Transition]:
    """Return all transitions that a memory should hold after `steps`, by their number."""
    result: dict[int, Transition] = {}
    for e in range(setting.games):
        rows = [Row(int(s.actions[e]), bool(s.starts[e]), bool(s.terminals[e])) for s in steps]
        kept, others = Part(rows[: setting.kept], setting), rows[setting.kept :]
        result |= kept.transitions(1, setting.kept)
        first = setting.history_length if len(others) >= setting.others else 1
        latest = Part(others[-setting.others :], setting)
        result |= latest.transitions(first, len(latest.rows) - setting.n_step + 1)
    return result


def assert_draws(memory: ReplayMemory, transitions: dict[int, Transition]) -> None:
    """See that all `transitions` are drawn from `memory`, and no others."""
    if not transitions:
        with pytest.raises(UserError, match="no action between any two of them"):
            memory.sample(1)
        return
    drawn = list(as_transitions(memory.sample(3000)))
    for number, transition in drawn:
        assert transition == transitions[number]
    assert {number for number, _ in drawn} == set(transitions)


@given(all_settings())
@settings(max_examples=200)
def test_samples_are_the_transitions_of_both_parts_and_no_others(setting: Setting) -> None:
    memory, steps = setting.memory(), setting.events()
    feed(memory, setting, steps)
    assert memory.count == (setting.kept + min(setting.steps, setting.others)) * setting.games
    assert_draws(memory, expected(setting, steps))


@given(all_settings())
@settings(max_examples=100)
def test_whatever_the_errors_all_transitions_have_mass_and_nothing_else(setting: Setting) -> None:
    setting, rng = replace(setting, prioritized=True), np.random.default_rng(setting.seed)
    memory, drawn = setting.memory(), []
    for t, step in enumerate(setting.events()):
        feed(memory, setting, [step], t)
        assert isinstance(memory._sampler, Prioritized)
        masses = memory._sampler._tree.masses
        if not memory.ready:
            continue
        assert sorted(memory._ring.numbers(np.flatnonzero(masses))) == memory._ring.transitions().tolist()
        if masses.any():
            drawn.append(memory.sample(3).numbers)
        if drawn and rng.random() < 0.3:  # long after they were drawn
            memory.update_priorities(drawn.pop(0), 9 * rng.random(3, np.float32) ** 5)


LONG = Setting(2, 3, 3, False, "none", kept=20, others=22, steps=500, seed=1)


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("store", ["memory", "lz4", "file"])
def test_it_is_drawn_when_the_rest_has_gone_round_many_times(
    tmp_path: Path, prioritized: bool, store: str
) -> None:
    setting = replace(LONG, prioritized=prioritized, compression="lz4" if store == "lz4" else "none")
    memory, steps = setting.memory(tmp_path / "replay" if store == "file" else None), setting.events()
    feed(memory, setting, steps)
    assert_draws(memory, expected(setting, steps))
    kept = memory.sample(3000).actions <= setting.kept * setting.games
    assert 0.3 < kept.mean() < 0.7
    screens = np.stack([step.screens for step in steps[: setting.kept]])
    np.testing.assert_array_equal(memory.contents().screens[: setting.kept], screens)


def test_each_transition_is_as_likely() -> None:
    memory, steps = LONG.memory(), LONG.events()
    feed(memory, LONG, steps)
    transitions = expected(LONG, steps)
    actions = np.concatenate([memory.sample(1000).actions for _ in range(100)])
    counts = np.unique(actions, return_counts=True)[1]
    mean = len(actions) / len(transitions)
    chi_square = float(((counts - mean) ** 2 / mean).sum())
    # It is near the number of transitions, give or take the root of twice that.
    assert abs(chi_square - len(transitions)) < 4 * (2 * len(transitions)) ** 0.5


def test_errors_are_heard_of_however_old_it_is() -> None:
    setting = replace(LONG, prioritized=True)
    memory, steps = setting.memory(), setting.events()
    feed(memory, setting, steps[: setting.kept])
    batch = memory.sample(1)
    number, numbers = int(batch.actions[0]), batch.numbers.copy()
    feed(memory, setting, steps[setting.kept :], setting.kept)
    memory.update_priorities(numbers, np.array([1e9], np.float32))
    assert (memory.sample(32).actions == number).all()


def logged(setting: Setting, steps: Sequence[Step]) -> Iterator[Experience]:
    """Yield what is held of `steps` in pieces, as a log has them."""
    others = steps[setting.kept :]
    for part in (steps[: setting.kept], others[-setting.others :]):
        for first in range(0, len(part), 3):
            piece = part[first : first + 3]
            yield Experience(
                *(np.stack([getattr(step, field.name) for step in piece]) for field in fields(Experience))
            )


@given(all_settings(), st.integers(0, 60))
@settings(max_examples=150)
def test_saved_and_restored_memory_goes_on_as_the_first(setting: Setting, after: int) -> None:
    first, second = setting.memory(), replace(setting, seed=1000).memory()
    steps, rng = setting.events(), np.random.default_rng(0)
    saved_at = min(setting.kept + after, len(steps))
    feed(first, setting, steps[:saved_at])
    second.set_state(first.get_state(), logged(setting, steps[:saved_at]))
    for t, step in enumerate(steps[saved_at:], saved_at):
        errors = rng.random(5).astype(np.float32)
        for memory in (first, second):
            feed(memory, setting, [step], t)
            if expected(setting, steps[: t + 1]):
                memory.update_priorities(memory.sample(5, t).numbers, errors)
    assert second.count == first.count
    if transitions := expected(setting, steps):
        one, other = first.sample(7), second.sample(7)
        assert list(as_transitions(one)) == list(as_transitions(other))
        np.testing.assert_array_equal(one.weights, other.weights)
        assert_draws(second, transitions)


def restored(setting: Setting, steps: Sequence[Step], **changes: Any) -> ReplayMemory:
    """Return a memory with `changes` that goes on from one of `setting` after `steps`."""
    first, second = setting.memory(), replace(setting, **changes).memory()
    feed(first, setting, steps)
    second.set_state(first.get_state(), logged(setting, steps))
    return second


@pytest.mark.parametrize("n_step", [1, 6])
def test_it_may_be_drawn_otherwise_from_here_on(n_step: int) -> None:
    steps = LONG.events()
    memory = restored(LONG, steps, n_step=n_step, prioritized=True)
    assert_draws(memory, expected(replace(LONG, n_step=n_step), steps))


def test_transitions_for_which_there_is_no_room_beside_it_are_refused() -> None:
    with pytest.raises(UserError, match=r"room for 22 screens of a game and .* needs 23: lower --n_step"):
        restored(LONG, LONG.events(), n_step=20)


# Sums of what the memory drew before there was anything to keep.
DRAWN = {(1, False): 339438390, (3, False): 1356850448, (1, True): 231870299, (3, True): 492945463}


@pytest.mark.parametrize(("n_step", "prioritized"), DRAWN)
def test_where_nothing_is_kept_the_draws_are_what_they_were(n_step: int, prioritized: bool) -> None:
    setting = replace(LONG, n_step=n_step, prioritized=prioritized, kept=0)
    memory, drawn = setting.memory(), 0
    for t, step in enumerate(setting.events()):
        feed(memory, setting, [step], t)
        if t > 10:
            batch = memory.sample(8)
            drawn = zlib.crc32(batch.numbers.tobytes() + batch.poststates.tobytes(), drawn)
    assert drawn == DRAWN[n_step, prioritized]
