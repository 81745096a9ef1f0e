"""Storage for screens in memory, each compressed by LZ4, without loss."""

import logging
import sys

import lz4.block
import numpy as np

from simple_dqn.errors import UserError
from simple_dqn.machine import available_memory, gigabytes
from simple_dqn.types import Flags, Indices, Screens, States

logger = logging.getLogger(__name__)

CHECK_BYTES = 1 << 20  # of screens, between two looks at the free memory
RESERVED = 100 * 10**6  # bytes of memory to leave free

# The compressed size of a screen: a thirtieth in Pong, a quarter in the busiest Atari games.
LEAST_SHARE, MOST_SHARE = 1 / 30, 1 / 3
# Bytes of a screen besides its compressed pixels: the entry in the list, and Python's `bytes` object, whose
# size is rounded up to 16 bytes.
ENTRY, OBJECT = 8, sys.getsizeof(b"") + 8


class CompressedScreens:
    """A `ScreenStore` of LZ4 blocks in memory.

    Their final size is unknown. So there is a warning when the screens so far suggest that the rest will not
    fit. If memory runs short, the run ends with a message, before the system would kill it.
    """

    def __init__(self, rows: int, games: int, screen_shape: tuple[int, int]) -> None:
        """Create storage for `rows` screens of each game; memory is allocated as they are written."""
        self._games, self._screen_shape = games, screen_shape
        self._size = screen_shape[0] * screen_shape[1]
        self._blocks = [b""] * (rows * games)  # [T * E], LZ4 blocks; empty: none yet
        self._block_bytes = 0  # of all blocks
        self._unchecked_bytes = CHECK_BYTES  # of the blocks since the latest look at the free memory
        self._held = 0
        self._warned = False
        self._gathered = np.empty(
            (0, 0, *screen_shape), np.uint8
        )  # [B, K, H, W], overwritten by each `gather`

    @staticmethod
    def screen_bytes(screen_shape: tuple[int, int]) -> tuple[int, int]:
        """Return the least and the most bytes to expect of a screen on average."""
        size, entry = screen_shape[0] * screen_shape[1], ENTRY + OBJECT
        return int(LEAST_SHARE * size) + entry, int(MOST_SHARE * size) + entry

    @property
    def nbytes(self) -> int:
        """Bytes of the screens so far, and of the full list of them."""
        return self._block_bytes + OBJECT * self._held + ENTRY * len(self._blocks)

    def write(self, row: int, screens: Screens) -> None:
        """Store `screens` uint8 [E, H, W] as `row`.

        Raises:
            UserError: The machine runs short of memory.
        """
        for index, screen in enumerate(screens, row * self._games):
            block = lz4.block.compress(np.ascontiguousarray(screen), store_size=False)
            self._unchecked_bytes += len(block)
            if self._unchecked_bytes > CHECK_BYTES:
                self._unchecked_bytes = 0
                self._look_ahead()
            self._held += not self._blocks[index]
            self._block_bytes += len(block) - len(self._blocks[index])
            self._blocks[index] = block

    def gather(self, windows: Indices, hidden: Flags | None) -> States:
        """Return the screens at `windows` int64 [B, K], set to zero where `hidden` bool [B, L]."""
        if self._gathered.shape[:2] != windows.shape:
            self._gathered = np.empty((*windows.shape, *self._screen_shape), np.uint8)
        shown = np.ones(windows.shape, np.bool_)
        if hidden is not None:
            shown[:, : hidden.shape[1]] = ~hidden  # there may be no screen
            self._gathered[:, : hidden.shape[1]][hidden] = 0
        pixels, size, slots = self._gathered.reshape(-1).data, self._size, np.flatnonzero(shown)
        for slot, index in zip(slots.tolist(), windows[shown].tolist(), strict=True):
            screen = lz4.block.decompress(self._blocks[index], uncompressed_size=size)
            pixels[slot * size : (slot + 1) * size] = screen
        return self._gathered

    def on_host(self, screens: States) -> States:
        """Return a copy of an array that `gather` returned, or of a part of it."""
        return screens.copy()

    def _look_ahead(self) -> None:
        """Check that there is memory for more screens, and warn if there is not enough for all.

        Raises:
            UserError: The machine runs short of memory.
        """
        available, total = available_memory(), len(self._blocks)
        if available < RESERVED:
            raise UserError(
                f"the replay memory takes {gigabytes(self.nbytes)} for {self._held} of {total} experiences "
                f"and this machine has {gigabytes(available)} left: lower --replay_size"
            )
        missing = (total - self._held) * (self._block_bytes + OBJECT * self._held) // max(1, self._held)
        if missing > available - RESERVED and not self._warned:
            self._warned = True
            logger.warning(
                "the replay memory takes %s for %d of %d experiences, so all will take %s more, and this "
                "machine has %s left: the run will end if memory runs out",
                gigabytes(self.nbytes), self._held, total, gigabytes(missing), gigabytes(available),
            )  # fmt: skip
