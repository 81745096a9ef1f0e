"""Environments: E games side by side, one or more, behind one interface, `Environment`."""

import importlib
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import atari
from simple_dqn.environment.interface import Environment, GameVector, Watcher
from simple_dqn.errors import UserError
from simple_dqn.files import command
from simple_dqn.own_code import OwnCode, game_of_file, import_code

# Settings that only the Arcade Learning Environment knows, whichever way it is reached.
ONLY_ALE = (
    "display_screen", "repeat_action_probability", "terminal_on_life_loss", "record_screen_path",
    "record_sound_filename",
)  # fmt: skip


def make(
    config: EnvironmentConfig, streams: Sequence[np.random.Generator], training: bool,
    watcher: Watcher | None = None, device: Any = None,
) -> Environment:  # fmt: skip
    """Return the environment that `config` describes.

    Args:
        config: What `as_played` returned; `workers` is ignored.
        streams: One random stream for each game; their number is the number of games.
        training: Whether a lost life ends an episode (the game itself goes on), if `config` agrees.
        watcher: Receives each frame of the first game, which is then played in this process.
        device: PyTorch's device for games and screens, if Warp plays them in this process; None: the CPU.

    Raises:
        UserError: There is no such game, or it cannot be played or recorded as asked.
        RuntimeError: A process that was to play games failed.
    """
    training = training and config.terminal_on_life_loss
    if config.environment == "ale":
        # The ROM is found here, where the log is kept, and where a misspelt one starts no process.
        config = replace(config, game=str(atari.find_rom(config.game)))
    if not config.processes or watcher:
        return open_games(config, streams, training, watcher, device)
    from simple_dqn.environment.processes import ProcessVector

    return ProcessVector(partial(open_games, code=own_code_of(config)), config, streams, training)


def open_games(
    config: EnvironmentConfig, streams: Sequence[np.random.Generator], training: bool,
    watcher: Watcher | None = None, device: Any = None, code: OwnCode | None = None,
) -> Environment:  # fmt: skip
    """Return a game for each of `streams` in this process, which must run `code` first; see `make`."""
    if code:
        code.install()
    if config.emulator == "warp" and config.environment == "ale" and watcher is None:
        from simple_dqn.environment.warp_games import DeviceGames, check

        check(Path(config.game), config)
        return DeviceGames(config, streams, training, device)
    return GameVector(_module(config.environment).open_game, config, streams, training, watcher)


def own_code_of(config: EnvironmentConfig) -> OwnCode | None:
    """Return the code of the user's that another process must run to play the games; None: none."""
    return OwnCode.of(_module(config.environment).find_spec(config)) if config.environment == "gym" else None


def as_played(config: EnvironmentConfig) -> EnvironmentConfig:
    """Return `config` with its emulator chosen, and no-ops only in Atari games, or raise UserError."""
    if config.emulator == "auto":
        ale = config.environment == "ale"
        config = replace(config, emulator=_module("warp").emulator_for(config) if ale else "ale")
    if is_atari(config):
        return config
    for setting in ONLY_ALE:
        if getattr(config, setting) != getattr(EnvironmentConfig, setting):
            raise UserError(f"--{setting} works only with Atari games, not {game_name(config)}: leave it out")
    if config.environment == "gym":
        _module(config.environment).check(config)
    return replace(config, random_starts=0, random_start_frames=0)


def check_emulator(config: EnvironmentConfig) -> None:
    """Raise UserError if `--emulator warp` cannot play the game of `config`, or not as asked."""
    if config.emulator == "warp" and config.environment == "ale":
        _module("warp").check(atari.find_rom(config.game), config)


def vector_shape(config: EnvironmentConfig, observation: str) -> tuple[int, ...] | None:
    """Return the shape (D,) or (K, H, W) of the numbers that the network takes; None: it sees screens.

    `observation` is `--observation`; auto: numbers, if the environment observes numbers and no image.

    Raises:
        UserError: There is no such game, or it observes no numbers of that kind.
    """
    if observation == "pixels" or not config.game:
        return None
    if config.environment == "gym" and not is_atari(config):
        shape: tuple[int, ...] | None = _module("gym").vector_shape(config, observation)
        return shape
    if observation == "vector":
        raise UserError(f"--observation vector: {game_name(config)} observes screens: leave it out")
    return None


def is_atari(config: EnvironmentConfig) -> bool:
    """Return whether the game is one of ALE's, by name or by id, or raise UserError if there is none."""
    if config.environment == "gym":
        return bool(_module("gym").is_atari(config))
    return config.environment == "ale"


def game_name(config: EnvironmentConfig) -> str:
    """Return the name of the game of `config`, fit for file names, or raise UserError if there is none."""
    if config.environment == "ale":
        return atari.locate(config.game)[1]
    return "catch" if config.environment == "catch" else config.game.replace("/", "_")


def import_game(given: dict[str, Any]) -> dict[str, Any]:
    """Return the flags `given` with the kind of environment that plays the game that they name.

    A name means, in this order: a file, FILE.py, which registers a game with Gymnasium; a ROM; catch; or an
    id of Gymnasium's. `module:id` imports the module first. `--environment` decides among the last three.

    Raises:
        UserError: The game is a snapshot's address, or its code cannot be run or registers no single game.
    """
    game = given.get("game", "")
    if game.startswith("hf:"):
        raise UserError(f"{game} is a snapshot, not a game: {command('resume', game)} --epochs N trains it")
    if game.endswith(".py"):
        return {**given, "environment": "gym", "game": game_of_file(game)}
    module, colon, name = game.rpartition(":")
    if colon and not Path(game).exists():
        import_code([module])
        return {**given, "environment": "gym", "game": name}
    return with_environment(given)


def with_environment(given: dict[str, Any]) -> dict[str, Any]:
    """Return `given` with the kind of environment of its game, as `import_game` does, but import no code."""
    game = given.get("game", "")
    if given.get("environment") == "catch" and game not in ("", "catch"):
        raise UserError(f"--environment catch plays catch, not {game}: leave it out")
    if "environment" in given or not game:
        return given
    if atari.is_rom(game):
        return {**given, "environment": "ale"}
    if game == "catch":
        return {**given, "environment": "catch"}
    known = _module("gym").knows(game) or re.search(r"-v\d+$", game)  # or it names the nearest id
    return {**given, "environment": "gym"} if known else given


def _module(name: str) -> Any:
    """Return the module that makes games of that kind, which is imported only when it is chosen."""
    names = {"ale": "atari", "gym": "gymnasium", "warp": "warp_games"}
    return importlib.import_module(f"{__name__}.{names.get(name, name)}")
