"""Checkpoints, with everything that a run needs to continue as if it had never stopped.

A checkpoint with the whole replay memory would write gigabytes each time, nearly all of them unchanged. So
each step added to the memory is also written to a log, in chunks of about a thousand experiences that never
change. A checkpoint has the state of the run, and lists the chunks with the memory's content. Rows are
numbered from the first step of the run.
"""

import io
import logging
import math
import operator
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import lz4.frame
import numpy as np

from simple_dqn.errors import UserError
from simple_dqn.files import open_file, read_file
from simple_dqn.snapshot import MALFORMED, quotable, read_archive, write_archive
from simple_dqn.types import CheckpointState, Experience, Step

logger = logging.getLogger(__name__)

FORMAT = "simple-dqn checkpoint 3"
MOST_BYTES, CHUNK_BYTES = 8 << 30, 2 << 30  # of a checkpoint, and of a chunk, packed or not
REMEDY = "use another checkpoint"
ANY_LENGTH = ("scores",)  # arrays whose length changes during a run
FIXED = ("bit_generator", "optimizer")  # strings that must be equal
# The games, the sampler and the settings check their own state; the CSV's row is only compared.
UNCHECKED = ("environment", "sampler", "flags", "csv")
MOST, WIDE = 1 << 62, ("state", "inc")  # a limit of whole numbers, but for those of random streams


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
    for name in Experience._fields:
        array = np.stack([getattr(step, name) for step in steps], axis=1)
        np.lib.format.write_array(content, array, allow_pickle=False)
    return bytes(lz4.frame.compress(content.getbuffer(), content_checksum=True))


def unpack(content: bytes) -> Experience:
    """Return the experience in `content`, which `pack` made; raise UserError if it is damaged."""
    try:
        file = io.BytesIO(lz4.frame.LZ4FrameDecompressor().decompress(content, CHUNK_BYTES))
        arrays = [np.lib.format.read_array(file, allow_pickle=False) for _ in Experience._fields]
        if len({array.shape[:2] for array in arrays}) > 1:
            raise ValueError("its arrays have different lengths")
    except MALFORMED as error:
        raise UserError(f"the experience log is damaged ({quotable(error)}): {REMEDY}") from None
    return Experience._make(array.swapaxes(0, 1) for array in arrays)


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
            yield Experience._make(array[skipped:] for array in experience)


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

    def usable(self, fits: Callable[[dict[str, Any]], bool] = lambda _: True) -> Iterator[Checkpoint]:
        """Yield the undamaged checkpoints whose `run` fits, latest first; log the damaged ones."""
        for _, path in reversed(numbered(self.folder)):
            try:
                with open_file(path, MOST_BYTES, REMEDY) as file:
                    content = read_archive(file)
                if content["format"] != FORMAT:
                    raise ValueError(f"it is a {content['format']!r}, not a {FORMAT!r}")
                chunks = [Chunk(*numbers) for numbers in content["chunks"].tolist()]
                rows, held = operator.index(content["rows"]), operator.index(content["held"])
                if not 0 <= held <= rows < MOST:
                    raise ValueError("its number of rows is not valid")
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
        return max(numbered(self.folder), default=(0, self.folder))[0]

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
        if lost := [chunk.name for chunk in chunks if not (self.folder / chunk.name).exists()]:
            raise UserError(f"{self.folder / lost[0]} is gone, without which no run can continue")
        table = np.array(chunks, np.int64).reshape(-1, 3)
        write_archive(path, {"format": FORMAT, "rows": rows, "held": held, "chunks": table, "run": run})
        self._last += 1
        self._kept = [*self._kept, (path, list(chunks))][-self._keep :]
        needed = {name for path, chunks in self._kept for name in (path.name, *(one.name for one in chunks))}
        with suppress(OSError):  # They do no harm, and the next checkpoint tries again.
            old = [*(path for _, path in numbered(self.folder)), *self.folder.glob("experience_*.lz4")]
            for path in (path for path in old if path.name not in needed):
                path.unlink()


def numbered(folder: Path, start: str = "run_", end: str = ".npz") -> list[tuple[int, Path]]:
    """Return the files `<start><number><end>` in `folder`, with their numbers and in their order."""
    name = re.compile(rf"{re.escape(start)}(\d+){re.escape(end)}")
    named = ((name.fullmatch(path.name), path) for path in folder.glob(f"*{end}"))
    return sorted((int(match[1]), path) for match, path in named if match)


def check_form(saved: Any, fresh: Any, optional: Collection[str] = (), name: str = "state") -> None:
    """Raise one of `MALFORMED` unless a state has the form of that of a `fresh` run, and so can be restored.

    Dicts must be dicts with at least the same keys, arrays of the same type and shape, numbers of the same
    kind; none is NaN. The parts named in `optional` may be absent, None or empty.
    """
    if name in UNCHECKED or (saved is None and (fresh is None or name in optional)):
        return
    if isinstance(saved, dict) and isinstance(fresh, dict | None):
        known, needed = fresh or {}, set() if name in optional else {*(fresh or {})} - set(optional)
        for key in saved.keys() | needed:
            check_form(saved[key], known.get(key), optional, key)
        return
    good = _is_finite(saved) and (name in WIDE or not isinstance(saved, int) or saved < MOST)
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
