"""The verb `plot`: draws the curves of one or several runs from their CSVs.

A figure has a panel for each field, with a line for each phase of each run. Runs with the same name are seeds
of one setting and are drawn together: their median, and a band from the lowest to the highest value, in the
epochs in which all have values. The rest of each run is a thin line.
"""

import argparse
import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simple_dqn.command_line import Parser
from simple_dqn.config import number
from simple_dqn.environment.atari import game_of
from simple_dqn.errors import UserError, printable
from simple_dqn.evaluation import references
from simple_dqn.files import check_target, replacing
from simple_dqn.statistics.csv_file import Column, RunData, field_name, read_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

MAX_PIXELS = 100_000_000
PNG = (b"\x89PNG",)  # how a picture begins
# Titles of fields; the title of another field is its name.
TITLES = {
    "steps": "Number of steps", "nr_games": "Number of games", "total_train_steps": "Exploration steps",
    "last_exploration_rate": "Exploration rate", "meanq": "Average Q-value", "meancost": "Average loss",
}  # fmt: skip
# Several runs have different colors, and their phases different styles; the phases of a single run have
# different colors. C0 to C9 are matplotlib's, widths are in points.
STYLES = {"random": "dotted", "train": "dashed", "test": "solid"}
COLORS_ALONE = {"random": "C7", "train": "C0", "test": "C1"}
WIDTHS = {"random": 1.8, "train": 1.5, "test": 2.2}
PHASES = tuple(STYLES)
FEW_POINTS = 25  # curves of up to this many points have marks, without which a single point is invisible


class Axis(NamedTuple):
    """A horizontal axis."""

    label: str
    column: str  # of the CSV
    unit: float = 1.0  # the value of the column that is 1 on the axis


AXES = {
    "epoch": Axis("Epoch", "epoch"),
    "steps": Axis("Training steps", "total_train_steps"),
    "minutes": Axis("Minutes", "total_time", 60.0),
    "hours": Axis("Hours", "total_time", 3600.0),
}


@dataclass(frozen=True)
class View:
    """How runs are drawn."""

    fields: Sequence[str] = ("average_reward", "meanq", "nr_games", "meancost")
    phases: Sequence[str] = PHASES
    axis: Axis = AXES["epoch"]
    smooth: int = 1  # points in the moving mean
    levels: Mapping[str, float] | None = None  # label -> reference score, in raw game points
    title: str = ""


def main(arguments: Sequence[str], program: str = "plot.sh") -> None:
    """Draw the figure that the command line describes."""
    # In simple_dqn's own examples the CSV has a flag: `-csv_file FILE`.
    flags = _parser(program).parse([word for word in arguments if word not in ("-csv_file", "--csv_file")])
    names = run_names(flags["runs"])
    first, name = next(iter(names.items()))
    path: Path = flags["png_file"] or first.with_name(f"{Path(name).name}.png")
    width, height, dpi = flags["figure_width"], flags["figure_height"], flags["dpi"]
    if width * height * dpi**2 > MAX_PIXELS:
        raise UserError(f"a figure of {width:g} × {height:g} inches at {dpi} dpi is too large: lower --dpi")
    games = list(dict.fromkeys(filter(None, (game_of(csv.stem) for csv in names))))
    levels = references(games[0]) if flags["reference"] and len(games) == 1 else {}
    if flags["reference"] and not levels:
        raise UserError("--reference needs CSVs of one game with known scores, named after it: leave it out")
    fields = [field_name(word) for word in flags["fields"].split(",")]
    heading = flags["title"] or title(games)
    view = View(fields, flags["phases"], AXES[flags["x"]], flags["smooth"], levels, heading)
    runs = [read_run(csv, name, flags["skiprows"], flags["delimiter"]) for csv, name in names.items()]
    for run in runs:
        run.check((*fields, view.axis.column), run.name)
    with picture(path, width, height, dpi) as figure:
        draw(figure, runs, list(dict.fromkeys(names.values())), view)
    print(printable(f"The figure is in {path}"))


def _phases(word: str) -> list[str]:
    if not set(asked := word.split(",")) <= set(PHASES):
        raise argparse.ArgumentTypeError(f"{word!r} is not a list of phases: choose from {', '.join(PHASES)}")
    return [phase for phase in PHASES if phase in asked]


def _separator(word: str) -> str:
    word = "\t" if word in ("\\t", "tab") else word
    if len(word) != 1 or word in '\r\n"':
        raise argparse.ArgumentTypeError(f"{word!r} is not a single character such as , or ;")
    return word


def _parser(program: str) -> Parser:
    description = "Draw the statistics of one run, or compare several."
    parser = Parser(prog=program, description=description, allow_abbrev=False)
    add, size = parser.add_argument, partial(number, float, minimum=1, maximum=100)
    add("runs", metavar="CSV", nargs="+",
        help="statistics of one run; NAME=CSV,CSV: seeds, drawn as median and range")  # fmt: skip
    add("--png_file", type=Path, help="write the figure here (default: beside the first CSV)")
    add("--dpi", type=partial(number, int, minimum=10, maximum=1200), default=80,
        help="pixels per inch (default: %(default)s)")  # fmt: skip
    add("--fields", default=",".join(View.fields), metavar="FIELD,FIELD,...",
        help="the columns to draw, one panel each (default: %(default)s)")  # fmt: skip
    add("--phases", type=_phases, default=PHASES, metavar="PHASE,PHASE,...",
        help=f"some of {', '.join(PHASES)} (default: all)")  # fmt: skip
    add("-x", "--x", choices=tuple(AXES), default="epoch", help="the horizontal axis (default: %(default)s)")
    add("--smooth", type=partial(number, int, minimum=1, maximum=1e6), default=1, metavar="N",
        help="draw the mean of the latest N points of each run (default: %(default)s)")  # fmt: skip
    text = "draw published scores: a person, random play, other agents (default: false)"
    parser.add_switch("reference", text)
    add("--title", help="above the figure (default: the games in the names of the files)")
    add("--figure_width", type=size, default=16, help="in inches (default: %(default)s)")
    add("--figure_height", type=size, default=9, help="in inches (default: %(default)s)")
    add("--skiprows", type=partial(number, int, minimum=0, maximum=1e9),
        help="rows before data in the columns of train.sh (default: one row, with the names)")  # fmt: skip
    add("--delimiter", type=_separator, default=",",
        help="the character between columns (default: a comma)")  # fmt: skip
    return parser


def run_names(words: Sequence[str]) -> dict[Path, str]:
    """Return the name of each CSV's run: the file's name, with its folder if two files have the same.

    Seeds of one setting share the name before the `=`.

    Raises:
        UserError: A setting has no name, or no files; or a file has two names.
    """
    settings = {word for word in words if "=" in word and not os.access(word, os.F_OK)}
    stems = [Path(word).stem for word in words if word not in settings]
    names: dict[Path, str] = {}
    for word in words:
        name, _, files = word.partition("=")
        name, csvs = (name, files.split(",")) if word in settings else ("", [word])
        if word in settings and not (name and all(csvs)):
            raise UserError(f"{word!r} names no seeds of a setting: give NAME=CSV,CSV with at least one CSV")
        for path in map(Path, csvs):
            if not path.name:  # '', a dot, or the root
                raise UserError(f"{str(path)!r} is a folder: give a CSV that train.sh wrote")
            own = name or (path.stem if len(set(stems)) == len(stems) else str(path.with_suffix("")))
            if names.setdefault(path, own) != own:
                raise UserError(f"{path} is both {names[path]} and {own}: draw one of them, or a copy")
    return names


def title(games: Sequence[str]) -> str:
    """Return the title of a figure of `games`, such as `Space Invaders`."""
    return ", ".join(game.replace("_", " ").title() for game in games)


def draw(figure: "Figure", runs: Sequence[RunData], names: Sequence[str], view: View) -> None:
    """Draw a panel for each field of the view; see `draw_field`."""
    if view.title:
        figure.suptitle(printable(view.title), fontsize=16)
    for field, axes in zip(view.fields, grid(figure, len(view.fields)), strict=True):
        draw_field(axes, field, runs, names, view)
    add_legends(figure, len(names))


def draw_field(
    axes: "Axes", field: str, runs: Sequence[RunData], names: Sequence[str], view: View, title: str = ""
) -> None:
    """Draw the panel of `field`, which all runs have; its title is the field's unless another is given.

    `names` are those of all runs compared, so that each has the same color while others have no values yet.
    """
    from matplotlib.ticker import EngFormatter

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
            look: dict[str, Any] = {"color": color, "linestyle": style, "linewidth": WIDTHS[phase]}
            if phase == "random":
                _draw_level(axes, values, label, look)
            elif len(seeds) == 1:
                _draw_curve(axes, x[:, 0], values[:, 0], label, look)
            else:
                _draw_seeds(axes, x, values, label, look)
    if field == "average_reward":
        for (label, level), color in zip((view.levels or {}).items(), ("C2", "C7", "C4", "C5"), strict=False):
            axes.axhline(level, label=label, color=color, linestyle="dashdot", linewidth=1.2)
    title = title or TITLES.get(field, field.replace("_", " ").capitalize())
    add_frame(axes, title, view.axis.label)
    axes.set_ylabel(printable(title))
    if view.axis == AXES["epoch"]:
        axes.locator_params(axis="x", integer=True, min_n_ticks=1, steps=[1, 2, 5, 10])
    if view.axis == AXES["steps"]:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    if any(np.abs(line.get_ydata()).max() >= 10_000 for line in axes.lines):  # long numbers
        axes.yaxis.set_major_formatter("{x:,.0f}")
    if not axes.lines:
        axes.text(0.5, 0.5, "no values yet", transform=axes.transAxes, ha="center", color="#7f7f7f")


def _draw_level(axes: "Axes", values: Column, label: str, look: dict[str, Any]) -> None:
    """Draw the median of the latest values of the runs, `values` [epochs, runs], across the whole panel."""
    latest = [run[~np.isnan(run)][-1] for run in values.T if not np.isnan(run).all()]
    label = f"{label}, median of {len(latest)}" if len(latest) > 1 else label
    axes.axhline(float(np.median(latest)), label=label, **look)


def _draw_curve(axes: "Axes", x: Column, values: Column, label: str, look: dict[str, Any]) -> None:
    marker, size = "o" if len(values) <= FEW_POINTS else "", min(4, 3 * look["linewidth"])
    axes.plot(x, values, label=label, marker=marker, markersize=size, **look)


def _draw_seeds(axes: "Axes", x: Column, values: Column, label: str, look: dict[str, Any]) -> None:
    """Draw the median and range of several runs where all have values, and the rest of each as a thin line.

    The rest begins at the last epoch in which all runs have a value, or at the beginning if there is none.
    `x` and `values` [epochs, runs] are those of `aligned`.
    """
    # Runs that learn fast may stop first, and the median of the others would be biased.
    shared = np.flatnonzero(~np.isnan(values).any(axis=1))
    if len(shared):
        both, middle = values[shared], np.median(x[shared], axis=1)
        low, median, high = both.min(axis=1), np.median(both, axis=1), both.max(axis=1)
        axes.fill_between(middle, low, high, color=look["color"], alpha=0.2, linewidth=0)
        _draw_curve(axes, middle, median, f"{label}, median and range of {values.shape[1]}", look)
    thin = {**look, "linestyle": "solid", "linewidth": 0.6}
    first = shared[-1] if len(shared) else 0
    for run_x, run in zip(x[first:].T, values[first:].T, strict=True):
        present = ~np.isnan(run)
        if present[1:].any() or (present.any() and not len(shared)):
            _draw_curve(axes, run_x[present], run[present], f"{label}, single runs", thin)


def aligned(runs: Sequence[RunData], phase: str, field: str, view: View) -> tuple[Column, Column]:
    """Return the values of `field` in the rows of `phase`, one row per epoch and one column per run.

    Returns:
        float64 [epochs, runs]: The position of each value on the axis.
        float64 [epochs, runs]: The values, smoothed along each run. Both are NaN where a run has no value.
    """
    curves = []
    for run in runs:
        rows = (run.phases == phase) & np.isfinite(run.columns[field])
        epochs, x = run.columns["epoch"][rows], run.columns[view.axis.column][rows] / view.axis.unit
        values, ends = run.columns[field][rows], range(1, epochs.size + 1)
        values = np.array([values[max(0, end - view.smooth) : end].mean() for end in ends])
        placed = np.isfinite(x) & np.isfinite(epochs)
        curves.append((epochs[placed], x[placed], values[placed]))
    all_epochs = np.unique(np.concatenate([epochs for epochs, _, _ in curves] or [np.zeros(0)]))
    aligned_x, aligned_values = np.full((2, len(all_epochs), len(runs)), np.nan)
    for column, (epochs, x, values) in enumerate(curves):
        places = np.searchsorted(all_epochs, epochs)
        aligned_x[places, column], aligned_values[places, column] = x, values
    return aligned_x, aligned_values


def grid(figure: "Figure", panels: int) -> "list[Axes]":
    """Return the axes of `panels` panels, in a grid that is nearly square."""
    columns = math.ceil(math.sqrt(panels))
    rows = math.ceil(panels / columns)
    return [figure.add_subplot(rows, columns, place) for place in range(1, panels + 1)]


def add_frame(axes: "Axes", title: str, label: str) -> None:
    """Draw a panel's title, the `label` of the horizontal axis, and grid lines."""
    axes.set_title(printable(title), fontsize=13, pad=8)
    axes.set_xlabel(label)
    axes.grid(True, linewidth=0.5, color="#dddddd")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def add_legends(figure: "Figure", names: int) -> None:
    """Draw a legend in each panel, or one below all panels if several `names` are compared."""
    if names == 1:
        for axes in figure.axes:
            if axes.lines:
                axes.legend(*_by_label([axes]), loc="best", edgecolor="none", framealpha=0.8)
        return
    labels = _by_label(figure.axes)
    for count in range(min(names, 6), 0, -1):  # a column for each run if the width allows it
        legend = figure.legend(*labels, loc="outside lower center", ncols=count, frameon=False)
        if count == 1 or legend.get_window_extent().width <= figure.bbox.width:
            break
        legend.remove()


def _by_label(panels: "Sequence[Axes]") -> "tuple[list[Line2D], list[str]]":
    """Return one drawn line of each label, and the labels, in the order of drawing."""
    found = {printable(str(line.get_label())): line for axes in panels for line in axes.lines}
    return list(found.values()), list(found)


@contextmanager
def picture(path: Path, width: float = 16, height: float = 9, dpi: int = 80) -> "Iterator[Figure]":
    """Yield a figure of `width` × `height` inches, and write all of it as a PNG file, or raise UserError."""
    check_target(path, "--png_file", PNG)
    if path.suffix.lower() not in ("", ".png"):
        raise UserError(f"a figure is a PNG file: give a name that ends in .png, not {path}")
    from matplotlib import rc_context  # here and not above, as it takes a second
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    # A name may have a $, and letters that the font lacks.
    with rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")
        layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12, wspace=0.02, hspace=0.02)
        figure = Figure(figsize=(width, height), layout=layout)
        yield figure
        with replacing(path, starts=PNG) as beside:
            figure.savefig(beside, format="png", dpi=dpi)
