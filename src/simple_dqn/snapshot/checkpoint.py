"""Checkpoints, with everything that a run needs to continue as if it had never stopped, and their keeper.

A checkpoint with the whole replay memory would write gigabytes each time, nearly all of them unchanged. So
each step added to the memory is also written to a log, in chunks of about a thousand experiences that never
change. A checkpoint has the state of the run, and lists the chunks with the memory's content. Rows are
numbered from the first step of the run.

The files of the run `snapshots/pong`, its prefix, are the snapshots `pong_1.pkl`, `pong_2.pkl` and so on, and
the folder `pong_checkpoint`.
"""

import glob
import io
import itertools
import logging
import math
import operator
import re
import time
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import lz4.frame
import numpy as np

from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.files import command, is_trained, kind_of, lock_file, open_file, read_file, replacing

from simple_dqn.files import reporting_failure  # isort: skip
from simple_dqn.snapshot.snapshot import MALFORMED, Snapshot, fingerprint, quotable

from simple_dqn.snapshot.snapshot import read_archive, write_archive  # isort: skip
from simple_dqn.types import CheckpointState, Experience, Step

logger = logging.getLogger(__name__)

EXPERIENCES = 1024  # of a full chunk
CHECKPOINTS = "_checkpoint"  # the end of the checkpoint folder's name
LOCK = "lock"  # a file in that folder
LONGEST_NAME = 200  # bytes; the files of a run add up to 55
FORMAT = "simple-dqn checkpoint 3"
MOST_BYTES, CHUNK_BYTES = 8 << 30, 2 << 30  # of a checkpoint, and of a chunk, packed or not
REMEDY = "use another checkpoint"
ANY_LENGTH = ("scores", "masses")  # arrays whose length changes during a run
FIXED = ("bit_generator", "optimizer")  # words that are not those of another run
UNCHECKED = ("environment", "flags", "csv")  # the games and settings check their own; a row is only compared


class DamagedError(UserError):
    """A checkpoint cannot be used, but an earlier one may be."""


class Chunk(NamedTuple):
    """A file of the log."""

    first: int  # its first row
    end: int  # its last row, plus one
    sum: int  # CRC-32 of the file

    @property
    def name(self) -> str:
        """The file's name."""
        return f"experience_{self.first:010d}-{self.end:010d}.lz4"

    def read(self, folder: Path) -> bytes:
        """Return the content of the file in `folder`; raise UserError if it is missing or damaged."""
        content = read_file(folder / self.name, CHUNK_BYTES, REMEDY)
        if zlib.crc32(content) != self.sum:
            raise UserError(f"{folder / self.name} is damaged: {REMEDY}")
        return content


def pack(steps: Sequence[Step]) -> bytes:
    """Return `steps` as the content of a chunk: an LZ4 frame with one `.npy` array for each field.

    The arrays are [E, T, ...]: consecutive screens of a game, which are similar, are neighbors.
    """
    content = io.BytesIO()
    for field in fields(Experience):
        array = np.stack([getattr(step, field.name) for step in steps], axis=1)
        np.lib.format.write_array(content, array, allow_pickle=False)
    packed: bytes = lz4.frame.compress(content.getbuffer(), content_checksum=True)
    return packed


def unpack(content: bytes) -> Experience:
    """Return the experience in `content`, which `pack` made; raise UserError if it is damaged."""
    try:
        file = io.BytesIO(lz4.frame.LZ4FrameDecompressor().decompress(content, CHUNK_BYTES))
        arrays = [np.lib.format.read_array(file, allow_pickle=False) for _ in fields(Experience)]
        if len({array.shape[:2] for array in arrays}) > 1:
            raise ValueError("its arrays have different lengths")
    except MALFORMED as error:
        raise UserError(f"the experience log is damaged ({quotable(error)}): {REMEDY}") from None
    return Experience(*(array.swapaxes(0, 1) for array in arrays))


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint read from a file."""

    path: Path
    run: dict[str, Any]  # the state of the run, without the experience
    rows: int  # rows added to the replay memory so far
    held: int  # the number of latest rows that the replay memory held
    chunks: list[Chunk]  # of the log; they contain at least the held rows

    def experience(self) -> Iterator[Experience]:
        """Yield the content of the replay memory, oldest first; raise UserError if a chunk is damaged."""
        for chunk in self.chunks:
            experience = unpack(chunk.read(self.path.parent))
            skipped = max(0, self.rows - self.held - chunk.first)
            yield Experience(*(getattr(experience, field.name)[skipped:] for field in fields(Experience)))


class CheckpointFolder:
    """The folder of a run's latest checkpoints, `run_<number>.npz`, and of the chunks that they list.

    A chunk is written before the first checkpoint that lists it, and removed after the last. So every
    checkpoint in the folder is complete at all times.
    """

    def __init__(self, folder: Path, keep: int = 2) -> None:
        """Set up the folder, which need not exist, for the latest `keep` checkpoints."""
        self.folder = folder
        self._keep = keep
        self._kept: list[tuple[Path, list[Chunk]]] = []  # oldest first
        self._last = 0  # the latest checkpoint's number

    def newest(self, fits: Callable[[dict[str, Any]], bool] = lambda _: True) -> Checkpoint | None:
        """Return the latest undamaged checkpoint whose `run` fits, or None; log the damaged ones."""
        return next(self.usable(fits), None)

    def usable(self, fits: Callable[[dict[str, Any]], bool] = lambda _: True) -> Iterator[Checkpoint]:
        """Yield the undamaged checkpoints whose `run` fits, latest first; log the damaged ones."""
        for _, path in reversed(_numbered(self.folder)):
            try:
                with open_file(path, MOST_BYTES, REMEDY) as file:
                    content = read_archive(file)
                if content["format"] != FORMAT:
                    raise ValueError(f"it is a {content['format']!r}, not a {FORMAT!r}")
                chunks = [Chunk(*numbers) for numbers in content["chunks"].tolist()]
                rows, held = operator.index(content["rows"]), operator.index(content["held"])
                if not fits(content["run"]):
                    continue
                for chunk in chunks:
                    chunk.read(self.folder)
            except (OSError, UserError, *MALFORMED) as error:
                reason = error if isinstance(error, UserError) else quotable(error)
                logger.warning("%s cannot be used (%s): trying the previous checkpoint", path, reason)
            else:
                yield Checkpoint(path, content["run"], rows, held, chunks)

    def latest_number(self) -> int:
        """Return the number of the latest checkpoint, damaged or not, or 0 if there is none."""
        return max(_numbered(self.folder), default=(0, self.folder))[0]

    def resume(self, checkpoint: Checkpoint) -> None:
        """Continue from `checkpoint`; the others are removed once the next one is written."""
        self._kept = [(checkpoint.path, checkpoint.chunks)]
        self._last = self.latest_number()

    def write(self, run: CheckpointState, rows: int, held: int, chunks: Sequence[Chunk]) -> None:
        """Write a checkpoint, then remove the files that are no longer needed.

        The replay memory holds the latest `held` of the `rows` added so far; `chunks` contain them. If it
        cannot be written, UserError is raised, and the earlier checkpoints are unchanged.
        """
        path = self.folder / f"run_{self._last + 1:06d}.npz"
        table = np.array(chunks, np.int64).reshape(-1, 3)
        write_archive(path, {"format": FORMAT, "rows": rows, "held": held, "chunks": table, "run": run})
        self._last += 1
        self._kept = [*self._kept, (path, list(chunks))][-self._keep :]
        needed = {name for path, chunks in self._kept for name in (path.name, *(one.name for one in chunks))}
        with suppress(OSError):  # They do no harm, and the next checkpoint tries again.
            old = [*(path for _, path in _numbered(self.folder)), *self.folder.glob("experience_*.lz4")]
            for path in (path for path in old if path.name not in needed):
                path.unlink()


def _numbered(folder: Path, start: str = "run_", end: str = ".npz") -> list[tuple[int, Path]]:
    """Return the files `<start><number><end>` in `folder`, with their numbers and in their order."""
    name = re.compile(rf"{re.escape(start)}(\d+){re.escape(end)}")
    named = ((name.fullmatch(path.name), path) for path in folder.glob(f"*{end}"))
    return sorted((int(match[1]), path) for match, path in named if match)


def check_form(saved: Any, fresh: Any, optional: Collection[str] = (), name: str = "state") -> None:
    """Check that a state has the form of the state of a `fresh` run, so that no part of it fails later.

    Dicts must be dicts with at least the same keys, arrays of the same type and shape, numbers of the same
    kind; none is NaN. The parts named in `optional` may be absent, None or empty.

    Raises:
        Exception: One of `MALFORMED`: it has another form.
    """
    if name in UNCHECKED or (saved is None and (fresh is None or name in optional)):
        return
    if isinstance(saved, dict) and isinstance(fresh, dict | None):
        known, needed = fresh or {}, set() if name in optional else {*(fresh or {})} - set(optional)
        for key in saved.keys() | needed:
            check_form(saved[key], known.get(key), optional, key)
        return
    good = _is_finite(saved)
    if isinstance(fresh, np.ndarray):
        same = saved.shape == fresh.shape or (name in ANY_LENGTH and saved.ndim == fresh.ndim)
        good = good and same and saved.dtype == fresh.dtype
    elif fresh is not None:
        alike = type(saved) is type(fresh) or (type(saved), type(fresh)) == (int, float)
        good = alike and (saved == fresh or (good and name not in FIXED))
    if not good:
        raise ValueError(f"its {name} is not valid")


def _is_finite(value: Any) -> bool:
    """Return whether a value has no NaN and no infinity; a whole number must not be negative either."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind != "f" or bool(np.isfinite(value).all())
    return isinstance(value, str) or (math.isfinite(value) and (isinstance(value, float) or value >= 0))


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
    return [path for number, path in _numbered(prefix.parent, f"{prefix.name}_", ".pkl") if number > epoch]


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
    folder = checkpoint_folder(prefix)
    with reporting_failure(f"to {prefix.parent}", "make it writable or give another --save_weights_prefix"):
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
    checkpoints = [path for path in folder.glob("*") if path.name != LOCK and any(folder.glob("run_*.npz"))]
    if not snapshots and not checkpoints:
        return
    names = (f"{prefix.name}_before" + (f"_{number}" if number > 1 else "") for number in itertools.count(1))
    name = next(name for name in names if not any(prefix.parent.glob(f"{glob.escape(name)}_*")))
    logger.info("The files of an earlier run are kept as %s_...", prefix.with_name(name))
    moves = [(path, path.with_name(name + path.name.removeprefix(prefix.name))) for path in snapshots]
    moves += [(path, checkpoint_folder(prefix.with_name(name)) / path.name) for path in checkpoints]
    for path, other in moves:
        with reporting_failure(f"{other}", f"move {path} away, or give this run another label"):
            other.parent.mkdir(exist_ok=True)
            path.rename(other)


class Keeper:
    """Writes `<prefix>_<epoch>.pkl` after each epoch, and checkpoints into the folder `<prefix>_checkpoint`.

    The state is copied between two steps, and a thread writes it while training continues. Files are written
    in order, so that no checkpoint is newer than a snapshot. One that cannot be written does not end the run:
    it stays in the queue, with a warning, and is tried again with the next file.
    """

    def __init__(
        self, prefix: Path, game: str, actions: int, config: Config,
        clock: Callable[[], float] = time.monotonic, can_save: bool = True,
    ) -> None:  # fmt: skip
        """Set up a keeper, which writes nothing yet; the files of `prefix` should be `locked`.

        `can_save`: whether the games can be saved; if not, a checkpoint restarts them. `clock`: in seconds.
        """
        self.prefix, self.folder = prefix, checkpoint_folder(prefix)
        self._game, self._actions, self._config = game, actions, config
        self._clock, self._can_save = clock, can_save
        self._interval = 60 * config.run.checkpoint_minutes or math.inf  # seconds
        self._next = clock() + self._interval
        self._rows = 0  # added to the replay memory so far
        # The latest of them, not yet in a chunk. Rollouts write a chunk for each checkpoint alone.
        most = config.memory.rows(1) if config.memory.rollout_steps else None
        self._steps: deque[Step] = deque(maxlen=most)
        # Fingerprints of the latest snapshots: of a complete epoch, and of one that was stopped and goes on;
        # and with `--keep best` the mean score of the best test.
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
        set_aside(self.prefix, start)
        self._snapshots["complete"] = fingerprint(start, weights)

    def resume(self, checkpoint: Checkpoint) -> None:
        """Continue the run that wrote `checkpoint`."""
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

        If games cannot be saved, each checkpoint restarts them. Its time depends on steps then, not on the
        clock, so that runs with equal seeds are equal; a test of several `games` has none: it would drop the
        long games.
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
        # Absolute paths: a run may be resumed in another folder, and compares them to detect a copied one.
        flags = self._config.flags()
        flags["save_weights_prefix"] = str(self.prefix.resolve())
        flags["csv_file"] = flags["csv_file"] and str(Path(flags["csv_file"]).resolve())
        state = copied({"flags": flags, "snapshots": self._snapshots, **run})
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
        logger.info("Saving weights to %s", path)
        flags = self._config.shared_flags()
        snapshot = Snapshot(self._game, epoch, self._actions, steps, flags, dict(weights))
        self._submit(self._write, path, snapshot, "Training continues, and tries again later").result()
        return snapshot

    def way_back(self) -> str:
        """Wait until all is written; return how to continue from the last checkpoint, "" if there is none."""
        futures.wait([self._last])
        how = f", and continue from the last checkpoint with {command('resume')} {self.folder}"
        return how if self._checkpoints.latest_number() else ""

    def require_snapshots(self) -> None:
        """Raise UserError if a snapshot could not be written, which is lost when this process ends."""
        way_back, remedy = self.way_back(), "make room for it, or its folder writable"
        for path, content in self._unwritten.items():
            if isinstance(content, Snapshot):
                raise UserError(f"{path} could not be written: {remedy}{way_back}")

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
            self._submit(self._write_chunk, self._rows - len(self._steps), [*self._steps])
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
        for path in [one for one, content in self._unwritten.items() if isinstance(content, bytes)]:
            if path not in needed:
                del self._unwritten[path]
        try:
            self._write_queue()
            self._checkpoints.write(run, rows, held, self._chunks)
        except UserError as error:
            logger.warning("No checkpoint was written: %s. Training continues until the next one", error)


def copied(value: Any) -> Any:
    """Return a `CheckpointState`, or a part of one, with copies of all its arrays."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value
