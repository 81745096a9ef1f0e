"""Drawing by priority: how often, with which weights, and what becomes of priorities as experience comes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from simple_dqn.config import MemoryConfig
from simple_dqn.errors import UserError
from simple_dqn.replay_memory import ReplayMemory
from simple_dqn.replay_memory.memory import OTHER_BYTES
from simple_dqn.replay_memory.prioritized import LEAST_PRIORITY, WIDTH, Masses, Prioritized, SumTree
from simple_dqn.types import Experience, Step
from tests.contents import contents_of

HISTORY = 2
CONFIG = MemoryConfig(sampler="prioritized", replay_size=60, history_length=HISTORY, priority_exponent=0.6)


def memory_of(steps: int, games: int = 2, seed: int = 0, **settings: Any) -> ReplayMemory:
    """Return a memory after `steps` of `games` games, each of which starts anew now and then."""
    config = replace(CONFIG, **settings)
    memory = ReplayMemory(config, games, (1, 1), 0.9, np.random.default_rng(seed))
    feed(memory, games, range(steps))
    return memory


def feed(memory: ReplayMemory, games: int, steps: range) -> None:
    """Add `steps`; the action of game e at step t is t * E + e."""
    for t in steps:
        step = Step.start(np.full((games, 1, 1), t % 256, np.uint8))
        step.actions[:] = t * games + np.arange(games)
        step.starts[:] = (t + 5 * np.arange(games)) % 11 == 0
        memory.add(step)


def priorities(memory: ReplayMemory) -> dict[int, float]:
    """Return P(i) by action, of all that can be drawn."""
    assert isinstance(memory._sampler, Prioritized)
    masses = memory._sampler._tree.masses
    indices = np.flatnonzero(masses)
    numbers = memory._ring.numbers(indices).tolist()
    return dict(zip(numbers, (masses[indices] / masses.sum()).tolist(), strict=True))


def give_errors(memory: ReplayMemory, rng: np.random.Generator) -> dict[int, float]:
    """Let `memory` hear of an error for each transition; return p^α by action."""
    numbers = memory._ring.transitions()
    errors = (3 * rng.random(len(numbers)) ** 3).astype(np.float32)
    memory.update_priorities(numbers, errors)
    alpha = CONFIG.priority_exponent
    powers = ((errors.astype(float) + LEAST_PRIORITY) ** alpha).tolist()
    return dict(zip(numbers.tolist(), powers, strict=True))


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("steps", [20, 75])
def test_transitions_are_drawn_as_often_as_their_priorities_say(steps: int, n_step: int) -> None:
    memory = memory_of(steps, n_step=n_step)
    powers = give_errors(memory, np.random.default_rng(1))
    actions = np.concatenate([memory.sample(32).actions for _ in range(3000)])
    drawn = dict(zip(*(column.tolist() for column in np.unique(actions, return_counts=True)), strict=True))
    assert drawn.keys() <= powers.keys()
    expected = {number: len(actions) * power / sum(powers.values()) for number, power in powers.items()}
    chi_square = sum((drawn.get(i, 0) - mean) ** 2 / mean for i, mean in expected.items())
    # It is at most near the number of transitions, since those drawn together are spread over all of them.
    assert chi_square < len(expected) + 4 * (2 * len(expected)) ** 0.5
    assert min(expected.values()) > 5


def with_one_of_half_the_mass() -> tuple[ReplayMemory, int]:
    memory = memory_of(25, priority_exponent=1.0)
    numbers = memory._ring.transitions()
    memory.update_priorities(numbers[7:8], np.array([len(numbers) - 1], np.float32))  # all others have 1
    return memory, int(numbers[7])


def test_a_minibatch_is_spread_over_the_masses() -> None:
    memory, number = with_one_of_half_the_mass()
    for _ in range(50):
        assert 15 <= (memory.sample(32).actions == number).sum() <= 17


def test_states_to_look_at_are_drawn_alike() -> None:
    memory, number = with_one_of_half_the_mass()
    latest = memory.sample_states(2000)[:, -1, 0, 0]  # the number of the step before
    assert 50 < (latest == number // 2 - 1).sum() < 200  # both games have a transition there


@pytest.mark.parametrize(("steps", "beta"), [(0, 0.4), (250, 0.55), (500, 0.7), (1000, 1.0), (2000, 1.0)])
def test_weights_are_those_of_the_formula(steps: int, beta: float) -> None:
    memory = memory_of(40, priority_beta_start=0.4, priority_beta_steps=1000)
    powers = give_errors(memory, np.random.default_rng(2))
    batch = memory.sample(16, steps)
    odds = np.array([powers[action] for action in batch.actions.tolist()]) / sum(powers.values())
    weights = (len(powers) * odds) ** -beta
    np.testing.assert_allclose(batch.weights, weights / weights.max(), rtol=1e-6)
    assert batch.weights.max() == 1
    assert batch.weights.dtype == np.float32


def test_with_an_exponent_of_0_it_is_uniform() -> None:
    memory = memory_of(75, priority_exponent=0.0)
    give_errors(memory, np.random.default_rng(3))
    feed(memory, 2, range(75, 80))
    plain = memory_of(80, sampler="uniform")
    numbers = plain._ring.transitions().tolist()
    assert priorities(memory) == pytest.approx({number: 1 / len(numbers) for number in numbers})
    batch = memory.sample(32)
    np.testing.assert_array_equal(batch.weights, np.ones(32))


def test_what_is_new_has_the_greatest_priority_so_far() -> None:
    memory = memory_of(20, priority_exponent=1.0)
    first = memory.sample(2)
    memory.update_priorities(first.numbers, np.array([0.1, 7.0], np.float32))
    memory.update_priorities(first.numbers, np.array([0.1, 0.1], np.float32))
    feed(memory, 2, range(20, 21))
    shares = priorities(memory)
    assert shares[40] == shares[41]
    assert shares[40] / shares[int(first.actions[1])] == pytest.approx(7 / 0.1, rel=1e-4)


def test_errors_of_what_was_overwritten_are_passed_over() -> None:
    memory = memory_of(30)
    batch = memory.sample(40)
    kept = batch.numbers.copy()
    feed(memory, 2, range(30, 45))  # half of the ring
    before = priorities(memory)
    memory.update_priorities(kept, np.full(40, 0.5, np.float32))
    after = priorities(memory)
    assert after.keys() == before.keys()
    first = memory._ring.candidates()[0]
    assert (kept < first).any()
    assert (kept >= first).any()
    changed = {number for number in set(kept.tolist()) if number >= first}
    ratio = {number: after[number] / before[number] for number in before}
    same = {round(ratio[number], 6) for number in before if number not in changed}
    assert len(same) == 1
    assert all(ratio[number] < 0.9 * same.copy().pop() for number in changed)


def test_of_two_errors_for_the_same_transition_the_later_counts() -> None:
    memory = memory_of(20, priority_exponent=1.0)
    numbers = memory._ring.transitions()[[3, 5, 3, 7, 5, 3]]
    memory.update_priorities(numbers, np.array([9, 8, 7, 6, 5, 4], np.float32))
    shares = priorities(memory)
    expected = {int(numbers[0]): 4, int(numbers[1]): 5, int(numbers[3]): 6}
    other = shares[int(memory._ring.transitions()[0])]  # of priority 1
    for number, error in expected.items():
        assert shares[number] / other == pytest.approx(error, rel=1e-5)


@pytest.mark.parametrize(("steps", "words"), [(2, "a transition needs 3"), (1, "1 screen of each game")])
def test_too_few_screens_say_what_to_raise(steps: int, words: str) -> None:
    with pytest.raises(UserError, match=words):
        memory_of(steps).sample(1)


def test_memory_without_any_transition_says_so() -> None:
    memory = memory_of(0)
    for _ in range(50):
        memory.add(Step.start(np.zeros((2, 1, 1), np.uint8)))
    with pytest.raises(UserError, match="no action between any two of them"):
        memory.sample(1)


def oldest_first(memory: ReplayMemory) -> Experience:
    held, position = contents_of(memory), memory._ring.next_row
    names = ("screens", "actions", "rewards", "terminals", "starts")
    return Experience(*(np.roll(getattr(held, name), -position, axis=0) for name in names))


def restored(memory: ReplayMemory, **settings: Any) -> ReplayMemory:
    """Return a memory, of other `settings`, that goes on from `memory`."""
    result = memory_of(7, seed=5, **settings)
    result.set_state(memory.get_state(), [oldest_first(memory)])
    return result


@pytest.mark.parametrize("steps", [9, 30, 77])
@pytest.mark.parametrize("n_step", [1, 4])
def test_a_restored_memory_goes_on_bit_for_bit(steps: int, n_step: int) -> None:
    first = memory_of(steps, n_step=n_step)
    give_errors(first, np.random.default_rng(4))
    second = restored(first, n_step=n_step)
    rng = np.random.default_rng(6)
    for t in range(steps, steps + 40):
        batches = [memory.sample(8, t) for memory in (first, second)]
        errors = rng.random(8).astype(np.float32) * 5
        for memory, batch in zip((first, second), batches, strict=True):
            feed(memory, 2, range(t, t + 1))
            memory.update_priorities(batch.numbers, errors)
        for name in ("actions", "rewards", "weights", "prestates", "poststates"):
            ours, theirs = (getattr(batch, name) for batch in batches)
            np.testing.assert_array_equal(ours, theirs, err_msg=name)
    assert priorities(first) == {
        number + 2 * (first._ring.written - second._ring.written): share
        for number, share in priorities(second).items()
    }


@pytest.mark.parametrize(("before", "after"), [
    ({"sampler": "uniform"}, {}),
    ({"n_step": 3}, {"n_step": 1}),
    ({"n_step": 1}, {"n_step": 5}),
    ({}, {"sampler": "uniform"}),
], ids=str)  # fmt: skip
def test_a_memory_that_was_drawn_from_otherwise_goes_on(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    memory = restored(memory_of(50, **before), **after)
    like = memory_of(50, **after)
    drawn = {action for _ in range(40) for action in memory.sample(40).actions.tolist()}
    assert drawn == set(like._ring.transitions().tolist())
    feed(memory, 2, range(50, 60))
    memory.sample(10)


def test_bytes_are_told() -> None:
    size, shape = 30_000, (10, 10)
    plain, prioritized = (
        ReplayMemory(replace(CONFIG, replay_size=size, sampler=kind), 1, shape, 0.9, np.random.default_rng(0))
        for kind in ("uniform", "prioritized")
    )
    assert plain.nbytes == size * (100 + OTHER_BYTES)
    assert 8 * size < prioritized.nbytes - plain.nbytes < Prioritized.experience_bytes * size


LENGTH = 7  # of the cliff walk, in steps
DISCOUNT = 1 - 1 / LENGTH


def cliff_walk(prioritized: bool, seed: int) -> ReplayMemory:
    """Return a memory of all ways to walk along a cliff, where one wrong step of two ends it.

    The blind cliffwalk of Schaul et al. (2016, section 3.1): one way of 2^n is paid, at its very end.
    """
    config = MemoryConfig(
        replay_size=2 ** (LENGTH + 2), history_length=1, sampler="prioritized" if prioritized else "uniform",
        priority_exponent=1.0,
        priority_beta_start=0.0,
    )  # fmt: skip
    memory = ReplayMemory(config, 1, (1, 1), DISCOUNT, np.random.default_rng(seed))
    for way in range(2**LENGTH):
        memory.add(Step.start(np.zeros((1, 1, 1), np.uint8)))
        for place in range(LENGTH):
            right = bool(way >> place & 1)
            step = Step.start(np.full((1, 1, 1), place + 1, np.uint8))
            step.starts[:] = False
            step.actions[:] = right
            step.rewards[:] = right and place == LENGTH - 1
            step.terminals[:] = not right or place == LENGTH - 1
            memory.add(step)
            if step.terminals[0]:
                break
    return memory


def updates_needed(memory: ReplayMemory, seed: int) -> int:
    """Return after how many updates, one transition each, a table of values is right."""
    values: NDArray[np.float64] = np.random.default_rng(seed).normal(0, 0.1, (LENGTH + 1, 2))
    right = np.zeros((LENGTH, 2))
    right[:, 1] = DISCOUNT ** np.arange(LENGTH)[::-1]
    for update in range(200_000):
        batch = memory.sample(1)
        before, after = (int(states[0, 0, 0, 0]) for states in (batch.prestates, batch.poststates))
        follows = 0.0 if batch.terminals[0] else float(batch.discounts[0]) * values[after].max()
        error = float(batch.rewards[0, 0]) + follows - values[before, batch.actions[0]]
        values[before, batch.actions[0]] += 0.25 * error
        memory.update_priorities(batch.numbers, np.array([abs(error)], np.float32))
        if ((values[:LENGTH] - right) ** 2).mean() < 1e-3:
            return update
    raise AssertionError("it never is")


def test_the_rare_reward_is_learnt_from_sooner() -> None:
    needed = {
        prioritized: np.median([updates_needed(cliff_walk(prioritized, seed), seed) for seed in range(5)])
        for prioritized in (False, True)
    }
    assert needed[True] < needed[False] / 3


# The tree of sums against the sums themselves, added up one by one.

SIZES = st.one_of(st.integers(1, 100), st.sampled_from((WIDTH - 1, WIDTH, WIDTH + 1, WIDTH**2, WIDTH**2 + 1)))


def changed(tree: SumTree, masses: Masses, changes: int, rng: np.random.Generator, whole: bool) -> None:
    """Change some masses again and again, in the tree and in the list."""
    size = len(masses)
    for _ in range(changes):
        indices = rng.choice(size, rng.integers(0, size + 1), replace=False)
        values = rng.integers(0, 5, len(indices)).astype(np.float64)
        values *= 1 if whole else rng.random(len(indices)) ** 9
        masses[indices] = values
        tree.set(indices, values)


@given(size=SIZES, changes=st.integers(0, 6), seed=st.integers(0, 10**6))
@settings(max_examples=200)
def test_what_is_found_is_what_a_plain_sum_finds(size: int, changes: int, seed: int) -> None:
    rng, tree, masses = np.random.default_rng(seed), SumTree(size), np.zeros(size)
    changed(tree, masses, changes, rng, whole=True)  # whole numbers are added without rounding
    sums = masses.cumsum()
    assert tree.total == sums[-1]
    np.testing.assert_array_equal(tree.masses[:size], masses)
    if not tree.total:
        return
    points = np.concatenate((rng.random(100) * tree.total, np.arange(tree.total)))
    indices, found = tree.find(points)
    np.testing.assert_array_equal(indices, np.searchsorted(sums, points, side="right"))
    np.testing.assert_array_equal(found, masses[indices])


@given(size=SIZES, changes=st.integers(1, 6), seed=st.integers(0, 10**6))
@settings(max_examples=200)
def test_rounding_finds_no_index_without_mass(size: int, changes: int, seed: int) -> None:
    rng, tree, masses = np.random.default_rng(seed), SumTree(size), np.zeros(size)
    changed(tree, masses, changes, rng, whole=False)
    assert tree.total == pytest.approx(masses.sum(), rel=1e-12)
    if not tree.total:
        return
    edges = masses.cumsum()
    points = np.concatenate((rng.random(100) * tree.total, edges, np.nextafter(edges, 0), [0, tree.total]))
    indices, found = tree.find(np.clip(points, 0, tree.total))
    assert (indices < size).all()
    assert (found > 0).all()
    np.testing.assert_array_equal(found, masses[indices])


@given(size=SIZES, changes=st.integers(1, 6), seed=st.integers(0, 10**6))
@settings(max_examples=100)
def test_a_tree_depends_on_its_masses_alone(size: int, changes: int, seed: int) -> None:
    rng, tree, masses = np.random.default_rng(seed), SumTree(size), np.zeros(size)
    changed(tree, masses, changes, rng, whole=False)
    at_once = SumTree(size)
    at_once.set(np.arange(size), masses)
    assert at_once.total == tree.total
    for ours, theirs in zip(at_once._levels, tree._levels, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("size", [1, WIDTH, 1000, 100_000])
def test_it_hardly_takes_more_than_the_masses(size: int) -> None:
    assert 8 * size <= SumTree(size).nbytes <= 8 * (size + 3 * WIDTH) * (1 + 1 / (WIDTH - 1))
