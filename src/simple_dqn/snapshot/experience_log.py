"""The experience of a run on disk: what the replay memory took in, in chunks that are written once.

A checkpoint that held the replay memory would write gigabytes each time, nearly all of them the same as the
time before. So every step that the memory takes in goes to the log too. A chunk of some thousand
experiences is written as soon as it is full, by a thread beside the training, and never changed; a checkpoint
names the chunks that the memory can be filled from again: those of its latest rows, and those of rows that
it keeps for good.

Rows are counted from the first step that the memory ever took in.
"""

import io
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import lz4.frame
import numpy as np

from simple_dqn.errors import UserError
from simple_dqn.files import replacing
from simple_dqn.snapshot.background import Background
from simple_dqn.types import Experience, Step

EXPERIENCES = 1024  # in a chunk that is full
CHUNKS = "experience_*.lz4"
# What lz4 and numpy raise at bytes that they cannot make sense of.
MALFORMED = (RuntimeError, ValueError, EOFError)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A file of rows."""

    first: int  # the first row in it
    end: int  # the last row in it, plus one
    sum: int  # CRC-32 of the file

    @property
    def name(self) -> str:
        """The file's name."""
        return f"experience_{self.first:010d}-{self.end:010d}.lz4"

    def read(self, folder: Path) -> bytes:
        """Return what the file in `folder` holds.

        Raises:
            UserError: It is not there, or not what was written.
        """
        path = folder / self.name
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror or error}") from None
        if zlib.crc32(content) != self.sum:
            raise UserError(f"{path} is damaged: its sum is not that of what was written")
        return content


class ExperienceLog:
    """Writes every step down; whoever adds steps never waits for the disk.

    What cannot be written stays in memory, compressed, and is tried again with each chunk that follows.
    """

    def __init__(self, folder: Path, background: Background) -> None:
        """Begin an empty log in `folder`, whose files `background` writes."""
        self.rows = 0  # so far
        self.kept = 0  # the first of them, which are never forgotten; no chunk has some of these and others
        self._folder = folder
        self._background = background
        self._steps: list[Step] = []  # the last ones, which are in no chunk yet
        # What follows belongs to the thread in the background.
        self._chunks: list[Chunk] = []
        self._unwritten: dict[Chunk, bytes] = {}

    def take_up(self, rows: int, chunks: Sequence[Chunk], kept: int = 0) -> None:
        """Go on after `rows` rows, the first `kept` and the last of which are in `chunks`."""
        self.rows, self._chunks, self.kept = rows, list(chunks), kept

    def add(self, step: Step) -> None:
        """Write `step` down; its arrays must not change any more."""
        self._steps.append(step)
        self.rows += 1
        if len(self._steps) * len(step.actions) >= EXPERIENCES:
            self.flush()

    def flush(self) -> None:
        """Let the last steps become a chunk, though it be a small one."""
        if self._steps:
            self._background.do(self._store, self.rows - len(self._steps), self._steps)
            self._steps = []

    def keep(self) -> None:
        """Never forget the rows so far."""
        self.flush()
        self.kept = self.rows

    def secure(self, first: int) -> list[Chunk]:
        """Return the chunks that hold the kept rows and those from `first` to the last that was flushed.

        All are written. Those between are forgotten. To be called in the background.

        Raises:
            UserError: One cannot be written.
        """
        self._chunks = [chunk for chunk in self._chunks if chunk.end <= self.kept or chunk.end > first]
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
            return  # The next checkpoint says so, if it cannot be written even then.

    def _write(self) -> None:
        for chunk, content in list(self._unwritten.items()):
            with replacing(self._folder / chunk.name) as beside:
                beside.write_bytes(content)
            del self._unwritten[chunk]


def read(folder: Path, chunks: Sequence[Chunk], first: int, kept: int = 0) -> Iterator[Experience]:
    """Yield the rows from `first` on, and the first `kept`, that `chunks` in `folder` hold, chunk by chunk.

    Raises:
        UserError: A chunk is missing or damaged.
    """
    for chunk in chunks:
        experience = unpack(chunk.read(folder))
        skipped = 0 if chunk.end <= kept else max(0, first - chunk.first)
        yield Experience(*(getattr(experience, field.name)[skipped:] for field in fields(Experience)))


def pack(steps: Sequence[Step]) -> bytes:
    """Return `steps` as the content of a chunk: an LZ4 frame of arrays as numpy writes them.

    Game by game, [E, n, ...], so that a screen follows the one before, which it mostly repeats.
    """
    content = io.BytesIO()
    for field in fields(Experience):
        array = np.stack([getattr(step, field.name) for step in steps], axis=1)
        np.lib.format.write_array(content, array, allow_pickle=False)
    packed: bytes = lz4.frame.compress(content.getbuffer(), content_checksum=True)
    return packed


def unpack(content: bytes) -> Experience:
    """Return what `pack` made a chunk of.

    Raises:
        UserError: It is not a chunk.
    """
    try:
        file = io.BytesIO(lz4.frame.decompress(content))
        arrays = [np.lib.format.read_array(file, allow_pickle=False) for _ in fields(Experience)]
    except MALFORMED as error:
        raise UserError(f"the experience log is damaged ({error}): go on from another checkpoint") from None
    return Experience(*(array.swapaxes(0, 1) for array in arrays))
