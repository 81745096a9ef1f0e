"""A figure as data: a panel for each field, with a line for each phase of each run.

Runs with the same name are seeds of one setting and are drawn together: their median, and a band from the
lowest to the highest value, in the epochs in which all have values. The rest of each run is a thin line.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simple_dqn.errors import UserError
from simple_dqn.statistics import Run
from simple_dqn.statistics.csv_reader import Column


class Axis(NamedTuple):
    """A horizontal axis."""

    label: str
    column: str  # of the CSV
    unit: float = 1.0  # the value of the column that is 1 on the axis
    limits: tuple[float, float] | None = None  # None: those of the values


AXES = {
    "epoch": Axis("Epoch", "epoch"),
    "steps": Axis("Training steps", "total_train_steps"),
    "minutes": Axis("Minutes", "total_time", 60.0),
    "hours": Axis("Hours", "total_time", 3600.0),
}
TITLES = {
    "epoch": "Epoch",
    "steps": "Number of steps",
    "nr_games": "Number of games",
    "average_reward": "Average reward",
    "min_game_reward": "Min. game reward",
    "max_game_reward": "Max. game reward",
    "last_exploration_rate": "Exploration rate",
    "total_train_steps": "Exploration steps",
    "replay_memory_count": "Replay memory size",
    "meanq": "Average Q-value",
    "meancost": "Average loss",
    "weight_updates": "Number of weight updates",
    "total_time": "Total time elapsed",
    "epoch_time": "Epoch time",
    "steps_per_second": "Number of steps per second",
}

PHASES = ("random", "train", "test")
# Several runs have different colours, and their phases different styles; the phases of a single run have
# different colours.
COLOURS = (
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd",
    "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf",
)  # fmt: skip
PHASE_COLOURS = {"random": "#7f7f7f", "train": COLOURS[0], "test": COLOURS[1]}
REFERENCE_COLOURS = ("#2ca02c", "#7f7f7f", "#9467bd", "#8c564b")
STYLES = {"random": "dotted", "train": "dashed", "test": "solid"}
STYLES_ALONE = {"random": "dotted", "train": "solid", "test": "solid"}
WIDTHS = {"random": 1.8, "train": 1.5, "test": 2.2}  # in points
STRETCHES = 5_000  # of the points of a line: more than a figure has pixels in width
THIN = 0.6  # in points: the line of a single run beside those of medians


@dataclass(frozen=True)
class Line:
    """A curve, such as one phase of one run, or a level from edge to edge."""

    label: str  # the same in every panel; single runs of one setting share it
    x: Column  # float64 [values]; empty for a level
    values: Column  # float64 [values], finite; one value if it is a level
    colour: str  # as in HTML
    style: str  # solid, dashed, dotted or dashdot
    width: float  # in points
    place: int = 0  # in the legend
    low: Column | None = None  # float64 [values], with `high` the band around a curve; None: no band
    high: Column | None = None


@dataclass(frozen=True)
class Panel:
    """One field of all runs; `lines` is empty before there are values."""

    title: str
    lines: tuple[Line, ...]
    axis: Axis = AXES["epoch"]
    rows: tuple[str, ...] = ()  # names of the heights 0, 1, ... in place of numbers


@dataclass(frozen=True)
class Plot:
    """The panels of one figure."""

    names: tuple[str, ...]  # of all runs compared, including those without values yet
    panels: tuple[Panel, ...]
    title: str = ""

    @property
    def grid(self) -> tuple[int, int]:
        """The rows and columns of a near-square grid of the panels."""
        columns = math.ceil(math.sqrt(len(self.panels)))
        return math.ceil(len(self.panels) / columns), columns

    @property
    def legend(self) -> list[str]:
        """The labels of all lines, in the order of runs and phases."""
        lines = sorted((line for panel in self.panels for line in panel.lines), key=lambda line: line.place)
        return list(dict.fromkeys(line.label for line in lines))


@dataclass(frozen=True)
class View:
    """How runs are drawn."""

    fields: Sequence[str] = ("average_reward", "meanq", "nr_games", "meancost")
    phases: Sequence[str] = PHASES
    axis: Axis = AXES["epoch"]
    smooth: int = 1  # points in the moving mean
    levels: Mapping[str, float] | None = None  # label -> reference score, in raw game points
    title: str = ""


def colour_of(place: int) -> str:
    """Return the colour of the run or setting in this `place`."""
    return COLOURS[place % len(COLOURS)]


def make_plot(runs: Sequence[Run], names: Sequence[str], view: View) -> Plot:
    """Return a plot with a panel for each field.

    Args:
        runs: The runs that have values.
        names: The names of all runs compared, so that each has the same colour while others are missing.
        view: The fields, the axis and the smoothing.

    Raises:
        UserError: A run lacks a field.
    """
    for run in runs:
        for field in (*view.fields, view.axis.column):
            if field not in run.columns:
                raise UserError(
                    f"there is no field {field!r} in {run.name}: choose among {', '.join(run.columns)}"
                )
    return Plot(tuple(names), tuple(_panel(runs, field, names, view) for field in view.fields), view.title)


def _panel(runs: Sequence[Run], field: str, names: Sequence[str], view: View) -> Panel:
    lines = []
    for place, name in enumerate(names):
        seeds = [run for run in runs if run.name == name]
        for phase in view.phases:
            x, values = aligned(seeds, phase, field, view)
            if not len(values):
                continue
            label, style, colour = phase.capitalize(), STYLES_ALONE[phase], PHASE_COLOURS[phase]
            if len(names) > 1:
                one_phase = len(view.phases) == 1
                label = name if one_phase else f"{name} {label}"
                style, colour = STYLES_ALONE[phase] if one_phase else STYLES[phase], colour_of(place)
            order = place * len(PHASES) + PHASES.index(phase)
            look = Line(label, x[:, 0], values[:, 0], colour, style, WIDTHS[phase], order)
            if phase == "random":
                lines.append(_level(look, values))
            elif len(seeds) == 1:
                lines.append(look)
            else:
                lines += _median_and_rest(look, x, values)
    if field == "average_reward":
        end, levels = len(names) * len(PHASES), (view.levels or {}).items()
        for (label, level), colour in zip(levels, REFERENCE_COLOURS, strict=False):
            lines.append(Line(label, np.empty(0), np.array([level]), colour, "dashdot", 1.2, end))
    return Panel(TITLES.get(field, field), tuple(map(thinned, lines)), view.axis)


def thinned(line: Line) -> Line:
    """Return `line` with few enough points to draw; it covers the same pixels.

    Of each stretch of points, narrower than a pixel, those with the lowest and highest values are kept.
    """
    count = len(line.x)
    if count <= 4 * STRETCHES:
        return line
    kept, size = {0, count - 1}, -(-count // STRETCHES)
    for heights in (line.values, line.low, line.high):
        if heights is None:
            continue
        padded = np.pad(heights, (0, -count % size), mode="edge").reshape(-1, size)
        for places in (padded.argmin(axis=1), padded.argmax(axis=1)):
            kept.update(np.minimum(places + size * np.arange(len(padded)), count - 1).tolist())
    at = np.array(sorted(kept))
    low, high = (None if one is None else one[at] for one in (line.low, line.high))
    return replace(line, x=line.x[at], values=line.values[at], low=low, high=high)


def _level(look: Line, values: Column) -> Line:
    """Return the level of random play: the median of the runs' latest `values` [epochs, runs]."""
    latest = [run[~np.isnan(run)][-1] for run in values.T if not np.isnan(run).all()]
    label = f"{look.label}, median of {len(latest)}" if len(latest) > 1 else look.label
    return replace(look, label=label, x=np.empty(0), values=np.array([np.median(latest)]))


def _median_and_rest(look: Line, x: Column, values: Column) -> list[Line]:
    """Return the median and range of several runs where all have values, and a thin line for each run's rest.

    The rest begins at the last epoch in which all runs have a value, or at the beginning if there is none.

    Args:
        look: The label, colour and style of the lines.
        x: float64 [epochs, runs], positions on the axis.
        values: float64 [epochs, runs], NaN where a run has no value.
    """
    shared, lines = np.flatnonzero(complete(values)), []
    if len(shared):
        label = f"{look.label}, median and range of {values.shape[1]}"
        both, middle = values[shared], np.median(x[shared], axis=1)
        low, median, high = both.min(axis=1), np.median(both, axis=1), both.max(axis=1)
        lines.append(replace(look, label=label, x=middle, values=median, low=low, high=high))
    thin = replace(look, label=f"{look.label}, single runs", style="solid", width=THIN)
    first = shared[-1] if len(shared) else 0
    for run_x, run in zip(x[first:].T, values[first:].T, strict=True):
        present = ~np.isnan(run)
        if present[1:].any() or (present.any() and not len(shared)):
            lines.append(replace(thin, x=run_x[present], values=run[present]))
    return lines


def aligned(runs: Sequence[Run], phase: str, field: str, view: View = View()) -> tuple[Column, Column]:
    """Return the values of `field` in the rows of `phase`, one row per epoch and one column per run.

    Returns:
        float64 [epochs, runs]: The position of each value on the axis.
        float64 [epochs, runs]: The values, smoothed along each run. Both are NaN where a run has no value.
    """
    curves = [_curve(run, phase, field, view) for run in runs]
    epochs = np.unique(np.concatenate([epochs for epochs, _, _ in curves] or [np.zeros(0)]))
    both = np.full((2, len(epochs), len(runs)), np.nan)
    for place, (at, x, means) in enumerate(curves):
        both[:, np.searchsorted(epochs, at), place] = x, means
    return both[0], both[1]


def _curve(run: Run, phase: str, field: str, view: View) -> tuple[Column, Column, Column]:
    """Return the epochs, the positions on the axis and the means of the latest `view.smooth` values."""
    there = (run.phases == phase) & np.isfinite(run.columns[field])
    values, x = run.columns[field][there], run.columns[view.axis.column][there] / view.axis.unit
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(0, ends - view.smooth)
    means = values if view.smooth == 1 else (sums[ends] - sums[begins]) / (ends - begins)
    placed = np.isfinite(x) & np.isfinite(run.columns["epoch"][there])
    return run.columns["epoch"][there][placed], x[placed], means[placed]


def complete(values: Column) -> NDArray[np.bool_]:
    """Return, for each epoch, whether all runs have one of the `values` [epochs, runs]; bool [epochs].

    Runs that learn fast may stop first, and the median of the others would be that of a different sample.
    """
    return np.asarray(~np.isnan(values).any(axis=1))
