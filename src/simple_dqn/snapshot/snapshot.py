"""The small file to share: a network's weights and all that is needed to use them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simple_dqn import __version__
from simple_dqn.errors import UserError
from simple_dqn.snapshot import archive

FORMAT = "simple-dqn snapshot 1"


@dataclass(frozen=True)
class Snapshot:
    """Weights, and the game and settings that they were learnt with."""

    game: str  # the game's name, such as "pong"
    epoch: int  # epochs of training behind the weights
    actions: int  # outputs of the network
    total_train_steps: int  # steps of training behind the weights
    flags: dict[str, Any]  # every setting of the run, by its flag's name
    weights: dict[str, np.ndarray]  # float32, by layer

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
                "weights": dict(self.weights),
            },
        )

    @staticmethod
    def load(path: Path) -> "Snapshot":
        """Return the snapshot in `path`.

        Raises:
            UserError: The file is missing, damaged, or something else.
        """
        content: Any = archive.read(path)
        try:
            if content["format"] != FORMAT:
                raise UserError(f"{path} is a {content['format']!r}, not a {FORMAT!r}: use another one")
            return Snapshot(
                game=str(content["game"]),
                epoch=int(content["epoch"]),
                actions=int(content["actions"]),
                total_train_steps=int(content["total_train_steps"]),
                flags=dict(content["flags"]),
                weights={name: np.asarray(array) for name, array in content["weights"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(f"{path} is no snapshot of Simple-DQN ({error}): use another one") from None


def check_fits(path: Path, snapshot: Snapshot, game: str, actions: int) -> None:
    """Refuse a snapshot that was not learnt on this game with these actions.

    Raises:
        UserError: Which of the two differs.
    """
    if snapshot.game != game:
        raise UserError(f"{path} was trained on {snapshot.game}, not on {game}: use a snapshot of {game}")
    if snapshot.actions != actions:
        raise UserError(
            f"{path} chooses among {snapshot.actions} actions and {game} is played with {actions} here: "
            "give --minimal_action_set as it was when the snapshot was trained"
        )
