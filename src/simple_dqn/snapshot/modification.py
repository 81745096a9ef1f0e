"""The modification that a run is made with: the user's own file, run by `modified.sh` before the verb.

Snapshots and checkpoints record which file it was, so that a resume without it can be told. The record is
compared and printed; nothing is ever imported or run because of it.
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from simple_dqn.errors import UserError

LONGEST_NAME = 255  # letters
SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Modification:
    """Which file it is."""

    file: str  # its name, without folders
    sha256: str  # of its contents, 64 hexadecimal digits

    def __str__(self) -> str:
        return f"{self.file} (SHA-256 {self.sha256[:12]}…)"


_current: Modification | None = None


def current() -> Modification | None:
    """Return the modification that this process runs with; None: it runs the project as it is."""
    return _current


@contextmanager
def running_with(path: Path) -> Iterator[None]:
    """Let the file at `path` be the current modification inside.

    Raises:
        UserError: The file cannot be read, or there is a modification already.
    """
    global _current
    if _current is not None:
        raise UserError(f"{path} would be a second modification beside {_current.file}: make them one file")
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}: make it readable") from None
    name = path.name if path.name.isprintable() else ascii(path.name)[1:-1]
    _current = Modification(name[:LONGEST_NAME], digest)
    try:
        yield
    finally:
        _current = None


def record_of(modification: Modification | None) -> dict[str, str] | None:
    """Return `modification` as a snapshot or a checkpoint records it."""
    return asdict(modification) if modification else None


def from_record(record: Any) -> Modification | None:
    """Return the modification that a snapshot or a checkpoint records; None: it records none.

    Raises:
        ValueError: The record is not what `record_of` returns.
    """
    if record is None:
        return None
    file, sha256 = (record.get(name) for name in ("file", "sha256")) if isinstance(record, dict) else ("", "")
    if not (isinstance(file, str) and 0 < len(file) <= LONGEST_NAME and file.isprintable()):
        raise ValueError("its record of a modification names no file")
    if not (isinstance(sha256, str) and SHA256.fullmatch(sha256)):
        raise ValueError("its record of a modification has no SHA-256 digest")
    return Modification(file, sha256)
