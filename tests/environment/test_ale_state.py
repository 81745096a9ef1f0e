"""An Atari game that was written down goes on exactly as if it had not been."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import Environment
from simple_dqn.environment.atari import AtariGame, find_rom
from tests.environment import playing
from tests.environment.playing import assert_same

games = partial(
    playing.games, 2, game="breakout", max_game_frames=700, random_starts=5, screen_width=32, screen_height=32
)
KINDS: list[dict[str, Any]] = [
    {"color_averaging": averaging, "frame_skip": skip, "repeat_action_probability": probability}
    for averaging, skip, probability in ((True, 4, 0.0), (False, 4, 0.9), (False, 1, 0.0))
]  # A high probability, so that the action to repeat matters for long.
KINDS.append({"color_averaging": False, "frame_maximum": False, "frame_skip": 4})
KINDS.append({"environment": "gym", "game": "ALE/Seaquest-v5", "frame_skip": 4})


@pytest.mark.parametrize("settings", KINDS)
def test_exact_in_the_middle_of_games(settings: dict[str, Any]) -> None:
    settings = {"game": "seaquest", "max_game_frames": 80 * settings["frame_skip"], **settings}
    environment, undisturbed = games(**settings), games(**settings)
    actions = np.random.default_rng(0).integers(environment.actions, size=(100, 2))
    expected = [undisturbed.reset(), *(undisturbed.step(row) for row in actions)][1:]
    end = next(t for t, step in enumerate(expected) if step.resets.any()) + 1
    environment.reset()
    for t in range(85):
        # At the very start, a few steps in, and around the end of a game.
        if t in {0, 1, 17, end - 1, end, end + 1}:
            resumed = games(seed=99, **settings)
            play_something_else(resumed)
            resumed.set_state(environment.get_state())
            for later in range(t, t + 15):
                assert_same([resumed.step(actions[later])], [expected[later]])
        assert_same([environment.step(actions[t])], [expected[t]])


@pytest.mark.parametrize("game", ["qbert", "tetris"])  # ALE does not save that their frame is unfinished
def test_ram_screens_and_rewards_of_a_restored_emulator_are_exact(game: str) -> None:
    config, rng = EnvironmentConfig(game=str(find_rom(game))), np.random.default_rng(0)
    games = [AtariGame(config, np.random.default_rng(seed), True, None) for seed in (1, 2)]
    emulators = [one._ale for one in games]
    screens = np.zeros((2, *emulators[0].getScreenDims()), np.uint8)
    codes = games[0]._action_set
    games[0]._restart()
    for frames in (0, 2, 61, 1, 200):  # from the start of the game, and around the renewal of its anchor
        for code in rng.choice(codes, frames).tolist():
            games[0]._play_frame(code)
            if emulators[0].game_over():
                games[0]._restart()
        games[1].set_state(games[0].get_state())
        for code in rng.choice(codes, 150).tolist():
            assert games[0]._play_frame(code) == games[1]._play_frame(code)
            for one, screen in zip(emulators, screens, strict=True):
                one.getScreenGrayscale(screen)
            assert np.array_equal(*screens)
            assert np.array_equal(emulators[0].getRAM(), emulators[1].getRAM())
            assert len({(one.lives(), one.game_over()) for one in emulators}) == 1
            if emulators[0].game_over():
                for game_of_both in games:
                    game_of_both._restart()


def play_something_else(environment: Environment) -> None:
    environment.reset()
    for t in range(30):
        environment.step(np.full(environment.games, t % environment.actions))


def test_a_state_does_not_change_as_the_game_goes_on() -> None:
    environment = games()
    environment.reset()
    for t in range(10):
        environment.step(np.full(2, t % 4))
    state = environment.get_state()
    expected = [environment.step(np.full(2, t % 4)) for t in range(40)]
    environment.set_state(state)
    for t, step in enumerate(expected):
        assert_same([environment.step(np.full(2, t % 4))], [step])
