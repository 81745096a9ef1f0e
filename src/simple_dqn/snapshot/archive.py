"""One nested dict of arrays and numbers as one file: a zip of `.npy` members and a `tree.json`.

Nothing in such a file is ever executed: numpy's reader refuses pickled objects, and JSON has none.
The zip's checksums tell a damaged member from a sound one.
"""

import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from simple_dqn.errors import UserError
from simple_dqn.files import replacing
from simple_dqn.types import State

TREE = "tree.json"  # the dict itself; an array in it is {"$array": name of its member}
ARRAY = "$array"
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


def write(path: Path, state: State) -> None:
    """Write `state` to `path`: beside it first, flushed to disk, then renamed over it.

    A crash at any moment leaves either the old file or the new one.

    Raises:
        UserError: The file cannot be written.
    """
    with replacing(path) as beside, zipfile.ZipFile(beside, "w", zipfile.ZIP_STORED) as archive:
        tree = _store(state, "", archive)
        archive.writestr(TREE, json.dumps(tree))


def read(path: Path) -> State:
    """Return the dict that `path` holds.

    Raises:
        UserError: The file is missing, damaged, or not one that `write` made.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            tree = json.loads(archive.read(TREE))
            state = _restore(tree, archive)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist{_files_beside(path)}") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except MALFORMED as error:
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"{path} is damaged, cut short, or no snapshot of Simple-DQN ({detail}): use another one"
        ) from None
    if not isinstance(state, dict):
        raise UserError(f"{path} is no snapshot of Simple-DQN: use another one")
    return state


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


def _restore(value: Any, archive: zipfile.ZipFile) -> Any:
    if not isinstance(value, dict):
        return value
    if ARRAY in value:
        with archive.open(value[ARRAY]) as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
            file.read()  # Reaching the end is what makes the zip check its sum.
            return array
    return {key: _restore(item, archive) for key, item in value.items()}


def _files_beside(path: Path) -> str:
    """Return a hint that names the snapshots in the same folder."""
    there = sorted(p.name for p in path.parent.glob("*.pkl")) if path.parent.is_dir() else []
    if not there:
        return ": train first, with ./train.sh"
    more = f" and {len(there) - 5} more" if len(there) > 5 else ""
    return f": {path.parent} holds {', '.join(there[:5])}{more}"
