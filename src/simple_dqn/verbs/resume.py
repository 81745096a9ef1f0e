"""`resume`: go on with a run from its checkpoint, or from a snapshot alone; `train` uses the steps, too."""

import glob
import logging
import shlex
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from simple_dqn import own_code, rules, settings_file
from simple_dqn.config import REGISTERED, Config, layered
from simple_dqn.errors import UserError
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
    prefix_of,
    snapshots_after,
)
from simple_dqn.statistics import Writer
from simple_dqn.statistics.csv_file import Resumed, is_of_run
from simple_dqn.verbs.common import finish, load_weights, open_snapshot, portable, run_of
from simple_dqn.verbs.settings import parser_for, resolve, settle, start_log

logger = logging.getLogger(__name__)

# What a checkpoint does not choose: paths, and a window.
RECORDINGS = ("display_screen", "record_screen_path", "record_sound_filename")
UNRECORDED = (*RECORDINGS, "load_weights", "visualization_file")


class CompleteError(UserError):
    """The run has all its epochs already."""

    def __init__(self, what: str, trained: int, epochs: int) -> None:
        had = f"{trained} epochs of training and --epochs is {epochs}"
        super().__init__(f"{what} has {had}: give a larger --epochs")


def resume(arguments: Sequence[str], program: str) -> None:
    """Go on with a run from one of its snapshots, or from the folder of its checkpoints."""
    about = "Go on with a training run from one of its snapshots."
    parser = parser_for(program, about, "snapshots/pong_checkpoint", of_snapshot=True)
    text = "such as snapshots/pong_10.pkl, or the folder snapshots/pong_checkpoint"
    parser.add_argument("snapshot", type=Path, help=text)
    given = parser.parse(arguments)
    start_log(given.get("log_level", "INFO"))
    path: Path = given["snapshot"]
    snapshot = None if path.is_dir() else open_snapshot(path)
    if snapshot is None:
        prefix = prefix_of(path)
    elif is_trained(path):
        prefix = home() / "snapshots" / f"{run_of(path, snapshot)}_{TRAINED}"
        logger.info("%s remains unchanged: the run continues as %s_...", path, prefix)
    else:
        prefix = path.with_name(run_of(path, snapshot))
    if Path(given.get("save_weights_prefix", prefix)).resolve() != prefix.resolve():
        remedy = "leave out --save_weights_prefix, or copy its files"
        raise UserError(f"a run continues as {prefix}_...: {remedy}")
    with locked(prefix):
        if go_on(prefix, given, snapshot):
            return
        if snapshot is None:
            raise UserError(f"{path} has no usable checkpoint: give a snapshot, such as {prefix}_10.pkl")
        _refill(path, snapshot, prefix, given)


class SettingsWriter(Writer):
    """Writes the settings of a run beside its CSV, once the run begins."""

    def __init__(self, config: Config, preset: str | None = None, renew: bool = True) -> None:
        """Set up the writer of a run that has a CSV and began with `preset`.

        Without `preset` the run is resumed: its file names the preset, and is replaced if `renew` is true.
        """
        assert config.run.csv_file
        csv = Path(config.run.csv_file)
        self._path, self._renew = csv.with_suffix(".yaml"), renew and preset is None
        if kind_of(self._path):
            starts = tuple(f"{key}:".encode() for key in settings_file.KEYS)
            check_start(self._path, starts, "file of settings")
        name = preset or settings_file.preset_in(self._path)
        if not preset and self._path.is_file():
            logger.info("Preset %s", name)
        self._text = settings_file.listing(config, name)
        # The earlier CSV, renamed by its own writer before `open`, and its settings keep one number.
        self._earlier = numbered(csv).with_suffix(".yaml")

    def open(self) -> None:
        """Write the file; that of an earlier run is renamed, that of the resumed run is renewed."""
        with replacing(self._path) as beside:
            beside.write_text(f"{self._text}\n", encoding="utf-8")
            if self._path.exists() and not self._renew:
                self._path.rename(numbered(self._path) if self._earlier.exists() else self._earlier)


def recorded(run: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a checkpoint, perhaps a stranger's, checked like flags, or raise ValueError.

    It names no file to write or to load but the CSV of its run, and opens no window.
    """
    flags = run["flags"]
    # A registered name may not be known yet.
    settings = {name: flags[name] for name in ("game", "save_weights_prefix", *REGISTERED)}
    settings["csv_file"] = flags["csv_file"] or ""
    others = [flags.get(name) or "" for name in UNRECORDED if not isinstance(flags.get(name), bool)]
    if wrong := [value for value in (*settings.values(), *others) if not isinstance(value, str)]:
        raise ValueError(f"its setting {wrong[0]!r} is no text")
    settings = layered(settings, checked_settings(flags, {*settings, *UNRECORDED}))
    config = Config.from_flags(settings)
    last = max(config.run.epochs, config.run.start_epoch)
    if not (run["statistics"]["tally"] and "environment" in settings) or config.run.random_seed is None:
        raise ValueError("it has no environment, seed or statistics")
    if Phase.of(run).epoch > last + 1:
        raise ValueError("its phase comes after the last epoch")
    if complaint := next(rules.complaints(config), ""):
        raise ValueError(complaint)
    return settings


def follows(snapshot: Snapshot | None, run: dict[str, Any]) -> bool:
    """Return whether `snapshot` is the last that was written before the checkpoint of `run`; None: any is."""
    config = Config.from_flags(recorded(run))
    if run["agent"]["memory"]["ring"]["rows"] != rows_for(config.memory, config.environment.workers):
        raise ValueError("its replay memory is of another size than its settings say")
    latest = [run["snapshots"][name] for name in ("complete", "stopped")]
    return snapshot is None or snapshot.fingerprint in latest


def go_on(
    prefix: Path,
    given: dict[str, Any],
    snapshot: Snapshot | None = None,
    writers: Sequence[Writer] = (),
    log: bool = True,
) -> bool:
    """Continue from the latest usable checkpoint as if the run had never stopped; return False if none is.

    It must follow `snapshot`, if that is given; CompleteError: the run has all its epochs. See `train.learn`.
    """
    for saved in CheckpointFolder(checkpoint_folder(prefix)).usable(lambda run: follows(snapshot, run)):
        try:
            _go_on(saved, prefix, given, writers, log)
        except DamagedError as error:
            logger.warning("%s: trying the previous checkpoint", error)
        else:
            return True
    return False


def _go_on(
    saved: Checkpoint, prefix: Path, given: dict[str, Any], writers: Sequence[Writer], log: bool
) -> None:
    """Continue the run of a checkpoint as if it had never stopped."""
    flags, phase, rows_sum = recorded(saved.run), Phase.of(saved.run), saved.run["statistics"]["csv"]
    if given.get("datatype") == "auto":  # what that means here was settled when the run began
        given = {name: value for name, value in given.items() if name != "datatype"}
    check_flags(flags, given)
    if ended := [f"--{name}" for name in RECORDINGS if saved.run["flags"].get(name) and name not in given]:
        logger.warning("A recording or window does not go on: give %s again", " and ".join(ended))
    csv_file, usual = flags["csv_file"], home() / "results" / f"{prefix.name}.csv"
    if csv_file and "csv_file" not in given and Path(csv_file).resolve() != usual.resolve():
        mine = None
        if Path(flags["save_weights_prefix"]).resolve() == prefix.resolve():  # else it was copied
            with suppress(UserError):
                mine = is_of_run(Path(csv_file), phase.before, rows_sum)
            if not mine:
                logger.warning("%s does not have the rows of this run: it continues in %s", csv_file, usual)
        csv_file = csv_file if mine else str(usual)
    files = {"save_weights_prefix": str(prefix), "csv_file": csv_file or None}
    config = settle(resolve(given, flags, files), log)
    if phase.epoch > config.run.epochs:
        raise CompleteError("the run", phase.trained, config.run.epochs)
    if later := snapshots_after(prefix, phase.epoch if phase.done else phase.trained):
        logger.info("Later snapshots of the run, from %s on, will be overwritten", later[0])
    # Beside the CSV of another run are its settings, curves and ids of trackers, too.
    csv = config.run.csv_file
    own = not csv or is_of_run(Path(csv), phase.before, rows_sum) is not False
    writers = [*([SettingsWriter(config, renew=own)] if csv else []), *writers]
    resumed = phase.before if own else None
    with Interrupt() as interrupt, closing(make_run(config, interrupt, resumed, writers)) as run:
        logger.info("Continuing from %s: %s %d, step %d", saved.path, phase.name, phase.epoch, phase.done)
        run.resume(saved)
    finish_training(config, interrupt)


def check_flags(saved: dict[str, Any], given: dict[str, Any]) -> None:
    """Log which `saved` flags of a run those `given` by hand change; raise UserError if one must stay."""
    before, now = Config.from_flags(saved), Config.from_flags(saved, given)
    was, settings, cluster = before.flags(), now.flags(), now.cluster.cluster
    if now.cluster.on != before.cluster.on:
        raise UserError("a run cannot move to a cluster or from it: start a new run with --load_weights")
    if cluster not in ("none", "local", "auto", given.get("cluster")):
        raise UserError(f"a checkpoint chooses no address: give --cluster {cluster}, where the run was")
    for name in differing([*now.shared_flags(), "emulator"], was, settings):
        if name in CHECKPOINT_SHAPE:
            change = f"--{name} {was[name]} and cannot continue with {settings[name]}"
            remedy = f"leave out --{name}, or start a new run with another label"
            raise UserError(f"the run was started with {change}: {remedy}")
        logger.info("From now on --%s is %s instead of %s", name, settings[name], was[name])


def _refill(path: Path, snapshot: Snapshot, prefix: Path, given: dict[str, Any]) -> None:
    """Continue from a snapshot's weights alone; the network's own play fills the replay memory."""
    fixed = {
        "game": snapshot.game, "csv_file": str(home() / "results" / f"{prefix.name}.csv"),
        "random_seed": None, "save_weights_prefix": str(prefix), "start_epoch": snapshot.epoch,
    }  # fmt: skip
    config = settle(resolve(given, portable(snapshot.flags), fixed))
    if config.run.epochs <= config.run.start_epoch:
        raise CompleteError(str(path), snapshot.epoch, config.run.epochs)
    resumed = Resumed(config.run.start_epoch, "test")
    writers = [SettingsWriter(config)] if config.run.csv_file else []
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


def finish_training(config: Config, interrupt: Interrupt) -> None:
    """Log that a run is over, and the commands that can follow; see `finish`."""
    prefix = Path(config.run.save_weights_prefix) if config.run.save_weights_prefix else None

    def words(path: Path) -> str:
        imports = [word for one in own_code.IMPORTED for word in ("--import", str(from_here(Path(one))))]
        return shlex.join([str(from_here(path)), *imports])

    if prefix and interrupt.requested and checkpoint_folder(prefix).is_dir():
        logger.info("Next: ./resume.sh %s continues the run", words(checkpoint_folder(prefix)))
    finish(interrupt)
    if snapshots := snapshots_after(prefix, 0) if prefix else []:
        last, epochs = words(snapshots[-1]), config.run.epochs + 10
        logger.info("Next: ./play.sh %s shows it playing, ./test.sh %s measures it,", last, last)
        logger.info("and ./resume.sh %s --epochs %d trains it further", last, epochs)
