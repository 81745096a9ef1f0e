"""Games, random play and a plain emulator, for the tests of this folder."""

import math
from typing import Any

import numpy as np
from ale_py import Action, ALEInterface, LoggerMode
from ale_py.roms import get_rom_path

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import Environment, Watcher, make
from simple_dqn.environment.interface import draws_of
from simple_dqn.random_streams import stream
from simple_dqn.types import Actions, Step


def games(
    count: int = 1, *, seed: int = 0, first: int = 0, training: bool = True, watcher: Watcher | None = None,
    **settings: Any,
) -> Environment:  # fmt: skip
    """Return `count` games; the stream of each is that of its place, from `first`."""
    config = EnvironmentConfig(**{"color_averaging": False, **settings})
    return make(config, [stream(seed, "environment", first + i) for i in range(count)], training, watcher)


def play(environment: Environment, steps: int, seed: int = 5) -> list[Step]:
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


def plain_steps(
    actions: Actions, *, game: str, training: bool = True, seed: int = 0, **settings: Any
) -> list[Step]:
    """Return the steps of one game by `actions` [steps], frame by frame from the rules, of native size."""
    config = EnvironmentConfig(game=game, **{"color_averaging": False, **settings})
    ale = plain_emulator(game, averaging=config.color_averaging)
    draws = draws_of(stream(seed, "environment", 0))
    codes, held, frames = ale.getMinimalActionSet(), Action.NOOP, [ale.getScreenGrayscale()]
    steps, lives = list[Step](), 0

    def over() -> bool:
        limit = config.max_game_frames or math.inf
        return bool(ale.game_over() or ale.getEpisodeFrameNumber() >= limit)

    def hold(action: Action, count: int) -> int:
        nonlocal held
        reward = 0
        for left in reversed(range(count)):
            if not config.repeat_action_probability or draws.random() >= config.repeat_action_probability:
                held = action  # otherwise that of the frame before is repeated (Machado et al. 2018)
            reward += ale.act(held)
            frames.append(ale.getScreenGrayscale())
            if left and over():  # a step that is cut short shows its last frame alone
                frames[:] = frames[-1:]
                break
        return reward

    def start_anew() -> None:
        nonlocal held
        ale.reset_game()
        held, frames[:] = Action.NOOP, [ale.getScreenGrayscale()]

    for action in [0, *actions]:
        starts, reward, terminal = not steps or bool(steps[-1].resets[0]), 0, False
        if starts:
            if steps:  # `plain_emulator` has begun the first
                start_anew()
            for _ in range(draws.integers(max(config.random_starts, config.random_start_frames) + 1)):
                hold(Action.NOOP, 1 if config.random_start_frames else config.frame_skip)
                if over():
                    start_anew()
        else:
            reward = hold(codes[action], config.frame_skip)
            terminal = ale.game_over() or (training and ale.lives() < lives)
        lives, resets = ale.lives(), not starts and over()
        maximum = config.frame_maximum and not config.color_averaging
        screen = np.max(frames[-2:] if maximum else frames[-1:], axis=0)
        flags = np.array([[terminal], [resets and not terminal], [resets], [starts]])
        taken, paid = np.array([0 if starts else action]), np.array([reward], np.float32)
        steps.append(Step(screen[np.newaxis], taken, paid, *flags))
    return steps
