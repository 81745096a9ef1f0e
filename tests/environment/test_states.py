"""A game that was written down goes on exactly as if it had not been, in any number of processes."""

from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import pytest

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.atari import AtariGame, find_rom
from tests.environment import playing
from tests.environment.playing import assert_same, play

games = partial(
    playing.games, 2, game="seaquest", random_starts=5, screen_width=32, screen_height=32, frame_skip=4
)
# Settings, and the numbers of processes that a state comes from and goes to.
KINDS: list[tuple[dict[str, Any], tuple[int, int]]] = [
    ({"color_averaging": True}, (0, 0)), ({"repeat_action_probability": 0.9}, (2, 0)),  # matters for long
    ({"frame_skip": 1}, (0, 0)), ({"frame_maximum": False}, (0, 0)),
    ({"environment": "gym", "game": "ALE/Seaquest-v5"}, (0, 0)), ({"environment": "catch"}, (0, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "processes"), KINDS, ids=str)
def test_exact_in_the_middle_of_games(settings: dict[str, Any], processes: tuple[int, int]) -> None:
    settings = {"max_game_frames": 80 * settings.get("frame_skip", 4), **settings}
    undisturbed = games(**settings)
    actions = np.random.default_rng(0).integers(undisturbed.actions, size=(100, 2))
    expected = [undisturbed.reset(), *(undisturbed.step(row) for row in actions)][1:]
    end = next(t for t, step in enumerate(expected) if step.resets.any()) + 1
    environment, resumed = (
        games(seed=seed, processes=count, **settings) for seed, count in enumerate(processes)
    )
    with closing(environment), closing(resumed):
        environment.reset()
        play(resumed, 5)
        for t in range(end + 2):
            # At the very start, a few steps in, and around the end of a game.
            state = environment.get_state() if t in {0, 1, 17, end - 1, end, end + 1} else None
            assert_same([environment.step(actions[t])], [expected[t]])  # which does not change the state
            if state:
                resumed.set_state(state)
                assert repr(resumed.get_state()) == repr(state)
                for later in range(t, t + 10):
                    assert_same([resumed.step(actions[later])], [expected[later]])


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
