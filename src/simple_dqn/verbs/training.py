"""The steps that `train` and `resume` share: claiming a run's files, and continuing from a checkpoint."""

import errno
import logging
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from simple_dqn import settings_file
from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.files import from_here, home, is_trained, numbered, replacing
from simple_dqn.interrupt import Interrupt
from simple_dqn.rules import OF_STATE, differing
from simple_dqn.snapshot import Checkpoint, checkpoint_folder, first_to_last, locked, snapshots_after
from simple_dqn.statistics import Writer
from simple_dqn.training import Phase
from simple_dqn.verbs.common import finish
from simple_dqn.verbs.settings import settings_for, settle
from simple_dqn.wiring import make_run

logger = logging.getLogger(__name__)

# Errors of a system that has run out of a resource, or has lost a disk.
EXHAUSTED = (
    errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ENOMEM,
)  # fmt: skip


class CompleteError(UserError):
    """The run has all its epochs already."""


@contextmanager
def running(prefix: Path) -> Iterator[None]:
    """Claim all file names that begin with `prefix`; report an exhausted system in one line.

    Raises:
        UserError: Another run has claimed them, they cannot be written, or the system ran out of a resource.
    """
    if is_trained(prefix):
        raise UserError(
            f"no run writes into {prefix.parent}, where the agents that come with the project are: give "
            f"another --save_weights_prefix than {prefix}"
        )
    with locked(prefix):
        try:
            yield
        except OSError as error:
            if error.errno not in EXHAUSTED:
                raise
            raise UserError(
                f"training cannot go on: {error.strerror}; once that is mended, go on with ./resume.sh "
                f"{checkpoint_folder(prefix)}"
            ) from error


class _SettingsWriter(Writer):
    """Writes the settings of a run beside its CSV, once the run begins."""

    def __init__(self, path: Path, text: str, resumed: bool) -> None:
        self._path, self._text, self._resumed = path, text, resumed

    def open(self) -> None:
        """Write the file; that of an earlier run is renamed, that of the resumed run is renewed.

        Raises:
            UserError: It cannot be written.
        """
        with replacing(self._path) as beside:
            beside.write_text(f"{self._text}\n", encoding="utf-8")
            if self._path.exists() and not self._resumed:
                self._path.rename(numbered(self._path))


def settings_writers(config: Config, preset: str | None = None) -> list[Writer]:
    """Return what writes the settings of a run beside its CSV; nothing if it has none.

    Args:
        config: All settings.
        preset: The name of the preset they began with; None: the run is resumed, and its file names it.
    """
    if not config.run.csv_file:
        return []
    path = Path(config.run.csv_file).with_suffix(".yaml")
    name = preset or settings_file.preset_in(path)
    if preset is None:
        logger.info("Preset %s", name)
    return [_SettingsWriter(path, settings_file.listing(config, name), resumed=preset is None)]


def go_on(
    saved: Checkpoint,
    prefix: Path,
    given: dict[str, Any],
    writers: Sequence[Writer] = (),
    log: bool = True,
) -> None:
    """Continue a run from a checkpoint as if it had never stopped.

    Args:
        saved: The checkpoint.
        prefix: The path of its snapshots, without epoch and ending.
        given: The flags given by hand.
        writers: Receive the events of phases, beside the console and the CSV.
        log: Whether to start the log.

    Raises:
        CompleteError: The run has all its epochs.
        UserError: The flags contradict those of the run.
    """
    flags = saved.run["flags"]
    if given.get("datatype") == "auto":  # what that means here was settled when the run began
        given = {name: value for name, value in given.items() if name != "datatype"}
    check_flags(flags, given)
    moved = Path(flags["save_weights_prefix"]).resolve() != prefix.resolve()
    files = {"save_weights_prefix": str(prefix)}
    if moved:
        files["csv_file"] = str(home() / "results" / f"{prefix.name}.csv")
    config = settle(settings_for("resume", given, flags, files), log)
    phase = Phase(**saved.run["phase"])
    if phase.epoch > config.run.epochs:
        raise CompleteError(
            f"the run has {phase.trained} epochs of training and --epochs is {config.run.epochs}: "
            "give a larger --epochs"
        )
    if later := snapshots_after(prefix, phase.trained):
        logger.info("Later snapshots of the run, %s, are written again in their turn", first_to_last(later))
    writers = [*settings_writers(config), *writers]
    with Interrupt() as interrupt, closing(make_run(config, interrupt, phase.before, writers)) as run:
        logger.info("Going on from %s: %s %d, step %d", saved.path, phase.name, phase.epoch, phase.done)
        run.resume(saved)
    finish_training(config, interrupt)


def finish_training(config: Config, interrupt: Interrupt) -> None:
    """Log that a run is over, and the commands that can follow; see `finish`."""
    prefix = Path(config.run.save_weights_prefix) if config.run.save_weights_prefix else None
    if prefix and interrupt.requested and checkpoint_folder(prefix).is_dir():
        logger.info("Next: ./resume.sh %s continues the run", from_here(checkpoint_folder(prefix)))
    finish(interrupt)
    if snapshots := snapshots_after(prefix, 0) if prefix else []:
        last, epochs = from_here(snapshots[-1]), config.run.epochs + 10
        logger.info("Next: ./play.sh %s shows it playing, ./test.sh %s measures it,", last, last)
        logger.info("and ./resume.sh %s --epochs %d trains it further", last, epochs)


def check_flags(saved: dict[str, Any], given: dict[str, Any]) -> None:
    """Refuse flags that a run cannot change after its start, and log those that it changes.

    Args:
        saved: The flags of the run.
        given: The flags given by hand.

    Raises:
        UserError: A flag that must stay was changed.
    """
    settings = Config.from_flags({**saved, **given})
    on_cluster = Config.from_flags(saved).cluster.on
    if settings.cluster.on != on_cluster:
        raise UserError(
            f"the run was begun {'with' if on_cluster else 'without'} --cluster and cannot go on "
            f"{'without' if on_cluster else 'with'} it: begin a new run with --load_weights"
        )
    now = settings.flags()
    for name in differing([name for name in settings.shared_flags() if name in given], saved, now):
        if name in OF_STATE:
            raise UserError(
                f"the run was begun with --{name} {saved[name]} and cannot go on with {now[name]}: leave out "
                f"--{name}, or begin a new run under another label"
            )
        logger.info("From here on --%s is %s in place of %s", name, now[name], saved[name])
