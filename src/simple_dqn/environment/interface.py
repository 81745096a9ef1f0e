"""The interface of E games that step together, and the games that one process plays one after the other.

`E` games run side by side; a screen is uint8 [H, W].
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from atari2600.draws import Draws
from simple_dqn.config import EnvironmentConfig
from simple_dqn.errors import UserError
from simple_dqn.types import Actions, CheckpointState, Screens, Step, observation_dtype

Screen: TypeAlias = NDArray[Any]  # uint8 [H, W], gray levels; or float32, see `simple_dqn.types`
Picture: TypeAlias = NDArray[np.uint8]  # [height, width, 3], red, green, blue

FRAMES_PER_SECOND = 60  # of a console, and of games that do not say
NO_OP = 0  # the action that does nothing, in games that have one
NO_ACTION = -1  # no button is pressed; Atari games take it in addition to their own actions
SEEDS = 2**31  # Gymnasium takes seeds below this
# What all games of an environment have in common.
FACTS = ("action_names", "name", "rom_md5", "can_save", "frames_per_second", "screen_shape")


@dataclass(frozen=True, slots=True)
class Frame:
    """The picture and the sound of one frame; the receiver owns the arrays."""

    picture: Picture
    sound: NDArray[np.uint8]  # unsigned 8-bit samples, one channel; none where the game has no sound
    lives: int  # left; 0 where there are no lives
    reward: float = 0.0  # gained in this frame, raw game points

    @staticmethod
    def silent(picture: NDArray[np.uint8], reward: float = 0.0) -> "Frame":
        """Return a frame without sound and lives, with a copy of `picture`, in gray or in color."""
        colors = picture.copy() if picture.ndim == 3 else np.repeat(picture[:, :, np.newaxis], 3, axis=2)
        return Frame(colors, np.zeros(0, np.uint8), lives=0, reward=reward)


Watcher: TypeAlias = Callable[[Frame], None]  # is called at each frame, before the next is played


class Environment(AbstractContextManager["Environment"]):
    """E games of one kind that step together; the end of a `with` closes them.

    Attributes:
        games: How many games there are, E.
        actions: How many actions there are to choose from, A.
        action_names: Their names, such as `NOOP` and `UPRIGHTFIRE`.
        screen_shape: Height and width of a screen in pixels, (H, W); of numbers (D,) or (K, H, W).
        name: The game's name, fit for file names, such as `space_invaders`.
        rom_md5: The MD5 of the game's ROM, in hexadecimal; None: it has none.
        can_save: Whether `get_state` can save games in progress. If not, it holds the random streams
            only and `set_state` starts new games; for a run to equal a resumed one, it must then
            `reset` after each `get_state`.
        frames_per_second: How fast a person sees the game.
        device: PyTorch's device on which the screens of steps are tensors; None: they are NumPy arrays.
    """

    games: int
    actions: int
    action_names: tuple[str, ...]
    screen_shape: tuple[int, ...]
    name: str
    rom_md5: str | None
    can_save: bool = True
    frames_per_second: float = FRAMES_PER_SECOND
    device: Any = None

    @abstractmethod
    def reset(self) -> Step:
        """Start every game anew; return the step with their first screens."""

    @abstractmethod
    def step(self, actions: Actions) -> Step:
        """Take `actions` int64 [E], one in each game, and return the step, whose arrays the caller may keep.

        A game whose last step said `resets` is started anew instead; its action is ignored.
        """

    @abstractmethod
    def get_state(self) -> CheckpointState:
        """Return the complete state of the games, with their random streams."""

    @abstractmethod
    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned, here or elsewhere; UserError: it is the state of other games."""

    def close(self) -> None:
        """Finish recordings and close windows; the environment cannot be used any more."""

    def __exit__(self, *error: object) -> None:
        self.close()

    def check_state(self, state: CheckpointState) -> None:
        """Raise UserError if `state` is of another game, or of another number of games."""
        games, ended = len(state["games"]), state["ended"]
        if state["name"] != self.name:
            raise UserError(f"the checkpoint is of {state['name']}, not of {self.name}: use another one")
        if games != self.games or ended.shape != (games,) or ended.dtype != np.bool_:
            raise UserError(f"the checkpoint holds {games} game(s): resume with --workers {games}")


def draws_of(stream: np.random.Generator) -> Draws:
    """Return the random number generator of a game, seeded from `stream`."""
    return Draws(int(stream.integers(2**32)))


class Game(ABC):
    """One game, in steps of `frame_skip` frames, with attributes as in `Environment`."""

    name: str
    rom_md5: str | None = None
    action_names: tuple[str, ...]
    can_save: bool = True
    frames_per_second: float = FRAMES_PER_SECOND

    def __init__(self, config: EnvironmentConfig, stream: np.random.Generator) -> None:
        cv2.setNumThreads(1)  # a screen is too small to share, and the network needs the other cores
        self.random = draws_of(stream)
        self.screen_shape: tuple[int, ...] = (config.screen_height, config.screen_width)
        self._frame_skip = config.frame_skip
        self._frame_limit: float = config.max_game_frames or math.inf

    @abstractmethod
    def start(self, screen: Screen) -> None:
        """Start a new game, and draw its first screen into `screen` uint8 [H, W]."""

    @abstractmethod
    def act(self, action: int, screen: Screen) -> tuple[float, bool, bool]:
        """Take `action` (0 to A - 1) and draw the new picture into `screen` uint8 [H, W].

        Returns:
            The reward in raw game points, whether an episode ended, and whether the game is over or cut off.
        """

    def get_state(self) -> CheckpointState:
        """Return the game's state and random stream; without `can_save` the random stream alone."""
        return {"random": self.random.get_state()}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned; without `can_save` a new game must be started."""
        self.random.set_state(state["random"])

    def close(self) -> None:  # noqa: B027 - most games have nothing to close
        """Finish recordings and close windows."""


def scale(frame: NDArray[Any], screen: Screen) -> None:
    """Scale `frame` uint8 [height, width] to `screen` uint8 [H, W], by the mean of the area of each pixel."""
    assert frame.dtype == np.uint8, "OpenCV would leave the screen as it is, and return another"
    cv2.resize(frame, screen.shape[::-1], dst=screen, interpolation=cv2.INTER_AREA)


# Makes one game from its settings, its random stream, `training` and a watcher.
OpenGame: TypeAlias = Callable[[EnvironmentConfig, np.random.Generator, bool, Watcher | None], Game]


class GameVector(Environment):
    """An environment of E games of one kind, each a `Game`, stepped one after the other."""

    def __init__(
        self, open_game: OpenGame, config: EnvironmentConfig, streams: Sequence[np.random.Generator],
        training: bool, watcher: Watcher | None = None,
    ) -> None:  # fmt: skip
        """Open a game for each of `streams`, the first of which is displayed, recorded and watched."""
        self._games: list[Game] = []
        try:
            for stream in streams:
                self._games.append(open_game(config, stream, training, watcher))
                config, watcher = config.unseen(), None
        except BaseException:
            with suppress(UserError):
                self.close()
            raise
        for name in FACTS:
            setattr(self, name, getattr(self._games[0], name))
        self.games, self.actions = len(self._games), len(self.action_names)
        self._ended = np.ones(self.games, np.bool_)  # [E], games that the next step starts anew

    def reset(self) -> Step:
        """Start every game anew; return the step with their first screens."""
        self._ended[:] = True
        return self.step(np.zeros(self.games, np.int64))

    def step(self, actions: Actions) -> Step:
        """Take `actions` int64 [E], game after game; see `Environment.step`."""
        starts, actions = self._ended, np.where(self._ended, 0, actions)
        screens: Screens = np.empty((self.games, *self.screen_shape), observation_dtype(self.screen_shape))
        rewards = np.zeros(self.games, np.float32)
        terminals, resets = np.zeros((2, self.games), np.bool_)
        for i, (game, action) in enumerate(zip(self._games, actions.tolist(), strict=True)):
            if starts[i]:
                game.start(screens[i])
            else:
                rewards[i], terminals[i], resets[i] = game.act(action, screens[i])
        self._ended = resets.copy()
        return Step(screens, actions, rewards, terminals, resets & ~terminals, resets, starts)

    def get_state(self) -> CheckpointState:
        """Return the state of every game, and which of them are to start anew."""
        games: CheckpointState = {str(i): game.get_state() for i, game in enumerate(self._games)}
        return {"name": self.name, "games": games, "ended": self._ended.copy()}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned; see `Environment.set_state`."""
        self.check_state(state)
        for i, game in enumerate(self._games):
            game.set_state(state["games"][str(i)])
        self._ended = state["ended"].copy() if self.can_save else np.ones(self.games, np.bool_)

    def close(self) -> None:
        """Close every game, also where closing another fails."""
        with ExitStack() as stack:
            while self._games:  # on a cluster, the test and the training share them
                stack.callback(self._games.pop().close)
