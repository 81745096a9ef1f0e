import numpy as np
import pytest
from numpy.typing import NDArray

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import Environment, make
from simple_dqn.ledger import Ledger
from simple_dqn.player import Player
from simple_dqn.random_streams import stream
from simple_dqn.types import QValues, States
from simple_dqn.watch.watched_player import WatchedNetwork, WatchedPlayer

CATCH = EnvironmentConfig(game="catch", environment="catch", screen_width=16, screen_height=16)


def environment() -> Environment:
    return make(CATCH, [stream(1, "environment")], training=False)


def predict(states: States) -> QValues:
    """Return values that depend on the whole state."""
    sums = states.astype(np.float32).reshape(len(states), -1) @ np.arange(states[0].size, dtype=np.float32)
    return np.stack([np.sin(sums), np.cos(sums), np.sin(2 * sums)], axis=1).astype(np.float32)


def test_a_watched_player_plays_as_a_player_does() -> None:
    watched = WatchedPlayer(environment(), WatchedNetwork(predict), 4, stream(1, "exploration"))
    player = Player(environment(), predict, 4, stream(1, "exploration"), Ledger())
    watched.start()
    player.start()
    explored = 0
    for _ in range(100):
        one, other = watched.step(0.3), player.step(0.3)
        assert np.array_equal(one.actions, other.actions)
        assert np.array_equal(one.screens, other.screens)
        assert not watched.human
        explored += watched.exploring
    assert 0 < explored < 60


def test_a_watched_network_keeps_the_last_state_and_its_qvalues() -> None:
    network = WatchedNetwork(predict)
    states = np.arange(4 * 9, dtype=np.uint8).reshape(1, 4, 3, 3)
    expected = predict(states)[0]
    network.predict(states)
    states[:] = 0
    assert network.qvalues is not None
    assert np.array_equal(network.qvalues, expected)
    assert network.states is not None
    assert network.states.any()
    assert network.heat_map() is None


def test_a_person_chooses_whenever_there_is_one() -> None:
    wanted: list[int | None] = [None]
    watched = WatchedPlayer(
        environment(), WatchedNetwork(predict), 4, stream(1, "exploration"), lambda: wanted[0]
    )
    step = watched.start()
    for turn in range(60):
        wanted[0] = 2 if turn % 3 else None
        starts = step.resets[0]
        step = watched.step(0.0)
        assert watched.human == (wanted[0] is not None)
        assert watched.network is not None
        assert watched.network.qvalues is not None
        assert watched.action == (2 if watched.human else watched.network.qvalues.argmax())
        assert starts or step.actions[0] == watched.action


def test_without_an_agent_nobody_moves_unless_the_person_does() -> None:
    wanted: list[int | None] = [None]
    watched = WatchedPlayer(environment(), None, 4, stream(1, "exploration"), lambda: wanted[0])
    watched.start()
    assert watched.step(1.0).actions[0] == 0
    wanted[0] = 2
    assert watched.step(1.0).actions[0] == 2
    assert not watched.exploring


def test_the_heat_map_is_the_strongest_of_the_screens_and_worked_out_once() -> None:
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(1, 4, 5, 6)).astype(np.float32)
    asked: list[States] = []

    def saliency(states: States) -> NDArray[np.float32]:
        asked.append(states)
        return gradients

    network = WatchedNetwork(predict, saliency)
    assert network.heat_map() is None
    network.predict(np.ones((1, 4, 5, 6), np.uint8))
    assert not asked
    heat = network.heat_map()
    assert network.heat_map() is heat
    assert len(asked) == 1
    assert heat is not None
    for y in range(5):
        for x in range(6):
            strongest = max(abs(float(gradients[0, s, y, x])) for s in range(4))
            assert heat[y, x] == pytest.approx(strongest / np.abs(gradients).max())
    network.predict(np.ones((1, 4, 5, 6), np.uint8))
    assert network.heat_map() is not heat


def test_a_network_that_looks_nowhere_has_a_cold_heat_map() -> None:
    network = WatchedNetwork(predict, lambda states: np.zeros(states.shape, np.float32))
    network.predict(np.ones((1, 4, 5, 6), np.uint8))
    heat = network.heat_map()
    assert heat is not None
    assert np.array_equal(heat, np.zeros((5, 6)))
