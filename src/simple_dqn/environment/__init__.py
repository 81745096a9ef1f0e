"""Environments: E games side by side, one or more, behind one interface, `Environment`."""

import importlib
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType

import numpy as np

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.interface import (
    FRAMES_PER_SECOND,
    Environment,
    Frame,
    Screen,
    SimpleGame,
    Watcher,
)
from simple_dqn.environment.roms import find_rom
from simple_dqn.environment.vector import open_games
from simple_dqn.errors import UserError

__all__ = [
    "FRAMES_PER_SECOND",
    "Environment",
    "Frame",
    "Screen",
    "SimpleGame",
    "Watcher",
    "as_played",
    "game_name",
    "is_atari",
    "make",
]

# Kind of environment -> the module that makes it, imported only when it is chosen.
ENVIRONMENTS = {
    "ale": "simple_dqn.environment.ale",
    "gym": "simple_dqn.environment.gymnasium",
    "catch": "simple_dqn.environment.catch",
}
OWN = "simple_dqn.environment.own_game"  # the same for a class of the user's own, `FILE.py:CLASS`
# Settings that only the Arcade Learning Environment knows, whichever way it is reached.
ONLY_ALE = ("display_screen", "repeat_action_probability", "record_screen_path", "record_sound_filename")


def make(
    config: EnvironmentConfig,
    streams: Sequence[np.random.Generator],
    training: bool,
    watcher: Watcher | None = None,
) -> Environment:
    """Return the environment that `config` describes.

    Args:
        config: The games and their preprocessing; `workers` is ignored.
        streams: One random stream for each game; their number is the number of games.
        training: Whether a lost life ends an episode (the game itself goes on).
        watcher: Receives each frame of the first game, which is then played in this process.

    Raises:
        UserError: There is no such game, or it cannot be played or recorded as asked.
        RuntimeError: A process that was to play games failed.
    """
    module = _module(config)
    wanted = [setting for setting in ONLY_ALE if getattr(config, setting)]
    if wanted and not is_atari(config):
        raise UserError(
            f"--{wanted[0]} works only with Atari games, not with {config.game or config.environment}: "
            "leave it out"
        )
    if config.processes > len(streams):
        raise UserError(
            f"--processes {config.processes} is more than the {len(streams)} game(s) of --workers: "
            "a process plays at least one"
        )
    if config.environment == "ale":
        # The ROM is found here, where the log is kept, and where a misspelt one starts no process.
        config = replace(config, game=str(find_rom(config.game)))
    whole: Environment | None = module.make_whole(config, streams, training, watcher) if config.own else None
    if whole is not None:
        return whole
    if config.processes and watcher is None:
        from simple_dqn.environment.processes import ProcessVector

        return ProcessVector(module.open_game, config, streams, training)
    return open_games(module.open_game, config, streams, training, watcher)


def as_played(config: EnvironmentConfig) -> EnvironmentConfig:
    """Return `config` as its environment plays it: without no-ops at a start if no action is NOOP.

    Raises:
        UserError: There is no such game, or it cannot be played.
    """
    if config.environment != "gym":
        return config
    played: EnvironmentConfig = _module(config).as_played(config)
    return played


def is_atari(config: EnvironmentConfig) -> bool:
    """Return whether the game is one of ALE's, by whichever environment it is played.

    Raises:
        UserError: There is no such game.
    """
    if config.environment == "gym":
        return bool(_module(config).is_atari(config.game))
    return config.environment == "ale"


def game_name(config: EnvironmentConfig) -> str:
    """Return the name of the game that `config` describes, fit for file names, without loading it.

    Raises:
        UserError: There is no such game.
    """
    name: str = _module(config).game_name(config.environment if config.own else config.game)
    return name


def _module(config: EnvironmentConfig) -> ModuleType:
    return importlib.import_module(OWN if config.own else ENVIRONMENTS[config.environment])
