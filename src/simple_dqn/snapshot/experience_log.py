"""The experience log: the replay memory's steps on disk, in chunks that are written once and never changed.

A checkpoint with the whole replay memory would write gigabytes each time, nearly all of them unchanged. So
each step added to the memory is also added to this log. When a chunk of about a thousand experiences is full,
a thread writes it while training continues. A checkpoint only lists the chunks with the memory's content.

Rows are numbered from the first step of the run.
"""

import io
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import lz4.frame
import numpy as np

from simple_dqn.errors import UserError
from simple_dqn.files import read_file
from simple_dqn.snapshot.archive import replacing_link
from simple_dqn.types import Experience, Step

EXPERIENCES = 1024  # experiences of a full chunk
MOST_BYTES = 2 << 30  # of a chunk, packed or not; 7 MB of screens of the usual size
CHUNKS = "experience_*.lz4"
# Errors of lz4 and numpy for malformed bytes.
MALFORMED = (RuntimeError, ValueError, EOFError, MemoryError)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A file of rows: its name and its checksum."""

    first: int  # the first row
    end: int  # the last row, plus one
    sum: int  # CRC-32 of the file

    @property
    def name(self) -> str:
        """The file's name."""
        return f"experience_{self.first:010d}-{self.end:010d}.lz4"

    def read(self, folder: Path) -> bytes:
        """Return the content of the file in `folder`.

        Raises:
            UserError: It is missing or damaged.
        """
        path = folder / self.name
        content = read_file(path, MOST_BYTES, "use another checkpoint")
        if zlib.crc32(content) != self.sum:
            raise UserError(f"{path} is damaged: its checksum is wrong")
        return content


class BackgroundThread:
    """Runs functions one after another in its own thread."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "checkpoint")  # its thread starts with the first function
        self._tasks: deque[Future[None]] = deque()  # in order; those that succeeded are removed

    def submit(self, function: Callable[..., None], *arguments: Any) -> Future[None]:
        """Run `function` after the earlier ones; return immediately.

        Raises:
            Exception: An earlier function raised it.
        """
        while self._tasks and self._tasks[0].done():
            self._tasks.popleft().result()
        future = self._executor.submit(function, *arguments)
        self._tasks.append(future)
        return future

    def wait(self) -> None:
        """Wait until all functions have returned."""
        wait(self._tasks)

    def close(self) -> None:
        """Wait until all functions have returned, and end the thread.

        Raises:
            Exception: A function raised it.
        """
        self._executor.shutdown()
        while self._tasks:
            self._tasks.popleft().result()


class ExperienceLog:
    """Writes steps to chunks in the background, so that `add` never waits for the disk.

    A chunk that cannot be written stays in memory, compressed, and is tried again with every later chunk.

    Attributes:
        rows: Rows added so far.
    """

    def __init__(self, folder: Path, background: BackgroundThread) -> None:
        """Begin an empty log in `folder`, written by `background`."""
        self.rows = 0
        self._folder = folder
        self._background = background
        self._steps: list[Step] = []  # the latest steps, not yet in a chunk
        # The following are used by the background thread only.
        self._chunks: list[Chunk] = []
        self._unwritten: dict[Chunk, bytes] = {}

    def resume(self, rows: int, chunks: Sequence[Chunk]) -> None:
        """Continue after `rows` rows, the latest of which are in `chunks`."""
        self.rows, self._chunks = rows, list(chunks)

    def add(self, step: Step) -> None:
        """Add `step`, whose arrays must not change any more."""
        self._steps.append(step)
        self.rows += 1
        if len(self._steps) * len(step.actions) >= EXPERIENCES:
            self.flush()

    def flush(self) -> None:
        """Write the latest steps as a chunk, full or not."""
        if self._steps:
            self._background.submit(self._store, self.rows - len(self._steps), self._steps)
            self._steps = []

    def write_from(self, first: int) -> list[Chunk]:
        """Drop the chunks that end before row `first`; write the rest, and return them.

        Must be called in the background thread.

        Raises:
            UserError: A chunk cannot be written.
        """
        self._chunks = [chunk for chunk in self._chunks if chunk.end > first]
        kept = set(self._chunks)
        self._unwritten = {chunk: content for chunk, content in self._unwritten.items() if chunk in kept}
        self._write()
        return list(self._chunks)

    def _store(self, first: int, steps: Sequence[Step]) -> None:
        content = pack(steps)
        chunk = Chunk(first, first + len(steps), zlib.crc32(content))
        self._chunks.append(chunk)
        self._unwritten[chunk] = content
        try:
            self._write()
        except UserError:
            return  # The next checkpoint tries again, and reports the error.

    def _write(self) -> None:
        for chunk, content in list(self._unwritten.items()):
            with replacing_link(self._folder / chunk.name) as beside:
                beside.write_bytes(content)
            del self._unwritten[chunk]


def read(folder: Path, chunks: Sequence[Chunk], first: int) -> Iterator[Experience]:
    """Yield the rows of `chunks` in `folder`, from row `first` on.

    Raises:
        UserError: A chunk is missing or damaged.
    """
    for chunk in chunks:
        experience = unpack(chunk.read(folder))
        skipped = max(0, first - chunk.first)
        yield Experience(*(getattr(experience, field.name)[skipped:] for field in fields(Experience)))


def pack(steps: Sequence[Step]) -> bytes:
    """Return `steps` as the content of a chunk: an LZ4 frame with one `.npy` array for each field.

    The arrays are [E, T, ...]: consecutive screens of a game, which are similar, are neighbours.
    """
    content = io.BytesIO()
    for field in fields(Experience):
        array = np.stack([getattr(step, field.name) for step in steps], axis=1)
        np.lib.format.write_array(content, array, allow_pickle=False)
    packed: bytes = lz4.frame.compress(content.getbuffer(), content_checksum=True)
    return packed


def unpack(content: bytes) -> Experience:
    """Return the experience in `content`, which `pack` made.

    Raises:
        UserError: The content is damaged.
    """
    try:
        file = io.BytesIO(lz4.frame.LZ4FrameDecompressor().decompress(content, MOST_BYTES))
        arrays = [np.lib.format.read_array(file, allow_pickle=False) for _ in fields(Experience)]
        if len({array.shape[:2] for array in arrays}) > 1:
            raise ValueError("its arrays have different lengths")
    except MALFORMED as error:
        raise UserError(
            f"the experience log is damaged ({error}): continue from another checkpoint"
        ) from None
    return Experience(*(array.swapaxes(0, 1) for array in arrays))
