"""How minibatches are drawn, what they are made of, and what stands in their way."""

import zlib
from typing import Any

import numpy as np
import pytest

from simple_dqn.config import MemoryConfig
from simple_dqn.errors import UserError
from simple_dqn.replay_memory import ReplayMemory
from simple_dqn.types import Flags, Minibatch, Step

HISTORY = 3
DISCOUNT = 0.9


def filled(starts: Flags, rows: int, **settings: Any) -> ReplayMemory:
    """Return a memory of `rows` rows after steps with `starts` bool [steps, E].

    The action of game e at step t is t * E + e.
    """
    games = starts.shape[1]
    config = MemoryConfig(replay_size=rows * games, history_length=HISTORY, **settings)
    memory = ReplayMemory(config, games, (2, 2), DISCOUNT, np.random.default_rng(0))
    for t, started in enumerate(starts):
        step = Step.start(np.zeros((games, 2, 2), np.uint8))
        step.actions[:] = t * games + np.arange(games)
        step.starts[:] = started
        memory.add(step)
    return memory


def plain(steps: int, rows: int = 20, games: int = 2, **settings: Any) -> ReplayMemory:
    """Return a memory after `steps` in which no game ended."""
    return filled(np.arange(steps)[:, np.newaxis] + np.zeros(games) == 0, rows, **settings)


@pytest.mark.parametrize("n_step", [1, 4])
def test_every_transition_is_as_likely(n_step: int) -> None:
    starts = np.random.default_rng(3).random((95, 2)) < 0.3
    memory = filled(starts, rows=60, n_step=n_step)
    first, end = 95 - 60 + HISTORY, 95 - n_step + 1
    valid = [2 * t + e for t in range(first, end) for e in range(2) if not starts[t, e]]
    actions = np.concatenate([memory.sample(1000).actions for _ in range(200)])
    counts = np.bincount(actions, minlength=2 * 95)[valid]
    assert counts.sum() == len(actions)
    mean = len(actions) / len(valid)
    chi_square = float(((counts - mean) ** 2 / mean).sum())
    # It is near the number of transitions, give or take the root of twice that.
    assert abs(chi_square - len(valid)) < 4 * (2 * len(valid)) ** 0.5


def test_rare_transitions_are_found() -> None:
    starts = np.ones((3000, 1), np.bool_)
    rare = [700, 701, 2500]
    starts[rare] = False
    counts = np.bincount(filled(starts, rows=3000).sample(3000).actions, minlength=3000)[rare]
    assert counts.sum() == 3000
    assert counts.min() > 900


def test_memory_without_any_transition_says_so() -> None:
    memory = filled(np.ones((30, 1), np.bool_), rows=20)
    with pytest.raises(UserError) as error:
        memory.sample(1)
    words = "memory holds 20 screens and no action between any two of them: raise --random_steps"
    assert str(error.value) == words


@pytest.mark.parametrize(
    ("games", "steps", "words"),
    [
        (1, 1, "memory holds 1 screen and a transition needs 4: raise --random_steps"),
        (2, 3, "memory holds 3 screens of each game and a transition needs 4: raise --random_steps"),
    ],
)
def test_too_few_screens_say_what_to_raise(games: int, steps: int, words: str) -> None:
    memory = plain(steps, games=games)
    with pytest.raises(UserError) as error:
        memory.sample(1)
    assert str(error.value) == words


def test_minibatch_has_the_shapes_and_types_it_promises() -> None:
    minibatch = plain(20).sample(5)
    assert minibatch.returns is None  # without rollouts the network computes the targets
    arrays = {name: getattr(minibatch, name) for name in Minibatch.__slots__ if name != "returns"}
    assert {name: (array.dtype.name, array.shape) for name, array in arrays.items()} == {
        "prestates": ("uint8", (5, HISTORY, 2, 2)),
        "actions": ("int64", (5,)),
        "rewards": ("float32", (5, 1)),
        "poststates": ("uint8", (5, HISTORY, 2, 2)),
        "terminals": ("bool", (5,)),
        "discounts": ("float32", (5,)),
        "weights": ("float32", (5,)),
        "numbers": ("int64", (5,)),
    }
    np.testing.assert_array_equal(minibatch.discounts, np.full(5, DISCOUNT, np.float32))


def test_transitions_of_many_steps_have_a_reward_for_each() -> None:
    memory = plain(20, n_step=5)
    assert memory.sample(7).rewards.shape == (7, 5)
    np.testing.assert_array_equal(memory.sample(7).discounts, np.full(7, DISCOUNT**5, np.float32))


@pytest.mark.parametrize("n_step", [1, 3])
def test_ready_is_when_something_can_be_drawn(n_step: int) -> None:
    for steps in range(1, 10):
        memory = plain(steps, n_step=n_step)
        assert memory.ready == (steps >= HISTORY + n_step)
        if memory.ready:
            memory.sample(3)
        else:
            with pytest.raises(UserError, match=f"a transition needs {HISTORY + n_step}"):
                memory.sample(3)


@pytest.mark.parametrize(("rows", "games"), [(19, 2), (20, 1), (21, 2)])
def test_state_of_another_memory_is_refused(rows: int, games: int) -> None:
    saved = plain(30).get_state()
    memory = plain(5, rows, games)
    with pytest.raises(UserError, match="--replay_size"):
        memory.set_state(saved, [])
    assert memory.count == 5 * games


def test_memory_that_begins_in_mid_game_begins_its_episode_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "empty", lambda shape, dtype: np.full(shape, 255, dtype))  # what was there before
    config = MemoryConfig(replay_size=20, history_length=HISTORY)
    memory = ReplayMemory(config, 1, (1, 1), DISCOUNT, np.random.default_rng(0))
    for t in range(HISTORY + 1):
        step = Step.start(np.full((1, 1, 1), t + 1, np.uint8))
        step.starts[:] = False
        step.actions[:] = t
        memory.add(step)
    minibatch = memory.sample(100)
    prestates = dict(zip(minibatch.actions.tolist(), minibatch.prestates[:, :, 0, 0].tolist(), strict=True))
    assert prestates == {1: [0, 0, 1], 2: [0, 1, 2], 3: [1, 2, 3]}


# Sums of what an earlier version drew, which is drawn still.
DRAWN = {
    (1, "uniform"): 339438390, (3, "uniform"): 1356850448, (1, "prioritized"): 231870299,
    (3, "prioritized"): 492945463,
}  # fmt: skip


@pytest.mark.parametrize(("n_step", "sampler"), DRAWN)
def test_the_draws_are_what_they_were(n_step: int, sampler: str) -> None:
    config = MemoryConfig(replay_size=44, history_length=3, n_step=n_step, sampler=sampler)
    memory = ReplayMemory(config, 2, (1, 2), DISCOUNT, np.random.default_rng(1))
    rng, drawn = np.random.default_rng(1), 0
    for t in range(500):
        numbers = t * 2 + np.arange(2) + 1
        step = Step.start(np.stack([numbers // 256, numbers % 256], axis=-1)[:, None].astype(np.uint8))
        step.actions[:], step.rewards[:] = numbers, numbers
        step.terminals[:] = rng.random(2) < 0.1
        step.starts[:] = (rng.random(2) < 0.1) | (t == 0)
        memory.add(step)
        if t > 10:
            batch = memory.sample(8)
            drawn = zlib.crc32(batch.numbers.tobytes() + batch.poststates.tobytes(), drawn)
    assert drawn == DRAWN[n_step, sampler]
