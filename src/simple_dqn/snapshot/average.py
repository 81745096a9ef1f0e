"""One network out of several of the same run: the mean of their weights.

Izmailov et al. 2018, "Averaging weights leads to wider optima and better generalization", algorithm 1. Late
in a run each update moves the weights this way and that, and what one snapshot plays better than the next is
chance. Their mean is what they move around.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from simple_dqn.errors import UserError
from simple_dqn.snapshot.snapshot import Snapshot


def average(snapshots: Iterable[tuple[Path, Snapshot]]) -> Snapshot:
    """Return a snapshot with the mean of all weights, and all else as in the one that learnt longest.

    Snapshots are drawn one after the other, so that two at most are in memory beside the sums.

    Args:
        snapshots: At least one file and what is in it; they must be networks of one shape, of one game.

    Raises:
        UserError: Which file does not belong to the first, or cannot be averaged.
    """
    drawn = iter(snapshots)
    path, latest = next(drawn)
    _check_can_be_averaged(path, latest)
    sums = {name: weights.astype(np.float64) for name, weights in latest.weights.items()}
    count = 1
    for path, snapshot in drawn:
        _check_belongs(path, snapshot, latest)
        for name, weights in snapshot.weights.items():
            sums[name] += weights
        count += 1
        if snapshot.total_train_steps > latest.total_train_steps:
            latest = snapshot
    means = {name: (weights / count).astype(np.float32) for name, weights in sums.items()}
    return replace(latest, weights=means)


def _check_can_be_averaged(path: Path, snapshot: Snapshot) -> None:
    """Refuse batch normalisation: the means and variances that it has seen are those of one network alone."""
    if any(name.endswith("running_var") for name in snapshot.weights):
        raise UserError(f"{path} has batch normalisation, which cannot be averaged: use one snapshot alone")


def _check_belongs(path: Path, snapshot: Snapshot, first: Snapshot) -> None:
    """Refuse a network of another game or shape."""
    if snapshot.game != first.game:
        raise UserError(f"{path} was trained on {snapshot.game}, not on {first.game}: average one game's")
    shapes = {name: weights.shape for name, weights in snapshot.weights.items()}
    if shapes != {name: weights.shape for name, weights in first.weights.items()}:
        raise UserError(f"{path} is not of the same layers as the first: average snapshots of one run")
