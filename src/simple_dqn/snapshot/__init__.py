"""Snapshots and checkpoints: the files of a run, written completely or not at all, and read as data only.

Public are the `Snapshot` of a network to share, with `average`, `check_fits` and `check_layers`; the
`Checkpoint` that a run resumes from, in a `CheckpointFolder`; the `Keeper`, which writes both; names and lock
of a run's files (`run_files.py`); and `pack` and `unpack` for steps
of experience.
"""

from simple_dqn.snapshot.checkpoint import Checkpoint, CheckpointFolder
from simple_dqn.snapshot.experience_log import pack, unpack
from simple_dqn.snapshot.keeper import Keeper
from simple_dqn.snapshot.run_files import (
    checkpoint_folder,
    earlier_checkpoint_folders,
    first_to_last,
    locked,
    prefix_of,
    snapshots_after,
)
from simple_dqn.snapshot.snapshot import Snapshot, average, check_fits, check_layers

__all__ = [
    "Checkpoint",
    "CheckpointFolder",
    "Keeper",
    "Snapshot",
    "average",
    "check_fits",
    "check_layers",
    "checkpoint_folder",
    "earlier_checkpoint_folders",
    "first_to_last",
    "locked",
    "pack",
    "prefix_of",
    "snapshots_after",
    "unpack",
]
