"""Snapshots: files with a network's weights, its game and its settings, small enough to share.

A snapshot, like a checkpoint, is an archive: a nested dict of arrays and numbers as a zip of `.npy` members
and a `tree.json`. Neither has objects, so that reading executes nothing. The zip's checksums reveal damage.
"""

import glob
import io
import json
import logging
import math
import os
import pickle
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from simple_dqn import __version__
from simple_dqn.config import BOOLEANS, LOCAL, SETTINGS, Config, as_word, layered, read
from simple_dqn.errors import UserError, printable, reason_in_file
from simple_dqn.files import PICKLES, TRAINED, ZIP, command, from_here, home, kind_of, open_file, replacing
from simple_dqn.rules import NETWORK_SHAPE
from simple_dqn.snapshot import neon
from simple_dqn.types import CheckpointState

logger = logging.getLogger(__name__)

FORMAT = "simple-dqn snapshot 1"
MOST_BYTES = 128 << 20  # of a snapshot; that of a Nature network has 7 MB
LONGEST_LIST, LONGEST_TREE = 64 << 10, 1 << 20  # bytes of a snapshot's list of members, and of `tree.json`
LONGEST_HEADER = 600  # bytes of the header of an array
TREE = "tree.json"  # the dict of an archive, in which an array is {"$array": name of its member}
ARRAY = "$array"
# Errors of malformed bytes, and of a state of another form.
MALFORMED = (
    ArithmeticError, AssertionError, AttributeError, BufferError, EOFError, LookupError, MemoryError,
    RuntimeError, SyntaxError, SystemError, TypeError, ValueError, pickle.PickleError, struct.error,
    tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
# A game's name or a Gymnasium id, but not `module:id`, for which Gymnasium would import a module.
GAME = re.compile(r"\w[\w.-]{0,99}(/\w[\w.-]{0,99})?")
LONGEST_WORD = 200
# Trained weights are below 10. Five layers of weights up to this limit cannot overflow a float32 at 84x84.
LARGEST_WEIGHT = 1e4


def write_archive(path: Path, state: CheckpointState) -> None:
    """Write `state` as an archive, completely or not at all (UserError); a link is replaced itself."""
    with replacing(path, follow=False) as beside, zipfile.ZipFile(beside, "w") as archive:
        archive.writestr(zipfile.ZipInfo(TREE), json.dumps(_store(state, "", archive)))  # without a date


def _store(value: Any, name: str, archive: zipfile.ZipFile) -> Any:
    """Write the arrays in `value` as members below `name`; return the value for `tree.json`."""
    if isinstance(value, dict):
        return {key: _store(item, f"{name}/{key}".lstrip("/"), archive) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array(file, value, allow_pickle=False)
        return {ARRAY: f"{name}.npy"}
    return value


def read_archive(file: BinaryIO, small: bool = False) -> CheckpointState:
    """Return the state in an archive, or raise one of `MALFORMED`; it takes no more memory than the file has.

    In a `small` archive the sizes of the list of members and of `tree.json`, from which objects are made, are
    limited; those of a checkpoint of thousands of games are large.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 42))  # the end record without a comment, after the locator of a ZIP64 archive
    zip64, end = file.read(20), file.read()
    if end[:4] != b"PK\5\6":
        raise zipfile.BadZipFile("it is cut off or damaged")
    *_, length, _, comment = struct.unpack("<4s4H2LH", end)
    if small and (zip64[:4] == b"PK\6\7" or length > LONGEST_LIST or comment):
        raise ValueError("its list of members is too long or has another format")
    with zipfile.ZipFile(file) as archive:
        members = {member.filename: member for member in archive.infolist()}
        plain = all(one.compress_size == one.file_size and not one.compress_type for one in members.values())
        if not plain or sum(info.file_size for info in archive.infolist()) > size:
            raise ValueError("its members are too large, or compressed")
        if len(members) < len(archive.infolist()) or (small and members[TREE].file_size > LONGEST_TREE):
            raise ValueError("two of its members have one name, or its tree.json is too long")
        del members[TREE]
        state = _restore(json.loads(archive.read(TREE)), archive, members)
    if members or not isinstance(state, dict):
        raise ValueError(f"nothing names its member {min(members, default=TREE)!r}")
    return state


def _restore(value: Any, archive: zipfile.ZipFile, unread: dict[str, zipfile.ZipInfo]) -> Any:
    """Return a value of `tree.json` with its arrays, which are removed from `unread`."""
    if not isinstance(value, dict):
        return value
    if ARRAY not in value:
        return {key: _restore(item, archive, unread) for key, item in value.items()}
    content = archive.read(unread.pop(value[ARRAY]))  # fails for a second reference to one array
    file = io.BytesIO(content)
    np.lib.format.read_magic(file)
    shape, by_columns, kind = np.lib.format.read_array_header_1_0(file, max_header_size=LONGEST_HEADER)
    if kind.kind not in "biuf" or min(shape, default=0) < 0:
        raise ValueError(f"its array {value[ARRAY]!r} does not have plain numbers")
    if math.prod(shape) == 0:
        return np.zeros(shape, kind)
    numbers = np.frombuffer(content, kind, offset=file.tell())
    return numbers.reshape(shape, order="F" if by_columns else "C").copy()


def quotable(error: Exception) -> str:
    """Return the message of `error` in one line of printable ASCII; it may quote any bytes of a file."""
    missing = " is missing" if isinstance(error, KeyError) else ""
    return ascii(reason_in_file(error) or type(error).__name__)[1:-1][:120] + missing


@dataclass(frozen=True)
class Snapshot:
    """A network's weights, and the game and settings that it was trained with."""

    game: str  # the game's name, such as "pong"
    epoch: int  # epochs of training behind the weights
    actions: int  # outputs of the network
    total_train_steps: int  # steps of training behind the weights
    flags: dict[str, Any]  # every setting of the run, by its flag's name
    weights: dict[str, np.ndarray]  # float32, by layer

    @property
    def fingerprint(self) -> int:
        """A checksum of epoch and weights, by which a checkpoint identifies the snapshot that it follows."""
        total = zlib.crc32(str(self.epoch).encode())
        for name in sorted(self.weights):
            total = zlib.crc32(self.weights[name].tobytes(), zlib.crc32(name.encode(), total))
        return total

    def check(self) -> None:
        """Raise UserError if `load` would refuse this snapshot, which a training must not write."""
        try:
            _checked(vars(self))
            size = sum(values.nbytes + LONGEST_HEADER for values in self.weights.values()) + LONGEST_TREE
            if size > MOST_BYTES:
                remedy = "lower --screen_width and --screen_height, or choose a smaller --network"
                raise ValueError(f"it would have {size:,} bytes, more than {MOST_BYTES:,}: {remedy}")
        except ValueError as error:
            raise UserError(f"no snapshot of this network can be written: {error}") from None

    def save(self, path: Path) -> None:
        """Write the snapshot to `path`, completely or not at all; raise UserError if that fails."""
        write_archive(path, {"format": FORMAT, "version": __version__, **vars(self)})

    @staticmethod
    def load(path: Path, game: str | None = None) -> "Snapshot":
        """Return the snapshot in `path`, in this project's format or Neon's, which its first bytes tell.

        A snapshot may come from a stranger: loading it executes nothing and limits its size. `game` is that
        of a Neon snapshot, which does not contain it; None: the file's name has it.

        Raises:
            UserError: The file is missing, damaged, too large, or not a snapshot.
        """
        if not kind_of(path):
            raise UserError(f"{path} does not exist{_files_beside(path)}")
        with open_file(path, MOST_BYTES, "give a snapshot, such as snapshots/pong_10.pkl") as file:
            try:
                start = file.read(300)
                file.seek(0)
                if start.startswith(PICKLES):
                    return _checked(neon.read(file.read(), path.name, game))
                if not start.startswith(ZIP):
                    raise UserError(f"{path} is not a snapshot: give one, such as snapshots/pong_10.pkl")
                if b"/data.pkl" in start:
                    remedy = "only dqn.sh --load reads it; give a snapshot of train.sh here"
                    raise UserError(f"{path} is a file of PyTorch's, as dqn.sh --save writes: {remedy}")
                content = read_archive(file, small=True)
                if content["format"] != FORMAT:
                    raise ValueError("it is an archive of another kind")
                return _checked(content)
            except (OSError, *MALFORMED) as error:
                damaged = isinstance(error, zipfile.BadZipFile)
                remedy = "copy or download it again" if damaged else "use another one"
                raise UserError(f"{path} cannot be used ({quotable(error)}): {remedy}") from None


def _checked(content: CheckpointState) -> Snapshot:
    """Return the snapshot with this content, which may be anything, or raise one of `MALFORMED`."""
    game, counts = content["game"], [content[name] for name in ("epoch", "actions", "total_train_steps")]
    if not (isinstance(game, str) and GAME.fullmatch(game)):
        raise ValueError("the name of its game is too long or has more than letters, digits, _, - and .")
    if any(type(count) is not int or not 0 <= count < 2**63 for count in counts) or not counts[1]:
        raise ValueError("its epoch, or its number of actions or of steps is not valid")
    epoch, actions, steps = counts
    settings = checked_settings(content["flags"])
    return Snapshot(game, epoch, actions, steps, settings, _weights(content["weights"]))


def checked_settings(given: Any, without: Container[str] = LOCAL) -> dict[str, Any]:
    """Return the settings in `given` but those in `without`, checked like flags, or raise ValueError.

    Settings unknown to this version are left out, with a line in the log.
    """
    values = {name: value for name, value in dict(given).items() if name not in without}
    for name, value in values.items():
        if not isinstance(value, bool | int | float | str | None) or len(str(value)) > LONGEST_WORD:
            raise ValueError(f"its setting {name} is neither a number nor a string")
    unknown = values.keys() - SETTINGS.keys() - BOOLEANS.keys()
    if used := sorted(name for name in unknown if values[name] and values[name] != "none"):
        unused = printable(", ".join(used))[:200]
        logger.warning("The snapshot has settings that this version does not have: %s", unused)
    try:
        return layered(read({name: value for name, value in values.items() if name not in unknown}))
    except UserError as error:
        raise ValueError(str(error)) from None


def _weights(arrays: Any) -> dict[str, NDArray[np.float32]]:
    """Return the weights as float32, or raise ValueError if a value could make the network overflow."""
    result = {}
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind != "f" or not array.size:
            raise ValueError(f"its weights {name!r} are not floats")
        # Batch normalization's running statistics have the size of its inputs.
        statistics = name.endswith(("running_mean", "running_var"))
        most = float(np.finfo(np.float32).max) if statistics else LARGEST_WEIGHT
        least = 0.0 if name.endswith("running_var") else -most
        if not (least <= float(array.min()) and float(array.max()) <= most):  # false if there is a NaN
            raise ValueError(f"its weights {name!r} hold NaN, infinity or values above {most:g}")
        result[name] = array.astype(np.float32, copy=False)
    return result


def check_fits(path: Path, snapshot: Snapshot, game: str, actions: int | None = None) -> None:
    """Raise UserError if a snapshot was trained on another game, or with another number of `actions`."""
    if snapshot.game != game:
        raise UserError(f"{path} was trained on {snapshot.game}, not on {game}: use a snapshot of {game}")
    if actions not in (None, snapshot.actions):
        was = snapshot.flags.get("minimal_action_set")  # absent from Neon snapshots
        raise UserError(
            f"{path} chooses among {snapshot.actions} actions and {game} is played with {actions} here: give "
            f"--minimal_action_set {'the value that it was trained with' if was is None else as_word(was)}"
        )


def check_layers(path: Path, snapshot: Snapshot, config: Config) -> None:
    """Raise UserError if, by the settings alone, the snapshot's weights do not fit `config`."""
    recorded, now = Config.from_flags(snapshot.flags).flags(), config.flags()
    names = [*NETWORK_SHAPE]
    names += {"c51": ["atoms"], "quantile": ["quantiles"]}.get(recorded["distributional"], [])
    if wrong := [name for name in names if recorded[name] != now[name]]:
        was, here = (
            " ".join(f"--{name} {as_word(settings[name])}" for name in wrong) for settings in (recorded, now)
        )
        raise UserError(f"{path} was trained with {was}, and does not fit {here}: give {was}")


def _files_beside(path: Path) -> str:
    """Return a hint for a missing file: a file of that name elsewhere, else the snapshots in its folder."""
    folders = (path.parent, path.parent / TRAINED, home() / "snapshots", home() / "snapshots" / TRAINED)
    run, _, epoch = glob.escape(path.stem).rpartition("_")  # a later run may have renamed it
    for pattern in (f"{glob.escape(path.stem)}.pkl", f"{run}_before*_{epoch}.pkl"):
        if found := [file for folder in folders for file in folder.glob(pattern)]:
            return f": did you mean {from_here(found[0])}?"
    for folder in folders[:2]:
        if there := sorted(file.name for file in folder.glob("*.pkl")):
            return f": {folder} holds {', '.join(there[:5])}"
    return f": train first, such as with {command('train', 'pong')}"
