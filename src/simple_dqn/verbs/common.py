"""Steps that several verbs share: names of files, snapshots and their settings, and the end of a run."""

import logging
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simple_dqn import random_streams
from simple_dqn.command_line import Parser
from simple_dqn.config import BOOLEANS, SETTINGS, Config
from simple_dqn.environment import Environment, game_name
from simple_dqn.environment.atari import game_of
from simple_dqn.errors import UserError
from simple_dqn.interrupt import Interrupt
from simple_dqn.rules import NETWORK_SHAPE
from simple_dqn.run import make_network
from simple_dqn.snapshot import Snapshot, check_fits, check_layers
from simple_dqn.verbs.settings import resolve, settle, start_log
from simple_dqn.watch.player import WatchedPlayer

if TYPE_CHECKING:
    from simple_dqn.dqn import DeepQNetwork

GAME = "a ROM, a game that ale-py ships, a Gymnasium id, or FILE.py"
SNAPSHOT = "such as snapshots/pong_10.pkl"
LABEL = re.compile(r"[\w+=@,~-][\w+=@,~. -]{0,99}")
# However a snapshot was trained, a verb that only plays learns nothing beside its games.
PLAYS_ONLY: dict[str, Any] = {
    "schedule": "serial", "synchronize": None, "cluster": "none", "actors": 1, "play_games": 0,
    "random_seed": None, "sampler": "uniform", "target_rule": "max", "train_steps": 0, "tensorboard": False,
}  # fmt: skip
# For one state, more threads than one only wait for each other.
ONE_GAME = {**PLAYS_ONLY, "workers": 1, "processes": 0, "display_screen": False, "threads": 1}
# Settings that only training reads.
TRAINING_ONLY = {
    *(name for name, one in SETTINGS.items() if one["part"] in ("memory", "network", "agent", "cluster")),
    *(name for name in BOOLEANS if not name.endswith("_norm")), "random_steps", "train_steps", "epochs",
    "save_weights_prefix", "checkpoint_minutes", "checkpoint_steps", "keep",
} - {*NETWORK_SHAPE, "atoms", "quantiles", "v_min", "v_max", "exploration_rate_test"}  # fmt: skip

logger = logging.getLogger(__name__)


def run_name(config: Config, label: str | None) -> str:
    """Return the name of a run's files: the game, and the label; raise UserError if no file can have it."""
    if label and not LABEL.fullmatch(label):
        raise UserError(f"label {label!r} cannot be part of a file's name: use letters, digits, - and _")
    name = game_name(config.environment)
    return f"{name}_{label}" if label else name


def run_of(path: Path, snapshot: Snapshot) -> str:
    """Return the name of the run that wrote `snapshot`, by the name of its file, `path`."""
    return path.stem.removesuffix(f"_{snapshot.epoch}")


def open_snapshot(path: Path, game: str | None = None) -> Snapshot:
    """Return the snapshot at `path`, with a game that can be played; see `Snapshot.load`.

    The game of a snapshot of Neon's is `game`, or the longest known one with which the file's name begins.
    """
    snapshot = Snapshot.load(path, game)
    if snapshot.flags.get("environment", "ale") != "ale":
        return snapshot
    return replace(snapshot, game=game_of(snapshot.game) or snapshot.game)


def flags_of_playing(parser: Parser, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the flags of a verb that only plays, without those of training, and start the log."""
    given = parser.parse(arguments)
    start_log(given.get("log_level", "INFO"))
    if ignored := [f"--{name}" for name in given if name in TRAINING_ONLY]:
        logger.warning("Ignored, as only training uses them: %s", ", ".join(ignored))
    return {name: value for name, value in given.items() if name not in TRAINING_ONLY}


def settings_of_agent(
    path: Path, snapshot: Snapshot, given: dict[str, Any], fixed: dict[str, Any] | None = None
) -> Config:
    """Return the settings that use the agent of `snapshot`, at `path`; see `resolve`."""
    own = {"load_weights": str(path), "start_epoch": snapshot.epoch, "game": snapshot.game}
    return settle(resolve(given, portable(snapshot.flags), {**own, **(fixed or ONE_GAME)}), log=False)


def portable(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Return the flags of a snapshot without bfloat16, which takes long where a processor imitates it."""
    return {**snapshot, "datatype": "auto"} if snapshot.get("datatype") == "bfloat16" else snapshot


def workers_for(games: int, snapshot: dict[str, Any]) -> dict[str, Any]:
    """Return the flag `workers` of a test of `games` games, or of steps: as in training, but none in vain."""
    return {"workers": min(snapshot.get("workers", 1), games or math.inf)}


def check_weights(config: Config) -> None:
    """Raise UserError, before PyTorch is imported, unless the snapshot to load fits the settings."""
    if config.run.load_weights:
        path = Path(config.run.load_weights)
        snapshot = open_snapshot(path)
        check_fits(path, snapshot, game_name(config.environment))
        check_layers(path, snapshot, config)


def load_weights(
    path: Path | str | None,
    environment: Environment,
    network: "DeepQNetwork",
    snapshot: Snapshot | None = None,
) -> None:
    """Give `network` the weights at `path`, if any, or in `snapshot`, opened before; they must fit."""
    if path:
        snapshot = snapshot or open_snapshot(Path(path))
        logger.info("Loading weights from %s", path)
        check_fits(Path(path), snapshot, environment.name, environment.actions)
        network.set_weights(snapshot.weights)
        network.update_target_network()


def make_watched_player(
    config: Config, environment: Environment, saliency: bool, person: Callable[[], int | None] = lambda: None
) -> WatchedPlayer:
    """Return a player by the network of the snapshot `config.run.load_weights`; None: a person plays alone.

    `person` returns the action that a person chooses; None: the agent chooses.
    """
    rng = random_streams.stream(config.seed, "test exploration")
    length = config.memory.history_length
    if not config.run.load_weights:
        return WatchedPlayer(environment, None, length, rng, person=person)
    network = make_network(config, environment)
    load_weights(config.run.load_weights, environment, network)
    heat = network.guided_backpropagation().saliency if saliency else None
    return WatchedPlayer(environment, network.predict, length, rng, heat, person)


def finish(interrupt: Interrupt) -> None:
    """Log that all is done; after an interrupt, exit with the code of its signal instead."""
    if interrupt.requested:
        raise KeyboardInterrupt(interrupt.number)
    logger.info("All done")
