"""The modification: a user's file that `modified.sh` runs before the verb, to change the program.

Snapshots and checkpoints record its name and digest, so that a resume without it can warn. The record is
compared and printed; it never causes an import.
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from simple_dqn.errors import UserError

LONGEST_NAME = 255  # characters
SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Modification:
    """The record of a user's file."""

    file: str  # the name, without folders
    sha256: str  # the digest of the content, 64 hexadecimal digits

    def __str__(self) -> str:
        return f"{self.file} (SHA-256 {self.sha256[:12]}…)"


_current: Modification | None = None


def current_modification() -> Modification | None:
    """Return the modification of this process, or None."""
    return _current


@contextmanager
def running_with(path: Path) -> Iterator[None]:
    """Make the file at `path` the current modification, inside.

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
    """Return the record of `modification` for a snapshot or a checkpoint."""
    return asdict(modification) if modification else None


def from_record(record: Any) -> Modification | None:
    """Return the modification of a snapshot's or a checkpoint's record; None: there was none.

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
