"""Games, random play and a plain emulator, for the tests of this folder."""

from typing import Any

import numpy as np
from ale_py import ALEInterface, LoggerMode
from ale_py.roms import get_rom_path

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import Environment, Watcher, make
from simple_dqn.random_streams import stream
from simple_dqn.types import Step


def games(
    count: int = 1, *, seed: int = 0, first: int = 0, training: bool = True, watcher: Watcher | None = None,
    **settings: Any,
) -> Environment:  # fmt: skip
    """Return `count` games; the stream of each is that of its place, from `first`."""
    config = EnvironmentConfig(**{"color_averaging": False, **settings})
    return make(config, [stream(seed, "environment", first + i) for i in range(count)], training, watcher)


def play(environment: Environment, steps: int, seed: int = 5) -> list[Step]:
    """Return the first step and `steps` steps of random actions."""
    actions = np.random.default_rng(seed).integers(environment.actions, size=(steps, 64))
    return [environment.reset(), *(environment.step(row[: environment.games]) for row in actions)]


def assert_same(some: list[Step], others: list[Step]) -> None:
    for one, other in zip(some, others, strict=True):
        for field in Step.__slots__:
            a, b = getattr(one, field), getattr(other, field)
            assert a.dtype == b.dtype
            assert np.array_equal(a, b), field


def plain_emulator(
    game: str, *, averaging: bool = False, frame_skip: int = 1, sound: bool = False
) -> ALEInterface:
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setInt("frame_skip", frame_skip)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setBool("color_averaging", averaging)
    ale.setBool("sound_obs", sound)
    ale.loadROM(str(get_rom_path(game)))
    ale.reset_game()
    return ale
