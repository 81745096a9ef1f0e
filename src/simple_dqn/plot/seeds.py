"""Runs that differ in their seed alone, drawn as one: the median over them, and their range as a band."""

from collections.abc import Sequence

import numpy as np

from simple_dqn.plot.panels import (
    PHASE_COLOURS,
    PHASES,
    STYLES_ALONE,
    TITLES,
    WIDTHS,
    Band,
    Line,
    Panel,
    Plot,
    check_fields,
)
from simple_dqn.statistics import Run
from simple_dqn.statistics.csv_reader import Numbers


def make_seeds_plot(runs: Sequence[Run], fields: Sequence[str], name: str) -> Plot:
    """Return a plot of all `runs` as one, called `name`, with a panel for each of `fields`.

    Raises:
        UserError: A run has no such field.
    """
    check_fields(runs, fields)
    return Plot((name,), tuple(_panel(runs, field, name) for field in fields))


def _panel(runs: Sequence[Run], field: str, name: str) -> Panel:
    lines, bands = [], []
    for phase in PHASES:
        epochs, values = _together(runs, field, phase)
        if not len(epochs):
            continue
        if phase == "random":
            epochs, values = epochs[-1:], values[-1:]
        colour = PHASE_COLOURS[phase]
        low, middle, high = (reduce(values, axis=1) for reduce in (np.nanmin, np.nanmedian, np.nanmax))
        label = f"{phase.capitalize()}, median of {len(runs)}" if len(runs) > 1 else phase.capitalize()
        lines.append(Line(name, phase, label, epochs, middle, colour, STYLES_ALONE[phase], WIDTHS[phase]))
        if len(runs) > 1 and phase != "random":
            bands.append(Band(epochs, low, high, colour))
    return Panel(TITLES.get(field, field), tuple(lines), tuple(bands))


def _together(runs: Sequence[Run], field: str, phase: str) -> tuple[Numbers, Numbers]:
    """Return the epochs in which a run has a value, and all values [epochs, runs], NaN where it has none."""
    curves = [dict(zip(*(part.tolist() for part in run.line(phase, field)), strict=True)) for run in runs]
    epochs = sorted(set().union(*curves))
    values = [[curve.get(epoch, np.nan) for curve in curves] for epoch in epochs]
    return np.array(epochs, np.float64), np.array(values, np.float64).reshape(len(epochs), len(runs))
