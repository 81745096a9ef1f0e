"""`resume`: go on with a run from its checkpoint, or from a snapshot alone; `train` uses the steps, too."""

import glob
import logging
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from simple_dqn import rules, settings_file
from simple_dqn.config import REGISTERED, Config, known, layered
from simple_dqn.environment.own_game import canonical_flags
from simple_dqn.errors import EXHAUSTED, UserError
from simple_dqn.files import TRAINED, check_start, from_here, home, is_trained, kind_of, numbered, replacing
from simple_dqn.interrupt import Interrupt
from simple_dqn.replay import rows_for
from simple_dqn.rules import CHECKPOINT_SHAPE, differing
from simple_dqn.run import Phase, make_run
from simple_dqn.snapshot import (
    Checkpoint,
    CheckpointFolder,
    DamagedError,
    Snapshot,
    checked_settings,
    checkpoint_folder,
    locked,
    log_damage,
    prefix_of,
    snapshots_after,
)
from simple_dqn.statistics import Writer
from simple_dqn.statistics.csv_file import Resumed, is_of_run
from simple_dqn.verbs.common import finish, load_weights, open_snapshot, run_of, start_log
from simple_dqn.verbs.settings import parser_for, portable, settings_for, settle

logger = logging.getLogger(__name__)


# Paths that a checkpoint does not choose, and the window that it does not open.
RECORDINGS = ("display_screen", "record_screen_path", "record_sound_filename")
UNRECORDED = (*RECORDINGS, "load_weights", "visualization_file")


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
        if go_on(folder, prefix, given, snapshot):
            return
        if snapshot:
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


def follows(snapshot: Snapshot | None, run: dict[str, Any]) -> bool:
    """Return whether `snapshot` is the last that was written before the checkpoint of `run`; None: any is.

    Raises:
        ValueError: The settings of the run are not valid.
    """
    config = Config.from_flags(recorded(run))
    if run["agent"]["memory"]["ring"]["rows"] != rows_for(config.memory, config.environment.workers):
        raise ValueError("its replay memory is of another size than its settings say")
    latest = [run["snapshots"][name] for name in ("complete", "stopped")]
    return snapshot is None or snapshot.fingerprint in latest


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
        if kind_of(path):
            check_start(path, settings_file.STARTS, "file of settings")
        self._path, self._config, self._preset, self._resumed = path, config, preset, resumed
        # The earlier CSV, renamed by its own writer before `open`, and its settings keep one number.
        self._earlier = numbered(path.with_suffix(".csv")).with_suffix(".yaml")

    def open(self) -> None:
        """Write the file; that of an earlier run is renamed, that of the resumed run is renewed."""
        with replacing(self._path) as beside:
            beside.write_text(f"{settings_file.listing(self._config, self._preset)}\n", encoding="utf-8")
            if self._path.exists() and not self._resumed:
                self._path.rename(numbered(self._path) if self._earlier.exists() else self._earlier)


def settings_writers(config: Config, preset: str | None = None, renew: bool = True) -> list[Writer]:
    """Return the writer of a run's settings, beside its CSV; none if there is no CSV.

    Args:
        config: All settings.
        preset: The name of the preset they began with; None: the run is resumed, and its file names it.
        renew: Without `preset`: whether to replace an existing file, which is of this run.
    """
    if not config.run.csv_file:
        return []
    path = Path(config.run.csv_file).with_suffix(".yaml")
    name = preset or settings_file.preset_in(path)
    if preset is None and path.is_file():
        logger.info("Preset %s", name)
    return [_SettingsWriter(path, config, name, preset is None and renew)]


def recorded(run: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a checkpoint, checked like flags on the command line.

    A checkpoint may come from a stranger. It names no file to write or to load but the CSV of its run, and
    opens no window.

    Raises:
        ValueError: One of them is not valid.
    """
    flags = run["flags"]
    if absent := [name for name in ("environment", "network") if name not in flags]:
        raise ValueError(f"it has no setting {absent[0]}")
    if wrong := [name for name in UNRECORDED if not isinstance(flags.get(name), bool | str | None)]:
        raise ValueError(f"its setting {wrong[0]} is neither true, false nor text")
    settings = {"csv_file": flags["csv_file"] or ""}
    for name in ("game", "save_weights_prefix", *REGISTERED):  # a registered name may not be known yet
        settings[name] = flags.get(name, known()[name][0].default)
    if wrong := [name for name, value in settings.items() if not isinstance(value, str)]:
        raise ValueError(f"its setting {wrong[0]} is no text")
    settings = layered(settings, checked_settings(flags, {*settings, *UNRECORDED}))
    config = Config.from_flags(settings)
    last = max(config.run.epochs, config.run.start_epoch)
    if config.run.random_seed is None or Phase.of(run).epoch > last + 1 or not run["statistics"]["tally"]:
        raise ValueError("it has no seed or statistics, or a phase after the last epoch")
    if complaint := next(rules.complaints(config), ""):
        raise ValueError(complaint)
    return settings


def go_on(
    folder: CheckpointFolder,
    prefix: Path,
    given: dict[str, Any],
    snapshot: Snapshot | None = None,
    writers: Sequence[Writer] = (),
    log: bool = True,
) -> bool:
    """Continue from the latest usable checkpoint as if the run had never stopped; return False if none is.

    Args:
        folder: The checkpoints.
        prefix: Of the files to write.
        given: The flags given by hand.
        snapshot: The snapshot that the checkpoint follows; None: any.
        writers: See `train.learn`.
        log: See `train.learn`.

    Raises:
        CompleteError: The run has all its epochs.
        UserError: The flags contradict those of the run.
    """
    for saved in folder.usable(lambda run: follows(snapshot, run)):
        try:
            _go_on(saved, prefix, given, writers, log)
        except DamagedError as error:
            log_damage(saved.path, error)
        else:
            return True
    return False


def _go_on(
    saved: Checkpoint, prefix: Path, given: dict[str, Any], writers: Sequence[Writer], log: bool
) -> None:
    """Continue the run of a checkpoint as if it had never stopped."""
    flags = recorded(saved.run)
    if given.get("datatype") == "auto":  # what that means here was settled when the run began
        given = {name: value for name, value in given.items() if name != "datatype"}
    check_flags(flags, given)
    phase = Phase.of(saved.run)
    rows_sum = saved.run["statistics"].get("csv")
    if ended := [name for name in RECORDINGS if saved.run["flags"].get(name) and name not in given]:
        what = "window does" if ended == ["display_screen"] else "recordings do"
        logger.warning("The %s not go on: give %s again", what, " and ".join(f"--{name}" for name in ended))
    moved = Path(flags["save_weights_prefix"]).resolve() != prefix.resolve()
    csv_file = given.get("csv_file", _csv_of(flags["csv_file"], prefix, moved, phase.before, rows_sum))
    files = {"save_weights_prefix": str(prefix), "csv_file": csv_file}
    config = settle(settings_for("resume", given, flags, files), log)
    if phase.epoch > config.run.epochs:
        raise _complete("the run", phase.trained, config)
    if later := snapshots_after(prefix, phase.epoch if phase.done else phase.trained):
        logger.info("Later snapshots of the run, from %s on, will be overwritten", later[0])
    # Beside the CSV of another run are its settings, curves and ids of trackers, too.
    own = not csv_file or is_of_run(Path(csv_file), phase.before, rows_sum) is not False
    writers = [*settings_writers(config, renew=own), *writers]
    resumed = phase.before if own else None
    with Interrupt() as interrupt, closing(make_run(config, interrupt, resumed, writers)) as run:
        logger.info("Continuing from %s: %s %d, step %d", saved.path, phase.name, phase.epoch, phase.done)
        run.resume(saved)
    finish_training(config, interrupt)


def _csv_of(path: str, prefix: Path, moved: bool, resumed: Resumed, rows_sum: str | None) -> str | None:
    """Return the CSV with which to continue: the one at `path` if it has the rows of the run."""
    usual = str(home() / "results" / f"{prefix.name}.csv")
    if not path or moved:
        return usual if path else None
    with suppress(UserError):
        if Path(path).resolve() == Path(usual).resolve() or is_of_run(Path(path), resumed, rows_sum):
            return path
    logger.warning("%s does not have the rows of this run: it continues in %s", path, usual)
    return usual


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
        for folder in sorted(prefix.parent.glob(f"{glob.escape(prefix.name)}_before*_checkpoint")):
            if CheckpointFolder(folder).newest(lambda saved: follows(snapshot, saved)):
                logger.warning("One is in %s: ./resume.sh %s continues from it", folder, folder)
        load_weights(path, run.agent.player.environment, run.agent.network, snapshot)
        run.agent.count_from(snapshot.total_train_steps)
        run.begin(refill=True)
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
    cluster, (module, _, game) = now.cluster.cluster, now.environment.game.rpartition(":")
    if cluster not in ("none", "local", "auto", given.get("cluster")):
        raise UserError(
            f"the run was on the cluster {cluster}, and a checkpoint chooses no address: give --cluster "
            f"{cluster}"
        )
    if now.environment.environment == "gym" and module and module not in sys.modules:
        raise UserError(
            f"the run was of {game} in the module {module}, and a checkpoint imports nothing: continue it "
            "from a script that imports the module"
        )
    was, settings = before.flags(), now.flags()
    for name in differing([*now.shared_flags(), "emulator"], was, settings):
        value = settings[name]
        if name in CHECKPOINT_SHAPE:
            raise UserError(
                f"the run was started with --{name} {was[name]} and cannot continue with {value}: "
                f"leave out --{name}, or start a new run with another label"
            )
        logger.info("From now on --%s is %s instead of %s", name, value, was[name])
