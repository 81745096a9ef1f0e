"""Slips: what a training game does in place of the action that it was given, and what is learnt from that."""

import numpy as np
import pytest

from simple_dqn.environment.interface import Game, Outcome, Screen
from simple_dqn.environment.vector import GameVector
from simple_dqn.player import Player
from simple_dqn.profiler import Profiler
from simple_dqn.types import Actions, CheckpointState, QValues, States, Step

FORK, EDGE, MEADOW = 0, 1, 4  # places: the ways are 3 steps along an edge, and 4 across a meadow
LEFT, RIGHT = 0, 1


class TwoWays(Game):
    """One point at the end of either way; who goes right at the edge falls, and loses one."""

    name, action_names, rom_md5, can_save = "two ways", ("LEFT", "RIGHT"), None, False

    def start(self, screen: Screen) -> None:
        self.place = FORK
        screen[:] = self.place

    def act(self, action: int, screen: Screen) -> Outcome:
        fell = EDGE <= self.place < MEADOW and action == RIGHT
        if self.place == FORK:
            self.place = (EDGE, MEADOW)[action]
            over = False
        else:
            over = fell or self.place in (MEADOW - 1, MEADOW + 3)
            self.place += 1
        screen[:] = self.place
        return Outcome(-1.0 if fell else float(over), terminal=over, truncation=False, reset=over)

    def get_state(self) -> CheckpointState:
        raise NotImplementedError

    def set_state(self, state: CheckpointState) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


def player(slip_probability: float, values: QValues, games: int = 4) -> Player:
    """Return a player who looks the Q-values [places, A] up by place."""

    def predict(states: States) -> QValues:
        return values[states[:, -1, 0, 0]]

    environment = GameVector([TwoWays() for _ in range(games)], (1, 1))
    rng = np.random.default_rng(0)
    return Player(environment, predict, 1, rng, Profiler(), slip_probability=slip_probability)


def learnt(slip_probability: float) -> QValues:
    """Return the Q-values of tabular Q-learning (Watkins 1989) from what a player remembers."""
    values = np.zeros((10, 2), np.float32)
    agent = player(slip_probability, values)
    places = agent.start().screens[:, 0, 0]
    for _ in range(20_000):
        step = agent.step(0.3)
        reached = step.screens[:, 0, 0]
        for game in np.flatnonzero(~step.starts):
            follows = 0.0 if step.terminals[game] else 0.99 * values[reached[game]].max()
            error = step.rewards[game] + follows - values[places[game], step.actions[game]]
            values[places[game], step.actions[game]] += 0.02 * error
        places = reached
    return values


def test_who_slips_in_training_learns_to_stay_away_from_the_edge() -> None:
    assert learnt(0.0)[FORK].argmax() == LEFT  # the shorter way
    slipping = learnt(0.2)
    assert slipping[FORK].argmax() == RIGHT
    assert slipping[MEADOW].max() == pytest.approx(0.99**3, abs=0.01)
    assert slipping[EDGE + 2, LEFT] == pytest.approx(1 - 2 * 0.1, abs=0.1)  # it falls in one of ten


def test_what_is_remembered_is_what_was_chosen() -> None:
    agent, done = player(0.3, np.tile(np.array([1, 0], np.float32), (10, 1))), []
    send = agent.environment.send

    def watched(actions: Actions) -> None:
        done.append(actions)
        send(actions)

    agent.environment.send = watched  # type: ignore[method-assign]
    agent.start()
    steps: list[Step] = [agent.step(0.0) for _ in range(4000)]
    assert not any(step.actions.any() for step in steps)  # always the best, LEFT
    assert np.mean(done) == pytest.approx(0.3 / 2, abs=0.02)


def test_without_slips_nothing_is_drawn() -> None:
    agent = player(0.0, np.tile(np.array([1, 0], np.float32), (10, 1)))
    agent.start()
    state = agent._rng.bit_generator.state
    agent._slip(np.zeros(4, np.int64))
    assert agent._rng.bit_generator.state == state
