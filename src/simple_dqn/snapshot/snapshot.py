"""Snapshots: files with a network's weights, its game and its settings, small enough to share."""

import logging
import re
import zlib
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simple_dqn import __version__
from simple_dqn.config import BOOLEANS, CLASS_FILE, GONE, Config, as_word, known, layered
from simple_dqn.conversion import read
from simple_dqn.errors import UserError
from simple_dqn.files import ZIP, is_snapshot, kind_of
from simple_dqn.rules import NETWORK_SHAPE, differing
from simple_dqn.snapshot import archive, neon
from simple_dqn.types import CheckpointState

FORMAT = "simple-dqn snapshot 1"
SHARED = archive.Limits(members=128 << 20, tree=1 << 20, directory=64 << 10)  # a Nature network takes 7 MB
# A game's name or a Gymnasium id, but not `module:id`, for which Gymnasium would import a module.
GAME = re.compile(r"\w[\w.-]{0,63}(/\w[\w.-]{0,63})?", re.ASCII)
logger = logging.getLogger(__name__)
LONGEST_WORD = 200
LOCAL = {name for name, (one, *_) in known().items() if one.metadata.get("local")}  # settings of one machine
# Trained weights are below 10. Five layers of weights up to this limit cannot overflow a float32 at 84x84.
LARGEST_WEIGHT = 1e4


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
    def weights_sum(self) -> int:
        """A checksum of the weights."""
        total = 0
        for name in sorted(self.weights):
            total = zlib.crc32(self.weights[name].tobytes(), zlib.crc32(name.encode(), total))
        return total

    def save(self, path: Path) -> None:
        """Write the snapshot to `path`, completely or not at all.

        Raises:
            UserError: The file cannot be written.
        """
        archive.write(path, {"format": FORMAT, "version": __version__, **vars(self)})

    @staticmethod
    def load(path: Path, game: str | None = None) -> "Snapshot":
        """Return the snapshot in `path`, in this project's format or Neon's, which its first bytes tell.

        A snapshot may come from a stranger: loading it executes nothing and limits its size.

        Args:
            path: The file.
            game: The game of a Neon snapshot, which does not contain it; None: the file's name has it.

        Raises:
            UserError: The file is missing, damaged, too large, or not a snapshot.
        """
        content = _read(path, game)
        try:
            return Snapshot(
                game=_game(content["game"]),
                epoch=_count(content["epoch"], "epoch"),
                actions=_count(content["actions"], "number of actions", least=1),
                total_train_steps=_count(content["total_train_steps"], "number of steps"),
                flags=checked_settings(content["flags"]),
                weights=_weights(content["weights"]),
            )
        except KeyError as error:
            raise UserError(f"{path} is not a snapshot ({error} is missing): use another one") from None
        except (TypeError, ValueError, AttributeError) as error:
            reason = archive.quotable(error)
            raise UserError(f"{path} cannot be used ({reason}): use another one") from None


def _read(path: Path, game: str | None) -> CheckpointState:
    """Return the unchecked content of the file."""
    try:
        if kind_of(path) not in ("file", ""):
            raise UserError(f"{path} is not a file: give a snapshot, such as snapshots/pong_10.pkl")
        with path.open("rb") as file:
            magic = file.read(len(ZIP))
    except OSError as error:
        raise archive.unreadable(path, error) from None
    if not is_snapshot(path):
        raise UserError(f"{path} is not a snapshot: give one, such as snapshots/pong_10.pkl")
    if magic != ZIP:
        return neon.read(path, game)
    content = archive.read(path, SHARED)
    if content.get("format") != FORMAT:
        raise UserError(f"{path} is a {str(content.get('format'))[:80]!r}, not a {FORMAT!r}: use another one")
    return content


def _game(name: Any) -> str:
    if not isinstance(name, str) or not GAME.fullmatch(name):
        raise ValueError("the name of its game is not valid")
    return name


def _count(number: Any, name: str, least: int = 0) -> int:
    if type(number) is not int or not least <= number < 2**63:
        raise ValueError(f"its {name} is not a whole number of at least {least}")
    return number


def checked_settings(given: Any, without: Container[str] = LOCAL) -> dict[str, Any]:
    """Return the settings in `given` but those in `without`, checked like flags on the command line.

    Settings unknown to this version are left out, with a line in the log.

    Raises:
        ValueError: One of them is not valid.
    """
    values = {name: value for name, value in dict(given).items() if name not in without}
    for name, value in values.items():
        if not isinstance(value, bool | int | float | str | None) or len(str(value)) > LONGEST_WORD:
            raise ValueError(f"its setting {name} is neither a number nor a string")
    if unknown := sorted(name for name in values if not (name in known() or name in {*BOOLEANS, *GONE})):
        logger.warning("The snapshot has settings that this version does not have: %s", ", ".join(unknown))
    try:
        return layered(read({name: value for name, value in values.items() if name not in {*unknown, *GONE}}))
    except UserError as error:
        raise ValueError(str(error)) from None


def _weights(arrays: Any) -> dict[str, NDArray[np.float32]]:
    """Return the weights as float32, and empty the dict `arrays`, so that no array is in memory twice."""
    names, result = list(arrays), {}
    for name in names:
        array = arrays.pop(name)
        if not isinstance(array, np.ndarray) or array.dtype.kind != "f" or not array.size:
            raise ValueError(f"its weights {name!r} are not floats")
        variance = name.endswith("running_var")  # of batch normalisation, which divides by its square root
        least, most = (0.0, np.inf) if variance else (-LARGEST_WEIGHT, LARGEST_WEIGHT)
        # With a NaN in the array, the minimum is NaN and the comparison is false.
        if not (least <= array.min() and array.max() <= most and array.max() < np.inf):
            raise ValueError(
                f"its weights {name!r} hold NaN, infinity or values too large for a trained network"
            )
        result[name] = array.astype(np.float32, copy=False)
    return result


def check_fits(path: Path, snapshot: Snapshot, game: str, actions: int | None = None) -> None:
    """Check that a snapshot was trained on `game`, with this number of `actions` if it is known.

    Raises:
        UserError: It was trained on another game, or with other actions.
    """
    if snapshot.game != game:
        raise UserError(f"{path} was trained on {snapshot.game}, not on {game}: use a snapshot of {game}")
    if actions not in (None, snapshot.actions):
        was = snapshot.flags.get("minimal_action_set")  # absent from Neon snapshots
        told = "the value that it was trained with" if was is None else as_word(was)
        raise UserError(
            f"{path} chooses among {snapshot.actions} actions and {game} is played with {actions} here: "
            f"give --minimal_action_set {told}"
        )


def check_layers(path: Path, snapshot: Snapshot, config: Config) -> None:
    """Check, from the settings alone, that the weights of a snapshot fit the network that `config` describes.

    Raises:
        UserError: They do not; the message names the flags.
    """
    recorded, now = Config.from_flags(snapshot.flags).flags(), config.flags()
    own = CLASS_FILE.fullmatch(now["environment"])  # such a class may set the size of its screens
    names = [name for name in NETWORK_SHAPE if not (own and name.startswith("screen_"))]
    names += {"c51": ["atoms"], "quantile": ["quantiles"]}.get(recorded["distributional"], [])
    if wrong := differing(names, recorded, now):
        was, here = (
            " ".join(f"--{name} {as_word(settings[name])}" for name in wrong) for settings in (recorded, now)
        )
        raise UserError(f"{path} was trained with {was}, and does not fit {here}: give {was}")
