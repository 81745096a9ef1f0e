"""Steps that several verbs share: the log, names of files, snapshots, and the end of a run."""

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from simple_dqn import random_streams
from simple_dqn.config import Config
from simple_dqn.environment import Environment, game_name
from simple_dqn.environment.atari import game_of
from simple_dqn.errors import UserError
from simple_dqn.interrupt import Interrupt
from simple_dqn.run import make_network
from simple_dqn.snapshot import Snapshot, check_fits, check_layers
from simple_dqn.statistics.writers import ConsoleHandler
from simple_dqn.watch.player import WatchedPlayer

if TYPE_CHECKING:
    from simple_dqn.dqn import DeepQNetwork

LABEL = re.compile(r"[\w+=@,~-][\w+=@,~. -]{0,99}")

logger = logging.getLogger(__name__)


def start_log(level: str) -> None:
    """Send messages of `level` and above to standard error, above the progress bar."""
    logging.basicConfig(
        level=level, format="%(asctime)s %(message)s", handlers=[ConsoleHandler()], force=True
    )


def run_name(config: Config, label: str | None) -> str:
    """Return the name of a run's files: the game, and the label if there is one.

    Raises:
        UserError: The label cannot be part of a file's name.
    """
    if label and not LABEL.fullmatch(label):
        raise UserError(f"label {label!r} cannot be part of a file's name: use letters, digits, - and _")
    name = game_name(config.environment)
    return f"{name}_{label}" if label else name


def run_of(path: Path, snapshot: Snapshot) -> str:
    """Return the name of the run that wrote `snapshot`, by the name of its file, `path`."""
    return path.stem.removesuffix(f"_{snapshot.epoch}")


def open_snapshot(path: Path, game: str | None = None) -> Snapshot:
    """Return the snapshot at `path`, with a game that can be played; see `Snapshot.load`.

    The game of a snapshot of Neon's is `game`, or the longest
    known one with which the file's name begins.
    """
    snapshot = Snapshot.load(path, game)
    if snapshot.flags.get("environment", "ale") != "ale":
        return snapshot
    return replace(snapshot, game=game_of(snapshot.game) or snapshot.game)


def check_weights(config: Config) -> None:
    """Check, before PyTorch is imported, that the snapshot `config.run.load_weights` fits the settings.

    Raises:
        UserError: It cannot be read, or is of another game or network.
    """
    if not config.run.load_weights:
        return
    path = Path(config.run.load_weights)
    snapshot = open_snapshot(path)
    check_fits(path, snapshot, game_name(config.environment))
    check_layers(path, snapshot, config)


def load_weights(
    path: Path, environment: Environment, network: "DeepQNetwork", snapshot: Snapshot | None = None
) -> None:
    """Give `network` the weights in the snapshot at `path`, or in `snapshot`, if it was opened before.

    Raises:
        UserError: There are none, or they are not for the game and the actions of `environment`.
    """
    snapshot = snapshot or open_snapshot(path)
    logger.info("Loading weights from %s", path)
    check_fits(path, snapshot, environment.name, environment.actions)
    network.set_weights(snapshot.weights)
    network.update_target_network()


def make_watched_player(
    config: Config, environment: Environment, saliency: bool, person: Callable[[], int | None] = lambda: None
) -> WatchedPlayer:
    """Return a player at `environment` by the network of the snapshot `config.run.load_weights`.

    Without a snapshot a person plays alone. `person` returns the action that a person chooses; None: the
    agent chooses.

    Raises:
        UserError: The snapshot cannot be used, or is not for this game.
    """
    rng = random_streams.stream(config.seed, "test exploration")
    length = config.memory.history_length
    if not config.run.load_weights:
        return WatchedPlayer(environment, None, length, rng, person=person)
    network = make_network(config, environment)
    load_weights(Path(config.run.load_weights), environment, network)
    heat = network.guided_backpropagation().saliency if saliency else None
    return WatchedPlayer(environment, network.predict, length, rng, heat, person)


def finish(interrupt: Interrupt) -> None:
    """Log that all is done; after an interrupt, exit with the code of its signal instead."""
    if interrupt.requested:
        raise KeyboardInterrupt(interrupt.number)
    logger.info("All done")
