"""What a run leaves on disk while it goes on, and when."""

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
from simple_dqn.snapshot.aside import free_prefix, set_snapshots_aside
from simple_dqn.snapshot.background import Background
from simple_dqn.snapshot.checkpoint import Checkpoints, Saved
from simple_dqn.snapshot.claim import checkpoint_folder
from simple_dqn.snapshot.experience_log import Chunk, ExperienceLog
from simple_dqn.snapshot.modification import current, record_of
from simple_dqn.snapshot.snapshot import Snapshot
from simple_dqn.types import CheckpointState, Step

logger = logging.getLogger(__name__)

# Settings that name what a run writes beside its snapshots.
WRITTEN = ("csv_file", "replay_file", "record_screen_path", "record_sound_filename")


class Keeper:
    """Writes `<prefix>_<epoch>.pkl` after each epoch, and checkpoints in `<prefix>_checkpoint` beside them.

    A checkpoint is copied where training stands and written in the background. None of its troubles
    ends a run: what could not be written is said, and tried again with the next.
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
        """Get ready to write, for which the prefix should be `claimed`.

        Args:
            prefix: What the names of all files begin with.
            game: The game's name.
            actions: How many actions there are to choose from.
            config: All settings.
            clock: Time in seconds from any origin.
            can_save: Whether a checkpoint saves the games of the run; if not, it restarts them.
        """
        self.prefix = prefix
        self._game, self._actions, self._config = game, actions, config
        self._can_save = can_save
        self._clock = clock
        self._checkpoints = Checkpoints(checkpoint_folder(prefix), config.run.keep)
        self._background = Background()
        self._log = ExperienceLog(self._checkpoints.folder, self._background)
        self._interval = 60 * config.run.checkpoint_minutes or math.inf  # seconds
        self._next = clock() + self._interval
        self._saving: Future[None] | None = None
        self._unwritten: list[tuple[Path, Snapshot]] = []  # snapshots that the disk did not take
        self._weights_sum: int | None = None  # of the latest snapshot; None: there is none yet

    def begin(self, resumed: Snapshot | None = None) -> None:
        """Begin a new run: what another run of this name left is renamed, with a line in the log.

        That is its checkpoints, and its snapshots of epochs that are still to come in this run.

        Args:
            resumed: The snapshot that the run continues.

        Raises:
            UserError: A file cannot be renamed.
        """
        kept = free_prefix(self.prefix)
        self._checkpoints.set_aside(checkpoint_folder(kept))
        set_snapshots_aside(self.prefix, self._config.run.start_epoch, kept)
        self._weights_sum = resumed.weights_sum if resumed else None

    def take_up(self, saved: Saved) -> None:
        """Go on with the run that wrote `saved`."""
        self._checkpoints.take_up(saved)
        self._weights_sum = saved.run.get("weights_sum")
        self._log.take_up(saved.rows, saved.chunks, saved.kept)

    def log(self, step: Step) -> None:
        """Write down what the replay memory takes in."""
        self._log.add(step)

    def keep_experience(self) -> None:
        """Have what was written down so far in every checkpoint, as the replay memory keeps it."""
        self._log.keep()

    @property
    def folder(self) -> Path:
        """Where the checkpoints are."""
        return self._checkpoints.folder

    def is_due(self, before: int, now: int, games: int = 1) -> bool:
        """Return whether to make a checkpoint in the middle of a phase.

        Args:
            before: Steps of the phase when this was last asked.
            now: Steps of the phase so far.
            games: How many games a test plays side by side; 1 outside of tests.
        """
        if self._can_save:
            return self._interval_is_over
        # Each checkpoint restarts the games. It is made by steps, not by the clock, so that runs of one seed
        # are equal, and not in a test of several games: dropping those in progress would favour short ones.
        every = self._config.run.checkpoint_steps
        return games == 1 and every > 0 and now // every > before // every

    @property
    def _interval_is_over(self) -> bool:
        """Whether `--checkpoint_minutes` have passed, and the checkpoint before is written."""
        return self._clock() >= self._next and not self._busy

    @property
    def _busy(self) -> bool:
        return self._saving is not None and not self._saving.done()

    def keep_run(self, run: CheckpointState, held: int, wait: bool = False) -> None:
        """Make a checkpoint; if the disk is still busy with the one before, put it off until it is not.

        Args:
            run: All that is needed to go on, but for the experience; it is copied.
            held: Rows that the replay memory holds.
            wait: Rather wait for the disk than put it off.
        """
        self._write_snapshots()
        if self._unwritten:  # A run that is resumed would be past them, and never write them.
            self._log.flush()
            self._background.do(self._forget, self._log.rows, held)
            self._next = self._clock() + self._interval
            return
        if wait or not self._can_save:
            self._background.wait()
        if self._busy:
            self._next = self._clock()
            return
        self._log.flush()
        origin = {"flags": self._flags(), "modification": record_of(current())}
        state = copied({**origin, "weights_sum": self._weights_sum, **run})
        self._saving = self._background.do(self._save, state, self._log.rows, held)
        self._next = self._clock() + self._interval

    def keep_weights(self, epoch: int, total_train_steps: int, weights: Mapping[str, np.ndarray]) -> Path:
        """Write the snapshot of `epoch`, now or when the disk takes it, and return its path."""
        path = self.prefix.with_name(f"{self.prefix.name}_{epoch}.pkl")
        logger.info("Saving weights to %s", path)
        flags = self._config.shared_flags()
        facts = (self._game, epoch, self._actions, total_train_steps)
        snapshot = Snapshot(*facts, flags, dict(weights), current())
        self._weights_sum = snapshot.weights_sum
        self._unwritten.append((path, snapshot))
        self._write_snapshots()
        return path

    def _write_snapshots(self) -> None:
        while self._unwritten:
            path, snapshot = self._unwritten[0]
            try:
                snapshot.save(path)
            except UserError as error:
                logger.warning("%s. Training goes on, and it is tried again with the next checkpoint", error)
                return
            self._unwritten.pop(0)

    def require_snapshots(self) -> None:
        """See that the disk has taken every snapshot.

        Raises:
            UserError: It has not, and they go with this process.
        """
        if self._unwritten:
            path, _ = self._unwritten[0]
            raise UserError(
                f"{path} could not be written: make room for it, and go on from the last checkpoint with "
                f"./resume.sh {self.folder}"
            )

    def close(self) -> None:
        """Wait until all is written."""
        self._background.close()

    def _save(self, run: CheckpointState, rows: int, held: int) -> None:
        try:
            chunks = self._secure(rows, held)
            self._checkpoints.write(run, rows, held, chunks, self._log.kept)
        except UserError as error:
            logger.warning("No checkpoint: %s. Training goes on, and the next is tried in its time", error)

    def _flags(self) -> dict[str, Any]:
        """Return all settings, with whole paths: it may be another folder from which the run is resumed."""
        flags = self._config.flags()
        # By this one who resumes it sees, too, whether the folder of its checkpoints was copied since.
        flags["save_weights_prefix"] = str(self.prefix.resolve())
        return flags | {name: str(Path(flags[name]).resolve()) for name in WRITTEN if flags[name]}

    def _forget(self, rows: int, held: int) -> None:
        """Keep no more of the log in memory, while the disk refuses it, than the replay memory holds."""
        with suppress(UserError):
            self._secure(rows, held)

    def _secure(self, rows: int, held: int) -> list[Chunk]:
        return self._log.secure(first=rows - (held - self._log.kept))


def copied(value: Any) -> Any:
    """Return `value`, nested as a `CheckpointState` is, with copies of all its arrays."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value
