"""Snapshots and checkpoints: the files of a run, written completely or not at all, and read as data only.

A `Snapshot` is a network to share. A `Checkpoint`, in a `CheckpointFolder`, has everything to resume a run.
The `Keeper` writes both.
"""

from simple_dqn.snapshot.checkpoint import Checkpoint, CheckpointFolder
from simple_dqn.snapshot.experience_log import pack, unpack
from simple_dqn.snapshot.keeper import Keeper, copied
from simple_dqn.snapshot.run_files import (
    checkpoint_folder,
    earlier_checkpoint_folders,
    first_to_last,
    locked,
    prefix_of,
    snapshots_after,
)
from simple_dqn.snapshot.snapshot import Snapshot, check_fits, check_layers

__all__ = [
    "Checkpoint",
    "CheckpointFolder",
    "Keeper",
    "Snapshot",
    "check_fits",
    "check_layers",
    "checkpoint_folder",
    "copied",
    "earlier_checkpoint_folders",
    "first_to_last",
    "locked",
    "pack",
    "prefix_of",
    "snapshots_after",
    "unpack",
]
