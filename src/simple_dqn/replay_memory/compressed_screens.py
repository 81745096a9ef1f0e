"""Screens compressed in memory, each by itself, by LZ4: without loss."""

import logging
import mmap
from dataclasses import dataclass

import lz4.block
import numpy as np
from numpy.typing import NDArray

from simple_dqn.errors import UserError
from simple_dqn.machine import available_memory, gigabytes
from simple_dqn.types import Flags, Indices, Screens, States

logger = logging.getLogger(__name__)

ARENA_BYTES = 1 << 20
RESERVED = 100 * 10**6  # bytes that are left to other uses

# The share that LZ4 leaves of a screen: a thirtieth in Pong, a quarter in the busiest of Atari's games.
LEAST_SHARE, MOST_SHARE = 1 / 30, 1 / 3


@dataclass(slots=True)
class Arena:
    """A piece of a `BlockLog`.

    Attributes:
        memory: Its bytes, the system's own pages: none is taken before it is written to.
        live: How many blocks in it are not released yet.
    """

    memory: memoryview
    live: int = 0


class BlockLog:
    """Blocks of bytes, of any lengths, each at an address: the count of bytes before it.

    Blocks are written one after the other into arenas of equal size. A arena goes back to the system
    as a whole once all its blocks are released. A ring releases its blocks nearly in the order in which
    they came, so no holes remain that no later block fits, as they would if each block were allocated by
    itself: the log does not grow, however long blocks are replaced.
    """

    def __init__(self, longest: int) -> None:
        """Begin an empty log for blocks of at most `longest` bytes."""
        self._arena_bytes = max(ARENA_BYTES, 16 * longest)  # so the rest that no block fits is small
        self._arenas: dict[int, Arena] = {}  # by address // _arena_bytes
        self._end = 0

    @property
    def nbytes(self) -> int:
        """Bytes of memory taken."""
        return len(self._arenas) * self._arena_bytes - self.room

    @property
    def room(self) -> int:
        """The longest block for which no new arena must be taken."""
        return -self._end % self._arena_bytes

    def append(self, block: bytes) -> int:
        """Store `block`, and return its address."""
        if len(block) > self.room:
            self._end += self.room
            memory = mmap.mmap(-1, self._arena_bytes, access=mmap.ACCESS_COPY)
            self._arenas[self._end // self._arena_bytes] = Arena(memoryview(memory))
        address = self._end
        key, offset = divmod(address, self._arena_bytes)
        arena = self._arenas[key]
        arena.memory[offset : offset + len(block)] = block
        arena.live += 1
        self._end += len(block)
        return address

    def read(self, address: int, length: int) -> memoryview:
        """Return the block of `length` bytes at `address`: a view."""
        key, offset = divmod(address, self._arena_bytes)
        return self._arenas[key].memory[offset : offset + length]

    def release(self, address: int) -> None:
        """Give up the block at `address`."""
        key = address // self._arena_bytes
        arena = self._arenas[key]
        arena.live -= 1
        if not arena.live:
            del self._arenas[key]
            if key == self._end // self._arena_bytes:
                self._end += self.room


class CompressedScreens:
    """A `ScreenStore` whose screens are LZ4 blocks in memory.

    How much memory they will take is known only once they are there. So there is a warning as soon as
    the screens that are held suggest that the rest will not fit. If memory does run short, the run ends
    with a message; otherwise the system would kill it.
    """

    def __init__(self, rows: int, games: int, screen_shape: tuple[int, int]) -> None:
        """Make room for `rows` screens of each game; memory is taken only as they are written."""
        self._games, self._screen_shape = games, screen_shape
        self._size = screen_shape[0] * screen_shape[1]
        self._log = BlockLog(longest=self._size + self._size // 255 + 16)  # a screen that does not compress
        self._addresses = np.zeros(rows * games, np.int64)  # of each screen's block in the log
        self._lengths = np.zeros(rows * games, np.uint32)  # of each screen's block; 0: there is none yet
        self._held = 0
        self._warned = False
        self._gathered = np.empty((0, 0, *screen_shape), np.uint8)  # [B, K, H, W], written anew each time

    @staticmethod
    def screen_bytes(screen_shape: tuple[int, int]) -> tuple[int, int]:
        """Return the least bytes that a screen takes on average, and the most that are to be expected."""
        size, entry = screen_shape[0] * screen_shape[1], 8 + 4
        return int(LEAST_SHARE * size) + entry, int(MOST_SHARE * size) + entry

    @property
    def nbytes(self) -> int:
        """Bytes of the screens now, and of the table of their addresses when it is full."""
        return self._log.nbytes + self._addresses.nbytes + self._lengths.nbytes

    def write(self, row: int, screens: Screens) -> None:
        """Store `screens` uint8 [E, H, W] as `row`.

        Raises:
            UserError: The machine has run short of memory.
        """
        for index, screen in enumerate(screens, row * self._games):
            block = lz4.block.compress(np.ascontiguousarray(screen), store_size=False)
            if len(block) > self._log.room:
                self._look_ahead()
            address = self._log.append(block)
            if self._lengths[index]:
                self._log.release(int(self._addresses[index]))
            else:
                self._held += 1
            self._addresses[index], self._lengths[index] = address, len(block)

    def gather(self, windows: Indices, hidden: Flags | None) -> States:
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
        """Return a copy of (a part of) what `gather` returned."""
        return screens.copy()

    def first(self, rows: int) -> NDArray[np.uint8]:
        """Return a copy of the first `rows` rows, uint8 [rows, E, H, W], at their full size."""
        screens = np.empty((rows, self._games, *self._screen_shape), np.uint8)
        indices = np.arange(rows * self._games)
        self._decompress(indices, screens, indices)
        return screens

    def _decompress(self, indices: Indices, out: NDArray[np.uint8], slots: NDArray[np.int64]) -> None:
        """Write the screens at `indices` int64 [N] into `out` uint8 [..., H, W], which is contiguous.

        `slots` int64 [N] says which of the screens in `out` each becomes.
        """
        pixels, size, read = out.reshape(-1).data, self._size, self._log.read
        starts = (slots * size).tolist()
        addresses, lengths = self._addresses[indices].tolist(), self._lengths[indices].tolist()
        for start, address, length in zip(starts, addresses, lengths, strict=True):
            block = read(address, length)
            pixels[start : start + size] = lz4.block.decompress(block, uncompressed_size=size)

    def _look_ahead(self) -> None:
        """Check whether there is memory for another arena, and for all the screens to come.

        Raises:
            UserError: There is none for another arena.
        """
        available, total = available_memory(), len(self._addresses)
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
