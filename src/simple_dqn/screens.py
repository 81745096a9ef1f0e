"""Storage for the screens of a replay memory, plain or compressed."""

import logging
import sys
from typing import Protocol

import lz4.block
import numpy as np

from simple_dqn.config import MemoryConfig
from simple_dqn.errors import UserError
from simple_dqn.machine import SHARE, available_memory, gigabytes
from simple_dqn.types import DeviceStates, Indices, Mask, Screens, States

logger = logging.getLogger(__name__)

CHECK_BYTES = 1 << 20  # of compressed screens, between two looks at the free memory
RESERVED = 100 * 10**6  # bytes of memory to leave free
# The compressed size of a screen: a thirtieth in Pong, a quarter in the busiest Atari games.
LEAST_SHARE, MOST_SHARE = 1 / 30, 1 / 3
# Bytes of a screen besides its compressed pixels: the entry in the list, and Python's `bytes` object, whose
# size is rounded up to 16 bytes.
ENTRY, OBJECT = 8, sys.getsizeof(b"") + 8


class ScreenStore(Protocol):
    """Stores T rows of E screens each; an index is row * E + game."""

    @property
    def nbytes(self) -> int:
        """Bytes of all screens; of compressed ones, so far."""

    def write(self, row: int, screens: Screens) -> None:
        """Store `screens` uint8 [E, H, W] as `row`.

        Raises:
            UserError: The machine runs short of memory.
        """

    def gather(self, windows: Indices, hidden: Mask | None) -> States | DeviceStates:
        """Return the screens at `windows`, set to zero where they are `hidden`.

        Args:
            windows: int64 [B, K], indices of screens.
            hidden: bool [B, L], for the first L screens of each window; None: no screen is hidden.

        Returns:
            uint8 [B, K, H, W], valid until the next call.
        """

    def on_host(self, screens: States | DeviceStates) -> States:
        """Return a copy in the host's memory of an array that `gather` returned, or of a part of it."""


class HostScreens:
    """A `ScreenStore` with an uncompressed array; see there."""

    def __init__(self, rows: int, games: int, screen_shape: tuple[int, int]) -> None:
        """Create storage for `rows` screens of each game; the system allocates pages as it is written."""
        self._screens = np.empty((rows, games, *screen_shape), np.uint8)
        self._flat = self._screens.reshape(rows * games, -1)  # [T * E, H * W], the same bytes by index
        self._gathered = np.empty((0, 0, *screen_shape), np.uint8)  # [B, K, H, W], overwritten by `gather`

    @staticmethod
    def screen_bytes(size: int) -> tuple[int, int]:
        """Return the least and the most bytes to expect of a screen of `size` pixels on average."""
        return size, size

    @property
    def nbytes(self) -> int:
        """Bytes of all screens."""
        return self._screens.nbytes

    def write(self, row: int, screens: Screens) -> None:
        """Store `screens` uint8 [E, H, W] as `row`."""
        self._screens[row] = screens

    def gather(self, windows: Indices, hidden: Mask | None) -> States:
        """Return the screens at `windows` int64 [B, K], set to zero where `hidden` bool [B, L]."""
        if self._gathered.shape[:2] != windows.shape:
            self._gathered = np.empty((*windows.shape, *self._gathered.shape[2:]), np.uint8)
        # With "clip", unlike "raise", numpy writes directly to `out`. All indices are in range.
        lines = self._gathered.reshape(windows.size, -1)
        np.take(self._flat, windows.reshape(-1), axis=0, out=lines, mode="clip")
        if hidden is not None:
            self._gathered[:, : hidden.shape[1]][hidden] = 0
        return self._gathered

    def on_host(self, screens: States) -> States:
        """Return a copy of an array that `gather` returned, or of a part of it."""
        return screens.copy()


class CompressedScreens:
    """A `ScreenStore` of LZ4 blocks in memory, without loss.

    Their final size is unknown. If memory runs short, the run ends with a message, before the system would
    kill it.
    """

    def __init__(self, rows: int, games: int, screen_shape: tuple[int, int]) -> None:
        """Create storage for `rows` screens of each game; memory is allocated as they are written."""
        self._games, self._size = games, screen_shape[0] * screen_shape[1]
        self._blocks = [b""] * (rows * games)  # [T * E], LZ4 blocks; empty: none yet
        self._block_bytes = 0  # of all blocks
        self._unchecked_bytes = CHECK_BYTES  # of the blocks since the latest look at the free memory
        self._held = 0
        self._gathered = np.empty((0, 0, *screen_shape), np.uint8)  # [B, K, H, W], overwritten by `gather`

    @staticmethod
    def screen_bytes(size: int) -> tuple[int, int]:
        """Return the least and the most bytes to expect of a screen of `size` pixels on average."""
        return int(LEAST_SHARE * size) + ENTRY + OBJECT, int(MOST_SHARE * size) + ENTRY + OBJECT

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
                if (available := available_memory()) < RESERVED:
                    raise UserError(
                        f"the replay memory takes {gigabytes(self.nbytes)} for {self._held} of "
                        f"{len(self._blocks)} experiences and this machine has {gigabytes(available)} left: "
                        "lower --replay_size"
                    )
            self._held += not self._blocks[index]
            self._block_bytes += len(block) - len(self._blocks[index])
            self._blocks[index] = block

    def gather(self, windows: Indices, hidden: Mask | None) -> States:
        """Return the screens at `windows` int64 [B, K], set to zero where `hidden` bool [B, L]."""
        if self._gathered.shape[:2] != windows.shape:
            self._gathered = np.empty((*windows.shape, *self._gathered.shape[2:]), np.uint8)
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


# Storage, by --replay_compression.
STORES: dict[str, type[HostScreens] | type[CompressedScreens]] = {
    "none": HostScreens,
    "lz4": CompressedScreens,
}


def make_screens(
    config: MemoryConfig, rows: int, games: int, screen_shape: tuple[int, int], other_bytes: int
) -> HostScreens | CompressedScreens:
    """Return storage for T = `rows` screens of each game; an experience takes `other_bytes` besides.

    There is a warning if compressed screens may not fit.

    Raises:
        UserError: This machine has too little memory; the message suggests a --replay_size that fits.
    """
    store, count, spare = STORES[config.replay_compression], rows * games, int(SHARE * available_memory())
    least, most = (size + other_bytes for size in store.screen_bytes(screen_shape[0] * screen_shape[1]))
    if count * least > spare:
        raise UserError(
            f"--replay_size {count} needs {gigabytes(count * least)} of memory and this machine can spare "
            f"{gigabytes(spare)}: --replay_size {_round_down(spare // least)} fits, and more with "
            "--replay_compression lz4"
        )
    if count * most > spare:
        logger.warning(
            "--replay_size %d needs %s to %s of memory, depending on compression; %s can be spared: "
            "--replay_size %d always fits",
            count, gigabytes(count * least), gigabytes(count * most), gigabytes(spare),
            _round_down(spare // most),
        )  # fmt: skip
    return store(rows, games, screen_shape)


def _round_down(count: int) -> int:
    """Return `count` rounded down to two significant digits: the free memory changes all the time."""
    unit: int = 10 ** max(0, len(str(count)) - 2)
    return count // unit * unit
