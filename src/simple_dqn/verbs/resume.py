"""`resume`: go on with a run from its checkpoint, or from a snapshot alone; `train` uses the steps, too."""

import logging
import shlex
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from simple_dqn import settings_file
from simple_dqn.config import Config, layered
from simple_dqn.environment.own_game import canonical_flags
from simple_dqn.errors import EXHAUSTED, UserError
from simple_dqn.files import TRAINED, from_here, home, is_trained, kind_of, numbered, replacing
from simple_dqn.interrupt import Interrupt
from simple_dqn.rules import CHECKPOINT_SHAPE
from simple_dqn.run import Phase, make_run
from simple_dqn.snapshot import (
    Checkpoint,
    CheckpointFolder,
    Snapshot,
    checkpoint_folder,
    earlier_checkpoint_folders,
    first_to_last,
    locked,
    prefix_of,
    snapshots_after,
)
from simple_dqn.statistics import Resumed, Writer
from simple_dqn.verbs.common import finish, load_weights, open_snapshot, run_of, start_log
from simple_dqn.verbs.settings import parser_for, portable, settings_for, settle

logger = logging.getLogger(__name__)


class CompleteError(UserError):
    """The run has all its epochs already."""


def main(arguments: Sequence[str], program: str) -> None:
    """Go on with a run from one of its snapshots, or from the folder of its checkpoints."""
    parser = parser_for("resume", program, "Go on with a training run from one of its snapshots.")
    parser.add_argument(
        "snapshot", type=Path, help="such as snapshots/pong_10.pkl, or the folder snapshots/pong_checkpoint"
    )
    given = canonical_flags(parser.parse(arguments))
    start_log(given.get("log_level", "INFO"))
    path: Path = given["snapshot"]
    snapshot = None if path.is_dir() else open_snapshot(path)
    prefix = prefix_for(path, snapshot) if snapshot else prefix_of(path)
    if Path(given.get("save_weights_prefix", prefix)).resolve() != prefix.resolve():
        raise UserError(
            f"a run continues as {prefix}_...: leave out --save_weights_prefix, or copy its snapshot and its "
            "folder of checkpoints to another name"
        )
    with running(prefix):
        folder = CheckpointFolder(checkpoint_folder(prefix) if snapshot else path)
        saved = folder.newest(lambda run: snapshot is None or follows(snapshot, run))
        if saved:
            go_on(saved, prefix, given)
        elif snapshot:
            refill(path, snapshot, prefix, given)
        else:
            raise UserError(f"{path} has no usable checkpoint: give a snapshot, such as {prefix}_10.pkl")


def prefix_for(path: Path, snapshot: Snapshot) -> Path:
    """Return the prefix of further snapshots: that of `path`, in the same folder.

    Nothing is written among the agents that come with the project: there the run gets the label `trained`.
    """
    name = run_of(path, snapshot)
    if not is_trained(path):
        return path.with_name(name)
    prefix = home() / "snapshots" / f"{name}_{TRAINED}"
    logger.info("%s remains unchanged: the run continues as %s_...", path, prefix)
    return prefix


def follows(snapshot: Snapshot, run: dict[str, Any]) -> bool:
    """Return whether `snapshot` is the last that was written before the checkpoint of `run`."""
    phase, steps = Phase(**run["phase"]), run["agent"]["total_train_steps"]
    if snapshot.weights_sum == run.get("stopped_sum"):  # written when Ctrl-C stopped this epoch
        return True
    if phase.name == "train":
        steps -= phase.done
    if (phase.trained, steps) != (snapshot.epoch, snapshot.total_train_steps):
        return False
    # None: the run had written none yet, as after --load_weights; or the checkpoint is an older one.
    return run.get("weights_sum") in (None, snapshot.weights_sum)


@contextmanager
def running(prefix: Path) -> Iterator[None]:
    """Claim all file names that begin with `prefix`; report an exhausted system in one line.

    Raises:
        UserError: Another run has claimed them, they cannot be written, or the system ran out of a resource.
    """
    kind_of(prefix)  # refuses a name that no file can have
    if is_trained(prefix):
        raise UserError(
            f"no run writes into {prefix.parent}, the folder of the agents that come with the project: give "
            f"another --save_weights_prefix than {prefix}"
        )
    with locked(prefix):
        try:
            yield
        except OSError as error:
            if error.errno not in EXHAUSTED:
                raise
            folder = checkpoint_folder(prefix)
            saved = CheckpointFolder(folder).latest_number()  # a run without snapshots has none
            remedy = f"then continue with ./resume.sh {folder}" if saved else "then start again"
            raise UserError(f"training cannot continue: {error.strerror}; fix this, {remedy}") from error


class _SettingsWriter(Writer):
    """Writes the settings of a run beside its CSV, once the run begins."""

    def __init__(self, path: Path, config: Config, preset: str, resumed: bool) -> None:
        self._path, self._config, self._preset, self._resumed = path, config, preset, resumed
        # The earlier CSV, renamed by its own writer before `open`, and its settings keep one number.
        self._earlier = numbered(path.with_suffix(".csv")).with_suffix(".yaml")

    def open(self) -> None:
        """Write the file; that of an earlier run is renamed, that of the resumed run is renewed."""
        with replacing(self._path) as beside:
            beside.write_text(f"{settings_file.listing(self._config, self._preset)}\n", encoding="utf-8")
            if self._path.exists() and not self._resumed:
                self._path.rename(numbered(self._path) if self._earlier.exists() else self._earlier)


def settings_writers(config: Config, preset: str | None = None) -> list[Writer]:
    """Return the writer of a run's settings, beside its CSV; none if there is no CSV.

    Args:
        config: All settings.
        preset: The name of the preset they began with; None: the run is resumed, and its file names it.
    """
    if not config.run.csv_file:
        return []
    path = Path(config.run.csv_file).with_suffix(".yaml")
    name = preset or settings_file.preset_in(path)
    if preset is None and path.is_file():
        logger.info("Preset %s", name)
    return [_SettingsWriter(path, config, name, resumed=preset is None)]


def go_on(
    saved: Checkpoint, prefix: Path, given: dict[str, Any], writers: Sequence[Writer] = (), log: bool = True
) -> None:
    """Continue the run of a checkpoint as if it had never stopped; see `train.learn` for the arguments.

    Raises:
        CompleteError: The run has all its epochs.
        UserError: The flags contradict those of the run.
    """
    flags = saved.run["flags"]
    if given.get("datatype") == "auto":  # what that means here was settled when the run began
        given = {name: value for name, value in given.items() if name != "datatype"}
    check_flags(flags, given)
    files = {"save_weights_prefix": str(prefix)}
    if Path(flags["save_weights_prefix"]).resolve() != prefix.resolve():
        files["csv_file"] = str(home() / "results" / f"{prefix.name}.csv")
    config = settle(settings_for("resume", given, flags, files), log)
    phase = Phase(**saved.run["phase"])
    if phase.epoch > config.run.epochs:
        raise _complete("the run", phase.trained, config)
    if later := snapshots_after(prefix, phase.epoch if phase.done else phase.trained):
        logger.info("Later snapshots of the run, %s, will be overwritten", first_to_last(later))
    writers = [*settings_writers(config), *writers]
    with Interrupt() as interrupt, closing(make_run(config, interrupt, phase.before, writers)) as run:
        logger.info("Continuing from %s: %s %d, step %d", saved.path, phase.name, phase.epoch, phase.done)
        run.resume(saved)
    finish_training(config, interrupt)


def refill(path: Path, snapshot: Snapshot, prefix: Path, given: dict[str, Any]) -> None:
    """Continue from a snapshot's weights alone; the network's own play fills the replay memory."""
    fixed = {
        "game": snapshot.game,
        "csv_file": str(home() / "results" / f"{prefix.name}.csv"),
        "random_seed": None,
        "save_weights_prefix": str(prefix),
        "start_epoch": snapshot.epoch,
    }
    config = settle(settings_for("resume", given, portable(snapshot.flags), fixed))
    if config.run.epochs <= config.run.start_epoch:
        raise _complete(str(path), snapshot.epoch, config)
    resumed = Resumed(config.run.start_epoch, "test")
    writers = settings_writers(config)
    with Interrupt() as interrupt, closing(make_run(config, interrupt, resumed, writers)) as run:
        logger.warning(
            "%s has no checkpoint that follows %s: the replay memory, the optimizer and the random "
            "streams are lost; the memory is refilled by the network's own play",
            checkpoint_folder(prefix), path,
        )  # fmt: skip
        for folder in earlier_checkpoint_folders(prefix):
            if CheckpointFolder(folder).newest(lambda saved: follows(snapshot, saved)):
                logger.warning("One is in %s: ./resume.sh %s continues from it", folder, folder)
        load_weights(path, run.agent.player.environment, run.agent.network, snapshot)
        run.agent.count_from(snapshot.total_train_steps)
        run.begin(snapshot)
    finish_training(config, interrupt)


def _complete(what: str, trained: int, config: Config) -> CompleteError:
    epochs = config.run.epochs
    return CompleteError(
        f"{what} has {trained} epochs of training and --epochs is {epochs}: give a larger --epochs"
    )


def finish_training(config: Config, interrupt: Interrupt) -> None:
    """Log that a run is over, and the commands that can follow; see `finish`."""
    prefix = Path(config.run.save_weights_prefix) if config.run.save_weights_prefix else None
    if prefix and interrupt.requested and checkpoint_folder(prefix).is_dir():
        logger.info(
            "Next: ./resume.sh %s continues the run", shlex.quote(str(from_here(checkpoint_folder(prefix))))
        )
    finish(interrupt)
    if snapshots := snapshots_after(prefix, 0) if prefix else []:
        last, epochs = shlex.quote(str(from_here(snapshots[-1]))), config.run.epochs + 10
        logger.info("Next: ./play.sh %s shows it playing, ./test.sh %s measures it,", last, last)
        logger.info("and ./resume.sh %s --epochs %d trains it further", last, epochs)


def check_flags(saved: dict[str, Any], given: dict[str, Any]) -> None:
    """Log which of the `saved` flags of a run are changed by those `given` by hand.

    Raises:
        UserError: A flag was changed that must stay as it was when the run began.
    """
    before, now = Config.from_flags(layered(saved)), Config.from_flags(layered(saved, given))
    if now.cluster.on != before.cluster.on:
        raise UserError(
            f"the run was started {'with' if before.cluster.on else 'without'} --cluster and cannot continue "
            f"{'without' if before.cluster.on else 'with'} it: start a new run with --load_weights"
        )
    was = before.flags()
    for name, value in now.shared_flags().items():
        if value == was[name]:
            continue
        if name in CHECKPOINT_SHAPE:
            raise UserError(
                f"the run was started with --{name} {was[name]} and cannot continue with {value}: "
                f"leave out --{name}, or start a new run with another label"
            )
        logger.info("From now on --%s is %s instead of %s", name, value, was[name])
