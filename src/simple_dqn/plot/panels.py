"""A plot as data: a panel for each field, with a line for each phase of each run.

Runs of the same name are seeds of one setting and are drawn together: their median over a band from the
least to the greatest value, in the epochs in which all have values. The rest of each run is a thin line.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simple_dqn.errors import UserError
from simple_dqn.statistics import Run
from simple_dqn.statistics.csv_reader import Numbers

EPOCH = "Epoch"
TITLES = {
    "epoch": EPOCH,
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
# Several runs differ in colour, and their phases in style; the phases of a single run differ in colour.
COLOURS = (
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd",
    "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf",
)  # fmt: skip
PHASE_COLOURS = {"random": "#7f7f7f", "train": COLOURS[0], "test": COLOURS[1]}
STYLES = {"random": "dotted", "train": "dashed", "test": "solid"}
STYLES_ALONE = {"random": "dotted", "train": "solid", "test": "solid"}
WIDTHS = {"random": 1.8, "train": 1.5, "test": 2.2}  # in points
THIN = 0.6  # in points: the line of a single run beside those of medians
FEW_POINTS = 25  # at most these are marked: they are hard to find on a bare line, and one alone is invisible
LARGE = 10_000  # from here on numbers have commas between their thousands


@dataclass(frozen=True)
class Line:
    """One phase of one run, or of several that are seeds of one setting."""

    run: str
    phase: str
    label: str  # the same in every panel; single runs of one setting share it
    epochs: Numbers  # float64 [values]
    values: Numbers  # float64 [values], finite, at least one
    colour: str  # as in HTML
    style: str  # solid, dashed or dotted
    width: float  # in points

    @property
    def is_level(self) -> bool:
        """Whether it is the level of random play, a single value, and not a curve."""
        return self.phase == "random"

    @property
    def marked(self) -> bool:
        """Whether each value of the curve has a mark."""
        return len(self.values) <= FEW_POINTS


@dataclass(frozen=True)
class Band:
    """The range of values of the seeds of one setting."""

    epochs: Numbers  # float64 [values]
    low: Numbers  # float64 [values], finite, at least one
    high: Numbers  # float64 [values]
    colour: str  # as in HTML; drawn pale


@dataclass(frozen=True)
class Panel:
    """One field of all runs; `lines` is empty where there are no values yet."""

    title: str
    lines: tuple[Line, ...]
    bands: tuple[Band, ...] = ()  # behind the lines

    @property
    def large(self) -> bool:
        """Whether it shows numbers that need commas."""
        return any(abs(value) >= LARGE for line in self.lines for value in line.values)


@dataclass(frozen=True)
class Plot:
    """The panels of one figure."""

    names: tuple[str, ...]  # of all runs compared, including those without values yet
    panels: tuple[Panel, ...]

    @property
    def title(self) -> str:
        """The names of the runs, in a line."""
        return ", ".join(self.names)

    @property
    def grid(self) -> tuple[int, int]:
        """The rows and columns of a near-square grid of the panels."""
        columns = math.ceil(math.sqrt(len(self.panels)))
        return math.ceil(len(self.panels) / columns), columns

    @property
    def legend(self) -> dict[str, Line]:
        """One line of each label, in the order of runs and phases: lines with the same label look alike."""
        lines = [line for panel in self.panels for line in panel.lines]
        lines.sort(key=lambda line: (self.names.index(line.run), PHASES.index(line.phase)))
        return {line.label: line for line in lines}


def make_plot(
    runs: Sequence[Run], fields: Sequence[str], names: Sequence[str], phases: Sequence[str] = PHASES
) -> Plot:
    """Return a plot with a panel for each of `fields`.

    Args:
        runs: The runs that have values.
        fields: Names of columns.
        names: The names of all runs compared, so that each keeps its colour while others are missing.
        phases: The phases to draw.

    Raises:
        UserError: A run lacks a field.
    """
    for run in runs:
        for field in fields:
            if field not in run.columns:
                raise UserError(
                    f"there is no field {field!r} in {run.name}: choose among {', '.join(run.columns)}"
                )
    return Plot(tuple(names), tuple(_panel(runs, field, names, phases) for field in fields))


def _panel(runs: Sequence[Run], field: str, names: Sequence[str], phases: Sequence[str]) -> Panel:
    lines, bands = [], []
    for place, name in enumerate(names):
        seeds = [run for run in runs if run.name == name]
        for phase in phases:
            epochs, values = aligned(seeds, phase, field)
            if not len(epochs):
                continue
            label, style, colour = phase.capitalize(), STYLES_ALONE[phase], PHASE_COLOURS[phase]
            if len(names) > 1:
                label, style, colour = f"{name} {label}", STYLES[phase], COLOURS[place % len(COLOURS)]
            look = Line(name, phase, label, epochs, values[:, 0], colour, style, WIDTHS[phase])
            if phase == "random":
                lines.append(_level(look, values))
            elif len(seeds) == 1:
                lines.append(look)
            else:
                lines += _median_and_rest(look, values)
                bands += _band(look, values)
    return Panel(TITLES.get(field, field), tuple(lines), tuple(bands))


def _level(look: Line, values: Numbers) -> Line:
    """Return the level of random play: the median of the runs' latest values.

    Args:
        look: The look of the line; its epochs are those of `values`.
        values: float64 [epochs, runs], NaN where a run has none.
    """
    latest = [run[~np.isnan(run)][-1] for run in values.T if not np.isnan(run).all()]
    label = f"{look.label}, median of {len(latest)}" if len(latest) > 1 else look.label
    return replace(look, label=label, epochs=look.epochs[-1:], values=np.array([np.median(latest)]))


def _median_and_rest(look: Line, values: Numbers) -> list[Line]:
    """Return the median of several runs where all have values, and a thin line for the rest of each run.

    Args:
        look: The look of the lines; its epochs are those of `values`.
        values: float64 [epochs, runs], NaN where a run has none.
    """
    count, shared = values.shape[1], complete(values)
    lines = []
    if shared.any():
        label = f"{look.label}, median and range of {count}"
        median = np.median(values[shared], axis=1)
        lines.append(replace(look, label=label, epochs=look.epochs[shared], values=median))
    thin = replace(look, label=f"{look.label}, single runs where one is missing", style="solid", width=THIN)
    return lines + [
        replace(thin, epochs=epochs, values=rest) for epochs, rest in remainders(look.epochs, values)
    ]


def _band(look: Line, values: Numbers) -> list[Band]:
    """Return the band between the least and the greatest value of several runs, where all have values."""
    shared = complete(values)
    if not shared.any():
        return []
    low, high = values[shared].min(axis=1), values[shared].max(axis=1)
    return [Band(look.epochs[shared], low, high, look.colour)]


def aligned(runs: Sequence[Run], phase: str, field: str) -> tuple[Numbers, Numbers]:
    """Return the values of `field` in the rows of `phase`, one column per run.

    Returns:
        float64 [epochs]: The epochs in which any run has a value.
        float64 [epochs, runs]: The values, NaN where a run has none.
    """
    curves = [dict(zip(*(part.tolist() for part in run.line(phase, field)), strict=True)) for run in runs]
    epochs = sorted(set().union(*curves))
    values = [[curve.get(epoch, np.nan) for curve in curves] for epoch in epochs]
    return np.array(epochs, np.float64), np.array(values, np.float64).reshape(len(epochs), len(runs))


def complete(values: Numbers) -> NDArray[np.bool_]:
    """Return in which epochs all runs of `values` [epochs, runs] have one, bool [epochs].

    Runs that learn fast stop first, so a median of the others would be of a different sample.
    """
    return np.asarray(~np.isnan(values).any(axis=1))


def remainders(epochs: Numbers, values: Numbers) -> list[tuple[Numbers, Numbers]]:
    """Return the rest of each run from the last epoch in which all runs have a value.

    Args:
        epochs: float64 [epochs].
        values: float64 [epochs, runs], NaN where a run has none.

    Returns:
        The epochs and the finite values, float64 [values] each, of each run that has later ones; all of a run
        where the runs have no epoch in common.
    """
    shared = np.flatnonzero(complete(values))
    last = int(shared[-1]) if len(shared) else 0
    rest = []
    for run in values[last:].T:
        present = ~np.isnan(run)
        if present[1:].any() or (present.any() and not len(shared)):
            rest.append((epochs[last:][present], run[present]))
    return rest
