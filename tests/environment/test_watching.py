"""Who watches sees and hears every frame, as ALE plays it, and changes nothing."""

from typing import Any

import numpy as np
import pytest
from ale_py import ALEInterface, LoggerMode
from ale_py.roms import get_rom_path

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import Environment, Frame, make
from simple_dqn.random_streams import stream
from simple_dqn.types import Step


def watched(**settings: Any) -> tuple[Environment, list[Frame]]:
    frames: list[Frame] = []
    config = EnvironmentConfig(**settings)
    environment = make(config, [stream(3, "environment")], training=False, watcher=frames.append)
    return environment, frames


def play(environment: Environment, steps: int) -> list[Step]:
    rng = np.random.default_rng(1)
    chosen = rng.integers(environment.actions, size=(steps, 1))
    return [environment.reset(), *map(environment.step, chosen)]


def test_frames_are_those_that_ale_plays() -> None:
    environment, frames = watched(game="breakout", random_starts=0)
    steps = play(environment, 30)
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setBool("color_averaging", True)
    ale.setBool("sound_obs", True)
    rom = get_rom_path("breakout")
    assert rom
    ale.loadROM(rom)
    ale.reset_game()
    codes = ale.getMinimalActionSet()
    expected = []
    for step in steps[1:]:
        for _ in range(4):
            ale.act(codes[step.actions[0]])
            expected.append((ale.getScreenRGB(), ale.getAudio(), ale.lives()))
    assert len(frames) == len(expected)
    for frame, (picture, sound, lives) in zip(frames, expected, strict=True):
        np.testing.assert_array_equal(frame.picture, picture)
        np.testing.assert_array_equal(frame.sound, sound)
        assert frame.lives == lives
    assert frames[0].picture is not frames[1].picture


@pytest.mark.parametrize(
    "settings",
    [{"game": "pong", "processes": 1}, {"environment": "catch"},
     {"environment": "gym", "game": "ALE/Pong-v5"}],
)  # fmt: skip
def test_watching_changes_nothing(settings: dict[str, Any]) -> None:
    environment, frames = watched(**settings)
    unwatched = make(EnvironmentConfig(**settings), [stream(3, "environment")], training=False)
    for seen, unseen in zip(play(environment, 9), play(unwatched, 9), strict=True):
        np.testing.assert_array_equal(seen.screens, unseen.screens)
    unwatched.close()
    environment.close()
    assert frames
    assert all(frame.picture.shape[2] == 3 and frame.picture.dtype == np.uint8 for frame in frames)


def test_only_the_first_game_is_watched() -> None:
    frames: list[Frame] = []
    streams = [stream(3, "environment", place) for place in range(3)]
    environment = make(EnvironmentConfig("pong", random_starts=0), streams, False, frames.append)
    environment.reset()
    environment.step(np.zeros(3, np.int64))
    assert len(frames) == 4
