"""Storage for the screens of a replay memory: in memory, plain or compressed, or in a memory-mapped file."""

import fcntl
import logging
import shutil
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

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

    def first(self, rows: int) -> NDArray[np.uint8]:
        """Return the first `rows` rows, uint8 [rows, E, H, W], valid until the next `write`.

        Screens that are compressed or on a GPU are copied.
        """


class HostScreens:
    """A `ScreenStore` with an uncompressed array, in memory or in a file."""

    def __init__(self, rows: int, games: int, screen_shape: tuple[int, int], file: str | None = None) -> None:
        """Create storage for `rows` screens of each game, in the memory-mapped `file` if one is given.

        The system allocates pages of memory, or blocks of the file, as screens are written.

        Raises:
            UserError: The file cannot be used; see `map_file`.
        """
        shape = (rows, games, *screen_shape)
        self._screens = np.empty(shape, np.uint8) if file is None else map_file(Path(file), shape)
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

    def first(self, rows: int) -> NDArray[np.uint8]:
        """Return the first `rows` rows, uint8 [rows, E, H, W]: a view."""
        return self._screens[:rows]


# Storage in memory, by --replay_compression.
STORES: dict[str, type[HostScreens] | type[CompressedScreens]] = {
    "none": HostScreens,
    "lz4": CompressedScreens,
}


def make_screens(
    config: MemoryConfig, rows: int, games: int, screen_shape: tuple[int, int], other_bytes: int
) -> HostScreens | CompressedScreens:
    """Return storage for the screens of a replay memory.

    Args:
        config: The kind of storage.
        rows: T, screens of each game.
        games: E.
        screen_shape: Height and width of a screen, in pixels.
        other_bytes: Bytes of an experience without its screen.

    Raises:
        UserError: This machine has too little memory, or the file cannot be used.
    """
    if config.replay_file is not None:
        return HostScreens(rows, games, screen_shape, config.replay_file)
    store = STORES[config.replay_compression]
    least, most = store.screen_bytes(screen_shape)
    _require_memory(config.replay_size, least + other_bytes, most + other_bytes)
    return store(rows, games, screen_shape)


def map_file(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return a uint8 array of `shape` that is mapped to the file at `path`, which contains nothing else.

    The file has its full size at once, but uses disk space only as the array is written. It is locked while
    the array exists, and remains when the program ends; the next run overwrites it.

    Raises:
        UserError: The file cannot be written, is in use by another run or has another size, or the disk has
            too little space.
    """
    size = int(np.prod(shape, dtype=object))
    try:
        _require_disk(path, size)
        with path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.stat().st_size not in (0, size):
                raise UserError(
                    f"--replay_file {path} exists and is not a replay memory of {size} bytes: "
                    "delete it or name another file"
                )
            _grow(file, path, size)
            # The mapping holds a duplicate of the file's descriptor, and with it the lock.
            return np.asarray(np.memmap(file, np.uint8, mode="r+", shape=shape))
    except BlockingIOError:
        raise UserError(f"--replay_file {path} is in use by another run: name another file") from None
    except OSError as error:
        raise UserError(
            f"--replay_file {path} cannot be written ({error.strerror}): name a file that can"
        ) from None


def _grow(file: BinaryIO, path: Path, size: int) -> None:
    """Extend `file` at `path` to `size` bytes; if that fails, remove a new file."""
    try:
        file.truncate(size)
    except OSError:
        if path.stat().st_size == 0:
            path.unlink()
        raise


def _require_memory(replay_size: int, least_bytes: int, most_bytes: int) -> None:
    """Check that a memory of `replay_size` experiences fits, and warn if it may not.

    Args:
        replay_size: Experiences.
        least_bytes: The least bytes of each.
        most_bytes: The most bytes of each.

    Raises:
        UserError: It does not fit; the message suggests a --replay_size that does.
    """
    needed, at_most = replay_size * least_bytes, replay_size * most_bytes
    spare = int(SHARE * available_memory())
    if needed > spare:
        raise UserError(
            f"--replay_size {replay_size} needs {gigabytes(needed)} of memory and this machine can spare "
            f"{gigabytes(spare)}: --replay_size {_round_down(spare // least_bytes)} fits, or --replay_file "
            "PATH keeps the screens on disk"
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


def _require_disk(path: Path, size: int) -> None:
    """Check that the disk has space for a file of `size` bytes at `path`.

    Raises:
        UserError: It has not.
    """
    held = path.stat().st_blocks * 512 if path.exists() else 0
    spare = shutil.disk_usage(path.parent).free + held
    if size > spare:
        raise UserError(
            f"--replay_file {path} needs {gigabytes(size)} and its disk has {gigabytes(spare)} free: "
            "lower --replay_size or name a file on a larger disk"
        )
