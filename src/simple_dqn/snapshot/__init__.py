"""Snapshots and checkpoints: the files of a run, written completely or not at all, and read as data only.

Public are a network's weights to share (`Snapshot`, `average`, `check_fits`), the checkpoints that a run
resumes from (`Checkpoint`, `CheckpointFolder`), the `Keeper` that writes both, and the names and the lock of
a run's files.
"""

from simple_dqn.snapshot.checkpoint import Checkpoint, CheckpointFolder
from simple_dqn.snapshot.keeper import Keeper
from simple_dqn.snapshot.modification import Modification
from simple_dqn.snapshot.run_files import (
    checkpoint_folder,
    earlier_checkpoint_folders,
    first_to_last,
    locked,
    prefix_of,
    snapshots_after,
)
from simple_dqn.snapshot.snapshot import Snapshot, average, check_fits

__all__ = [
    "Checkpoint",
    "CheckpointFolder",
    "Keeper",
    "Modification",
    "Snapshot",
    "average",
    "check_fits",
    "checkpoint_folder",
    "earlier_checkpoint_folders",
    "first_to_last",
    "locked",
    "prefix_of",
    "snapshots_after",
]
