"""Gymnasium's environments with discrete actions, seen as screens.

An environment of ale-py's is played as `--environment ale` plays it. In any other, the screen is the
observation if that is an image, else the picture that `render` draws.
"""

import difflib
from dataclasses import replace
from typing import Any, TypeAlias

import ale_py
import ale_py.roms
import cv2
import gymnasium
import numpy as np
from ale_py import ALEInterface, LoggerMode
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.ale import AtariGame
from simple_dqn.environment.emulator import Variant
from simple_dqn.environment.frames import SEEDS, FrameGame, scale
from simple_dqn.environment.interface import Frame, Game, Outcome, Screen, Watcher
from simple_dqn.errors import UserError, one_line

AnyEnv: TypeAlias = gymnasium.Env[Any, Any]

ATARI = "ale_py.env:AtariEnv"

ALEInterface.setLoggerMode(LoggerMode.Error)
gymnasium.register_envs(ale_py)  # ids such as ALE/Pong-v5


class GymnasiumGame(FrameGame):
    """One of Gymnasium's environments, in steps of `frame_skip` of its own steps ("frames" here).

    Its games start without no-ops where action 0 is not called NOOP. It has no lives, and its games cannot be
    saved in the middle.
    """

    def __init__(
        self,
        env: AnyEnv,
        config: EnvironmentConfig,
        stream: np.random.Generator,
        watcher: Watcher | None,
    ) -> None:
        """Play `env`; `stream` seeds each of its games.

        Raises:
            UserError: It lacks pixels, discrete actions or a library.
        """
        super().__init__(config, stream)
        self._env, self._rendered = _with_pixels(env)
        space = self._env.action_space
        assert isinstance(space, Discrete)
        self._first_action = int(space.start)
        self.name = game_name(config.game)
        self.action_names = _action_meanings(self._env) or tuple(map(str, range(int(space.n))))
        self._watcher = watcher
        if self.action_names[0] != "NOOP":
            self._most_no_ops = 0
        self._frames = 0  # since the game's start
        self._terminal = self._cut_off = False
        self._observation: Any = None

    def _restart(self) -> None:
        self._observation, _ = self._env.reset(seed=int(self.random.integers(SEEDS)))
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
                self._watcher(Frame.silent(self._seen(), float(reward)))
            self._cut_off = cut_off or self._frames >= self._frame_limit
            if self._ended():
                break
        return total

    def _ended(self) -> bool:
        return self._terminal or self._cut_off

    def _draw(self, screen: Screen) -> None:
        frame = self._seen()
        scale(cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY) if frame.ndim == 3 else frame, screen)

    def _seen(self) -> NDArray[np.uint8]:
        """Return the current picture, uint8 [height, width], or [height, width, 3] in colour."""
        return np.ascontiguousarray(_picture(self._env) if self._rendered else self._observation)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


def open_game(
    config: EnvironmentConfig,
    stream: np.random.Generator,
    training: bool,
    watcher: Watcher | None,
) -> Game:
    """Return the Gymnasium environment `config.game`: an `AtariGame` if it is ale-py's.

    Raises:
        UserError: There is no such environment, or it lacks pixels, discrete actions or a library.
    """
    env = _open_env(config.game)
    if not _is_atari(env):
        return GymnasiumGame(env, config, stream, watcher)
    assert env.spec
    settings = env.spec.kwargs
    of_rom = replace(config, game=str(ale_py.roms.get_rom_path(settings["game"])))
    variant = Variant(settings.get("mode"), settings.get("difficulty"))
    game = AtariGame(of_rom, stream, training, watcher, variant)
    game.name = game_name(config.game)
    return game


def game_name(game: str) -> str:
    """Return the id `game` as it can stand in the name of a file."""
    return game.replace("/", "_").replace(":", "_")


def is_atari(game: str) -> bool:
    """Return whether the id `game` is one of ale-py's.

    Raises:
        UserError: There is no such environment, or it lacks a library.
    """
    return _is_atari(_open_env(game))


def has_no_op(game: str) -> bool:
    """Return whether action 0 of the environment `game` is called NOOP.

    Raises:
        UserError: There is no such environment, or it lacks a library.
    """
    return _action_meanings(_open_env(game))[:1] == ("NOOP",)


def _open_env(game: str, **arguments: Any) -> AnyEnv:
    """Return Gymnasium's environment `game`, which may be the `game_name` by which a snapshot knows it."""
    name = game
    if game not in gymnasium.registry:
        wanted = game.removeprefix("ale_py_")  # from the id ale_py:ALE/Pong-v5
        name = next((known for known in gymnasium.registry if game_name(known) == wanted), game)
    try:
        return gymnasium.make(name, disable_env_checker=True, **arguments)
    except (gymnasium.error.DependencyNotInstalled, ModuleNotFoundError) as error:
        raise UserError(f"{name} needs a library that is not installed: {one_line(error)}") from None
    except gymnasium.error.Error:
        near = difflib.get_close_matches(name, gymnasium.registry, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "give an id such as CartPole-v1"
        raise UserError(f"Gymnasium has no environment {name!r}: {hint}") from None


def _is_atari(env: AnyEnv) -> bool:
    """Return whether `env` is one of ale-py's, with nothing around it that would change the game."""
    spec = env.spec
    if spec is None or spec.entry_point != ATARI or spec.kwargs.get("continuous"):
        return False
    return not spec.additional_wrappers and spec.max_episode_steps is None


def _action_meanings(env: AnyEnv) -> tuple[str, ...]:
    """Return the names that `env` has for its actions, as Atari games do; none where it has none."""
    meanings = getattr(env.unwrapped, "get_action_meanings", None)
    return tuple(meanings()) if meanings else ()


def _with_pixels(env: AnyEnv) -> tuple[AnyEnv, bool]:
    """Return the environment `env`, made anew if need be, and whether its screens are what it renders."""
    assert env.spec
    name = env.spec.id
    if not isinstance(env.action_space, Discrete):
        raise UserError(f"{name} has no discrete actions but {env.action_space}: choose another environment")
    space = env.observation_space
    grey_or_colour = isinstance(space, Box) and (len(space.shape) == 2 or space.shape[2:] == (3,))
    if grey_or_colour and space.dtype == np.uint8:
        return env, False
    if "rgb_array" not in env.metadata.get("render_modes", ()):
        raise UserError(f"{name} has no pixels: choose an environment that observes or renders images")
    env.close()
    env = _open_env(name, render_mode="rgb_array")
    env.reset(seed=0)
    _picture(env)  # now, so that a missing library is noticed before the run begins
    return env, True


def _picture(env: AnyEnv) -> NDArray[np.uint8]:
    """Return the picture that `env` renders, uint8 [height, width, 3]."""
    try:
        picture = env.render()
    except gymnasium.error.DependencyNotInstalled as error:
        needed = "drawing its screens needs a library that is not installed"
        raise UserError(f"{needed}: {one_line(error)}") from None
    assert isinstance(picture, np.ndarray)
    return picture
