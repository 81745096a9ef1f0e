"""The game that is kept, against what the player saw and did while it was played."""

import numpy as np
import pytest

from nvis.played import PlayedGame, play_game
from simple_dqn.agent import Player
from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import make
from simple_dqn.types import QValues, States


@pytest.mark.parametrize("games", [1, 3])
def test_states_are_those_that_the_player_saw(games: int) -> None:
    seen: list[States] = []

    def predict(states: States) -> QValues:
        """Prefer the action that the number of calls so far says."""
        seen.append(states[0].copy())
        return np.tile(np.eye(3, dtype=np.float32)[len(seen) % 3], (len(states), 1))

    config = EnvironmentConfig(environment="catch", screen_height=16, screen_width=10)
    streams = [np.random.default_rng(seed) for seed in range(games)]
    environment = make(config, streams, training=False)
    player = Player(environment, predict, 3, np.random.default_rng(0))
    for _ in range(3):
        seen.clear()
        game = play_game(player, 3, exploration_rate=0)
        assert len(game) == 7
        np.testing.assert_array_equal(game.states(np.arange(7)), np.stack(seen))
        np.testing.assert_array_equal(game.actions, (np.arange(7) + 1) % 3)
        assert (game.rewards[:-1] == 0).all()
        assert abs(game.rewards[-1]) == 1
        assert game.action_names == environment.action_names


def test_states_in_any_order_and_twice(noise: PlayedGame) -> None:
    times = np.array([40, 0, 40, 1])
    states = noise.states(times)
    np.testing.assert_array_equal(states[0], noise.screens[38:41])
    np.testing.assert_array_equal(states[2], states[0])
    assert not states[1, :2].any()
    np.testing.assert_array_equal(states[3, 1:], noise.screens[:2])


def test_whole_states_have_no_screen_from_before_the_game(noise: PlayedGame) -> None:
    assert noise.screens.any(axis=(1, 2)).all()
    whole = [time for time, state in enumerate(noise.states(np.arange(75))) if state.any(axis=(1, 2)).all()]
    np.testing.assert_array_equal(noise.whole(), whole)


def test_of_a_game_shorter_than_a_state_the_last_one_counts() -> None:
    screens = np.ones((2, 4, 4), np.uint8)
    game = PlayedGame(5, ("NOOP",), screens, np.zeros(2, np.int64), np.zeros(2, np.float32))
    np.testing.assert_array_equal(game.whole(), [1])


def test_states_are_the_callers(player: Player) -> None:
    game = play_game(player, 3, exploration_rate=1)
    before = game.screens.copy()
    game.states(np.arange(7))[:] = 99
    np.testing.assert_array_equal(game.screens, before)
