"""Snapshots: what a run leaves on disk, written whole or not at all, read as data and never as code."""

from simple_dqn.snapshot.checkpoint import Checkpoint
from simple_dqn.snapshot.keeper import Keeper, checkpoint_of
from simple_dqn.snapshot.snapshot import Snapshot, check_fits

__all__ = ["Checkpoint", "Keeper", "Snapshot", "check_fits", "checkpoint_of"]
