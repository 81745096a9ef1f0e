"""Checkpoints: everything that a run needs to continue as if it had never stopped."""

import logging
import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simple_dqn.errors import UserError
from simple_dqn.snapshot import archive, experience_log
from simple_dqn.snapshot.experience_log import CHUNKS, Chunk
from simple_dqn.snapshot.run_files import CHECKPOINT_FILES
from simple_dqn.types import CheckpointState, Experience

logger = logging.getLogger(__name__)

FILE_NAME = re.compile(r"run_(\d+)\.npz")
FORMAT = "simple-dqn checkpoint 2"
# Errors of reading a state, and of `set_state`, for a state of another form.
MALFORMED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
ANY = object()  # the form of a part of which nothing is known
ANY_LENGTH = ("scores", "masses")  # arrays whose length changes during a run
ABSENT_AT_FIRST = ("average", "held_out", "target")  # dicts and arrays that a new run may not have


class DamagedError(UserError):
    """A checkpoint cannot be used, but an earlier one may be."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint read from a file."""

    path: Path
    run: dict[str, Any]  # the state of the run, without the experience
    rows: int  # rows added to the replay memory so far
    held: int  # the number of latest rows that the replay memory held
    chunks: list[Chunk]  # of the experience log; they contain at least the held rows

    def experience(self) -> Iterator[Experience]:
        """Yield the content of the replay memory, oldest first.

        Raises:
            UserError: A chunk of the log is missing or damaged.
        """
        return experience_log.read(self.path.parent, self.chunks, self.rows - self.held)


class CheckpointFolder:
    """The folder of a run's latest checkpoints, `run_<number>.npz`, and of the chunks that they refer to.

    A chunk is written before the first checkpoint that refers to it, and removed after the last. So every
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
        for path in reversed(self._paths()):
            try:
                checkpoint = _read(path)
                if not fits(checkpoint.run):
                    continue
                for chunk in checkpoint.chunks:
                    chunk.read(self.folder)
            except UserError as error:
                log_damage(path, error)
            except MALFORMED as error:
                log_damage(path, archive.damaged(path, error))
            else:
                yield checkpoint

    def latest_number(self) -> int:
        """Return the number of the latest checkpoint, damaged or not, or 0 if there is none."""
        return max(map(_number, self._paths()), default=0)

    def resume(self, checkpoint: Checkpoint) -> None:
        """Continue from `checkpoint`; the others are removed once the next one is written."""
        self._kept = [(checkpoint.path, checkpoint.chunks)]
        self._last = self.latest_number()

    def write(self, run: CheckpointState, rows: int, held: int, chunks: Sequence[Chunk]) -> None:
        """Write a checkpoint, then remove the files that are no longer needed.

        The replay memory holds the latest `held` of the `rows` added so far; `chunks` contain them.

        Raises:
            UserError: It cannot be written; the earlier checkpoints are unchanged.
        """
        path = self.folder / f"run_{self._last + 1:06d}.npz"
        named = {
            "first": np.array([chunk.first for chunk in chunks], np.int64),
            "end": np.array([chunk.end for chunk in chunks], np.int64),
            "sum": np.array([chunk.sum for chunk in chunks], np.uint32),
        }
        archive.write(path, {"format": FORMAT, "rows": rows, "held": held, "chunks": named, "run": run})
        self._last += 1
        self._kept = [*self._kept, (path, list(chunks))][-self._keep :]
        self._remove_old_files()

    def _remove_old_files(self) -> None:
        needed = {path.name for path, _ in self._kept}
        needed |= {chunk.name for _, chunks in self._kept for chunk in chunks}
        with suppress(OSError):  # They do no harm, and the next checkpoint tries again.
            for path in [*self._paths(), *self.folder.glob(CHUNKS)]:
                if path.name not in needed:
                    path.unlink()

    def _paths(self) -> list[Path]:
        """Return the checkpoints, oldest first."""
        paths = (path for path in self.folder.glob(CHECKPOINT_FILES) if FILE_NAME.fullmatch(path.name))
        return sorted(paths, key=_number)


def log_damage(path: Path, error: UserError) -> None:
    """Log that the checkpoint `path` cannot be used."""
    logger.warning("%s cannot be used (%s): trying the previous checkpoint", path, error)


def check_form(saved: Any, fresh: Any, optional: Collection[str] = (), name: str = "state") -> None:
    """Check that a state has the form of the state of a new run, so that no part of it fails later.

    Dicts must be dicts with at least the same keys, arrays of the same type and shape, numbers of the same
    kind; none is NaN. The games' states and the settings are checked elsewhere, the sum of the CSV is only
    compared.

    Args:
        saved: The state.
        fresh: The state of a new run.
        optional: Names of parts that may be absent, None or empty.
        name: Of the state.

    Raises:
        ValueError: It has another form.
    """
    expected = None if fresh is ANY else fresh
    if name in ("environment", "flags", "csv"):
        return
    if isinstance(saved, dict) and (expected is None or isinstance(expected, dict)):
        absent = set(expected or {}) - set(saved) - set(optional)
        if absent and name not in optional:
            raise ValueError(f"it has no {min(absent)}")
        for key, value in saved.items():
            check_form(value, (expected or {}).get(key, ANY), optional, key)
        return
    if isinstance(saved, np.ndarray):
        good = saved.dtype.kind != "f" or bool(np.isfinite(saved).all())
        if isinstance(expected, np.ndarray):
            good &= saved.dtype == expected.dtype and saved.ndim == expected.ndim
            good &= saved.shape == expected.shape or name in ANY_LENGTH
        elif fresh is not ANY:
            good &= expected is None and name in ABSENT_AT_FIRST
    elif saved is None:
        good = expected is None or (isinstance(expected, dict) and name in optional)
    elif isinstance(saved, str):
        same = saved == expected or name not in ("bit_generator", "optimizer")
        good = fresh is ANY or (isinstance(expected, str) and same)
    elif isinstance(saved, bool):
        good = expected is None or isinstance(expected, bool)
    elif isinstance(saved, int):
        good = saved >= 0 and (expected is None or type(expected) in (int, float))
    else:
        good = isinstance(saved, float) and (expected is None or isinstance(expected, float))
        good = good and (math.isfinite(saved) or (expected is not None and math.isinf(expected)))
    if not good or (isinstance(saved, str | int | float) and name in ABSENT_AT_FIRST):
        raise ValueError(f"its {name} is not valid")


def _number(path: Path) -> int:
    match = FILE_NAME.fullmatch(path.name)
    assert match
    return int(match[1])


def _read(path: Path) -> Checkpoint:
    """Return the checkpoint in `path`; its chunks are not checked.

    Raises:
        UserError: It is damaged, or not a checkpoint.
    """
    content = archive.read(path)
    if content.get("format") != FORMAT:
        raise UserError(f"it is not a {FORMAT!r}")
    if content.get("kept"):
        raise UserError("it holds demonstrations, which this version does not support")
    try:
        named = (content["chunks"][name].tolist() for name in ("first", "end", "sum"))
        chunks = [Chunk(*numbers) for numbers in zip(*named, strict=True)]
        rows, held, run = content["rows"], content["held"], content["run"]
        ends = [chunks[0].first if chunks else rows, *(chunk.end for chunk in chunks)]
        numbers = [rows, held, *ends, *(chunk.sum for chunk in chunks)]
        if not isinstance(run, dict) or not all(type(one) is int and one >= 0 for one in numbers):
            raise ValueError("it has no rows or no state")
        if [chunk.first for chunk in chunks] != ends[:-1] or any(one.first >= one.end for one in chunks):
            raise ValueError("its chunks do not follow each other")
        if held and not ends[0] <= rows - held <= rows == ends[-1]:
            raise ValueError("its chunks do not hold its rows")
        return Checkpoint(path, run, rows, held, chunks)
    except MALFORMED as error:
        raise archive.damaged(path, error) from None
