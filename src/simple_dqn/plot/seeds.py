"""Runs that differ in their seed alone, taken together."""

from collections.abc import Sequence

import numpy as np

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
