"""E games in one process, stepped one after the other."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TypeAlias

import numpy as np

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.interface import Environment, Game, Watcher, check_games
from simple_dqn.errors import UserError
from simple_dqn.types import Actions, CheckpointState, Step

# Makes one game from its settings, its random stream, whether a lost life ends an episode, and a watcher. It
# is at the top of a module, so that it can be sent to a process.
OpenGame: TypeAlias = Callable[[EnvironmentConfig, np.random.Generator, bool, Watcher | None], Game]


def open_games(
    open_game: OpenGame,
    config: EnvironmentConfig,
    streams: Sequence[np.random.Generator],
    training: bool,
    watcher: Watcher | None = None,
) -> Environment:
    """Return a game for each of `streams`, the first of which is displayed, recorded and watched."""
    if config.emulator == "warp" and config.environment == "ale" and watcher is None:
        from simple_dqn.environment.warp_emulator import check

        check(Path(config.game), config)
        from simple_dqn.environment.warp_vector import WarpVector

        return WarpVector(config, streams, training)
    games: list[Game] = []
    try:
        games.append(open_game(config, streams[0], training, watcher))
        for stream in streams[1:]:
            games.append(open_game(config.unseen(), stream, training, None))  # noqa: PERF401 - to be closed
    except BaseException:
        with suppress(UserError):
            close_games(games)
        raise
    return GameVector(games, (config.screen_height, config.screen_width))


def close_games(games: Sequence[Game]) -> None:
    """Close every one of `games`, also where closing another fails."""
    with ExitStack() as stack:
        for game in reversed(games):
            stack.callback(game.close)


class GameVector(Environment):
    """An environment of E games of one kind, each a `Game`."""

    def __init__(self, games: Sequence[Game], screen_shape: tuple[int, int]) -> None:
        """Take `games`, at least one, which draw screens of `screen_shape` (H, W) in pixels."""
        self.each_game = list(games)
        self.games = len(self.each_game)
        self.action_names = self.each_game[0].action_names
        self.actions = len(self.action_names)
        self.name = self.each_game[0].name
        self.rom_md5 = self.each_game[0].rom_md5
        self.can_save = self.each_game[0].can_save
        self.frames_per_second = self.each_game[0].frames_per_second
        self.screen_shape = screen_shape
        self._ended = np.ones(self.games, np.bool_)  # [E], games that the next step starts anew

    def reset(self) -> Step:
        """Start every game anew; return the step with their first screens."""
        step = Step.start(np.empty((self.games, *self.screen_shape), np.uint8))
        for game, screen in zip(self.each_game, step.screens, strict=True):
            game.start(screen)
        self._ended = step.resets.copy()
        return step

    def step(self, actions: Actions) -> Step:
        """Take `actions` int64 [E], game after game; see `Environment.step`."""
        starts, actions = self._ended, np.where(self._ended, 0, actions)
        screens = np.empty((self.games, *self.screen_shape), np.uint8)
        rewards = np.zeros(self.games, np.float32)
        terminals, truncations, resets = np.zeros((3, self.games), np.bool_)
        for i, (game, action) in enumerate(zip(self.each_game, actions.tolist(), strict=True)):
            if starts[i]:
                game.start(screens[i])
            else:
                rewards[i], terminals[i], truncations[i], resets[i] = game.act(action, screens[i])
        self._ended = resets.copy()
        return Step(screens, actions, rewards, terminals, truncations, resets, starts)

    def get_state(self) -> CheckpointState:
        """Return the state of every game, and which of them are to start anew."""
        games: CheckpointState = {str(i): game.get_state() for i, game in enumerate(self.each_game)}
        return {"name": self.name, "games": games, "ended": self._ended.copy()}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned.

        Raises:
            UserError: The state is of another game, or of another number of games.
        """
        check_games(state, self)
        games = state["games"]
        for i, game in enumerate(self.each_game):
            game.set_state(games[str(i)])
        self._ended = state["ended"].copy() if self.can_save else np.ones(self.games, np.bool_)

    def close(self) -> None:
        """Close every game."""
        close_games(self.each_game)
