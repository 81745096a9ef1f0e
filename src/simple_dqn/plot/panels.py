"""What is drawn, as data: a panel for each field, in it a line for each phase of each run.

Runs of one name are seeds of one setting, and drawn as one: their median, over a band from least to most, in
the epochs in which all of them have values. After the last of these each run that goes on is a thin line.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from simple_dqn.errors import UserError
from simple_dqn.plot.seeds import beyond, in_all, together
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
# Among the runs of one figure a run has a colour and a phase has a style; alone, its phases have the colours.
COLOURS = (
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd",
    "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf",
)  # fmt: skip
PHASE_COLOURS = {"random": "#7f7f7f", "train": COLOURS[0], "test": COLOURS[1]}
STYLES = {"random": "dotted", "train": "dashed", "test": "solid"}
STYLES_ALONE = {"random": "dotted", "train": "solid", "test": "solid"}
WIDTHS = {"random": 1.8, "train": 1.5, "test": 2.2}  # in points
THIN = 0.6  # in points: the line of a single run beside those of medians
FEW_POINTS = 25  # are marked: they are hard to find on a bare line, and one alone cannot be seen

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
        """Whether its one value is that of random play, a level to compare with, and not a curve."""
        return self.phase == "random"

    @property
    def marked(self) -> bool:
        """Whether each value of the curve is marked."""
        return len(self.values) <= FEW_POINTS


@dataclass(frozen=True)
class Band:
    """Between which values the seeds of one setting lie."""

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
    """All that is drawn."""

    names: tuple[str, ...]  # of the runs compared, those without values yet among them
    panels: tuple[Panel, ...]

    @property
    def title(self) -> str:
        """What is drawn, in a line."""
        return ", ".join(self.names)

    @property
    def grid(self) -> tuple[int, int]:
        """The rows and columns of a near-square grid of the panels."""
        columns = math.ceil(math.sqrt(len(self.panels)))
        return math.ceil(len(self.panels) / columns), columns

    @property
    def legend(self) -> dict[str, Line]:
        """By label, in order of runs and phases, a line that looks as all of this label do."""
        lines = [line for panel in self.panels for line in panel.lines]
        lines.sort(key=lambda line: (self.names.index(line.run), PHASES.index(line.phase)))
        return {line.label: line for line in lines}


def make_plot(
    runs: Sequence[Run], fields: Sequence[str], names: Sequence[str], phases: Sequence[str] = PHASES
) -> Plot:
    """Return a plot with a panel for each of `fields`, in this order.

    Args:
        runs: The runs that there are values of.
        fields: Names of columns.
        names: Of all the runs that are compared, so that one keeps its colour while others join it.
        phases: Those that are drawn.

    Raises:
        UserError: A run has no such field.
    """
    _check_fields(runs, fields)
    return Plot(tuple(names), tuple(_panel(runs, field, names, phases) for field in fields))


def _check_fields(runs: Sequence[Run], fields: Sequence[str]) -> None:
    """Refuse a field that a run does not have.

    Raises:
        UserError: Which, and what there is instead.
    """
    for run in runs:
        for field in fields:
            if field not in run.columns:
                raise UserError(
                    f"there is no field {field!r} in {run.name}: choose among {', '.join(run.columns)}"
                )


def _panel(runs: Sequence[Run], field: str, names: Sequence[str], phases: Sequence[str]) -> Panel:
    lines, bands = [], []
    for place, name in enumerate(names):
        seeds = [run for run in runs if run.name == name]
        for phase in phases:
            epochs, values = together(seeds, phase, field)
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
                lines += _of_seeds(look, values)
                bands += _band(look, values)
    return Panel(TITLES.get(field, field), tuple(lines), tuple(bands))


def _level(look: Line, values: Numbers) -> Line:
    """Return the level of random play: the median of the runs' latest values of it.

    Args:
        look: What the line looks like; its epochs are those of `values`.
        values: float64 [epochs, runs], NaN where a run has none.
    """
    latest = [run[~np.isnan(run)][-1] for run in values.T if not np.isnan(run).all()]
    label = f"{look.label}, median of {len(latest)}" if len(latest) > 1 else look.label
    return replace(look, label=label, epochs=look.epochs[-1:], values=np.array([np.median(latest)]))


def _of_seeds(look: Line, values: Numbers) -> list[Line]:
    """Return the median of several runs where all have values, and a thin line for each that goes on.

    Args:
        look: What the lines look like; its epochs are those of `values`.
        values: float64 [epochs, runs], NaN where a run has none.
    """
    count, shared = values.shape[1], in_all(values)
    lines = []
    if shared.any():
        label = f"{look.label}, median and range of {count}"
        median = np.median(values[shared], axis=1)
        lines.append(replace(look, label=label, epochs=look.epochs[shared], values=median))
    thin = replace(look, label=f"{look.label}, single runs where one is missing", style="solid", width=THIN)
    return lines + [replace(thin, epochs=epochs, values=rest) for epochs, rest in beyond(look.epochs, values)]


def _band(look: Line, values: Numbers) -> list[Band]:
    """Return the band between the least and the greatest of several runs, where all have values."""
    shared = in_all(values)
    if not shared.any():
        return []
    low, high = values[shared].min(axis=1), values[shared].max(axis=1)
    return [Band(look.epochs[shared], low, high, look.colour)]
