"""Screens kept compressed in memory, each for itself, by LZ4: as they were when they are read again."""

import logging
import mmap
from collections.abc import Iterable
from dataclasses import dataclass

import lz4.block
import numpy as np
from numpy.typing import NDArray

from simple_dqn.errors import UserError
from simple_dqn.replay_memory.capacity import available_memory, gigabytes
from simple_dqn.types import Flags, Screens, States

logger = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 20
RESERVED = 100 * 10**6  # bytes that are left to whatever else may want some

# The share that LZ4 leaves of a screen: of Atari's games Pong comes to a thirtieth, the busiest to a quarter.
LEAST_SHARE, MOST_SHARE = 1 / 30, 1 / 3


@dataclass(slots=True)
class Chunk:
    """A piece of a `BlockLog`.

    Attributes:
        memory: Its bytes, which are the system's own pages: none is taken before it is written to.
        live: The blocks in it that are not released yet.
    """

    memory: memoryview
    live: int = 0


class BlockLog:
    """Blocks of bytes, of any lengths, each at a position: the count of bytes before it.

    They are written one after the other into chunks of equal size, and a chunk goes back to the
    system as a whole once every block in it is released. The blocks of a ring, which are released
    in nearly the order in which they came, so never leave holes that no later block fits, as they
    would if each were allocated by itself: hours of replacing blocks do not make the log grow.
    """

    def __init__(self, longest: int) -> None:
        """Begin an empty log for blocks of at most `longest` bytes."""
        self._chunk_bytes = max(CHUNK_BYTES, 16 * longest)  # so the rest that no block fits is small
        self._chunks: dict[int, Chunk] = {}  # by the number of chunks before it
        self._end = 0

    @property
    def nbytes(self) -> int:
        """Bytes of memory taken."""
        return len(self._chunks) * self._chunk_bytes - self.room

    @property
    def room(self) -> int:
        """Bytes that the next block may have before another chunk must be taken."""
        return -self._end % self._chunk_bytes

    def append(self, block: bytes) -> int:
        """Keep `block`, and return its position."""
        if len(block) > self.room:
            self._end += self.room
            memory = mmap.mmap(-1, self._chunk_bytes, access=mmap.ACCESS_COPY)
            self._chunks[self._end // self._chunk_bytes] = Chunk(memoryview(memory))
        position = self._end
        number, offset = divmod(position, self._chunk_bytes)
        chunk = self._chunks[number]
        chunk.memory[offset : offset + len(block)] = block
        chunk.live += 1
        self._end += len(block)
        return position

    def read(self, position: int, length: int) -> memoryview:
        """Return the block of `length` bytes at `position`: a view."""
        number, offset = divmod(position, self._chunk_bytes)
        return self._chunks[number].memory[offset : offset + length]

    def release(self, position: int) -> None:
        """Give up the block at `position`."""
        number = position // self._chunk_bytes
        chunk = self._chunks[number]
        chunk.live -= 1
        if not chunk.live:
            del self._chunks[number]
            if number == self._end // self._chunk_bytes:
                self._end += self.room


class CompressedScreens:
    """A `ScreenStore` whose screens are LZ4 blocks in memory.

    How much memory they will take is known only once they are there. So a warning is given as
    soon as what is held lets expect that the rest will not fit, and a memory that does run short
    ends the run with a line that says so, rather than by the system's hand.
    """

    def __init__(self, rows: int, games: int, screen_shape: tuple[int, int]) -> None:
        """Make room for `rows` screens of each game; memory is taken only as they are written."""
        self._games, self._screen_shape = games, screen_shape
        self._size = screen_shape[0] * screen_shape[1]
        self._log = BlockLog(longest=self._size + self._size // 255 + 16)  # of what nothing compresses
        self._positions = np.zeros(rows * games, np.int64)  # of each screen's block in the log
        self._lengths = np.zeros(rows * games, np.uint32)  # of each screen's block; 0: there is none yet
        self._held = 0
        self._warned = False
        self._gathered = np.empty((0, 0, *screen_shape), np.uint8)  # [B, K, H, W], written anew each time

    @staticmethod
    def screen_bytes(screen_shape: tuple[int, int]) -> tuple[int, int]:
        """Return the bytes that a screen takes on average at the least, and at the most to be expected."""
        size, index = screen_shape[0] * screen_shape[1], 8 + 4
        return int(LEAST_SHARE * size) + index, int(MOST_SHARE * size) + index

    @property
    def nbytes(self) -> int:
        """Bytes that the screens take now, and that the table of their places will when it is full."""
        return self._log.nbytes + self._positions.nbytes + self._lengths.nbytes

    def write(self, row: int, screens: Screens) -> None:
        """Keep `screens` uint8 [E, H, W] as `row`.

        Raises:
            UserError: The machine has run short of memory.
        """
        for index, screen in enumerate(screens, row * self._games):
            block = lz4.block.compress(np.ascontiguousarray(screen), store_size=False)
            if len(block) > self._log.room:
                self._look_ahead()
            position = self._log.append(block)
            if self._lengths[index]:
                self._log.release(int(self._positions[index]))
            else:
                self._held += 1
            self._positions[index], self._lengths[index] = position, len(block)

    def gather(self, windows: NDArray[np.int64], hidden: Flags | None) -> States:
        """Return the screens at `windows` int64 [B, K], zero where `hidden` bool [B, L] says so."""
        if self._gathered.shape[:2] != windows.shape:
            self._gathered = np.empty((*windows.shape, *self._screen_shape), np.uint8)
        shown = np.ones(windows.shape, np.bool_)
        if hidden is not None:
            shown[:, : hidden.shape[1]] = ~hidden  # where there may be no screen at all
            self._gathered[:, : hidden.shape[1]][hidden] = 0
        self._decompress(windows[shown], self._gathered, np.flatnonzero(shown))
        return self._gathered

    def on_host(self, screens: States) -> States:
        """Return a copy of what `gather` returned, or of a part."""
        return screens.copy()

    def first(self, rows: int) -> NDArray[np.uint8]:
        """Return a copy of the first `rows` rows, uint8 [rows, E, H, W], at their full size."""
        screens = np.empty((rows, self._games, *self._screen_shape), np.uint8)
        indices = np.arange(rows * self._games)
        self._decompress(indices, screens, indices)
        return screens

    def _decompress(
        self, indices: NDArray[np.int64], screens: NDArray[np.uint8], places: NDArray[np.int64]
    ) -> None:
        """Write the screens at `indices` int64 [N] into `screens` uint8 [..., H, W].

        Args:
            indices: Which to write.
            screens: Where to write, contiguous.
            places: int64 [N], for each how many of `screens` lie before its place.
        """
        pixels, size, read = screens.reshape(-1).data, self._size, self._log.read
        starts: Iterable[int] = (places * size).tolist()
        positions, lengths = self._positions[indices].tolist(), self._lengths[indices].tolist()
        for start, position, length in zip(starts, positions, lengths, strict=True):
            block = read(position, length)
            pixels[start : start + size] = lz4.block.decompress(block, uncompressed_size=size)

    def _look_ahead(self) -> None:
        """See whether there is memory for another chunk, and whether there will be for all the screens.

        Raises:
            UserError: There is none for another chunk.
        """
        available, total = available_memory(), len(self._positions)
        if available < RESERVED:
            raise UserError(
                f"the replay memory takes {gigabytes(self.nbytes)} for {self._held} of {total} experiences "
                f"and this machine has {gigabytes(available)} left: lower --replay_size, or use "
                "--replay_file PATH, which keeps the screens on disk, in place of --replay_compression"
            )
        missing = (total - self._held) * self._log.nbytes // max(1, self._held)
        if missing > available - RESERVED and not self._warned:
            self._warned = True
            logger.warning(
                "the replay memory takes %s for %d of %d experiences, so all will take %s more, and this "
                "machine has %s left: the run will end when there is none",
                gigabytes(self.nbytes), self._held, total, gigabytes(missing), gigabytes(available),
            )  # fmt: skip
