"""Gymnasium's environments with discrete actions, seen as screens.

One of ale-py's is played as `--environment ale` plays it. Of any other, the observation is the screen
where it is an image; otherwise what `render` draws is.
"""

import math
from pathlib import Path
from typing import Any, TypeAlias

import ale_py.roms
import cv2
import gymnasium
import numpy as np
from ale_py import ALEInterface, LoggerMode
from ale_py.env import AtariEnv
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.ale import AtariGame
from simple_dqn.environment.gymnasium_ids import (
    AnyEnv,
    action_meanings,
    game_name,
    is_atari,
    one_line,
    open_env,
    tell_of_frames,
    why_no_no_ops,
)
from simple_dqn.environment.interface import Frame, Game, Outcome, Picture, Screen, Watcher
from simple_dqn.errors import UserError
from simple_dqn.ledger import Ledger
from simple_dqn.types import CheckpointState

__all__ = ["GymnasiumGame", "find_game", "game_name", "open_game", "unused_settings"]

GreyPicture: TypeAlias = NDArray[np.uint8]  # [height, width]

SILENCE = np.zeros(0, np.uint8)
NO_OP = 0
SEEDS = 2**31


class GymnasiumGame(Game):
    """One of Gymnasium's environments, in steps of `frame_skip` of its own steps ("frames" here)."""

    can_save = False

    def __init__(
        self,
        env: AnyEnv,
        config: EnvironmentConfig,
        stream: np.random.Generator,
        watcher: Watcher | None,
        ledger: Ledger,
    ) -> None:
        """Play `env`; `stream` seeds each of its games.

        Raises:
            UserError: It lacks pixels, discrete actions or a library.
        """
        self._env, self._rendered = _with_pixels(env)
        space = self._env.action_space
        assert isinstance(space, Discrete)
        self._first_action = int(space.start)
        self.name = game_name(config.game)
        self.action_names = action_meanings(self._env) or tuple(map(str, range(int(space.n))))
        self._random = stream
        self._watcher = watcher
        self._ledger = ledger
        self._frame_skip = config.frame_skip
        self._frame_limit = config.max_game_frames or math.inf
        no_ops = config.random_start_frames or config.random_starts
        self._most_no_ops = 0 if why_no_no_ops(self._env) else no_ops
        self._no_op_frames = 1 if config.random_start_frames else config.frame_skip  # of each no-op
        self._size = (config.screen_width, config.screen_height)
        self._frames = 0  # since the game's start
        self._observation: Any = None

    def start(self, screen: Screen) -> None:
        """Start a new game with 0 to `random_starts` steps, or `random_start_frames` frames, of no-op.

        Each number is as likely. Where action 0 is not called NOOP, there are none.
        """
        self._restart()
        for _ in range(int(self._random.integers(self._most_no_ops + 1))):
            if self._hold(NO_OP, self._no_op_frames).reset:
                self._restart()
        self._draw(screen)

    def _restart(self) -> None:
        self._observation, _ = self._env.reset(seed=int(self._random.integers(SEEDS)))
        self._frames = 0

    def act(self, action: int, screen: Screen) -> Outcome:
        """Hold `action` for `frame_skip` frames, or until the game ends."""
        outcome = self._hold(action, self._frame_skip)
        self._draw(screen)
        return outcome

    def _hold(self, action: int, frames: int) -> Outcome:
        total, terminal, cut_off = 0.0, False, False
        for _ in range(frames):
            self._observation, reward, terminal, cut_off, _ = self._env.step(self._first_action + action)
            self._frames += 1
            total += float(reward)
            if self._watcher:
                self._watcher(Frame(self._in_colour(), SILENCE, lives=0))
            cut_off = cut_off or self._frames >= self._frame_limit
            if terminal or cut_off:
                break
        return Outcome(total, terminal, truncation=cut_off and not terminal, reset=terminal or cut_off)

    def _draw(self, screen: Screen) -> None:
        frame = self._seen()
        with self._ledger.section("preprocess"):
            grey = cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY) if frame.ndim == 3 else frame
            cv2.resize(grey, self._size, dst=screen, interpolation=cv2.INTER_AREA)

    def _in_colour(self) -> Picture:
        """Return a copy of what is seen now in red, green and blue."""
        frame = self._seen()
        return frame.copy() if frame.ndim == 3 else np.repeat(frame[:, :, np.newaxis], 3, axis=2)

    def _seen(self) -> Picture | GreyPicture:
        return np.ascontiguousarray(_picture(self._env) if self._rendered else self._observation)

    def get_state(self) -> CheckpointState:
        """Return the random stream: Gymnasium has no way to write down a game."""
        return {"random": dict(self._random.bit_generator.state)}

    def set_state(self, state: CheckpointState) -> None:
        """Read the random stream back; the game itself must be started anew."""
        self._random.bit_generator.state = state["random"]

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


def find_game(game: str) -> str:
    """Return the id `game` as it is: only `open_game` can tell whether there is such an environment."""
    return game


def open_game(
    config: EnvironmentConfig,
    stream: np.random.Generator,
    training: bool,
    watcher: Watcher | None,
    ledger: Ledger,
) -> Game:
    """Return the Gymnasium environment `config.game`.

    One of ale-py's is an `AtariGame`, played frame by frame on the environment's own emulator. Any other is
    a `GymnasiumGame`, of which no lives are known.

    Raises:
        UserError: There is no such environment, or it lacks pixels, discrete actions or a library.
    """
    cv2.setNumThreads(1)  # a screen is too small to share, and the network needs the other cores
    ALEInterface.setLoggerMode(LoggerMode.Error)
    env = open_env(config.game)
    tell_of_frames(env)
    if not is_atari(env):
        return GymnasiumGame(env, config, stream, watcher, ledger)
    assert env.spec
    spec = env.spec
    atari = open_env(
        spec.id,
        frameskip=1,
        repeat_action_probability=0.0,
        obs_type="grayscale",
        full_action_space=not config.minimal_action_set,
        max_num_frames_per_episode=0,  # `max_game_frames` counts them
    ).unwrapped
    assert isinstance(atari, AtariEnv)
    rom = Path(str(ale_py.roms.get_rom_path(spec.kwargs["game"])))
    game = AtariGame(rom, config, stream, training, watcher, ledger, atari)
    game.name = game_name(config.game)
    return game


def unused_settings(game: str) -> dict[str, str]:
    """Return the settings that would do nothing in the environment `game`, each with the reason.

    Raises:
        UserError: There is no such environment, or it lacks a library.
    """
    ALEInterface.setLoggerMode(LoggerMode.Error)
    env = open_env(game)
    tell_of_frames(env)
    if is_atari(env):
        return {}
    own_screens = "its screens are what it shows after its last step"
    unused = {"color_averaging": own_screens, "frame_maximum": own_screens}
    unused["minimal_action_set"] = "it has one set of actions"
    why = why_no_no_ops(env)
    env.close()
    return unused | (dict.fromkeys(("random_starts", "random_start_frames"), why) if why else {})


def _with_pixels(env: AnyEnv) -> tuple[AnyEnv, bool]:
    """Return the environment `env`, made anew if need be, and whether its screens are what it renders."""
    assert env.spec
    name = env.spec.id
    if not isinstance(env.action_space, Discrete):
        env.close()
        raise UserError(f"{name} has no discrete actions but {env.action_space}: choose another environment")
    if _is_image(env.observation_space):
        return env, False
    modes = env.metadata.get("render_modes", ())
    env.close()
    if "rgb_array" not in modes:
        raise UserError(f"{name} has no pixels to look at: choose one that observes or renders an image")
    env = open_env(name, render_mode="rgb_array")
    env.reset(seed=0)
    _picture(env)  # here and now, lest a library turns out to be missing in the middle of a run
    return env, True


def _is_image(space: gymnasium.Space[Any]) -> bool:
    grey_or_colour = isinstance(space, Box) and (len(space.shape) == 2 or space.shape[2:] == (3,))
    return grey_or_colour and space.dtype == np.uint8


def _picture(env: AnyEnv) -> Picture:
    """Return what `env` renders, uint8 [height, width, 3]."""
    try:
        picture = env.render()
    except gymnasium.error.DependencyNotInstalled as error:
        raise UserError(
            f"drawing its screens needs a library that is not installed: {one_line(error)}"
        ) from None
    assert isinstance(picture, np.ndarray)
    return picture
