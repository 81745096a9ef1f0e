"""Games of a user's own: a `SimpleGame`, of which as many are made as are played, or an `Environment`."""

import math
from collections.abc import Sequence

import numpy as np

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.frames import SILENCE, in_colour, scale
from simple_dqn.environment.interface import (
    Environment,
    Frame,
    Game,
    Outcome,
    Screen,
    SimpleGame,
    Watcher,
)
from simple_dqn.environment.own_class import load, name_of
from simple_dqn.errors import UserError
from simple_dqn.ledger import Ledger
from simple_dqn.types import CheckpointState


class OwnGame(Game):
    """A `SimpleGame`, played as any other game: one `act` is a step, and is shown for `frame_skip` frames."""

    can_save = False

    def __init__(
        self,
        game: SimpleGame,
        config: EnvironmentConfig,
        stream: np.random.Generator,
        watcher: Watcher | None,
    ) -> None:
        """Play `game`, whose randomness is to come from `stream`."""
        self.name = name_of(type(game))
        self.action_names = game.action_names
        self._game, self._watcher = game, watcher
        game.random = stream
        self._canvas = np.zeros(game.screen_shape, np.uint8)
        self._frame_skip = config.frame_skip
        self._frame_limit = config.max_game_frames or math.inf
        self._frames = 0  # since the game's start

    def start(self, screen: Screen) -> None:
        """Start a new game; where it begins is the game's affair, not that of `random_starts`."""
        self._frames = 0
        self._game.start()
        self._draw(screen)

    def act(self, action: int, screen: Screen) -> Outcome:
        """Take `action`.

        Raises:
            UserError: The game paid what is no number.
        """
        reward, over = self._game.act(action)
        if not math.isfinite(reward):
            raise UserError(f"{type(self._game).__name__}.act paid a reward of {reward}: mend it")
        self._frames += self._frame_skip
        self._draw(screen)
        cut_off = not over and self._frames >= self._frame_limit
        return Outcome(float(reward), bool(over), truncation=cut_off, reset=over or cut_off)

    def _draw(self, screen: Screen) -> None:
        self._canvas[...] = 0
        self._game.draw(self._canvas)
        scale(self._canvas, screen)
        if self._watcher:
            for _ in range(self._frame_skip):
                self._watcher(Frame(in_colour(self._canvas), SILENCE, lives=0))

    def get_state(self) -> CheckpointState:
        """Return the random stream; the rest of the state is known to the game alone."""
        return {"random": dict(self._game.random.bit_generator.state)}

    def set_state(self, state: CheckpointState) -> None:
        """Read the random stream back; the game itself must be started anew."""
        self._game.random.bit_generator.state = state["random"]

    def close(self) -> None:
        """Do nothing: nothing is open."""


def open_game(
    config: EnvironmentConfig,
    stream: np.random.Generator,
    _training: bool,
    watcher: Watcher | None,
    _ledger: Ledger,
) -> OwnGame:
    """Return a game of the class that `config.environment` names; in a process of its own this imports it."""
    own = load(config.environment)
    assert issubclass(own, SimpleGame)
    return OwnGame(own(), config, stream, watcher)


def find_game(game: str) -> str:
    """Return `game` as it is: the file is named by `--environment`."""
    return game


def make_whole(
    config: EnvironmentConfig,
    streams: Sequence[np.random.Generator],
    training: bool,
    watcher: Watcher | None,
) -> Environment | None:
    """Return the environment that `config.environment` names; None: it names a single game.

    It is made as `CLASS(config, streams, training, watcher)`; see `make`.

    Raises:
        UserError: There is no such class, or processes are to share out its games.
    """
    own = load(config.environment)
    if issubclass(own, SimpleGame):
        return None
    if config.processes:
        raise UserError(
            f"--processes {config.processes} shares out games, and {own.__name__} plays all of them: "
            "leave it out, or make it a SimpleGame"
        )
    return own(config, streams, training, watcher)  # type: ignore[call-arg] # what its users are told


def game_name(environment: str) -> str:
    """Return what the game of `FILE.py:CLASS` is called.

    Raises:
        UserError: There is no such class.
    """
    return name_of(load(environment))
