"""The keeper writes the snapshots and checkpoints of a run, and decides when a checkpoint is due."""

import logging
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.snapshot.checkpoint import Checkpoint, CheckpointFolder
from simple_dqn.snapshot.experience_log import BackgroundThread, ExperienceLog
from simple_dqn.snapshot.run_files import checkpoint_folder, set_aside
from simple_dqn.snapshot.snapshot import Snapshot
from simple_dqn.types import CheckpointState, Step

logger = logging.getLogger(__name__)


class Keeper:
    """Writes `<prefix>_<epoch>.pkl` after each epoch, and checkpoints into the folder `<prefix>_checkpoint`.

    The state is copied between two steps, and a thread writes it while training continues. A file that cannot
    be written does not end the run: the keeper logs a warning, and tries again with the next checkpoint.
    """

    def __init__(
        self,
        prefix: Path,
        game: str,
        actions: int,
        config: Config,
        clock: Callable[[], float] = time.monotonic,
        can_save: bool = True,
    ) -> None:
        """Set up a keeper, which writes nothing yet; the files of `prefix` should be `locked`.

        `can_save` says whether the games can be saved; if not, a checkpoint restarts them. `clock` returns
        seconds.
        """
        self.prefix = prefix
        self._game, self._actions, self._config = game, actions, config
        self._clock = clock
        self._can_save = can_save
        self._checkpoints = CheckpointFolder(checkpoint_folder(prefix), config.run.keep)
        self._background = BackgroundThread()
        self._log = ExperienceLog(self._checkpoints.folder, self._background)
        self._interval = 60 * config.run.checkpoint_minutes or math.inf  # seconds
        self._next = clock() + self._interval
        self._saving: Future[None] | None = None
        self._unwritten: list[tuple[Path, Snapshot]] = []  # snapshots that have not been written yet
        # Checksums of the latest snapshots: of a complete epoch, and of one that was stopped and goes on.
        self._weights_sum: int | None = None
        self._stopped_sum: int | None = None

    def begin(self, resumed: Snapshot | None = None) -> None:
        """Begin a new run, from the snapshot `resumed` if given; set an earlier run's files aside.

        Raises:
            UserError: A file cannot be renamed.
        """
        set_aside(self.prefix, self._config.run.start_epoch)
        self._weights_sum = resumed.weights_sum if resumed else None

    def resume(self, checkpoint: Checkpoint) -> None:
        """Continue the run that wrote `checkpoint`."""
        self._checkpoints.resume(checkpoint)
        self._weights_sum = checkpoint.run.get("weights_sum")
        self._stopped_sum = checkpoint.run.get("stopped_sum")
        self._log.resume(checkpoint.rows, checkpoint.chunks)

    def log(self, step: Step) -> None:
        """Write `step`, which was added to the replay memory, to the experience log."""
        self._log.add(step)

    @property
    def folder(self) -> Path:
        """The folder of the checkpoints."""
        return self._checkpoints.folder

    def is_due(self, before: int, now: int, games: int = 1) -> bool:
        """Return whether to make a checkpoint in the middle of a phase.

        `now` is the number of steps of the phase so far, and `before` that of the last call. A test plays
        `games` side by side.
        """
        if self._can_save:
            return self._interval_is_over
        # Each checkpoint restarts the games. Its time depends on steps, not on the clock, so that runs with
        # equal seeds are equal. A test of several games has none: it would drop the long games.
        every = self._config.run.checkpoint_steps
        return games == 1 and every > 0 and now // every > before // every

    @property
    def _interval_is_over(self) -> bool:
        """Whether `--checkpoint_minutes` have passed, and the previous checkpoint is written."""
        return self._clock() >= self._next and not self._busy

    @property
    def _busy(self) -> bool:
        return self._saving is not None and not self._saving.done()

    def save_checkpoint(self, run: CheckpointState, held: int, wait: bool = False) -> None:
        """Make a checkpoint of `run`, which is copied, and of the `held` latest rows of the replay memory.

        If the previous one is still being written, `wait` for it, or else postpone this one.
        """
        self._write_snapshots()
        if self._unwritten:  # A run resumed from this checkpoint would never write these snapshots.
            self._log.flush()
            self._background.submit(self._trim_log, self._log.rows, held)
            self._next = self._clock() + self._interval
            return
        if wait or not self._can_save:
            self._background.wait()
        if self._busy:
            self._next = self._clock()
            return
        self._log.flush()
        sums = {"weights_sum": self._weights_sum, "stopped_sum": self._stopped_sum}
        state = copied({"flags": self._flags(), **sums, **run})
        self._saving = self._background.submit(self._write_checkpoint, state, self._log.rows, held)
        self._next = self._clock() + self._interval

    def save_snapshot(
        self, epoch: int, total_train_steps: int, weights: Mapping[str, np.ndarray], complete: bool = True
    ) -> Path:
        """Write the snapshot of `epoch`, and return its path; a failure is retried at the next checkpoint.

        `complete` is False if the epoch was stopped; the resumed run replaces the snapshot.
        """
        path = self.prefix.with_name(f"{self.prefix.name}_{epoch}.pkl")
        logger.info("Saving weights to %s", path)
        flags = self._config.shared_flags()
        facts = (self._game, epoch, self._actions, total_train_steps)
        snapshot = Snapshot(*facts, flags, dict(weights))
        if complete:
            self._weights_sum, self._stopped_sum = snapshot.weights_sum, None
        else:
            self._stopped_sum = snapshot.weights_sum
        self._unwritten.append((path, snapshot))
        self._write_snapshots()
        return path

    def require_snapshots(self) -> None:
        """Check that every snapshot is written.

        Raises:
            UserError: One could not be written, and is lost when this process ends.
        """
        if self._unwritten:
            path, _ = self._unwritten[0]
            raise UserError(
                f"{path} could not be written: make room for it, or its folder writable, and continue "
                f"from the last checkpoint with ./resume.sh {self.folder}"
            )

    def close(self) -> None:
        """Wait until everything is written."""
        self._background.close()

    def _write_snapshots(self) -> None:
        while self._unwritten:
            path, snapshot = self._unwritten[0]
            try:
                snapshot.save(path)
            except UserError as error:
                logger.warning("%s. Training continues, and tries again at the next checkpoint", error)
                return
            self._unwritten.pop(0)

    def _write_checkpoint(self, run: CheckpointState, rows: int, held: int) -> None:
        try:
            chunks = self._log.write_from(rows - held)
            self._checkpoints.write(run, rows, held, chunks)
        except UserError as error:
            logger.warning(
                "No checkpoint was written: %s. Training continues until the next one is due", error
            )

    def _trim_log(self, rows: int, held: int) -> None:
        """Drop the part of the log that the replay memory has overwritten, although no checkpoint is made."""
        with suppress(UserError):
            self._log.write_from(rows - held)

    def _flags(self) -> dict[str, Any]:
        """Return all settings, with absolute paths, because a run may be resumed in another folder."""
        flags = self._config.flags()
        # A resumed run compares this path with the checkpoint's, to detect a copied folder.
        flags["save_weights_prefix"] = str(self.prefix.resolve())
        return flags | {"csv_file": flags["csv_file"] and str(Path(flags["csv_file"]).resolve())}


def copied(value: Any) -> Any:
    """Return a `CheckpointState`, or a part of one, with copies of all its arrays."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value
