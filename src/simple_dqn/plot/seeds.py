"""Runs that differ in their seed alone, taken together."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simple_dqn.statistics import Run
from simple_dqn.statistics.csv_reader import Numbers


def together(runs: Sequence[Run], phase: str, field: str) -> tuple[Numbers, Numbers]:
    """Return what rows of `phase` hold of `field`, run beside run.

    Returns:
        float64 [epochs]: The epochs in which a run has a value.
        float64 [epochs, runs]: Their values, NaN where a run has none.
    """
    curves = [dict(zip(*(part.tolist() for part in run.line(phase, field)), strict=True)) for run in runs]
    epochs = sorted(set().union(*curves))
    values = [[curve.get(epoch, np.nan) for curve in curves] for epoch in epochs]
    return np.array(epochs, np.float64), np.array(values, np.float64).reshape(len(epochs), len(runs))


def in_all(values: Numbers) -> NDArray[np.bool_]:
    """Return in which epochs all runs have a value, bool [epochs].

    A median over fewer would be of other runs than the median beside it: those that learn fast stop first.

    Args:
        values: float64 [epochs, runs], NaN where a run has none.
    """
    return np.asarray(~np.isnan(values).any(axis=1))


def beyond(epochs: Numbers, values: Numbers) -> list[tuple[Numbers, Numbers]]:
    """Return what is left of each run after the last epoch in which all have a value.

    Args:
        epochs: float64 [epochs].
        values: float64 [epochs, runs], NaN where a run has none.

    Returns:
        For each run that goes on, its epochs and finite values, float64 [values] each. They begin with the
        last epoch in which all runs have a value; where there is none, with the run's first.
    """
    shared = np.flatnonzero(in_all(values))
    last = int(shared[-1]) if len(shared) else 0
    rest = []
    for run in values[last:].T:
        present = ~np.isnan(run)
        if present[1:].any() or (present.any() and not len(shared)):
            rest.append((epochs[last:][present], run[present]))
    return rest
