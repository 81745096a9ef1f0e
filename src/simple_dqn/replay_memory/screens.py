"""Storage for the screens of a replay memory, plain or compressed."""

import logging
from typing import Protocol

import numpy as np

from simple_dqn.config import MemoryConfig
from simple_dqn.errors import UserError
from simple_dqn.machine import SHARE, available_memory, gigabytes
from simple_dqn.replay_memory.compressed_screens import CompressedScreens
from simple_dqn.types import DeviceStates, Flags, Indices, Screens, States

logger = logging.getLogger(__name__)


class ScreenStore(Protocol):
    """Stores T rows of E screens each; an index is row * E + game."""

    @property
    def nbytes(self) -> int:
        """Bytes of all screens; of compressed ones, so far."""

    def write(self, row: int, screens: Screens) -> None:
        """Store `screens` uint8 [E, H, W] as `row`."""

    def gather(self, windows: Indices, hidden: Flags | None) -> States | DeviceStates:
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
    """A `ScreenStore` with an uncompressed array."""

    def __init__(self, rows: int, games: int, screen_shape: tuple[int, int]) -> None:
        """Create storage for `rows` screens of each game; the system allocates pages as it is written."""
        self._screens = np.empty((rows, games, *screen_shape), np.uint8)
        self._flat = self._screens.reshape(rows * games, -1)  # [T * E, H * W], the same bytes by index
        self._gathered = np.empty(
            (0, 0, *screen_shape), np.uint8
        )  # [B, K, H, W], overwritten by each `gather`

    @staticmethod
    def screen_bytes(screen_shape: tuple[int, int]) -> tuple[int, int]:
        """Return the least and the most bytes of a screen, which are equal."""
        return screen_shape[0] * screen_shape[1], screen_shape[0] * screen_shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of all screens."""
        return self._screens.nbytes

    def write(self, row: int, screens: Screens) -> None:
        """Store `screens` uint8 [E, H, W] as `row`."""
        self._screens[row] = screens

    def gather(self, windows: Indices, hidden: Flags | None) -> States:
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


# Storage, by --replay_compression.
STORES: dict[str, type[HostScreens] | type[CompressedScreens]] = {
    "none": HostScreens,
    "lz4": CompressedScreens,
}


def make_screens(
    config: MemoryConfig, rows: int, games: int, screen_shape: tuple[int, int], other_bytes: int
) -> HostScreens | CompressedScreens:
    """Return storage for T = `rows` screens of each game; an experience takes `other_bytes` besides.

    Raises:
        UserError: This machine has too little memory.
    """
    store = STORES[config.replay_compression]
    least, most = store.screen_bytes(screen_shape)
    _require_memory(rows * games, least + other_bytes, most + other_bytes)
    return store(rows, games, screen_shape)


def _require_memory(replay_size: int, least_bytes: int, most_bytes: int) -> None:
    """Check that a memory of `replay_size` experiences fits, and warn if it may not.

    Each takes `least_bytes` to `most_bytes`. The error suggests a --replay_size that fits.
    """
    needed, at_most = replay_size * least_bytes, replay_size * most_bytes
    spare = int(SHARE * available_memory())
    if needed > spare:
        raise UserError(
            f"--replay_size {replay_size} needs {gigabytes(needed)} of memory and this machine can spare "
            f"{gigabytes(spare)}: --replay_size {_round_down(spare // least_bytes)} fits, and more with "
            "--replay_compression lz4"
        )
    if at_most > spare:
        logger.warning(
            "--replay_size %d takes %s to %s of memory, as far as the game's screens compress, and this "
            "machine can spare %s: --replay_size %d would fit either way",
            replay_size, gigabytes(needed), gigabytes(at_most), gigabytes(spare),
            _round_down(spare // most_bytes),
        )  # fmt: skip


def _round_down(count: int) -> int:
    """Return `count` rounded down to two significant digits: the free memory changes all the time."""
    unit: int = 10 ** max(0, len(str(count)) - 2)
    return count // unit * unit
