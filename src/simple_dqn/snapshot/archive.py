"""Archives: a nested dict of arrays and numbers as one file, a zip of `.npy` members and a `tree.json`.

Reading an archive executes nothing: numpy's reader refuses pickled objects, and JSON has none. The zip's
checksums reveal damage. Memory is allocated only for sizes that match the length of the file.
"""

import glob
import json
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from simple_dqn.errors import UserError
from simple_dqn.files import TRAINED, from_here, home, kind_of, replacing
from simple_dqn.types import CheckpointState

MOST_BYTES = 8 << 30  # of any archive: a checkpoint of thousands of games takes less
TREE = "tree.json"  # the dict, in which an array is {"$array": name of its member}
ARRAY = "$array"
LONGEST_HEADER = 1024  # bytes of a `.npy` header; `write` needs 118
# The header of an array of booleans, integers or floats.
HEADER = re.compile(
    r"\{'descr': '[<>|][biuf](?P<bytes>\d{1,2})', 'fortran_order': (True|False), "
    r"'shape': \((?P<shape>[\d, ]*)\), \} *\n"
)
END_OF_DIRECTORY = struct.Struct("<4s4H2LH")  # the end of a zip without a comment
# Errors of zipfile, json and numpy for malformed bytes.
MALFORMED = (
    zipfile.BadZipFile,
    EOFError,
    KeyError,
    ValueError,
    TypeError,
    RuntimeError,
    OverflowError,
    struct.error,
    zlib.error,
)  # NotImplementedError, for an unknown compression, is a RuntimeError


@dataclass(frozen=True)
class Limits:
    """The largest sizes to accept in a file from a stranger, in bytes."""

    members: int  # all members together
    tree: int  # `tree.json`
    directory: int  # the list of members at the end of the zip, about 100 bytes each


def write(path: Path, state: CheckpointState) -> None:
    """Write `state` to a temporary file, flush it to disk, and rename it to `path`.

    A crash at any moment leaves either the old file or the new one.

    Raises:
        UserError: The file cannot be written.
    """
    with replacing_link(path) as beside, zipfile.ZipFile(beside, "w", zipfile.ZIP_STORED) as archive:
        tree = _store(state, "", archive)
        archive.writestr(TREE, json.dumps(tree))


def read(path: Path, limits: Limits | None = None) -> CheckpointState:
    """Return the dict in `path`, which must be within `limits` if they are given.

    Raises:
        UserError: The file is missing, damaged, too large, or not an archive.
    """
    try:
        if kind_of(path) == "other":
            raise UserError(f"{path} is a device or a pipe: use another one")
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > MOST_BYTES:
                raise ValueError("it is too large")
            if limits:
                _check_directory(file, limits)
            with zipfile.ZipFile(file) as archive:
                unread = _check_members(archive, limits)
                state = _restore(json.loads(archive.read(TREE)), archive, unread)
                if unread:
                    raise ValueError(f"nothing names its member {min(unread)!r}")
    except OSError as error:
        raise unreadable(path, error) from None
    except MALFORMED as error:
        raise damaged(path, error) from None
    if not isinstance(state, dict):
        raise damaged(path, ValueError("it has no settings"))
    return state


@contextmanager
def replacing_link(path: Path) -> Iterator[Path]:
    """Do as `files.replacing`, but replace a link itself: its target is no file of the run.

    A folder from a stranger may contain links with the names of the next files.
    """
    with suppress(OSError):
        if path.is_symlink():
            path.unlink()
    with replacing(path) as beside:
        yield beside


def unreadable(path: Path, error: OSError) -> UserError:
    """Return the error for a file that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return UserError(f"{path} does not exist{_files_beside(path)}")
    return UserError(f"cannot read {path}: {error.strerror or error}")


def damaged(path: Path, error: Exception) -> UserError:
    """Return the error for a file with malformed content."""
    return UserError(f"{path} is damaged, truncated, or not a snapshot ({quotable(error)}): use another one")


def quotable(error: Exception) -> str:
    """Return the message of `error` in one line of printable ASCII; it may quote any bytes of a file."""
    lines = str(error).splitlines()
    return ascii(lines[0])[1:-1][:120] if lines else type(error).__name__


def _check_directory(file: BinaryIO, limits: Limits) -> None:
    """Check the length of a zip's list of members, before zipfile creates objects from it."""
    length = file.seek(0, os.SEEK_END)
    locator = 20  # bytes before the end of a zip that is too large for the 32-bit format
    tail = END_OF_DIRECTORY.size + locator
    if length < tail:
        raise ValueError("it is cut short")
    file.seek(-tail, os.SEEK_END)
    before, end = file.read(locator), END_OF_DIRECTORY.unpack(file.read())
    magic, comment, directory = end[0], end[7], end[5]
    if magic != b"PK\5\6" or comment or before.startswith(b"PK\6\7") or directory > limits.directory:
        raise ValueError("its list of members is too long or has another format")


def _check_members(archive: zipfile.ZipFile, limits: Limits | None) -> set[str]:
    """Return the names of the arrays; check that no member is compressed and sizes are within `limits`."""
    members = archive.infolist()
    arrays = {member.filename for member in members} - {TREE}
    if len(arrays) != len(members) - 1:
        raise ValueError("two of its members have the same name, or it has no settings")
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
            raise ValueError(f"its member {member.filename!r} is compressed")
    size = sum(member.file_size for member in members)
    if limits and (size > limits.members or archive.getinfo(TREE).file_size > limits.tree):
        raise ValueError(f"its contents are too large for a snapshot: {size} bytes")
    return arrays


def _store(value: Any, name: str, archive: zipfile.ZipFile) -> Any:
    """Write the arrays in `value` as members below `name`; return the value for `tree.json`."""
    if isinstance(value, dict):
        return {key: _store(item, f"{name}/{key}".lstrip("/"), archive) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        member = f"{name}.npy"
        with archive.open(member, "w", force_zip64=True) as file:
            np.lib.format.write_array(file, value, allow_pickle=False)
        return {ARRAY: member}
    return value


def _restore(value: Any, archive: zipfile.ZipFile, unread: set[str]) -> Any:
    """Return a value of `tree.json` with its arrays, whose names are removed from `unread`."""
    if not isinstance(value, dict):
        return value
    if ARRAY in value:
        unread.remove(value[ARRAY])  # fails for a second reference to one array
        member = archive.getinfo(value[ARRAY])
        with archive.open(member) as file:
            _check_header(file, member)
        with archive.open(member) as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
            file.read()  # at the end of the member, zipfile checks its checksum
            return array
    return {key: _restore(item, archive, unread) for key, item in value.items()}


def _check_header(file: IO[bytes], member: zipfile.ZipInfo) -> None:
    """Check that an array's header matches the length of its member, before memory is allocated for it."""
    magic, length = struct.unpack("<8sH", file.read(10))
    header = HEADER.fullmatch(file.read(min(length, LONGEST_HEADER)).decode("latin1"))
    if magic != b"\x93NUMPY\1\0" or header is None:
        raise ValueError(f"its array {member.filename!r} does not have plain numbers")
    sizes = [int(size) for size in header["shape"].split(",") if size.strip()]
    if 10 + length + math.prod(sizes) * int(header["bytes"]) != member.file_size:
        raise ValueError(f"the shape of its array {member.filename!r} does not match its size")


def _files_beside(path: Path) -> str:
    """Return a hint for a missing file: one of that name elsewhere, else the snapshots in its folder."""
    folders = (path.parent, path.parent / TRAINED, home() / "snapshots", home() / "snapshots" / TRAINED)
    name, stem = glob.escape(path.name), glob.escape(path.stem)
    run, _, epoch = stem.rpartition("_")  # a later run may have renamed it
    for pattern in (name, f"{name}.pkl", f"{stem}.pkl", f"{run}_before*_{epoch}.pkl"):
        if found := [file for folder in folders for file in folder.glob(pattern) if file.is_file()]:
            return f": did you mean {from_here(max(found, key=lambda file: file.stat().st_mtime))}?"
    for folder in folders[:2]:
        if there := sorted(p.name for p in folder.glob("*.pkl")):
            more = f" and {len(there) - 5} more" if len(there) > 5 else ""
            return f": {folder} holds {', '.join(there[:5])}{more}"
    return ": train first, with ./train.sh"
