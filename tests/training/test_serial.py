"""A taped run of the serial loop: what is called, in which order, and when."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest

from simple_dqn.agent import multiples
from simple_dqn.training import SerialSchedule
from simple_dqn.types import Step

Make: TypeAlias = Callable[..., Any]

fill, train = SerialSchedule().fill, SerialSchedule().train


def test_one_game_learns_every_fourth_step_and_copies_every_eighth(make: Make) -> None:
    agent, tape, listener = make(train_frequency=4, target_steps=8)
    train(agent, 16, stopped=lambda: False)
    learn, copy = ["step"] * 4 + ["update"], ["copy"]
    assert tape == learn + learn + copy + learn + learn + copy
    agent.report_losses()
    assert listener.losses == [8.0] * 4
    assert agent.total_train_steps == 16


def test_the_count_goes_on_from_call_to_call(make: Make) -> None:
    agent, tape, _ = make(train_frequency=4, target_steps=6)
    for _ in range(4):
        train(agent, 3, stopped=lambda: False)
    whole, whole_tape, _ = make(train_frequency=4, target_steps=6)
    train(whole, 12, stopped=lambda: False)
    assert tape == whole_tape


def test_train_repeat(make: Make) -> None:
    agent, tape, _ = make(train_frequency=2, train_repeat=3, target_steps=0)
    train(agent, 4, stopped=lambda: False)
    assert tape == (["step"] * 2 + ["update"] * 3) * 2


def test_a_memory_with_priorities_hears_of_the_errors_of_each_update(make: Make) -> None:
    agent, tape, listener = make(train_frequency=2, train_repeat=2, memory={"prioritized": True})
    tell, samples, sample = agent.memory.update_priorities, [], agent.memory.sample

    def watched(numbers: Any, errors: Any) -> None:
        tape.append("errors")
        np.testing.assert_array_equal(errors, agent.network.updates + numbers % 7)
        tell(numbers, errors)

    def drawn(batch_size: int, steps: int) -> Any:
        samples.append(steps)
        return sample(batch_size, steps)

    agent.memory.update_priorities, agent.memory.sample = watched, drawn
    train(agent, 4, stopped=lambda: False)
    assert tape == (["step"] * 2 + ["update", "errors"] * 2) * 2
    assert samples == [2, 2, 4, 4]
    assert listener.losses == [8.0] * 4


def test_no_copies_without_a_target_network(make: Make) -> None:
    agent, tape, _ = make(target_steps=0)
    train(agent, 50, stopped=lambda: False)
    assert "copy" not in tape


@pytest.mark.parametrize("games", [1, 2, 3, 8, 16])
def test_many_games_learn_as_often_per_step_as_one(make: Make, games: int) -> None:
    agent, tape, _ = make(games, train_frequency=4, target_steps=48)
    train(agent, 96 * games, stopped=lambda: False)
    assert tape.count("step") == 96
    assert tape.count("update") == 96 * games // 4
    assert tape.count("copy") == 96 * games // 48


def test_exploration_falls_linearly_over_training_steps_only(make: Make) -> None:
    agent, _, listener = make(exploration_rate_start=1.0, exploration_rate_end=0.2, exploration_decay_steps=8)
    train(agent, 12, stopped=lambda: False)
    expected = [1.0 - 0.1 * step for step in range(8)] + [0.2] * 4
    assert listener.rates == pytest.approx(expected)


def test_fill_learns_nothing_and_counts_nothing(make: Make) -> None:
    agent, tape, listener = make()
    fill(agent, 20, None, stopped=lambda: False)
    assert set(tape) == {"step"}
    assert agent.total_train_steps == 0
    assert listener.rates == [1.0] * 20  # the agent's own rate, at step 0


def test_a_stop_ends_the_phase_between_two_steps(make: Make) -> None:
    agent, tape, _ = make()
    train(agent, 100, stopped=lambda: tape.count("step") >= 10)
    assert agent.total_train_steps == 10


def test_the_best_action_is_taken_but_for_the_share_of_exploration(make: Make) -> None:
    agent, _, _ = make()
    states = np.zeros((20_000, 4, 4, 4), np.uint8)
    assert (agent.player.act(states, 0.0) == 1).all()
    taken = np.bincount(agent.player.act(states, 0.3), minlength=3) / len(states)
    assert taken == pytest.approx([0.1, 0.8, 0.1], abs=0.02)
    assert np.bincount(agent.player.act(states, 1.0)) / len(states) == pytest.approx([1 / 3] * 3, abs=0.02)


def test_each_game_can_explore_less_than_the_one_before(make: Make) -> None:
    agent, _, listener = make(
        5, exploration_rate_start=0.4, exploration_rate_end=0.4, exploration_spread=7, train_frequency=1000
    )
    expected = [0.4 ** (1 + 7 * game / 4) for game in range(5)]  # Horgan et al. 2018, section 4.1
    assert agent.exploration_rates == pytest.approx(expected)
    seen: list[np.ndarray] = []
    step: Callable[[np.ndarray], Step] = agent.player.environment.step

    def watched(actions: np.ndarray) -> Step:
        seen.append(actions)
        return step(actions)

    agent.player.environment.step = watched
    train(agent, 5 * 4000, stopped=lambda: False)
    assert listener.rates == pytest.approx([np.mean(expected)] * 4000)
    others = np.mean(np.stack(seen) != 1, axis=0)  # the best action is 1 of 3
    assert others == pytest.approx(np.array(expected) * 2 / 3, abs=0.03)


def test_a_game_alone_explores_most_and_without_a_spread_all_do(make: Make) -> None:
    agent, _, _ = make(1, exploration_spread=7, exploration_decay_steps=8)
    train(agent, 4, stopped=lambda: False)
    assert list(agent.exploration_rates) == [agent.exploration_rate] == [0.55]
    agent, _, _ = make(3, exploration_rate_start=0.3)
    assert list(agent.exploration_rates) == [0.3] * 3


@pytest.mark.parametrize(
    ("every", "before", "now"), [(4, 0, 3), (4, 3, 4), (4, 0, 16), (10, 5, 31), (1, 7, 9)]
)
def test_multiples_counts_multiples(every: int, before: int, now: int) -> None:
    assert multiples(every, before, now) == sum(step % every == 0 for step in range(before + 1, now + 1))
