"""Where a run's snapshots and its checkpoint lie, and when each is replaced."""

import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.files import replacing
from simple_dqn.snapshot.checkpoint import Checkpoint
from simple_dqn.snapshot.snapshot import Snapshot
from simple_dqn.types import State

logger = logging.getLogger(__name__)


class Keeper:
    """Writes `<prefix>_<epoch>.pkl` after each epoch, and the folder `<prefix>_checkpoint` beside them."""

    def __init__(self, prefix: Path, game: str, actions: int, config: Config) -> None:
        """Check that the folder can be written.

        Raises:
            UserError: It cannot.
        """
        self.prefix = prefix
        self.checkpoint = checkpoint_of(prefix)
        self._game, self._actions, self._config = game, actions, config
        try:
            with replacing(prefix.with_name(f".{prefix.name}_trial")) as trial:
                trial.touch()
            prefix.with_name(f".{prefix.name}_trial").unlink()
        except UserError as error:
            reason = str(error).rpartition(": ")[2]
            raise UserError(
                f"snapshots cannot be written to {prefix.parent}: {reason}; "
                "make it writable or give another --save_weights_prefix"
            ) from None

    def keep_weights(self, epoch: int, total_train_steps: int, weights: Mapping[str, np.ndarray]) -> Path:
        """Write the snapshot of `epoch`, and return its path.

        Raises:
            UserError: It cannot be written.
        """
        path = self.prefix.with_name(f"{self.prefix.name}_{epoch}.pkl")
        logger.info("Saving weights to %s", path)
        flags = self._config.shared_flags()
        Snapshot(self._game, epoch, self._actions, total_train_steps, flags, dict(weights)).save(path)
        return path

    def keep_run(self, run: State, memory: State | None) -> None:
        """Replace the checkpoint; a `memory` of None is the one kept before.

        Raises:
            UserError: It cannot be written.
        """
        self.checkpoint.save({"flags": self._config.flags(), **run}, memory)


def checkpoint_of(prefix: Path) -> Checkpoint:
    """Return the checkpoint that belongs to snapshots called `<prefix>_<epoch>.pkl`."""
    return Checkpoint(prefix.with_name(f"{prefix.name}_checkpoint"))
