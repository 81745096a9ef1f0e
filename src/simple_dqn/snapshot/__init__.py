"""Snapshots: what a run leaves on disk, written whole or not at all, read as data and never as code."""

from simple_dqn.snapshot.aside import folders_aside, in_words, snapshots_after
from simple_dqn.snapshot.average import average
from simple_dqn.snapshot.checkpoint import Checkpoints, Saved
from simple_dqn.snapshot.claim import checkpoint_folder, claimed, prefix_of
from simple_dqn.snapshot.keeper import Keeper
from simple_dqn.snapshot.modification import Modification
from simple_dqn.snapshot.snapshot import Snapshot, check_fits

__all__ = [
    "Checkpoints",
    "Keeper",
    "Modification",
    "Saved",
    "Snapshot",
    "average",
    "check_fits",
    "checkpoint_folder",
    "claimed",
    "folders_aside",
    "in_words",
    "prefix_of",
    "snapshots_after",
]
