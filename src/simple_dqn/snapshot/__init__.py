"""Snapshots and checkpoints: the files of a run, written completely or not at all, and read as data only.

A `Snapshot` is a network to share. A `Checkpoint`, in a `CheckpointFolder`, has everything to resume a run.
The `Saver` writes both.
"""

from simple_dqn.snapshot.checkpoint import Checkpoint, CheckpointFolder, DamagedError, pack, unpack
from simple_dqn.snapshot.saver import Saver, checkpoint_folder, locked, prefix_of, snapshots_after
from simple_dqn.snapshot.snapshot import MALFORMED, Snapshot, check_fits, check_layers, checked_settings

__all__ = [
    "MALFORMED", "Checkpoint", "CheckpointFolder", "DamagedError", "Saver", "Snapshot", "check_fits",
    "check_layers", "checked_settings", "checkpoint_folder", "locked", "pack", "prefix_of", "snapshots_after",
    "unpack",
]  # fmt: skip
