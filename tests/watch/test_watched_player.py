from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from simple_dqn.agent import Player
from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import Environment, make
from simple_dqn.random_streams import stream
from simple_dqn.types import QValues, States
from simple_dqn.watch.watched_player import WatchedPlayer

CATCH = EnvironmentConfig(game="catch", environment="catch", screen_width=16, screen_height=16)


def environment() -> Environment:
    return make(CATCH, [stream(1, "environment")], training=False)


def predict(states: States) -> QValues:
    """Return values that depend on the whole state."""
    sums = states.astype(np.float32).reshape(len(states), -1) @ np.arange(states[0].size, dtype=np.float32)
    return np.stack([np.sin(sums), np.cos(sums), np.sin(2 * sums)], axis=1).astype(np.float32)


def watched(saliency: Callable[[States], NDArray[np.float32]] | None = None) -> WatchedPlayer:
    return WatchedPlayer(environment(), predict, 4, stream(1, "exploration"), saliency)


def test_a_watched_player_plays_as_a_player_does() -> None:
    player = WatchedPlayer(environment(), predict, 4, stream(1, "exploration"))
    plain = Player(environment(), predict, 4, stream(1, "exploration"))
    player.start()
    plain.start()
    explored = 0
    for _ in range(100):
        one, other = player.step(0.3), plain.step(0.3)
        assert np.array_equal(one.actions, other.actions)
        assert np.array_equal(one.screens, other.screens)
        assert not player.human
        explored += player.exploring
    assert 0 < explored < 60


def test_a_watched_player_keeps_the_last_qvalues() -> None:
    player = watched()
    states = np.arange(4 * 9, dtype=np.uint8).reshape(1, 4, 3, 3)
    expected = predict(states)[0]
    player.choose(0.0, states=states)
    states[:] = 0
    assert player.qvalues is not None
    assert np.array_equal(player.qvalues, expected)
    assert player.heat_map() is None


def test_a_person_chooses_whenever_there_is_one() -> None:
    wanted: list[int | None] = [None]
    player = WatchedPlayer(environment(), predict, 4, stream(1, "exploration"), person=lambda: wanted[0])
    step = player.start()
    for turn in range(60):
        wanted[0] = 2 if turn % 3 else None
        starts = step.resets[0]
        step = player.step(0.0)
        assert player.human == (wanted[0] is not None)
        assert player.qvalues is not None
        assert player.action == (2 if player.human else player.qvalues.argmax())
        assert starts or step.actions[0] == player.action


def test_without_an_agent_nobody_moves_unless_the_person_does() -> None:
    wanted: list[int | None] = [None]
    player = WatchedPlayer(environment(), None, 4, stream(1, "exploration"), person=lambda: wanted[0])
    player.start()
    assert player.step(1.0).actions[0] == 0
    wanted[0] = 2
    assert player.step(1.0).actions[0] == 2
    assert not player.exploring


def test_the_heat_map_is_the_strongest_of_the_screens_and_worked_out_once() -> None:
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(1, 4, 5, 6)).astype(np.float32)
    asked: list[States] = []

    def saliency(states: States) -> NDArray[np.float32]:
        asked.append(states)
        return gradients

    player = watched(saliency)
    assert player.heat_map() is None
    states = np.ones((1, 4, 5, 6), np.uint8)
    player.choose(0.0, states=states)
    states[:] = 0
    assert not asked
    heat = player.heat_map()
    assert player.heat_map() is heat
    assert len(asked) == 1
    assert asked[0].all()
    assert heat is not None
    for y in range(5):
        for x in range(6):
            strongest = max(abs(float(gradients[0, s, y, x])) for s in range(4))
            assert heat[y, x] == pytest.approx(strongest / np.abs(gradients).max())
    player.choose(0.0, states=np.ones((1, 4, 5, 6), np.uint8))
    assert player.heat_map() is not heat


def test_an_agent_that_looks_nowhere_has_a_cold_heat_map() -> None:
    player = watched(lambda states: np.zeros(states.shape, np.float32))
    player.choose(0.0, states=np.ones((1, 4, 5, 6), np.uint8))
    heat = player.heat_map()
    assert heat is not None
    assert np.array_equal(heat, np.zeros((5, 6)))
