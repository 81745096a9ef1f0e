"""Gymnasium's environments with discrete actions, seen as screens.

The observation is the screen where it is an image; otherwise what `render` draws is.
"""

import difflib
import math
from typing import Any, TypeAlias

import ale_py
import cv2
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.interface import Frame, Game, Outcome, Picture, Screen, Watcher
from simple_dqn.errors import UserError
from simple_dqn.ledger import Ledger
from simple_dqn.types import State

AnyEnv: TypeAlias = gymnasium.Env[Any, Any]
GreyPicture: TypeAlias = NDArray[np.uint8]  # [height, width]

SILENCE = np.zeros(0, np.uint8)
DO_NOTHING = 0  # by Gymnasium's habit; there is no rule
SEEDS = 2**31


class GymnasiumGame(Game):
    """One of Gymnasium's environments, in steps of `frame_skip` of its own steps ("frames" here)."""

    can_save = False

    def __init__(
        self,
        config: EnvironmentConfig,
        stream: np.random.Generator,
        watcher: Watcher | None,
        ledger: Ledger,
    ) -> None:
        """Make the environment whose id is `config.game`; `stream` seeds each of its games.

        Raises:
            UserError: There is no such environment, or it lacks pixels, discrete actions or a library.
        """
        self._env, self._rendered = _open(config.game)
        space = self._env.action_space
        assert isinstance(space, Discrete)
        self._first_action = int(space.start)
        self.name = game_name(config.game)
        self.action_names = _action_names(self._env, int(space.n))
        self._random = stream
        self._watcher = watcher
        self._ledger = ledger
        self._frame_skip = config.frame_skip
        self._frame_limit = config.max_game_frames or math.inf
        self._random_starts = config.random_starts
        self._size = (config.screen_width, config.screen_height)
        self._frames = 0  # since the game's start
        self._observation: Any = None

    def start(self, screen: Screen) -> None:
        """Start a new game, and take action 0 for 0 to `random_starts` steps, each as likely."""
        self._restart()
        for _ in range(int(self._random.integers(self._random_starts + 1))):
            if self._hold(DO_NOTHING).reset:
                self._restart()
        self._draw(screen)

    def _restart(self) -> None:
        self._observation, _ = self._env.reset(seed=int(self._random.integers(SEEDS)))
        self._frames = 0

    def act(self, action: int, screen: Screen) -> Outcome:
        """Hold `action` for `frame_skip` frames, or until the game ends."""
        outcome = self._hold(action)
        self._draw(screen)
        return outcome

    def _hold(self, action: int) -> Outcome:
        total, terminal, cut_off = 0.0, False, False
        for _ in range(self._frame_skip):
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

    def get_state(self) -> State:
        """Return the random stream: Gymnasium has no way to write down a game."""
        return {"random": dict(self._random.bit_generator.state)}

    def set_state(self, state: State) -> None:
        """Read the random stream back; the game itself must be started anew."""
        self._random.bit_generator.state = state["random"]

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


def game_name(game: str) -> str:
    """Return the id `game` as it can stand in the name of a file."""
    return game.replace("/", "_").replace(":", "_")


def find_game(game: str) -> str:
    """Return the id `game` as it is: only `open_game` can tell whether there is such an environment."""
    return game


def open_game(
    config: EnvironmentConfig,
    stream: np.random.Generator,
    _training: bool,
    watcher: Watcher | None,
    ledger: Ledger,
) -> GymnasiumGame:
    """Return the Gymnasium environment `config.game`; no lives are known. See `GymnasiumGame`."""
    cv2.setNumThreads(1)  # a screen is too small to share, and the network needs the other cores
    gymnasium.register_envs(ale_py)  # ids such as ALE/Pong-v5
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    return GymnasiumGame(config, stream, watcher, ledger)


def _open(name: str) -> tuple[AnyEnv, bool]:
    """Return the environment, and whether its screens are what it renders.

    A snapshot knows it by its `game_name`: where that is no id, the one that has this name is meant.
    """
    if name not in gymnasium.registry:
        name = next((known for known in gymnasium.registry if game_name(known) == name), name)
    env = _make(name)
    if not isinstance(env.action_space, Discrete):
        env.close()
        raise UserError(f"{name} has no discrete actions but {env.action_space}: choose another environment")
    if _is_image(env.observation_space):
        return env, False
    modes = env.metadata.get("render_modes", ())
    env.close()
    if "rgb_array" not in modes:
        raise UserError(f"{name} has no pixels to look at: choose one that observes or renders an image")
    env = _make(name, render_mode="rgb_array")
    env.reset(seed=0)
    _picture(env)  # here and now, lest a library turns out to be missing in the middle of a run
    return env, True


def _make(name: str, **arguments: Any) -> AnyEnv:
    """Return Gymnasium's environment `name`."""
    try:
        return gymnasium.make(name, disable_env_checker=True, **arguments)
    except (gymnasium.error.DependencyNotInstalled, ModuleNotFoundError) as error:
        raise UserError(f"{name} needs a library that is not installed: {_one_line(error)}") from None
    except gymnasium.error.Error:
        near = difflib.get_close_matches(name, gymnasium.registry, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "give an id such as CartPole-v1"
        raise UserError(f"Gymnasium has no environment {name!r}: {hint}") from None


def _is_image(space: gymnasium.Space[Any]) -> bool:
    grey_or_colour = isinstance(space, Box) and (len(space.shape) == 2 or space.shape[2:] == (3,))
    return grey_or_colour and space.dtype == np.uint8


def _action_names(env: AnyEnv, actions: int) -> tuple[str, ...]:
    """Return the names that `env` has for its actions, as Atari games do; else their numbers."""
    meanings = getattr(env.unwrapped, "get_action_meanings", None)
    return tuple(meanings()) if meanings else tuple(map(str, range(actions)))


def _picture(env: AnyEnv) -> Picture:
    """Return what `env` renders, uint8 [height, width, 3]."""
    try:
        picture = env.render()
    except gymnasium.error.DependencyNotInstalled as error:
        raise UserError(
            f"drawing its screens needs a library that is not installed: {_one_line(error)}"
        ) from None
    assert isinstance(picture, np.ndarray)
    return picture


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
