"""One run at a time writes files of one name."""

import fcntl
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from simple_dqn.errors import UserError

logger = logging.getLogger(__name__)

CHECKPOINTS = "_checkpoint"  # how the name of their folder ends
LOCK = "lock"  # in the folder of the checkpoints
PART = re.compile(r"\..+\.(?P<pid>\d+)\.part")  # as `files.replacing` calls what is not whole yet


@contextmanager
def claimed(prefix: Path) -> Iterator[None]:
    """Have for oneself, inside, the snapshots called `<prefix>_...` and the folder of their checkpoints.

    The claim goes with the process, however it ends. What a run that was killed left half-written is removed.

    Raises:
        UserError: Another run has them, or nothing can be written there.
    """
    if not prefix.name:
        raise UserError(f"--save_weights_prefix {prefix} is a folder: give one such as snapshots/pong")
    folder = checkpoint_folder(prefix)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = _lock(folder / LOCK, prefix)
    except OSError as error:
        raise UserError(
            f"snapshots cannot be written to {prefix.parent}: {error.strerror or error}; "
            "make it writable or give another --save_weights_prefix"
        ) from None
    try:
        _remove_parts(folder, ".")
        _remove_parts(prefix.parent, f".{prefix.name}_")
        yield
    finally:
        with lock, suppress(OSError):
            (folder / LOCK).unlink()
            folder.rmdir()  # unless there is something in it


def checkpoint_folder(prefix: Path) -> Path:
    """Return where the checkpoints lie that belong to snapshots called `<prefix>_<epoch>.pkl`."""
    return prefix.with_name(prefix.name + CHECKPOINTS)


def prefix_of(folder: Path) -> Path:
    """Return what the names of a run's snapshots begin with, from the `folder` of its checkpoints.

    Raises:
        UserError: It is not called like one.
    """
    whole = folder.resolve()
    if not whole.name.endswith(CHECKPOINTS):
        raise UserError(f"{folder} is no folder of checkpoints: give one such as snapshots/pong{CHECKPOINTS}")
    named = folder if folder.name else whole
    return named.with_name(whole.name.removesuffix(CHECKPOINTS))


def _lock(path: Path, prefix: Path) -> TextIO:
    """Return the file `path`, which is locked until it is closed.

    Raises:
        UserError: Another process has locked it.
        OSError: It cannot be made.
    """
    while True:
        file = path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip()
            file.close()
            raise UserError(
                f"{prefix}_... is being written by another run (process {owner or 'unknown'}): wait for its "
                "end, or give this one another label"
            ) from None
        except OSError as error:  # as on some network file systems
            logger.warning("%s cannot be locked (%s): start no second run there", path, error.strerror)
        if _is_still(path, file):
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            return file
        file.close()  # Its owner removed it while it was being locked here.


def _is_still(path: Path, file: TextIO) -> bool:
    """Return whether `file` is what one finds at `path`."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _remove_parts(folder: Path, start: str) -> None:
    """Remove the files in `folder` whose names begin with `start` and whose writers died over them."""
    for path in folder.glob(f"{start}*.part"):
        match = PART.fullmatch(path.name)
        if match and not _lives(int(match["pid"])):
            with suppress(OSError):
                path.unlink()


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid != os.getpid()  # This process has only just begun: another had its number before.
