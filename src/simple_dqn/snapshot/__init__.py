"""Snapshots and checkpoints: the files of a run, written completely or not at all, and read as data only.

A `Snapshot` is a network to share. A `Checkpoint`, in a `CheckpointFolder`, has everything to resume a run.
The `Keeper` writes both.
"""

from simple_dqn.snapshot.checkpoint import (
    Checkpoint,
    CheckpointFolder,
    DamagedError,
    check_form,
    copied,
    pack,
    unpack,
)
from simple_dqn.snapshot.keeper import (
    Keeper,
    best_snapshot,
    checkpoint_folder,
    locked,
    prefix_of,
    snapshots_after,
)
from simple_dqn.snapshot.snapshot import MALFORMED, Snapshot, check_fits, check_layers, checked_settings

__all__ = [
    "MALFORMED", "Checkpoint", "CheckpointFolder", "DamagedError", "Keeper", "Snapshot", "best_snapshot",
    "check_fits", "check_form", "check_layers", "checked_settings", "checkpoint_folder", "copied", "locked",
    "pack", "prefix_of", "snapshots_after", "unpack",
]  # fmt: skip
