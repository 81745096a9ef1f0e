"""How transitions are drawn, uniformly and by priority, and what stands in the way."""

import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simple_dqn.config import MemoryConfig
from simple_dqn.errors import UserError
from simple_dqn.replay import ReplayMemory
from simple_dqn.samplers import LEAST_PRIORITY, WIDTH, Prioritized, SumTree
from simple_dqn.types import Experience, Mask
from tests.command_line import Patch
from tests.replay_memory.test_replay import first_step, oldest_first

HISTORY, DISCOUNT = 2, 0.9
CONFIG = MemoryConfig(replay_size=60, history_length=HISTORY, priority_exponent=0.6)
BY_PRIORITY: dict[str, Any] = {"sampler": "prioritized"}


def filled(starts: Mask, seed: int = 0, **settings: Any) -> ReplayMemory:
    config = replace(CONFIG, **settings)
    memory = ReplayMemory(config, starts.shape[1], (1, 1), DISCOUNT, np.random.default_rng(seed))
    feed(memory, starts)
    return memory


def feed(memory: ReplayMemory, starts: Mask, first: int = 0) -> None:
    games = starts.shape[1]
    for t, started in enumerate(starts, first):
        step = first_step(np.full((games, 1, 1), t % 256, np.uint8))
        step.actions[:] = t * games + np.arange(games)
        step.starts[:] = started
        memory.add(step)


def now_and_then(steps: range | int) -> Mask:
    """Return the starts of two games, each of which starts anew now and then."""
    numbers = np.arange(steps) if isinstance(steps, int) else np.array(steps)
    return np.equal((numbers[:, np.newaxis] + 5 * np.arange(2)) % 11, 0)


def memory_of(steps: int, seed: int = 0, **settings: Any) -> ReplayMemory:
    return filled(now_and_then(steps), seed, **settings)


def priorities(memory: ReplayMemory) -> dict[int, float]:
    assert isinstance(memory._sampler, Prioritized)
    masses = memory._sampler._up_to_date().masses
    indices = np.flatnonzero(masses)
    numbers = memory._ring.numbers(indices).tolist()
    return dict(zip(numbers, (masses[indices] / masses.sum()).tolist(), strict=True))


def give_errors(memory: ReplayMemory, seed: int) -> dict[int, float]:
    """Let `memory` receive an error for each transition; return p^α by number."""
    numbers = memory._ring.transitions()
    errors = (3 * np.random.default_rng(seed).random(len(numbers)) ** 3).astype(np.float32)
    memory.update_priorities(numbers, errors)
    powers = ((errors.astype(float) + LEAST_PRIORITY) ** CONFIG.priority_exponent).tolist()
    return dict(zip(numbers.tolist(), powers, strict=True))


def chi_square(actions: np.ndarray, expected: dict[int, float]) -> float:
    """Return Σ (n - m)² / m of how often each transition was drawn and how often it should be."""
    drawn = dict(zip(*(column.tolist() for column in np.unique(actions, return_counts=True)), strict=True))
    assert drawn.keys() <= expected.keys()
    return float(sum((drawn.get(number, 0) - mean) ** 2 / mean for number, mean in expected.items()))


@pytest.mark.parametrize("n_step", [1, 4])
def test_every_transition_is_as_likely(n_step: int) -> None:
    starts = np.random.default_rng(3).random((95, 2)) < 0.3
    memory = filled(starts, replay_size=120, n_step=n_step)
    rows = range(95 - 60 + HISTORY, 95 - n_step + 1)
    valid = [2 * t + e for t in rows for e in range(2) if not starts[t, e]]
    actions = np.concatenate([memory.sample(1000).actions for _ in range(100)])
    # It is near the number of transitions, give or take the root of twice that.
    found = chi_square(actions, dict.fromkeys(valid, len(actions) / len(valid)))
    assert abs(found - len(valid)) < 4 * (2 * len(valid)) ** 0.5


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("steps", [20, 75])
def test_transitions_are_drawn_as_often_as_their_priorities_say(steps: int, n_step: int) -> None:
    memory = memory_of(steps, **BY_PRIORITY, n_step=n_step)
    powers = give_errors(memory, 1)
    actions = np.concatenate([memory.sample(32).actions for _ in range(1500)])
    expected = {number: len(actions) * power / sum(powers.values()) for number, power in powers.items()}
    # It is at most near their number, since those drawn together are spread over all of them.
    assert chi_square(actions, expected) < len(expected) + 4 * (2 * len(expected)) ** 0.5


def test_rare_transitions_are_found() -> None:
    starts, rare = np.ones((3000, 1), np.bool_), [700, 701, 2500]
    starts[rare] = False
    assert set(filled(starts, replay_size=3000).sample(300).actions.tolist()) == set(rare)


@pytest.mark.parametrize("sampler", ["uniform", "prioritized"])
@pytest.mark.parametrize(("games", "steps", "n_step", "words"), [
    (1, 1, 1, "1 screen and a transition needs 3"),
    (2, 3, 2, "3 screens of each game and a transition needs 4"),
    (1, 80, 1, "60 screens and no action between any two of them"),
])  # fmt: skip
def test_what_is_missing_is_said(games: int, steps: int, n_step: int, words: str, sampler: str) -> None:
    memory = filled(np.ones((steps, games), np.bool_), n_step=n_step, sampler=sampler)
    assert memory.ready == (steps >= HISTORY + n_step)
    with pytest.raises(UserError, match=f"{words}: raise --random_steps"):
        memory.sample(1)
    feed(memory, np.zeros((3, games), np.bool_))
    assert memory.ready
    memory.sample(3)


def test_memory_that_begins_in_mid_game_begins_its_episode_there(monkeypatch: Patch) -> None:
    monkeypatch.setattr(np, "empty", lambda shape, dtype: np.full(shape, 255, dtype))  # what was there before
    minibatch = filled(np.zeros((4, 1), np.bool_)).sample(100)
    prestates = dict(zip(minibatch.actions.tolist(), minibatch.prestates[:, :, 0, 0].tolist(), strict=True))
    assert prestates == {1: [0, 0], 2: [0, 1], 3: [1, 2]}


# Sums of what an earlier version drew, which is drawn still.
DRAWN = {
    (1, "uniform"): 547958561, (3, "uniform"): 2648757855, (1, "prioritized"): 484131707,
    (3, "prioritized"): 110901056,
}  # fmt: skip


@pytest.mark.parametrize(("n_step", "sampler"), DRAWN)
def test_the_draws_are_what_they_were(n_step: int, sampler: str) -> None:
    memory, drawn = memory_of(75, n_step=n_step, sampler=sampler), 0
    for t in range(75, 200):
        batch = memory.sample(8)
        drawn = zlib.crc32(batch.numbers.tobytes() + batch.poststates.tobytes(), drawn)
        feed(memory, now_and_then(range(t, t + 1)), t)
        memory.update_priorities(batch.numbers, (batch.numbers % 7).astype(np.float32))
    assert drawn == DRAWN[n_step, sampler]


def test_minibatches_are_stratified_and_sampled_states_are_not() -> None:
    memory = memory_of(25, **BY_PRIORITY, priority_exponent=1.0)
    numbers = memory._ring.transitions()
    memory.update_priorities(numbers[7:8], np.array([len(numbers) - 1], np.float32))  # all others have 1
    for _ in range(50):
        assert 15 <= (memory.sample(32).actions == numbers[7]).sum() <= 17
    latest = memory.sample_states(2000)[:, -1, 0, 0]  # the number of the step before
    assert 50 < (latest == numbers[7] // 2 - 1).sum() < 200  # both games have a transition there


@pytest.mark.parametrize(("steps", "beta"), [(0, 0.4), (250, 0.55), (1000, 1.0), (2000, 1.0)])
def test_weights_are_those_of_the_formula(steps: int, beta: float) -> None:
    memory = memory_of(40, **BY_PRIORITY, priority_beta_start=0.4, priority_beta_steps=1000)
    powers = give_errors(memory, 2)
    batch = memory.sample(16, steps)
    odds = np.array([powers[action] for action in batch.actions.tolist()]) / sum(powers.values())
    weights = (len(powers) * odds) ** -beta
    np.testing.assert_allclose(batch.weights, weights / weights.max(), rtol=1e-6)
    assert batch.weights.max() == 1


def test_a_new_transition_has_the_greatest_priority_and_the_last_error_counts() -> None:
    memory = memory_of(20, **BY_PRIORITY, priority_exponent=1.0)
    numbers = memory._ring.transitions()[[3, 5, 3, 7, 5, 3]]
    memory.update_priorities(numbers, np.array([9, 8, 7, 6, 5, 4], np.float32))
    feed(memory, now_and_then(range(20, 21)), 20)
    expected = {numbers[0]: 4, numbers[1]: 5, numbers[3]: 6, 40: 9, 41: 9, memory._ring.transitions()[0]: 1}
    shares = priorities(memory)
    for number, priority in expected.items():
        assert shares[int(number)] / shares[40] == pytest.approx(priority / 9, rel=1e-5)
    uniform = memory_of(75, **BY_PRIORITY, priority_exponent=0.0)
    give_errors(uniform, 3)
    assert len({round(share, 9) for share in priorities(uniform).values()}) == 1


@pytest.mark.parametrize("steps", [1, 29, 100])  # up to three times the ring at once
def test_errors_of_overwritten_transitions_are_ignored(steps: int) -> None:
    memory = memory_of(30, **BY_PRIORITY)
    kept = memory.sample(40).numbers
    feed(memory, now_and_then(range(30, 30 + steps)), 30)
    held = set(memory._ring.transitions().tolist())
    memory.update_priorities(kept, np.full(40, 0.5, np.float32))
    after = priorities(memory)
    assert after.keys() == held
    changed = set(kept.tolist()) & held
    ratio = ((0.5 + LEAST_PRIORITY) / 1.0) ** CONFIG.priority_exponent
    for number, share in after.items():
        assert share / max(after.values()) == pytest.approx(ratio if number in changed else 1)


def restored(memory: ReplayMemory, **settings: Any) -> ReplayMemory:
    result, held = memory_of(7, seed=5, **settings), oldest_first(memory)
    pieces = [Experience._make(values[part] for values in held) for part in (slice(5), slice(5, None))]
    same = type(result._sampler) is type(memory._sampler)
    result.set_state(memory.get_state() | ({} if same else {"sampler": None}), pieces)
    return result


@pytest.mark.parametrize(("steps", "n_step"), [(9, 1), (29, 1), (77, 4)])
def test_a_restored_memory_goes_on_bit_for_bit(steps: int, n_step: int) -> None:
    first = memory_of(steps, **BY_PRIORITY, n_step=n_step)
    give_errors(first, 4)
    second = restored(first, **BY_PRIORITY, n_step=n_step)
    rng = np.random.default_rng(6)
    for t in range(steps, steps + 40):
        batches = [memory.sample(8, t) for memory in (first, second)]
        errors = rng.random(8).astype(np.float32) * 5
        for memory, batch in zip((first, second), batches, strict=True):
            feed(memory, now_and_then(range(t, t + 1)), t)
            memory.update_priorities(batch.numbers, errors)
        for name in ("actions", "rewards", "weights", "prestates", "poststates"):
            ours, theirs = (getattr(batch, name) for batch in batches)
            np.testing.assert_array_equal(ours, theirs, err_msg=name)


@pytest.mark.parametrize(("before", "after"), [
    ({}, BY_PRIORITY), ({**BY_PRIORITY, "n_step": 3}, BY_PRIORITY),
    (BY_PRIORITY, {**BY_PRIORITY, "n_step": 5}), (BY_PRIORITY, {}),
], ids=str)  # fmt: skip
def test_a_memory_goes_on_with_another_sampler(before: dict[str, Any], after: dict[str, Any]) -> None:
    memory = restored(memory_of(50, **before), **after)
    drawn = {action for _ in range(40) for action in memory.sample(40).actions.tolist()}
    assert drawn == set(memory_of(50, **after)._ring.transitions().tolist())


# The tree of sums against the sums themselves, added up one by one.
SIZES = st.one_of(st.integers(1, 100), st.sampled_from((WIDTH - 1, WIDTH, WIDTH + 1, WIDTH**2, WIDTH**2 + 1)))


@given(size=SIZES, changes=st.integers(0, 6), seed=st.integers(0, 10**6), whole=st.booleans())
@settings(max_examples=80)
def test_the_tree_finds_what_a_plain_sum_finds(size: int, changes: int, seed: int, whole: bool) -> None:
    rng, tree, masses = np.random.default_rng(seed), SumTree(size), np.zeros(size)
    for _ in range(changes):
        indices = rng.integers(0, size, rng.integers(0, size + 1))  # some of them equal: the last counts
        values = rng.integers(0, 5, len(indices)).astype(np.float64)
        values *= 1 if whole else rng.random(len(indices)) ** 9  # whole numbers are added without rounding
        for index, value in zip(indices, values, strict=True):
            masses[index] = value
        tree.set(indices, values)
    np.testing.assert_array_equal(tree.masses[:size], masses)
    assert tree.total == pytest.approx(masses.sum(), rel=1e-12)
    at_once = SumTree(size)  # it depends on the masses alone
    at_once.set(np.arange(size), masses)
    assert at_once.total == tree.total
    for ours, theirs in zip(at_once._levels, tree._levels, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    if not tree.total:
        return
    sums = masses.cumsum()
    points = np.concatenate((rng.random(100) * tree.total, np.arange(tree.total)))
    if not whole:
        points = np.clip(np.concatenate((points, sums, np.nextafter(sums, 0))), 0, tree.total)
    indices, found = tree.find(points)
    assert (indices < size).all()
    assert (found > 0).all()
    np.testing.assert_array_equal(found, masses[indices])
    if whole:
        np.testing.assert_array_equal(indices, np.searchsorted(sums, points, side="right"))
