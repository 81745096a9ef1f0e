"""`resume`: go on with a run from one of its snapshots, or from the folder of its checkpoints."""

import logging
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from simple_dqn.environment.own_game import canonical_flags
from simple_dqn.errors import UserError
from simple_dqn.files import TRAINED, home, is_trained
from simple_dqn.interrupt import Interrupt
from simple_dqn.snapshot import (
    CheckpointFolder,
    Snapshot,
    checkpoint_folder,
    earlier_checkpoint_folders,
    prefix_of,
)
from simple_dqn.training import Phase
from simple_dqn.verbs.common import give_weights, open_snapshot, run_of, start_log
from simple_dqn.verbs.settings import parser_for, settings_for, settle
from simple_dqn.verbs.training import finish_training, go_on, running, settings_writers
from simple_dqn.wiring import make_run

logger = logging.getLogger(__name__)


def main(arguments: Sequence[str], program: str) -> None:
    """Go on with a run from one of its snapshots, or from the folder of its checkpoints."""
    parser = parser_for("resume", program, "Go on with a training run from one of its snapshots.")
    parser.add_argument(
        "snapshot", type=Path, help="such as snapshots/pong_10.pkl, or the folder snapshots/pong_checkpoint"
    )
    given = canonical_flags(parser.parse(arguments))
    start_log(given.get("log_level", "INFO"))
    path: Path = given["snapshot"]
    if path.is_dir():
        resume_folder(path, given)
    else:
        resume_snapshot(path, given)


def resume_folder(folder: Path, given: dict[str, Any]) -> None:
    """Go on from the latest checkpoint in `folder`.

    Raises:
        UserError: It is no such folder, or there is none that can be used.
    """
    prefix = prefix_of(folder)
    check_prefix(prefix, given)
    with running(prefix):
        saved = CheckpointFolder(folder).newest()
        if saved is None:
            raise UserError(
                f"{folder} holds no checkpoint that can be used: give a snapshot, such as {prefix}_10.pkl"
            )
        go_on(saved, prefix, given)


def resume_snapshot(path: Path, given: dict[str, Any]) -> None:
    """Go on from the snapshot at `path`: exactly, if there is a checkpoint of its run.

    Raises:
        UserError: It cannot be used.
    """
    snapshot = open_snapshot(path)
    prefix = prefix_for(path, snapshot)
    check_prefix(prefix, given)
    with running(prefix):
        saved = CheckpointFolder(checkpoint_folder(prefix)).newest(lambda run: follows(snapshot, run))
        if saved:
            go_on(saved, prefix, given)
        else:
            refill(path, snapshot, prefix, given)


def prefix_for(path: Path, snapshot: Snapshot) -> Path:
    """Return what the names of further snapshots begin with: as `path` does, in the same folder.

    Nothing is written among the agents that come with the project: there the run gets the label `trained`.
    """
    name = run_of(path, snapshot)
    if not is_trained(path):
        return path.with_name(name)
    prefix = home() / "snapshots" / f"{name}_{TRAINED}"
    logger.info("%s stays as it is: the run goes on as %s_...", path, prefix)
    return prefix


def check_prefix(prefix: Path, given: dict[str, Any]) -> None:
    """Refuse to go on under another name.

    Raises:
        UserError: It is so.
    """
    if Path(given.get("save_weights_prefix", prefix)).resolve() != prefix.resolve():
        raise UserError(
            f"a run goes on as {prefix}_...: leave out --save_weights_prefix, or copy its snapshot and its "
            "folder of checkpoints to another name"
        )


def follows(snapshot: Snapshot, run: dict[str, Any]) -> bool:
    """Return whether `snapshot` is the last that was written before the checkpoint of `run`."""
    phase, steps = Phase(**run["phase"]), run["agent"]["total_train_steps"]
    if phase.name == "train":
        steps -= phase.done
    if (phase.trained, steps) != (snapshot.epoch, snapshot.total_train_steps):
        return False
    # None: the run had written none yet, as after --load_weights; or the checkpoint is an older one.
    return run.get("weights_sum") in (None, snapshot.weights_sum)


def refill(path: Path, snapshot: Snapshot, prefix: Path, given: dict[str, Any]) -> None:
    """Go on from a snapshot's weights alone.

    Raises:
        UserError: They are not for the game, or there is nothing left to do.
    """
    fixed = {
        "game": snapshot.game,
        "csv_file": str(home() / "results" / f"{prefix.name}.csv"),
        "random_seed": None,
        "save_weights_prefix": str(prefix),
        "start_epoch": snapshot.epoch,
    }
    config = settle(settings_for("resume", given, snapshot.flags, fixed))
    if config.run.epochs <= config.run.start_epoch:
        raise UserError(
            f"{path} has {snapshot.epoch} epochs of training and --epochs is {config.run.epochs}: "
            "give a larger --epochs"
        )
    resumed = (config.run.start_epoch, "test")
    writers = settings_writers(config)
    with Interrupt() as interrupt, closing(make_run(config, interrupt, resumed, writers)) as run:
        logger.warning(
            "%s holds no checkpoint that follows on %s: the replay memory, the optimizer and the random "
            "streams are lost; the memory is refilled by the network's own play",
            checkpoint_folder(prefix), path,
        )  # fmt: skip
        for folder in earlier_checkpoint_folders(prefix):
            if CheckpointFolder(folder).newest(lambda saved: follows(snapshot, saved)):
                logger.warning("One is in %s: ./resume.sh %s goes on from there", folder, folder)
        give_weights(path, snapshot, run.agent.player.environment, run.agent.network)
        run.agent.count_from(snapshot.total_train_steps)
        run.begin(snapshot)
    finish_training(config, interrupt)
