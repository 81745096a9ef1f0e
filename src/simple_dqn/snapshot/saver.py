"""The saver of a run's files, which writes them while the run continues, and their names.

The files of the run `snapshots/pong`, its prefix, are the snapshots `pong_1.pkl`, `pong_2.pkl` and so on, and
the folder `pong_checkpoint`.
"""

import glob
import itertools
import logging
import math
import re
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from simple_dqn import own_code
from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.files import command, from_here, is_trained, kind_of, lock_file, replacing, reporting_failure
from simple_dqn.snapshot import Snapshot
from simple_dqn.snapshot.checkpoint import Checkpoint, CheckpointFolder, Chunk, numbered, pack
from simple_dqn.types import CheckpointState, Step, on_host

logger = logging.getLogger(__name__)

EXPERIENCES = 1024  # of a full chunk
MOST_BYTES = 1 << 30  # of the screens in a chunk, which a long rollout of many games exceeds
CHECKPOINTS = "_checkpoint"  # the end of the checkpoint folder's name
LOCK = "lock"  # a file in that folder
LONGEST_NAME = 200  # bytes; the files of a run add up to 55


def checkpoint_folder(prefix: Path) -> Path:
    """Return the folder of the run's checkpoints."""
    return prefix.with_name(prefix.name + CHECKPOINTS)


def prefix_of(folder: Path) -> Path:
    """Return the prefix of the run whose checkpoints are in `folder`, or raise UserError by its name."""
    for named in (folder, folder.resolve()):  # a link keeps its own name
        if named.name.endswith(CHECKPOINTS):
            return named.with_name(named.name.removesuffix(CHECKPOINTS))
    raise UserError(f"{folder} is not a folder of checkpoints: give one such as snapshots/pong{CHECKPOINTS}")


def snapshots_after(prefix: Path, epoch: int) -> list[Path]:
    """Return the snapshots `<prefix>_<number>.pkl` of later epochs than `epoch`, in order."""
    return [path for number, path in numbered(prefix.parent, f"{prefix.name}_", ".pkl") if number > epoch]


def best_snapshot(prefix: Path) -> Path:
    """Return the path of the snapshot that `--keep best` keeps."""
    return prefix.with_name(f"{prefix.name}_best.pkl")


@contextmanager
def locked(prefix: Path) -> Iterator[None]:
    """Hold a lock on the files of the run `prefix`, and remove unfinished files of killed runs.

    The lock ends with the process, however it ends. UserError: another run has it, or nothing can be written.
    """
    if not prefix.name or len(prefix.name.encode(errors="replace")) > LONGEST_NAME:
        advice = f"give a name such as snapshots/pong, of at most {LONGEST_NAME} letters"
        raise UserError(f"--save_weights_prefix {prefix} is a folder or its name is too long: {advice}")
    kind_of(prefix)  # refuses a name that no file can have
    if is_trained(prefix):
        raise UserError(f"{prefix.parent} has the project's own agents: give another --save_weights_prefix")
    folder = checkpoint_folder(prefix.absolute())  # a callback may change the current one
    with reporting_failure(f"to {prefix.parent}", "make it a writable folder, or use another"):
        folder.mkdir(parents=True, exist_ok=True)
        lock = lock_file(folder / LOCK, prefix)
    with lock:
        # See `files.replacing`.
        name = re.compile(rf"\.{re.escape(prefix.name)}_(\d+|best)\.pkl\.\d+\.part")
        parts = [path for path in prefix.parent.glob(".*.part") if name.fullmatch(path.name)]
        for path in [*parts, *folder.glob(".*.part")]:
            with suppress(OSError):
                path.unlink()
        try:
            yield
        finally:
            with suppress(OSError):
                (folder / LOCK).unlink()
                folder.rmdir()  # fails unless it is empty


def set_aside(prefix: Path, epoch: int) -> None:
    """Rename an earlier run's checkpoints and its snapshots of later epochs than `epoch`, or raise UserError.

    `pong` becomes `pong_before` in their names, or else `pong_before_2` and so on.
    """
    folder, best = checkpoint_folder(prefix), best_snapshot(prefix)
    snapshots = [*snapshots_after(prefix, epoch), *([best] if kind_of(best) else [])]
    checkpoints = [path for path in folder.glob("*") if path.name != LOCK] if numbered(folder) else []
    if not snapshots and not checkpoints:
        return
    names = (f"{prefix.name}_before" + (f"_{number}" if number > 1 else "") for number in itertools.count(1))
    name = next(name for name in names if not any(prefix.parent.glob(f"{glob.escape(name)}_*")))
    logger.info("The files of an earlier run are kept as %s_...", from_here(prefix.with_name(name)))
    moves = [(path, path.with_name(name + path.name.removeprefix(prefix.name))) for path in snapshots]
    moves += [(path, checkpoint_folder(prefix.with_name(name)) / path.name) for path in checkpoints]
    for path, other in moves:
        with reporting_failure(f"{other}", f"move {path} away, or give this run another label"):
            other.parent.mkdir(exist_ok=True)
            path.rename(other)


class Saver:
    """Writes `<prefix>_<epoch>.pkl` after each epoch, and checkpoints into the folder `<prefix>_checkpoint`.

    The state is copied between two steps, and a thread writes it while training continues. Files are written
    in order, so that no checkpoint is newer than a snapshot. One that cannot be written does not end the run:
    it stays in the queue, with a warning, and is tried again with the next file.
    """

    def __init__(
        self, prefix: Path, game: str, actions: int, config: Config,
        clock: Callable[[], float] = time.monotonic, can_save: bool = True,
    ) -> None:  # fmt: skip
        """Set up a saver, which writes nothing yet; the files of `prefix` should be `locked`.

        `can_save`: whether the games can be saved; if not, a checkpoint restarts them. `clock`: in seconds.
        """
        self.prefix, self.folder = prefix, checkpoint_folder(prefix)
        self._game, self._actions, self._config = game, actions, config
        self._clock, self._can_save = clock, can_save
        self._interval = 60 * config.run.checkpoint_minutes or math.inf  # seconds
        self._next = clock() + self._interval
        self._rows = 0  # added to the replay memory so far
        # The latest of these rows, not yet in a chunk. With rollouts, only checkpoints write chunks.
        most = config.memory.rows(1) if config.memory.rollout_steps else None
        self._steps: deque[Step] = deque(maxlen=most)
        # Fingerprints of the latest snapshots: of a complete epoch, and of one that was stopped and must be
        # completed; with `--keep best` also the mean score of the best test.
        self._snapshots: dict[str, float | None] = {"complete": None, "stopped": None}
        self._executor = futures.ThreadPoolExecutor(1, "checkpoint")
        self._last: futures.Future[None] = futures.Future()  # of the latest call in the thread
        self._last.set_result(None)
        self._saving = self._last  # of the latest checkpoint
        # The following are used by the thread alone.
        kept = 2 if config.run.keep == "best" else int(config.run.keep)
        self._checkpoints = CheckpointFolder(self.folder, kept)
        self._chunks: list[Chunk] = []  # of the steps that the replay memory holds
        self._unwritten: dict[Path, Snapshot | bytes] = {}  # snapshots and chunks, in order

    def begin(self, weights: Mapping[str, np.ndarray]) -> None:
        """Begin a new run with the network's `weights`; set an earlier run's files aside, see `set_aside`."""
        start = self._config.run.start_epoch
        first = Snapshot(self._game, start, self._actions, 0, {}, dict(weights))
        first.check()
        set_aside(self.prefix, start)
        self._snapshots["complete"] = first.fingerprint

    def resume(self, checkpoint: Checkpoint) -> None:
        """Continue the run that wrote `checkpoint`, with its numbering of rows and its chunks."""
        self._checkpoints.resume(checkpoint)
        self._snapshots = checkpoint.run["snapshots"]
        self._rows, self._chunks = checkpoint.rows, list(checkpoint.chunks)

    def log(self, step: Step) -> None:
        """Log `step`, which was added to the replay memory and does not change any more."""
        self._steps.append(step)
        self._rows += 1
        if self._steps.maxlen is None and len(self._steps) * len(step.actions) >= EXPERIENCES:
            self._flush()

    def is_due(self, before: int, now: int, games: int = 1) -> bool:
        """Return whether to make a checkpoint after the step `now` of a phase; the last call was at `before`.

        If games cannot be saved, a checkpoint restarts them. Its time then depends on steps instead of the
        clock, so that runs with equal seeds are equal. A test of several `games` makes none, since restarts
        would favor short games.
        """
        if self._can_save:
            return self._clock() >= self._next and self._saving.done()
        every = self._config.run.checkpoint_steps
        return games == 1 and every > 0 and now // every > before // every

    def save_checkpoint(self, run: CheckpointState, held: int, wait: bool = False) -> None:
        """Make a checkpoint of `run`, which is copied, and of the `held` latest rows of the replay memory.

        If the previous one is still being written, wait for it, or else postpone this one.
        """
        if wait or not self._can_save:
            futures.wait([self._last])
        if not self._saving.done():
            self._next = self._clock()
            return
        self._flush()
        state = deepcopy({"flags": self._config.flags(), "snapshots": self._snapshots, **run})
        self._saving = self._submit(self._write_checkpoint, state, self._rows, held)
        self._next = self._clock() + self._interval

    def save_snapshot(
        self, epoch: int, total_train_steps: int, weights: Mapping[str, np.ndarray], complete: bool = True
    ) -> Path:
        """Write the snapshot of `epoch`, and return its path.

        `complete` is False if the epoch was stopped; the resumed run replaces the snapshot.
        """
        path = self.prefix.with_name(f"{self.prefix.name}_{epoch}.pkl")
        snapshot = self._save(path, epoch, total_train_steps, weights)
        self._snapshots["stopped"] = None
        self._snapshots["complete" if complete else "stopped"] = snapshot.fingerprint
        return path

    def save_best(self, scores: Sequence[float], *facts: Any) -> None:
        """With `--keep best`, write `<prefix>_best.pkl` if a test's mean score is the best of the run so far.

        `facts` are those of `save_snapshot`, at the test.
        """
        best, score = self._snapshots.get("best"), float(np.mean(scores or -math.inf))
        best = best if isinstance(best, float) else -math.inf  # a checkpoint may be a stranger's
        if self._config.run.keep == "best" and score > best:
            self._snapshots["best"] = score
            self._save(best_snapshot(self.prefix), *facts)

    def _save(self, path: Path, epoch: int, steps: int, weights: Mapping[str, np.ndarray]) -> Snapshot:
        logger.info("Saving weights to %s", from_here(path))
        flags = self._config.shared_flags()
        snapshot = Snapshot(self._game, epoch, self._actions, steps, flags, dict(weights))
        snapshot.check()
        self._submit(self._write, path, snapshot, "Training continues, and tries again later").result()
        return snapshot

    def resume_hint(self) -> str:
        """Wait until all is written; return how to resume, by the last checkpoint or snapshot, if any."""
        futures.wait([self._last])
        last, own = snapshots_after(self.prefix, -1)[-1:], own_code.flags()
        if self._checkpoints.latest_number():
            return f", and continue from the last checkpoint with {command('resume', self.folder, *own)}"
        return f", and continue from the last snapshot with {command('resume', *last, *own)}" if last else ""

    def require_snapshots(self) -> None:
        """Raise UserError if a snapshot could not be written, which is lost when this process ends."""
        resume_hint, remedy = self.resume_hint(), "free disk space, or make its folder writable"
        for path, content in self._unwritten.items():
            if isinstance(content, Snapshot):
                raise UserError(f"{path} could not be written: {remedy}{resume_hint}")

    def close(self) -> None:
        """Wait until everything is written, and raise what a call in the thread raised."""
        self._executor.shutdown()
        self._last.result()

    def _submit(self, function: Callable[..., object], *arguments: Any) -> futures.Future[None]:
        """Call `function` in the thread, after earlier calls; what one of them raised is raised again."""

        def call(last: futures.Future[None]) -> None:
            last.result()
            function(*arguments)

        if self._last.done():
            self._last.result()
        self._last = self._executor.submit(call, self._last)
        return self._last

    def _flush(self) -> None:
        """Write the latest steps as a chunk, full or not."""
        if self._steps:
            steps = [replace(step, screens=on_host(step.screens)) for step in self._steps]
            most = max(1, MOST_BYTES // steps[0].screens.nbytes)
            for place in range(0, len(steps), most):
                first = self._rows - len(steps) + place
                self._submit(self._write_chunk, first, steps[place : place + most])
            self._steps.clear()

    # The following are called in the thread.

    def _write_queue(self) -> None:
        """Write the queued files in order; the first that fails stays in the queue, with those behind it."""
        for path, content in list(self._unwritten.items()):
            if isinstance(content, Snapshot):
                content.save(path)
            else:
                with replacing(path, follow=False) as beside:
                    beside.write_bytes(content)
            del self._unwritten[path]

    def _write(self, path: Path, content: Snapshot | bytes, warning: str = "") -> None:
        self._unwritten[path] = content
        try:
            self._write_queue()
        except UserError as error:
            if warning:
                logger.warning("%s. %s", error, warning)

    def _write_chunk(self, first: int, steps: Sequence[Step]) -> None:
        content = pack(steps)
        self._chunks.append(Chunk(first, first + len(steps), zlib.crc32(content)))
        self._write(self.folder / self._chunks[-1].name, content)  # the next checkpoint reports an error

    def _write_checkpoint(self, run: CheckpointState, rows: int, held: int) -> None:
        self._chunks = [chunk for chunk in self._chunks if chunk.end > rows - held]
        needed = {self.folder / chunk.name for chunk in self._chunks}
        for path, content in list(self._unwritten.items()):
            if isinstance(content, bytes) and path not in needed:
                del self._unwritten[path]
        try:
            self._write_queue()
            self._checkpoints.write(run, rows, held, self._chunks)
        except UserError as error:
            logger.warning("No checkpoint was written: %s", error)
