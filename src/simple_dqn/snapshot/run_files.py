"""The files of a run: their names, their lock, and the renaming of an earlier run's files.

The files of the run `snapshots/pong` are the snapshots `pong_1.pkl`, `pong_2.pkl` and so on, and the folder
`pong_checkpoint`. The path `snapshots/pong` is their prefix. A new run with the prefix of an earlier one
renames the earlier run's files to `pong_before_...`, or `pong_before_2_...` and so on.
"""

import fcntl
import glob
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from simple_dqn.errors import UserError

logger = logging.getLogger(__name__)

CHECKPOINTS = "_checkpoint"  # the end of the checkpoint folder's name
LOCK = "lock"  # a file in that folder
LONGEST_NAME = 200  # bytes; the files of a run add up to 55
CHECKPOINT_FILES = "run_*.npz"  # the checkpoints in it, beside the chunks of the experience log
PART = re.compile(r"\..+\.(?P<pid>\d+)\.part")  # an unfinished file, as `files.replacing` names it


@contextmanager
def locked(prefix: Path) -> Iterator[None]:
    """Hold a lock on the files of the run `prefix`, and remove unfinished files of killed runs.

    The lock ends with the process, however it ends.

    Raises:
        UserError: Another run has locked them, or the folder is not writable.
    """
    if not prefix.name:
        raise UserError(f"--save_weights_prefix {prefix} is a folder: give one such as snapshots/pong")
    if len(prefix.name.encode(errors="replace")) > LONGEST_NAME:
        raise UserError(f"--save_weights_prefix: its name is too long: give at most {LONGEST_NAME} letters")
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
            folder.rmdir()  # fails unless it is empty


def checkpoint_folder(prefix: Path) -> Path:
    """Return the folder of the run's checkpoints."""
    return prefix.with_name(prefix.name + CHECKPOINTS)


def prefix_of(folder: Path) -> Path:
    """Return the prefix of the run whose checkpoints are in `folder`.

    Raises:
        UserError: The folder does not have the name of a checkpoint folder.
    """
    named = folder if folder.name.endswith(CHECKPOINTS) else folder.resolve()  # a link keeps its own name
    if not named.name.endswith(CHECKPOINTS):
        raise UserError(
            f"{folder} is not a folder of checkpoints: give one such as snapshots/pong{CHECKPOINTS}"
        )
    return named.with_name(named.name.removesuffix(CHECKPOINTS))


def snapshots_after(prefix: Path, epoch: int) -> list[Path]:
    """Return the snapshots `<prefix>_<number>.pkl` of later epochs than `epoch`, in order."""
    name = re.compile(re.escape(prefix.name) + r"_(\d+)\.pkl")
    named = ((name.fullmatch(path.name), path) for path in prefix.parent.glob("*.pkl"))
    found = sorted((int(match[1]), path) for match, path in named if match)
    return [path for number, path in found if number > epoch]


def earlier_checkpoint_folders(prefix: Path) -> list[Path]:
    """Return the renamed checkpoint folders of earlier runs with this prefix, oldest first."""
    folders = (checkpoint_folder(earlier) for _, earlier in sorted(_earlier_prefixes(prefix).items()))
    return [folder for folder in folders if folder.is_dir()]


def set_aside(prefix: Path, epoch: int) -> None:
    """Rename an earlier run's checkpoints, and its snapshots of later epochs than `epoch`.

    Raises:
        UserError: A file cannot be renamed.
    """
    last = max(_earlier_prefixes(prefix), default=0)
    earlier = prefix.with_name(f"{prefix.name}_before_{last + 1}" if last else f"{prefix.name}_before")
    folder, aside = checkpoint_folder(prefix), checkpoint_folder(earlier)
    moves = []
    if any(folder.glob(CHECKPOINT_FILES)):
        logger.info("%s holds the checkpoints of another run: they are kept as %s", folder, aside)
        moves = [(path, aside / path.name) for path in folder.iterdir() if path.name != LOCK]
    if snapshots := snapshots_after(prefix, epoch):
        renamed = [path.with_name(earlier.name + path.name.removeprefix(prefix.name)) for path in snapshots]
        names = first_to_last(snapshots), first_to_last(renamed)
        logger.info("Snapshots of an earlier run, %s, are kept as %s", *names)
        moves += zip(snapshots, renamed, strict=True)
    for path, other in moves:
        try:
            other.parent.mkdir(exist_ok=True)
            path.rename(other)
        except OSError as error:
            raise UserError(
                f"cannot rename {path} to {other}: {error.strerror}: move it away, or give this run another "
                "label"
            ) from None


def first_to_last(paths: list[Path]) -> str:
    """Return the names of `paths` for a message: the first, and the last if there are several."""
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} to {paths[-1].name}"


def _earlier_prefixes(prefix: Path) -> dict[int, Path]:
    """Return the prefixes `pong_before`, `pong_before_2` and so on that files have, by number."""
    name = re.compile(rf"({re.escape(prefix.name)}_before(?:_(\d+))?)(?:{CHECKPOINTS}|_\d+\.pkl)")
    found = (name.fullmatch(path.name) for path in prefix.parent.glob("*"))
    return {int(match[2] or 1): prefix.with_name(match[1]) for match in found if match}


def _lock(path: Path, prefix: Path) -> TextIO:
    """Return the open file `path`, locked until it is closed."""
    while True:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o666), "a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip()
            file.close()
            raise UserError(
                f"{prefix}_... is being written by another run (process {owner or 'unknown'}): wait until "
                "it ends, or give this run another label"
            ) from None
        except OSError as error:  # as on some network file systems
            logger.warning("%s cannot be locked (%s): do not start a second run there", path, error.strerror)
        if _is_still(path, file):
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            return file
        file.close()  # its owner removed it between opening and locking


def _is_still(path: Path, file: TextIO) -> bool:
    """Return whether `path` still names the open `file`."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _remove_parts(folder: Path, start: str) -> None:
    """Remove the unfinished files in `folder` whose names begin with `start` and whose processes are dead."""
    for path in folder.glob(f"{glob.escape(start)}*.part"):
        match = PART.fullmatch(path.name)
        if match and not _is_alive(int(match["pid"])):
            with suppress(OSError):
                path.unlink()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid != os.getpid()  # the file is older than this process, so another process had its id
