"""What most verbs begin and end with."""

import logging
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simple_dqn import random_streams, rules
from simple_dqn.config import Config
from simple_dqn.environment import Environment, as_played, game_name
from simple_dqn.environment.roms import split_snapshot_name
from simple_dqn.errors import UserError
from simple_dqn.interrupt import Interrupt
from simple_dqn.snapshot import Modification, Snapshot, check_fits
from simple_dqn.snapshot.modification import current
from simple_dqn.statistics import ConsoleHandler

if TYPE_CHECKING:
    from simple_dqn.deepqnetwork import DeepQNetwork

logger = logging.getLogger(__name__)

# However a snapshot was trained, nothing is learnt beside the games that it plays now.
ALONE: dict[str, Any] = {"concurrent": False, "synchronize": None, "cluster": "none", "actors": 1}
# What is shown is one game.
ONE_GAME: dict[str, Any] = {
    **ALONE,
    "workers": 1,
    "processes": 0,
    "display_screen": False,
    "threads": 1,  # for one state, more of them only wait for each other
    "play_games": 0,
    "random_seed": None,
}


def start_log(level: str) -> None:
    """Send messages of `level` and above to standard error, above the progress bar."""
    handler = ConsoleHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)


def settle(config: Config, given: Collection[str] = ()) -> Config:
    """Return the settings of a command as they will be; from here on there is a log.

    A seed is drawn unless one was given.

    Args:
        config: All settings.
        given: Names of those that were given by hand.

    Raises:
        UserError: Settings contradict each other, or one that was given would do nothing in the game.
    """
    start_log(config.run.log_level)
    config = replace(config, environment=as_played(config.environment, given))
    if config.run.random_seed is None:
        config = config.with_flags({"random_seed": random_streams.draw_seed()})
    logger.info("Random seed is %d", config.seed)
    rules.check(config)
    return config


def run_name(config: Config, label: str | None) -> str:
    """Return what the files of a run are called: the game, and the label where there is one.

    Raises:
        UserError: The label cannot be part of a file's name.
    """
    if label and ("/" in label or label.startswith(".")):
        raise UserError(f"label {label!r} cannot be part of a file's name: use letters, digits, - and _")
    name = game_name(config.environment)
    return f"{name}_{label}" if label else name


def run_of(path: Path, snapshot: Snapshot) -> str:
    """Return what the run is called that `snapshot` is of, by the name of its file."""
    return path.stem.removesuffix(f"_{snapshot.epoch}")


def open_snapshot(path: Path, game: str | None = None) -> Snapshot:
    """Return the snapshot at `path`, with a game that can be played.

    One of Neon's does not say its game; if it is not given, the longest known game with which the file's
    name begins is meant.

    What was learnt in bfloat16 is used in `auto`: another processor may have to imitate bfloat16, which takes
    it many times as long as float32.

    Raises:
        UserError: As `Snapshot.load`.
    """
    snapshot = Snapshot.load(path, game)
    if snapshot.flags.get("datatype") == "bfloat16":
        snapshot = replace(snapshot, flags={**snapshot.flags, "datatype": "auto"})
    if snapshot.flags.get("environment", "ale") != "ale":
        return snapshot
    named = split_snapshot_name(f"{snapshot.game}_{snapshot.epoch}.pkl")
    return replace(snapshot, game=named.game)


def load_weights(path: Path, environment: Environment, network: "DeepQNetwork") -> None:
    """Give `network` the weights in the snapshot at `path`.

    Raises:
        UserError: There are none, or they are not for the game and the actions of `environment`.
    """
    give_weights(path, open_snapshot(path), environment, network)


def give_weights(path: Path, snapshot: Snapshot, environment: Environment, network: "DeepQNetwork") -> None:
    """Give `network` the weights in `snapshot`, which was opened from `path`.

    Raises:
        UserError: They are not for the game and the actions of `environment`.
    """
    logger.info("Loading weights from %s", path)
    warn_of_modification(path, snapshot.modification)
    check_fits(path, snapshot, environment.name, environment.actions)
    network.set_weights(snapshot.weights)
    network.update_target_network()


def warn_of_modification(path: Path, recorded: Modification | None) -> None:
    """Log a line if this process runs with another modification than the run that wrote `path`.

    Args:
        path: The snapshot or checkpoint.
        recorded: The modification that it records; None: it records none.
    """
    now = current()
    if recorded == now:
        return
    was = f"was written by a run with {recorded}" if recorded else "records no modification"
    here = f"with {now}" if now else "without it: for the same algorithm, use ./modified.sh FILE.py VERB ..."
    logger.warning("%s %s, and this command runs %s", path, was, here)


def finish(interrupt: Interrupt) -> None:
    """Say that all is done, or let the signal that ended it have its exit code after the clean end."""
    if interrupt.requested:
        raise KeyboardInterrupt(interrupt.number)
    logger.info("All done")
