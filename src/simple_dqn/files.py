"""The project's folders, and atomic writing of files."""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from simple_dqn.errors import UserError

TRAINED = "trained"  # the folder in `snapshots/` with the agents that come with the project
ZIP = b"PK\3\4"  # the first bytes of a snapshot of this project
# The first bytes of a pickled dict, such as a Neon snapshot, in protocols 2 to 5, 1 and 0.
PICKLES = (b"\x80\2", b"\x80\3", b"\x80\4", b"\x80\5", b"}q", b"(dp")


def project() -> Path | None:
    """Return the project's folder, which its scripts set; None if the program runs without them."""
    folder = os.environ.get("SIMPLE_DQN_HOME")
    return None if folder is None else Path(folder)


def home() -> Path:
    """Return the folder that contains `snapshots/` and `results/`: the project's, else the current one."""
    return project() or Path()


def is_trained(path: Path) -> bool:
    """Return whether `path` is in the folder of the agents that come with the project."""
    return path.parent.resolve() == (home() / "snapshots" / TRAINED).resolve()


def is_snapshot(path: Path) -> bool:
    """Return whether `path` is a file that begins like a snapshot, whatever its extension."""
    try:
        with path.open("rb") as file:
            return file.read(len(ZIP)).startswith((ZIP, *PICKLES))
    except OSError:
        return False


def from_here(path: Path) -> Path:
    """Return `path` relative to the current folder if it is inside it, else unchanged."""
    whole, here = path.absolute(), Path.cwd()
    return whole.relative_to(here) if whole.is_relative_to(here) else path


def numbered(path: Path) -> Path:
    """Return, for `pong.csv`, the first of `pong.1.csv`, `pong.2.csv`, ... that does not exist."""
    names = (path.with_name(f"{path.stem}.{number}{path.suffix}") for number in itertools.count(1))
    return next(name for name in names if not name.exists())


@contextmanager
def reporting_failure(what: str, advice: str) -> Iterator[None]:
    """Raise an OSError as the UserError "cannot write WHAT: REASON: ADVICE".

    Raises:
        UserError: There was an OSError.
    """
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {what}: {error.strerror}: {advice}") from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path` to write to; rename it to `path` once it is complete and on disk.

    If `path` is a link, its target is replaced.

    Raises:
        UserError: The folder or the file cannot be written; `path` is unchanged.
    """
    path = Path(os.path.realpath(path))
    beside = path.parent / f".{path.name}.{os.getpid()}.part"
    try:
        if path.is_dir():
            raise UserError(f"cannot write {path}: it is a folder; move it away")
        if path.exists() and not path.is_file():
            raise UserError(f"cannot write {path}: it is a device or a pipe; give a file")
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
