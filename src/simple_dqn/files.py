"""The project's folders, opening files that a user names, and atomic writing of files."""

import fcntl
import itertools
import logging
import os
import shlex
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, TextIO

from simple_dqn.errors import UserError

logger = logging.getLogger(__name__)

Kind = Literal["file", "folder", "other", ""]  # other: a device, a pipe or a socket; "": there is nothing

TRAINED = "trained"  # the folder in `snapshots/` with the agents that come with the project
ZIP = b"PK\3\4"  # the first bytes of a snapshot of this project
PICKLES = (b"\x80\2", b"\x80\3", b"\x80\4")  # the first bytes of Neon's, which are pickles
SNAPSHOT_SUFFIXES = (".pkl", ".prm")  # the second only of Neon's


def home() -> Path:
    """Return the folder of `snapshots/` and `results/`: $SIMPLE_DQN_HOME, else the current one."""
    return Path(os.environ.get("SIMPLE_DQN_HOME", ""))


def command(verb: str, *words: object) -> str:
    """Return a command for messages: a clone's ./train.sh or simple-dqn; and `words`, paths from here."""
    script = Path(__file__).resolve().parents[2] / f"{verb}.sh"
    called = os.environ.get("SIMPLE_DQN_PROGRAM", str(from_here(script)))
    folder = str(script.parent) if Path(called).is_symlink() else called.rpartition("/")[0] or "."
    start = [f"{folder}/{script.name}"] if script.is_file() else ["simple-dqn", verb]
    return shlex.join([*start, *(str(from_here(one) if isinstance(one, Path) else one) for one in words)])


def is_trained(path: Path) -> bool:
    """Return whether `path` belongs to an agent that comes with the project."""
    return real(path.parent) == real(home() / "snapshots" / TRAINED)


def real(path: Path) -> Path:
    """Return `path` without links, or raise UserError; unlike `Path.resolve`, also if links form a circle."""
    try:
        return Path(os.path.realpath(path))
    except ValueError as error:
        raise UserError(f"{path}: {error}: give the path of a file") from None


def kind_of(path: Path) -> Kind:
    """Return the kind of file at `path`, links followed, or raise UserError if it may not be read."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, ValueError) as error:  # ValueError: no file can have such a name
        raise UserError(f"cannot use {path}: {_reason(error)}: give another path") from None
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"


def open_file(path: Path, most: int, advice: str) -> BinaryIO:
    """Open a regular file of at most `most` bytes, or raise UserError "cannot read PATH: REASON: ADVICE"."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {_reason(error)}: {advice}") from None
    status, reason = os.fstat(descriptor), "it is a folder, a device or a pipe"
    if stat.S_ISREG(status.st_mode):
        if status.st_size <= most:
            return os.fdopen(descriptor, "rb")
        reason = f"it has {status.st_size:,} bytes, more than {most:,}"
    os.close(descriptor)
    raise UserError(f"cannot read {path}: {reason}: {advice}")


def read_file(path: Path, most: int, advice: str) -> bytes:
    """Return the content of a file; see `open_file`."""
    with open_file(path, most, advice) as file:
        try:
            return file.read(most)
        except OSError as error:
            raise UserError(f"cannot read {path}: {_reason(error)}: {advice}") from None


def read_text(path: Path, most: int, advice: str) -> str:
    """Return the content of a text file in UTF-8, with or without a byte order mark; see `open_file`."""
    try:
        return read_file(path, most, advice).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"cannot read {path}: it is not a text file: {advice}") from None


def _reason(error: OSError | ValueError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "no file can have such a name"


def is_snapshot(path: Path) -> bool:
    """Return whether `path` is a file that begins like a snapshot, whatever its extension."""
    with suppress(OSError, UserError), open_file(path, sys.maxsize, "") as file:
        return file.read(len(ZIP)).startswith((ZIP, *PICKLES))
    return False


def from_here(path: Path) -> Path:
    """Return `path` relative to the current folder if it is inside it, else unchanged."""
    with suppress(FileNotFoundError, ValueError):  # the current folder was deleted, or `path` is not in it
        return path.absolute().relative_to(Path.cwd())
    return path


def unused_path(path: Path) -> Path:
    """Return the first of `pong.1.csv`, `pong.2.csv`, ... that does not exist; of a folder, `lr0.5.1`, ..."""
    stem, suffix = (path.name, "") if path.is_dir() else (path.stem, path.suffix)
    names = (path.with_name(f"{stem}.{number}{suffix}") for number in itertools.count(1))
    return next(name for name in names if not kind_of(name))


def _begins(path: Path, starts: tuple[bytes, ...]) -> bool:
    """Return whether a file begins with one of `starts`, or is shorter, as after a crash."""
    with open_file(path, sys.maxsize, "give another file") as file:
        begin = file.read(max(map(len, starts)))
    return any(begin.startswith(start[: len(begin)]) for start in starts)


@contextmanager
def reporting_failure(what: str, advice: str) -> Iterator[None]:
    """Raise an OSError as the UserError "cannot write WHAT: REASON: ADVICE"."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {what}: {error.strerror}: {advice}") from error


def check_target(
    path: Path, flag: str = "", starts: tuple[bytes, ...] = (), wrong: str = "it is a file of another kind"
) -> None:
    """Raise UserError if `path`, which `flag` named, is not a file and cannot become one.

    A file there must be empty or begin with one of `starts`, so that a report does not replace a snapshot or
    a ROM, and no run renames them. Otherwise the reason in the message is `wrong`.
    """
    above = next((one for one in path.absolute().parents if kind_of(one)), path)  # `/` has no parents
    reason = "" if kind_of(above) == "folder" else f"{above} is not a folder"
    if kind_of(path) not in ("file", ""):
        reason = f"{path} is a folder, a device or a pipe"
    elif starts and kind_of(path) and not _begins(path, starts):
        reason = wrong
    if reason:
        raise UserError(f"cannot write {path}: {reason}: give another file{flag and ' as ' + flag}")


@contextmanager
def replacing(path: Path, follow: bool = True, starts: tuple[bytes, ...] = ()) -> Iterator[Path]:
    """Yield a temporary name beside `path` to write to; rename it to `path` once it is complete and on disk.

    If `path` is a link, its target is replaced. Without `follow`, the link itself is replaced: snapshots and
    checkpoints do so because a stranger's folder may contain links with the names of the next files. If
    writing fails (UserError), `path` is unchanged. `starts`: see `check_target`.
    """
    if follow or not path.is_symlink():
        check_target(path, starts=starts)
    path = real(path) if follow else path
    beside = path.parent / f".{path.name}.{os.getpid()}.part"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield beside
        with beside.open("rb") as written:
            os.fsync(written.fileno())
        beside.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # If the folder cannot be reached, there is nothing to remove.
            beside.unlink(missing_ok=True)


def lock(file: IO[Any], path: Path) -> bool:
    """Lock the open file `path` until it is closed; return False if another run has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # as on some network file systems
        logger.warning("%s cannot be locked (%s): do not start a second run there", path, error.strerror)
    return True


def lock_file(path: Path, prefix: Path) -> TextIO:
    """Return the open file `path`, locked until closed, or raise UserError if another run `prefix` has it."""
    while True:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o666), "a+")
        if not lock(file, path):
            with file:
                file.seek(0)
                owner = file.read().strip() or "unknown"
            raise UserError(
                f"{prefix} is being written by another run (process {owner}): wait, or give another label"
            )
        if os.fstat(file.fileno()).st_nlink:
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            return file
        file.close()  # its owner removed it between opening and locking
