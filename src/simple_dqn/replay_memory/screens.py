"""Where the screens lie: in memory, plain or compressed, or in a file that is mapped into it."""

import fcntl
import shutil
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from simple_dqn.config import MemoryConfig
from simple_dqn.errors import UserError
from simple_dqn.replay_memory.capacity import gigabytes, require_memory
from simple_dqn.replay_memory.compressed_screens import CompressedScreens
from simple_dqn.types import DeviceStates, Flags, Screens, States


class ScreenStore(Protocol):
    """Screens of E games by row and game; the one place that knows how a screen is kept.

    A screen's index is row * E + game.
    """

    @property
    def nbytes(self) -> int:
        """Bytes that all the screens take; compressed ones, so far."""

    def write(self, row: int, screens: Screens) -> None:
        """Keep `screens` uint8 [E, H, W] as `row`."""

    def gather(self, windows: NDArray[np.int64], hidden: Flags | None) -> States | DeviceStates:
        """Return the screens at `windows`, zero where `hidden` says so.

        Args:
            windows: int64 [B, K], the indices of screens.
            hidden: bool [B, L], of the first L of each window; the others are shown. None: all are.

        Returns:
            uint8 [B, K, H, W], valid until the next call.
        """

    def on_host(self, screens: States | DeviceStates) -> States:
        """Return a copy of what `gather` returned, or of a part, in the host's memory."""

    def first(self, rows: int) -> NDArray[np.uint8]:
        """Return the first `rows` rows, uint8 [rows, E, H, W], valid until the next `write`.

        Where screens are not kept as such this is a copy, and so as large as they are at full size.
        """


class HostScreens:
    """A `ScreenStore` of plain arrays, in memory or in a file."""

    def __init__(self, rows: int, games: int, screen_shape: tuple[int, int], file: str | None = None) -> None:
        """Make room for `rows` screens of each game, in the memory-mapped `file` if one is given.

        The pages of memory, or blocks of the file, are taken only as screens are written.

        Raises:
            UserError: The file cannot be used; see `map_file`.
        """
        shape = (rows, games, *screen_shape)
        self._screens = np.empty(shape, np.uint8) if file is None else map_file(Path(file), shape)
        self._flat = self._screens.reshape(rows * games, -1)  # the same bytes, a line for each index
        self._gathered = np.empty((0, 0, *screen_shape), np.uint8)  # [B, K, H, W], written anew each time

    @staticmethod
    def screen_bytes(screen_shape: tuple[int, int]) -> tuple[int, int]:
        """Return the bytes that a screen takes at the least and at the most, which are the same."""
        return screen_shape[0] * screen_shape[1], screen_shape[0] * screen_shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes that all the screens take."""
        return self._screens.nbytes

    def write(self, row: int, screens: Screens) -> None:
        """Keep `screens` uint8 [E, H, W] as `row`."""
        self._screens[row] = screens

    def gather(self, windows: NDArray[np.int64], hidden: Flags | None) -> States:
        """Return the screens at `windows` int64 [B, K], zero where `hidden` bool [B, L] says so."""
        if self._gathered.shape[:2] != windows.shape:
            self._gathered = np.empty((*windows.shape, *self._gathered.shape[2:]), np.uint8)
        # Unlike "raise", "clip" writes straight into `out`; no index is out of range, so none is clipped.
        lines = self._gathered.reshape(windows.size, -1)
        np.take(self._flat, windows.reshape(-1), axis=0, out=lines, mode="clip")
        if hidden is not None:
            self._gathered[:, : hidden.shape[1]][hidden] = 0
        return self._gathered

    def on_host(self, screens: States) -> States:
        """Return a copy of what `gather` returned, or of a part."""
        return screens.copy()

    def first(self, rows: int) -> NDArray[np.uint8]:
        """Return the first `rows` rows, uint8 [rows, E, H, W]: a view."""
        return self._screens[:rows]


# How screens are kept in memory, by --replay_compression.
STORES: dict[str, type[HostScreens] | type[CompressedScreens]] = {
    "none": HostScreens,
    "lz4": CompressedScreens,
}


def make_screens(
    config: MemoryConfig, rows: int, games: int, screen_shape: tuple[int, int], other_bytes: int
) -> HostScreens | CompressedScreens:
    """Return room for `rows` screens of each of `games`, kept as `config` says.

    Args:
        config: How they are kept.
        rows: Screens of each game.
        games: E.
        screen_shape: Height and width of a screen, in pixels.
        other_bytes: What an experience takes in memory beside its screen.

    Raises:
        UserError: This machine has too little memory, or the file cannot be used.
    """
    if config.replay_file is not None:
        return HostScreens(rows, games, screen_shape, config.replay_file)
    store = STORES[config.replay_compression]
    least, most = store.screen_bytes(screen_shape)
    require_memory(config.replay_size, least + other_bytes, most + other_bytes)
    return store(rows, games, screen_shape)


def map_file(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return an array uint8 of `shape` that lives in the file at `path`: raw bytes, nothing else.

    The file has its full size at once, and takes up disk space as the array is written. It is
    locked while the array lives and stays when the program ends; what an earlier run left in it
    is written over.

    Raises:
        UserError: The file cannot be written, is in use by another run or is something else
            than a replay memory of this size, or the disk has too little space.
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
            # The mapping keeps a duplicate of the file's descriptor, and with it the lock.
            return np.asarray(np.memmap(file, np.uint8, mode="r+", shape=shape))
    except BlockingIOError:
        raise UserError(f"--replay_file {path} is in use by another run: name another file") from None
    except OSError as error:
        raise UserError(
            f"--replay_file {path} cannot be written ({error.strerror}): name a file that can"
        ) from None


def _grow(file: BinaryIO, path: Path, size: int) -> None:
    """Give `file` at `path` its full `size`; one that was just made is removed if it cannot have it."""
    try:
        file.truncate(size)
    except OSError:
        if path.stat().st_size == 0:
            path.unlink()
        raise


def _require_disk(path: Path, size: int) -> None:
    """Refuse a file of `size` bytes at `path` for which its disk has too little space."""
    held = path.stat().st_blocks * 512 if path.exists() else 0
    spare = shutil.disk_usage(path.parent).free + held
    if size > spare:
        raise UserError(
            f"--replay_file {path} needs {gigabytes(size)} and its disk has {gigabytes(spare)} free: "
            "lower --replay_size or name a file on a larger disk"
        )
