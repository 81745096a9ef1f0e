"""One nested dict of arrays and numbers as one file: a zip of `.npy` members and a `tree.json`.

Nothing in such a file is ever executed: numpy's reader refuses pickled objects, and JSON has none.
The zip's checksums tell a damaged member from a sound one. Nothing is allocated on a file's word alone:
what an array says of its shape must fit the bytes that are there.
"""

import glob
import json
import math
import os
import re
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from simple_dqn.errors import UserError
from simple_dqn.files import TRAINED, replacing
from simple_dqn.types import CheckpointState

TREE = "tree.json"  # the dict itself; an array in it is {"$array": name of its member}
ARRAY = "$array"
LONGEST_HEADER = 1024  # bytes that tell of an array; `write` needs 118
# What they say, to the letter, of an array of truth values, integers or floats.
HEADER = re.compile(
    r"\{'descr': '[<>|][biuf](?P<bytes>\d{1,2})', 'fortran_order': (True|False), "
    r"'shape': \((?P<shape>[\d, ]*)\), \} *\n"
)
END_OF_DIRECTORY = struct.Struct("<4s4H2LH")  # what a zip without a comment ends with
# What zipfile, json and numpy raise at bytes that they cannot make sense of.
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
    """How much a file may ask for that somebody else may have made, in bytes."""

    members: int  # all members together
    tree: int  # `tree.json`
    directory: int  # the zip's own list of its members, of some 100 bytes each


def write(path: Path, state: CheckpointState) -> None:
    """Write `state` to `path`: beside it first, flushed to disk, then renamed over it.

    A crash at any moment leaves either the old file or the new one.

    Raises:
        UserError: The file cannot be written.
    """
    with replacing(path) as beside, zipfile.ZipFile(beside, "w", zipfile.ZIP_STORED) as archive:
        tree = _store(state, "", archive)
        archive.writestr(TREE, json.dumps(tree))


def read(path: Path, limits: Limits | None = None) -> CheckpointState:
    """Return the dict that `path` holds; with `limits`, refuse a file that asks for more.

    Raises:
        UserError: The file is missing, damaged, too large, or not one that `write` made.
    """
    try:
        with path.open("rb") as file:
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
        raise damaged(path, ValueError("it holds no settings"))
    return state


def unreadable(path: Path, error: OSError) -> UserError:
    """Return what to tell the user of a file that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return UserError(f"{path} does not exist{_files_beside(path)}")
    return UserError(f"cannot read {path}: {error.strerror or error}")


def damaged(path: Path, error: Exception) -> UserError:
    """Return what to tell the user of a file that makes no sense."""
    return UserError(f"{path} is damaged, cut short, or no snapshot ({one_line(error)}): use another one")


def one_line(error: Exception) -> str:
    """Return what `error` says, in so many printable letters as fit in a line, whatever a file had in it."""
    lines = str(error).splitlines()
    return ascii(lines[0])[1:-1][:120] if lines else type(error).__name__


def _check_directory(file: BinaryIO, limits: Limits) -> None:
    """Refuse a zip whose list of members is longer than allowed, before zipfile makes objects of it.

    Raises:
        ValueError: It is, or the zip does not end as those of `write` do.
    """
    length = file.seek(0, os.SEEK_END)
    locator = 20  # bytes; what stands before the end of a zip that is too large for the old format
    tail = END_OF_DIRECTORY.size + locator
    if length < tail:
        raise ValueError("it is cut short")
    file.seek(-tail, os.SEEK_END)
    before, end = file.read(locator), END_OF_DIRECTORY.unpack(file.read())
    magic, comment, directory = end[0], end[7], end[5]
    if magic != b"PK\5\6" or comment or before.startswith(b"PK\6\7") or directory > limits.directory:
        raise ValueError("its list of members is not that of a snapshot")


def _check_members(archive: zipfile.ZipFile, limits: Limits | None) -> set[str]:
    """Return the names of the arrays' members.

    Raises:
        ValueError: Two have one name, one is compressed, or they are larger than allowed.
    """
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
    """Write the arrays in `value` as members below `name`; return what `tree.json` says of it."""
    if isinstance(value, dict):
        return {key: _store(item, f"{name}/{key}".lstrip("/"), archive) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        member = f"{name}.npy"
        with archive.open(member, "w", force_zip64=True) as file:
            np.lib.format.write_array(file, value, allow_pickle=False)
        return {ARRAY: member}
    return value


def _restore(value: Any, archive: zipfile.ZipFile, unread: set[str]) -> Any:
    """Return `value` with the arrays that it names; what was read is no longer `unread`."""
    if not isinstance(value, dict):
        return value
    if ARRAY in value:
        unread.remove(value[ARRAY])  # An array that is named twice would be there twice.
        member = archive.getinfo(value[ARRAY])
        with archive.open(member) as file:
            _check_header(file, member)
        with archive.open(member) as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
            file.read()  # Reaching the end is what makes the zip check its sum.
            return array
    return {key: _restore(item, archive, unread) for key, item in value.items()}


def _check_header(file: IO[bytes], member: zipfile.ZipInfo) -> None:
    """Refuse an array whose shape is not that of the bytes that follow, before memory is taken for it.

    Raises:
        ValueError: It is so, or its values are not numbers.
    """
    magic, length = struct.unpack("<8sH", file.read(10))
    header = HEADER.fullmatch(file.read(min(length, LONGEST_HEADER)).decode("latin1"))
    if magic != b"\x93NUMPY\1\0" or header is None:
        raise ValueError(f"its array {member.filename!r} is not one of plain numbers")
    sizes = [int(size) for size in header["shape"].split(",") if size.strip()]
    if 10 + length + math.prod(sizes) * int(header["bytes"]) != member.file_size:
        raise ValueError(f"its array {member.filename!r} is not of the shape that it says")


def _files_beside(path: Path) -> str:
    """Return a hint: where a snapshot of this name was moved, else which others are in the folder."""
    run, _, rest = path.name.rpartition("_")
    aside = path.parent.glob(f"{glob.escape(run)}_before*_{glob.escape(rest)}")
    moved = [other for other in (path.parent / TRAINED / path.name, *aside) if other.is_file()]
    if moved:
        return f": did you mean {max(moved, key=_written)}?"
    there = sorted(p.name for p in path.parent.glob("*.pkl")) if path.parent.is_dir() else []
    if not there:
        return ": train first, with ./train.sh"
    more = f" and {len(there) - 5} more" if len(there) > 5 else ""
    return f": {path.parent} holds {', '.join(there[:5])}{more}"


def _written(path: Path) -> float:
    """Return when a file was written, in seconds; renaming it does not change that."""
    return path.stat().st_mtime
