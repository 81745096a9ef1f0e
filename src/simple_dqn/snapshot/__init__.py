"""Snapshots and checkpoints: the files of a run, written completely or not at all, and read as data only.

A `Snapshot` is a network to share. A `Checkpoint`, in a `CheckpointFolder`, has everything to resume a run.
The `Keeper` writes both.
"""

from simple_dqn.snapshot.checkpoint import (
    MALFORMED,
    Checkpoint,
    CheckpointFolder,
    DamagedError,
    check_form,
    log_damage,
)
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
from simple_dqn.snapshot.snapshot import Snapshot, check_fits, check_layers, checked_settings

__all__ = [
    "MALFORMED",
    "Checkpoint",
    "CheckpointFolder",
    "DamagedError",
    "Keeper",
    "Snapshot",
    "check_fits",
    "check_form",
    "check_layers",
    "checked_settings",
    "checkpoint_folder",
    "copied",
    "earlier_checkpoint_folders",
    "first_to_last",
    "locked",
    "log_damage",
    "pack",
    "prefix_of",
    "snapshots_after",
    "unpack",
]
