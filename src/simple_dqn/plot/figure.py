"""A figure: as data, with a panel for each field and a line for each phase of each run, and as a picture.

Runs with the same name are seeds of one setting and are drawn together: their median, and a band from the
lowest to the highest value, in the epochs in which all have values. The rest of each run is a thin line.
matplotlib is imported when a picture is drawn: that takes a second.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simple_dqn.errors import UserError
from simple_dqn.files import replacing
from simple_dqn.statistics.csv_file import Column, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


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
# Titles of fields; the others have their names.
TITLES = {
    "steps": "Number of steps", "nr_games": "Number of games", "total_train_steps": "Exploration steps",
    "last_exploration_rate": "Exploration rate", "meanq": "Average Q-value", "meancost": "Average loss",
}  # fmt: skip
# Several runs have different colors, and their phases different styles; the phases of a single run have
# different colors. C0 to C9 are matplotlib's.
STYLES = {"random": "dotted", "train": "dashed", "test": "solid"}
COLORS_ALONE = {"random": "C7", "train": "C0", "test": "C1"}
WIDTHS = {"random": 1.8, "train": 1.5, "test": 2.2}  # in points
PHASES = tuple(STYLES)
REFERENCE_COLORS = ("C2", "C7", "C4", "C5")
THIN = 0.6  # in points: the line of a single run beside those of medians
MARK = 4  # diameter in points; less on a thin line
FEW_POINTS = 25  # lines of up to this many points have marks, without which a single point is invisible
STRETCHES = 5_000  # of the points of a line: more than a figure has pixels in width
LARGE = 10_000  # numbers from here on have thousands separators
MAX_LEGEND_COLUMNS = 6


@dataclass(frozen=True)
class Line:
    """A curve, such as one phase of one run, or a level from edge to edge."""

    label: str  # the same in every panel; single runs of one setting share it
    x: Column  # float64 [values]; empty for a level
    values: Column  # float64 [values], finite; one value if it is a level
    color: str  # as in HTML
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


@dataclass(frozen=True)
class View:
    """How runs are drawn."""

    fields: Sequence[str] = ("average_reward", "meanq", "nr_games", "meancost")
    phases: Sequence[str] = PHASES
    axis: Axis = AXES["epoch"]
    smooth: int = 1  # points in the moving mean
    levels: Mapping[str, float] | None = None  # label -> reference score, in raw game points
    title: str = ""


def make_plot(runs: Sequence[Run], names: Sequence[str], view: View) -> Plot:
    """Return a plot with a panel for each field.

    `names` are those of all runs compared, so that each has the same color while others have no values yet.

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
            label, color, style = phase.capitalize(), COLORS_ALONE[phase], STYLES[phase]
            if len(names) > 1:
                label, color = f"{name} {label}" if len(view.phases) > 1 else name, f"C{place % 10}"
            if phase == "train" and (len(names) == 1 or len(view.phases) == 1):
                style = "solid"
            order = place * len(PHASES) + PHASES.index(phase)
            look = Line(label, x[:, 0], values[:, 0], color, style, WIDTHS[phase], order)
            if phase == "random":  # a level: the median of the latest values of the runs
                latest = [run[~np.isnan(run)][-1] for run in values.T if not np.isnan(run).all()]
                label = f"{label}, median of {len(latest)}" if len(latest) > 1 else label
                lines.append(replace(look, label=label, x=np.empty(0), values=np.array([np.median(latest)])))
            else:
                lines += [look] if len(seeds) == 1 else _median_and_rest(look, x, values)
    if field == "average_reward":
        end, levels = len(names) * len(PHASES), (view.levels or {}).items()
        for (label, level), color in zip(levels, REFERENCE_COLORS, strict=False):
            lines.append(Line(label, np.empty(0), np.array([level]), color, "dashdot", 1.2, end))
    title = TITLES.get(field, field.replace("_", " ").capitalize())
    return Panel(title, tuple(map(thinned, lines)), view.axis)


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


def _median_and_rest(look: Line, x: Column, values: Column) -> list[Line]:
    """Return the median and range of several runs where all have values, and a thin line for each run's rest.

    The rest begins at the last epoch in which all runs have a value, or at the beginning if there is none.
    `x` and `values` [epochs, runs] are those of `aligned`.
    """
    # Runs that learn fast may stop first, and the median of the others would be that of a different sample.
    shared, lines = np.flatnonzero(~np.isnan(values).any(axis=1)), []
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
    curves = []
    for run in runs:
        there = (run.phases == phase) & np.isfinite(run.columns[field])
        epochs, x = run.columns["epoch"][there], run.columns[view.axis.column][there] / view.axis.unit
        means = run.columns[field][there]
        if view.smooth > 1:
            sums, ends = np.concatenate([[0.0], np.cumsum(means)]), np.arange(1, len(means) + 1)
            begins = np.maximum(0, ends - view.smooth)
            means = (sums[ends] - sums[begins]) / (ends - begins)
        placed = np.isfinite(x) & np.isfinite(epochs)
        curves.append((epochs[placed], x[placed], means[placed]))
    every = np.unique(np.concatenate([epochs for epochs, _, _ in curves] or [np.zeros(0)]))
    both = np.full((2, len(every), len(runs)), np.nan)
    for place, (epochs, x, means) in enumerate(curves):
        both[:, np.searchsorted(every, epochs), place] = x, means
    return both[0], both[1]


def draw(plot: Plot, width: float, height: float) -> "Figure":
    """Return a figure of `width` × `height` inches."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12, wspace=0.02, hspace=0.02)
    figure = Figure(figsize=(width, height), layout=layout)
    if plot.title:
        figure.suptitle(plot.title, fontsize=16)
    columns = math.ceil(math.sqrt(len(plot.panels)))  # of a near-square grid
    for number, panel in enumerate(plot.panels, 1):
        axes = figure.add_subplot(math.ceil(len(plot.panels) / columns), columns, number)
        _draw_panel(axes, panel)
        if len(plot.names) == 1 and panel.lines:
            named = _by_label([axes])
            axes.legend(list(named.values()), list(named), loc="best", edgecolor="none", framealpha=0.8)
    if len(plot.names) > 1:
        _draw_shared_legend(figure, plot)
    return figure


def _draw_panel(axes: "Axes", panel: Panel) -> None:
    from matplotlib.ticker import EngFormatter

    for line in panel.lines:
        _draw_line(axes, line, interval=bool(panel.rows))
    axes.set_title(panel.title, fontsize=13, pad=8)
    axes.set_xlabel(panel.axis.label)
    axes.grid(True, linewidth=0.5, color="#dddddd")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if panel.axis == AXES["epoch"]:
        axes.locator_params(axis="x", integer=True, min_n_ticks=1, steps=[1, 2, 5, 10])
    if panel.axis == AXES["steps"]:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    if panel.axis.limits:
        axes.set_xlim(panel.axis.limits)
    if panel.rows:
        axes.set_yticks(range(len(panel.rows)), panel.rows)
        axes.invert_yaxis()
        return
    axes.set_ylabel(panel.title)
    if any(abs(value) >= LARGE for line in panel.lines for value in line.values):
        axes.yaxis.set_major_formatter("{x:,.0f}")
    if not panel.lines:
        axes.text(0.5, 0.5, "no values yet", transform=axes.transAxes, ha="center", color="#7f7f7f")


def _draw_line(axes: "Axes", line: Line, interval: bool) -> None:
    """Draw a curve, a level, or an `interval` [low, value, high], in which only the value has a mark."""
    if not len(line.x):
        drawn = axes.axhline(line.values[0])
    else:
        if line.low is not None and line.high is not None:
            axes.fill_between(line.x, line.low, line.high, color=line.color, alpha=0.2, linewidth=0)
        size, marker = min(MARK, 3 * line.width), "o" if len(line.values) <= FEW_POINTS else ""
        marked = slice(1, 2) if interval and len(line.x) == 3 else None
        (drawn,) = axes.plot(line.x, line.values, marker=marker, markersize=size, markevery=marked)
    drawn.set(label=line.label, color=line.color, linestyle=line.style, linewidth=line.width)


def _draw_shared_legend(figure: "Figure", plot: Plot) -> None:
    """Draw one legend below all panels, with a column for each run if the width allows it."""
    drawn, place = _by_label(figure.axes), lambda line: line.place
    labels = [line.label for line in sorted((one for panel in plot.panels for one in panel.lines), key=place)]
    labels = list(dict.fromkeys(labels))
    lines = [drawn[label] for label in labels]
    for columns in range(min(len(plot.names), MAX_LEGEND_COLUMNS), 0, -1):
        legend = figure.legend(lines, labels, loc="outside lower center", ncols=columns, frameon=False)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def _by_label(panels: "Sequence[Axes]") -> "dict[str, Line2D]":
    """Return one drawn line of each label, in the order of drawing."""
    return {str(line.get_label()): line for axes in panels for line in axes.lines}


def write(plot: Plot, path: Path, width: float = 16, height: float = 9, dpi: int = 80) -> None:
    """Write a picture of `width` × `height` inches as a PNG file, completely or not at all.

    Raises:
        UserError: It cannot be written.
    """
    with replacing(path) as beside:
        draw(plot, width, height).savefig(beside, format="png", dpi=dpi)
