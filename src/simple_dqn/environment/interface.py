"""The interfaces of an environment, and of one game in it.

`E` games run side by side; a screen is uint8 [H, W].
"""

import math
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simple_dqn.errors import UserError
from simple_dqn.types import Actions, CheckpointState, Step

Screen: TypeAlias = NDArray[np.uint8]  # [H, W], grey levels
Picture: TypeAlias = NDArray[np.uint8]  # [height, width, 3], red, green, blue

FRAMES_PER_SECOND = 60  # of a console, and of games that do not say
NO_ACTION = -1  # no button is pressed; Atari games take it beside their own actions
MOST_POINTS = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class Frame:
    """The picture and the sound of one frame; the receiver owns the arrays."""

    picture: Picture
    sound: NDArray[np.uint8]  # unsigned 8-bit samples, one channel; none where the game has no sound
    lives: int  # left; 0 where there are no lives
    reward: float = 0.0  # gained in this frame, raw game points

    @staticmethod
    def silent(picture: NDArray[np.uint8], reward: float = 0.0) -> "Frame":
        """Return a frame without sound and lives, with a copy of `picture`, in grey or in colour."""
        colours = picture.copy() if picture.ndim == 3 else np.repeat(picture[:, :, np.newaxis], 3, axis=2)
        return Frame(colours, np.zeros(0, np.uint8), lives=0, reward=reward)


Watcher: TypeAlias = Callable[[Frame], None]  # is called at each frame, before the next is played


class Environment(ABC):
    """E games of one kind that step together.

    Attributes:
        games: How many games there are, E.
        actions: How many actions there are to choose from, A.
        action_names: Their names, such as `NOOP` and `UPRIGHTFIRE`.
        screen_shape: Height and width of a screen in pixels, (H, W).
        name: The game's name, fit for file names, such as `space_invaders`.
        rom_md5: The MD5 of the game's ROM, in hexadecimal; None: it has none.
        can_save: Whether `get_state` can save games in progress. If not, it holds the random streams
            only and `set_state` starts new games; for a run to equal a resumed one, it must then
            `reset` after each `get_state`.
        frames_per_second: How fast a person sees the game.
    """

    games: int
    actions: int
    action_names: tuple[str, ...]
    screen_shape: tuple[int, int]
    name: str
    rom_md5: str | None
    can_save: bool
    frames_per_second: float = FRAMES_PER_SECOND

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
        """Restore what `get_state` returned, in this or in another process.

        Raises:
            UserError: The state is of another game, or of another number of games.
        """

    @abstractmethod
    def close(self) -> None:
        """Finish recordings and close windows; the environment cannot be used any more."""


def check_games(state: CheckpointState, environment: Environment) -> None:
    """Check that a state belongs to these games.

    Raises:
        UserError: The state is of another game, or of another number of games.
    """
    games, ended = len(state["games"]), state["ended"]
    if state["name"] != environment.name:
        raise UserError(f"the checkpoint is of {state['name']}, not of {environment.name}: use another one")
    if games != environment.games:
        raise UserError(f"the checkpoint holds {games} game(s): resume with --workers {games}")
    if ended.shape != (games,) or ended.dtype != np.bool_:
        raise UserError("the checkpoint does not say which games have ended: use another one")


class Outcome(NamedTuple):
    """The outcome of one action in one game; the fields are those of `Step`."""

    reward: float  # raw game points
    terminal: bool
    truncation: bool
    reset: bool


def game_points(reward: Any, where: str) -> float:
    """Return `reward`, which a game paid at the step `where`, as a number.

    Raises:
        UserError: It is not one number, or float32 cannot hold it.
    """
    number = math.nan
    if not (isinstance(reward, str | bytes | np.ma.MaskedArray) or np.iscomplexobj(reward)):
        with suppress(TypeError, ValueError, OverflowError):
            number = float(reward.item() if isinstance(reward, np.ndarray) else reward)
    if not abs(number) <= MOST_POINTS:
        paid = textwrap.shorten(repr(reward), 60)
        raise UserError(f"{where}: the reward is {paid}: make it a finite number")
    return number


def is_true(answer: Any, what: str, where: str) -> bool:
    """Return `answer`, by which a game says `what` at the step `where`, as a truth value.

    Raises:
        UserError: It is none, nor 0 or 1: of an array or a text Python would make one.
    """
    if isinstance(answer, bool | np.bool_) or (isinstance(answer, int | np.integer) and answer in (0, 1)):
        return bool(answer)
    raise UserError(f"{where}: {what} is {textwrap.shorten(repr(answer), 60)}: make it True or False")


class Game(ABC):
    """One game, which knows nothing of others beside it.

    Attributes: `name`, `rom_md5`, `action_names`, `can_save` and `frames_per_second`, as in `Environment`,
    and its source of randomness, `random`.
    """

    name: str
    rom_md5: str | None = None
    action_names: tuple[str, ...]
    can_save: bool = False
    frames_per_second: float = FRAMES_PER_SECOND
    random: np.random.Generator

    @abstractmethod
    def start(self, screen: Screen) -> None:
        """Start a new game and draw its first screen into `screen` uint8 [H, W]."""

    @abstractmethod
    def act(self, action: int, screen: Screen) -> Outcome:
        """Take `action` (0 to A - 1) and draw what is seen then into `screen` uint8 [H, W]."""

    def get_state(self) -> CheckpointState:
        """Return the game's state and random stream; without `can_save` the random stream alone."""
        return {"random": dict(self.random.bit_generator.state)}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned; without `can_save` a new game must be started."""
        self.random.bit_generator.state = state["random"]

    def close(self) -> None:  # noqa: B027 - most games have nothing to close
        """Finish recordings and close windows."""
