"""Gymnasium's environments with discrete actions, seen as screens.

One of ale-py's is played as `--environment ale` plays it. Of any other, the observation is the screen
where it is an image; otherwise what `render` draws is.
"""

from pathlib import Path
from typing import Any

import ale_py.roms
import cv2
import gymnasium
import numpy as np
from ale_py import ALEInterface, LoggerMode
from ale_py.env import AtariEnv
from gymnasium.spaces import Box, Discrete

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.ale import AtariGame
from simple_dqn.environment.frames import SEEDS, SILENCE, FrameGame, GreyPicture, in_colour, scale
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


class GymnasiumGame(FrameGame):
    """One of Gymnasium's environments, in steps of `frame_skip` of its own steps ("frames" here).

    Its games start without no-ops where action 0 is not called NOOP.
    """

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
        super().__init__(config, stream, ledger)
        self._env, self._rendered = _with_pixels(env)
        space = self._env.action_space
        assert isinstance(space, Discrete)
        self._first_action = int(space.start)
        self.name = game_name(config.game)
        self.action_names = action_meanings(self._env) or tuple(map(str, range(int(space.n))))
        self._watcher = watcher
        if why_no_no_ops(self._env):
            self._most_no_ops = 0
        self._frames = 0  # since the game's start
        self._terminal = self._cut_off = False
        self._observation: Any = None

    def _restart(self) -> None:
        self._observation, _ = self._env.reset(seed=int(self._random.integers(SEEDS)))
        self._frames = 0
        self._terminal = self._cut_off = False

    def act(self, action: int, screen: Screen) -> Outcome:
        """Hold `action` for `frame_skip` frames, or until the game ends."""
        reward = self._hold(action, self._frame_skip)
        self._draw(screen)
        truncation = self._cut_off and not self._terminal
        return Outcome(reward, self._terminal, truncation, reset=self._ended())

    def _hold(self, action: int, frames: int) -> float:
        total = 0.0
        for _ in range(frames):
            step = self._env.step(self._first_action + action)
            self._observation, reward, self._terminal, cut_off, _ = step
            self._frames += 1
            total += float(reward)
            if self._watcher:
                self._watcher(Frame(in_colour(self._seen()), SILENCE, lives=0))
            self._cut_off = cut_off or self._frames >= self._frame_limit
            if self._ended():
                break
        return total

    def _ended(self) -> bool:
        return self._terminal or self._cut_off

    def _draw(self, screen: Screen) -> None:
        frame = self._seen()
        with self._ledger.section("preprocess"):
            scale(cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY) if frame.ndim == 3 else frame, screen)

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
    """Return the picture that `env` renders, uint8 [height, width, 3]."""
    try:
        picture = env.render()
    except gymnasium.error.DependencyNotInstalled as error:
        raise UserError(
            f"drawing its screens needs a library that is not installed: {one_line(error)}"
        ) from None
    assert isinstance(picture, np.ndarray)
    return picture
