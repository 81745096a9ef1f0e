"""The small file to share: a network's weights and all that is needed to use them."""

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simple_dqn import __version__
from simple_dqn.errors import UserError
from simple_dqn.flags import as_word
from simple_dqn.snapshot import archive, contents, neon
from simple_dqn.snapshot.modification import Modification, from_record, record_of
from simple_dqn.types import CheckpointState

FORMAT = "simple-dqn snapshot 1"
ZIP = b"PK\3\4"  # what our own files begin with
SHARED = archive.Limits(members=128 << 20, tree=1 << 20, directory=64 << 10)  # a Nature network takes 7 MB


@dataclass(frozen=True)
class Snapshot:
    """Weights, and the game and settings that they were learnt with."""

    game: str  # the game's name, such as "pong"
    epoch: int  # epochs of training behind the weights
    actions: int  # outputs of the network
    total_train_steps: int  # steps of training behind the weights
    flags: dict[str, Any]  # every setting of the run, by its flag's name
    weights: dict[str, np.ndarray]  # float32, by layer
    modification: Modification | None = None  # what the run that wrote it was made with, beside the flags

    @property
    def weights_sum(self) -> int:
        """A number that tells these weights from others, however they lie in memory."""
        total = 0
        for name in sorted(self.weights):
            total = zlib.crc32(self.weights[name].tobytes(), zlib.crc32(name.encode(), total))
        return total

    def save(self, path: Path) -> None:
        """Write the snapshot to `path`, whole or not at all.

        Raises:
            UserError: The file cannot be written.
        """
        archive.write(
            path,
            {
                "format": FORMAT,
                "version": __version__,
                "game": self.game,
                "epoch": self.epoch,
                "actions": self.actions,
                "total_train_steps": self.total_train_steps,
                "flags": dict(self.flags),
                "modification": record_of(self.modification),
                "weights": dict(self.weights),
            },
        )

    @staticmethod
    def load(path: Path, game: str | None = None) -> "Snapshot":
        """Return the snapshot in `path`, one of ours or one of Neon's; the content tells, not the name.

        Nothing in the file is run, and what it asks for is bounded: a snapshot may come from a stranger.

        Args:
            path: The file.
            game: The game of one of Neon's, which does not say it; without, the file's name does.

        Raises:
            UserError: The file is missing, damaged, too large, unsound, or something else.
        """
        content = _read(path, game)
        try:
            return Snapshot(
                game=contents.game(content["game"]),
                epoch=contents.count(content["epoch"], "epoch"),
                actions=contents.count(content["actions"], "number of actions", least=1),
                total_train_steps=contents.count(content["total_train_steps"], "number of steps"),
                flags=contents.settings(content["flags"]),
                weights=contents.weights(content["weights"]),
                modification=from_record(content.get("modification")),  # older files have none
            )
        except KeyError as error:
            raise UserError(f"{path} is no snapshot ({error} is missing): use another one") from None
        except (TypeError, ValueError, AttributeError) as error:
            reason = archive.one_line(error)
            raise UserError(f"{path} cannot be used ({reason}): use another one") from None


def _read(path: Path, game: str | None) -> CheckpointState:
    """Return what the file says, unchecked.

    Raises:
        UserError: It cannot be read, or is no snapshot.
    """
    try:
        if path.exists() and not path.is_file():
            raise UserError(f"{path} is not a file: give a snapshot, such as snapshots/pong_10.pkl")
        with path.open("rb") as file:
            magic = file.read(len(ZIP))
    except OSError as error:
        raise archive.unreadable(path, error) from None
    if magic != ZIP:
        return neon.read(path, game)
    content = archive.read(path, SHARED)
    if content.get("format") != FORMAT:
        raise UserError(f"{path} is a {str(content.get('format'))[:80]!r}, not a {FORMAT!r}: use another one")
    return content


def check_fits(path: Path, snapshot: Snapshot, game: str, actions: int) -> None:
    """Refuse a snapshot that was not learnt on this game with these actions.

    Raises:
        UserError: Which of the two differs.
    """
    if snapshot.game != game:
        raise UserError(f"{path} was trained on {snapshot.game}, not on {game}: use a snapshot of {game}")
    if snapshot.actions != actions:
        was = snapshot.flags.get("minimal_action_set")  # which Neon's do not say
        told = "as it was when the snapshot was trained" if was is None else as_word(was)
        raise UserError(
            f"{path} chooses among {snapshot.actions} actions and {game} is played with {actions} here: "
            f"give --minimal_action_set {told}"
        )
