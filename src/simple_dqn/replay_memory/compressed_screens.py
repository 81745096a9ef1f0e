"""Storage for screens in memory, each compressed by LZ4, without loss."""

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
RESERVED = 100 * 10**6  # bytes of memory to leave free

# The compressed size of a screen: a thirtieth in Pong, a quarter in the busiest Atari games.
LEAST_SHARE, MOST_SHARE = 1 / 30, 1 / 3


@dataclass(slots=True)
class Arena:
    """A part of a `BlockLog`.

    Attributes:
        memory: Its bytes; the system allocates a page when it is first written to.
        live: How many of its blocks are not released yet.
    """

    memory: memoryview
    live: int = 0


class BlockLog:
    """Blocks of bytes of any length, each at an address, which is the count of bytes before it.

    Blocks are written one after the other into arenas of equal size. An arena is freed as a whole when all
    its blocks are released. A ring releases blocks nearly in the order in which they were appended. So the
    memory does not fragment and grow, as it would if each block were allocated on its own.
    """

    def __init__(self, longest: int) -> None:
        """Create an empty log for blocks of at most `longest` bytes."""
        self._arena_bytes = max(ARENA_BYTES, 16 * longest)  # so that the unused end of an arena is small
        self._arenas: dict[int, Arena] = {}  # by address // _arena_bytes
        self._end = 0

    @property
    def nbytes(self) -> int:
        """Bytes of memory in use."""
        return len(self._arenas) * self._arena_bytes - self.room

    @property
    def room(self) -> int:
        """The longest block that fits into the current arena."""
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
        """Return the block of `length` bytes at `address`, a view."""
        key, offset = divmod(address, self._arena_bytes)
        return self._arenas[key].memory[offset : offset + length]

    def release(self, address: int) -> None:
        """Release the block at `address`."""
        key = address // self._arena_bytes
        arena = self._arenas[key]
        arena.live -= 1
        if not arena.live:
            del self._arenas[key]
            if key == self._end // self._arena_bytes:
                self._end += self.room


class CompressedScreens:
    """A `ScreenStore` whose screens are LZ4 blocks in memory.

    Their final size is unknown. So there is a warning when the screens so far suggest that the rest will not
    fit. If memory runs short, the run ends with a message, before the system would kill it.
    """

    def __init__(self, rows: int, games: int, screen_shape: tuple[int, int]) -> None:
        """Create storage for `rows` screens of each game; memory is allocated as they are written."""
        self._games, self._screen_shape = games, screen_shape
        self._size = screen_shape[0] * screen_shape[1]
        self._log = BlockLog(longest=self._size + self._size // 255 + 16)  # LZ4's bound for any screen
        self._addresses = np.zeros(rows * games, np.int64)  # [T * E], of each screen's block in the log
        self._lengths = np.zeros(rows * games, np.uint32)  # [T * E], bytes of each block; 0: none yet
        self._held = 0
        self._warned = False
        self._gathered = np.empty(
            (0, 0, *screen_shape), np.uint8
        )  # [B, K, H, W], overwritten by each `gather`

    @staticmethod
    def screen_bytes(screen_shape: tuple[int, int]) -> tuple[int, int]:
        """Return the least and the most bytes to expect of a screen on average."""
        size, entry = screen_shape[0] * screen_shape[1], 8 + 4
        return int(LEAST_SHARE * size) + entry, int(MOST_SHARE * size) + entry

    @property
    def nbytes(self) -> int:
        """Bytes of the screens so far, and of the full table of their addresses."""
        return self._log.nbytes + self._addresses.nbytes + self._lengths.nbytes

    def write(self, row: int, screens: Screens) -> None:
        """Store `screens` uint8 [E, H, W] as `row`.

        Raises:
            UserError: The machine runs short of memory.
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
        """Return the screens at `windows` int64 [B, K], set to zero where `hidden` bool [B, L]."""
        if self._gathered.shape[:2] != windows.shape:
            self._gathered = np.empty((*windows.shape, *self._screen_shape), np.uint8)
        shown = np.ones(windows.shape, np.bool_)
        if hidden is not None:
            shown[:, : hidden.shape[1]] = ~hidden  # there may be no screen
            self._gathered[:, : hidden.shape[1]][hidden] = 0
        self._decompress(windows[shown], self._gathered, np.flatnonzero(shown))
        return self._gathered

    def on_host(self, screens: States) -> States:
        """Return a copy of an array that `gather` returned, or of a part of it."""
        return screens.copy()

    def first(self, rows: int) -> NDArray[np.uint8]:
        """Return a copy of the first `rows` rows, uint8 [rows, E, H, W], decompressed."""
        screens = np.empty((rows, self._games, *self._screen_shape), np.uint8)
        indices = np.arange(rows * self._games)
        self._decompress(indices, screens, indices)
        return screens

    def _decompress(self, indices: Indices, out: NDArray[np.uint8], slots: NDArray[np.int64]) -> None:
        """Decompress the screens at `indices` int64 [N] into `slots` [N] of the contiguous array `out`."""
        pixels, size, read = out.reshape(-1).data, self._size, self._log.read
        starts = (slots * size).tolist()
        addresses, lengths = self._addresses[indices].tolist(), self._lengths[indices].tolist()
        for start, address, length in zip(starts, addresses, lengths, strict=True):
            block = read(address, length)
            pixels[start : start + size] = lz4.block.decompress(block, uncompressed_size=size)

    def _look_ahead(self) -> None:
        """Check that there is memory for another arena, and warn if there is not enough for all screens.

        Raises:
            UserError: There is none for another arena.
        """
        available, total = available_memory(), len(self._addresses)
        if available < RESERVED:
            raise UserError(
                f"the replay memory takes {gigabytes(self.nbytes)} for {self._held} of {total} experiences "
                f"and this machine has {gigabytes(available)} left: lower --replay_size"
            )
        missing = (total - self._held) * self._log.nbytes // max(1, self._held)
        if missing > available - RESERVED and not self._warned:
            self._warned = True
            logger.warning(
                "the replay memory takes %s for %d of %d experiences, so all will take %s more, and this "
                "machine has %s left: the run will end if memory runs out",
                gigabytes(self.nbytes), self._held, total, gigabytes(missing), gigabytes(available),
            )  # fmt: skip
