"""Draws the statistics of one run, or of several beside each other. It reads the CSV only."""

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from simple_dqn.errors import UserError
from simple_dqn.files import replacing
from simple_dqn.flags import Parser
from simple_dqn.statistics import Run, field_name, read_run

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
PHASE_COLOURS = {"random": "#7f7f7f", "train": "C0", "test": "C1"}
PHASE_STYLES = {"random": ":", "train": "--", "test": "-"}
PHASE_WIDTHS = {"random": 1.8, "train": 1.5, "test": 2.2}
FEW_POINTS = 25  # are marked: they are hard to find on a bare line, and one alone cannot be seen

MAX_LEGEND_COLUMNS = 6
MAX_PIXELS = 100_000_000


def draw(runs: Sequence[Run], fields: Sequence[str], width: float, height: float) -> Figure:
    """Return a figure of `width` × `height` inches with one panel per field, in a near-square grid.

    Raises:
        UserError: A run has no such field.
    """
    for run in runs:
        for field in fields:
            if field not in run.columns:
                raise UserError(
                    f"there is no field {field!r} in {run.name}: choose among {', '.join(run.columns)}"
                )
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12, wspace=0.02, hspace=0.02)
    figure = Figure(figsize=(width, height), layout=layout)
    columns = math.ceil(math.sqrt(len(fields)))
    rows = math.ceil(len(fields) / columns)
    for number, field in enumerate(fields, 1):
        _draw_field(figure.add_subplot(rows, columns, number), runs, field)
    if len(runs) > 1:
        _draw_shared_legend(figure, runs)
    return figure


def _draw_field(panel: Axes, runs: Sequence[Run], field: str) -> None:
    for number, run in enumerate(runs):
        for phase in PHASES:
            look = _look(phase) if len(runs) == 1 else _look_among_others(phase, run.name, number)
            _draw_line(panel, run, phase, field, look | {"linewidth": PHASE_WIDTHS[phase]})
    title = TITLES.get(field, field)
    panel.set_title(title, fontsize=13, pad=8)
    panel.set_ylabel(title)
    panel.set_xlabel(TITLES["epoch"])
    panel.grid(True, linewidth=0.5, color="#dddddd")
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
    if max(map(abs, panel.get_ylim())) >= 10_000:
        panel.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    if not panel.lines:
        panel.text(0.5, 0.5, "no values yet", transform=panel.transAxes, ha="center", color="#7f7f7f")
    elif len(runs) == 1:
        panel.legend(loc="best", edgecolor="none", framealpha=0.8)


def _look(phase: str) -> dict[str, Any]:
    """Return how to draw a phase of the only run: the phase has a colour."""
    style = ":" if phase == "random" else "-"
    return {"label": phase.capitalize(), "color": PHASE_COLOURS[phase], "linestyle": style}


def _look_among_others(phase: str, run: str, number: int) -> dict[str, Any]:
    """Return how to draw a phase of the `number`-th run: the run has a colour, the phase a style."""
    return {
        "label": f"{run} {phase.capitalize()}",
        "color": f"C{number}",
        "linestyle": PHASE_STYLES[phase],
    }


def _draw_line(panel: Axes, run: Run, phase: str, field: str, look: dict[str, Any]) -> None:
    """Draw one phase of a run, the random one as a level to compare with."""
    epochs, values = run.line(phase, field)
    if not len(values):
        return
    if phase == "random":
        panel.axhline(values[-1], **look)
    else:
        panel.plot(epochs, values, marker="o" if len(values) <= FEW_POINTS else "", markersize=4, **look)


def _draw_shared_legend(figure: Figure, runs: Sequence[Run]) -> None:
    """Name all lines once, below the panels: a column per run while they fit."""
    columns = min(len(runs), MAX_LEGEND_COLUMNS)
    lines = {str(line.get_label()): line for panel in figure.axes for line in panel.lines}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=columns, frameon=False)


def save(figure: Figure, path: Path, dpi: int) -> None:
    """Write the figure as a PNG file, whole or not at all.

    Raises:
        UserError: It cannot be written.
    """
    with replacing(path) as beside:
        figure.savefig(beside, format="png", dpi=dpi)


def _number_in(kind: type[float], least: float, most: float) -> Callable[[str], float]:
    """Return a function from a word to a `kind` between `least` and `most`."""

    def convert(word: str) -> float:
        try:
            number = kind(word)
        except ValueError:
            number = kind(-1)
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{word!r} is not a number from {least:g} to {most:g}")
        return number

    return convert


def _separator(word: str) -> str:
    word = "\t" if word in ("\\t", "tab") else word
    if len(word) != 1 or word in '\r\n"':
        raise argparse.ArgumentTypeError(f"{word!r} is not a single character such as , or ;")
    return word


def _parser(program: str) -> Parser:
    description = "Draw the statistics of one run, or compare several."
    parser = Parser(prog=program, description=description, allow_abbrev=False)
    add = parser.add_argument
    add("csv_files", metavar="CSV", nargs="+", type=Path, help="the statistics of one run each")
    add("--png_file", type=Path, help="write the figure here (default: beside the first CSV)")
    add("--dpi", type=_number_in(int, 10, 1200), default=80, help="pixels per inch (default: 80)")
    add("--fields", default="average_reward,meanq,nr_games,meancost",
        help="the columns to draw, one panel each (default: %(default)s)")  # fmt: skip
    add("--figure_width", type=_number_in(float, 1, 100), default=16, help="in inches (default: 16)")
    add("--figure_height", type=_number_in(float, 1, 100), default=9, help="in inches (default: 9)")
    add("--skiprows", type=_number_in(int, 0, 1e9),
        help="rows before the data; 0 if no row names the columns (default: 1, which must)")  # fmt: skip
    add("--delimiter", type=_separator, default=",", help="what separates the columns (default: a comma)")
    return parser


def _names(paths: Sequence[Path]) -> list[str]:
    """Return what to call each run: its file's name, with the folder where that alone is not enough."""
    stems = [path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [str(path.with_suffix("")) for path in paths]


def main(arguments: Sequence[str], program: str = "plot.sh") -> None:
    """Draw what the command line asks for.

    Raises:
        UserError: Something in it cannot be done.
    """
    flags = _parser(program).parse(arguments)
    paths, dpi = flags["csv_files"], flags["dpi"]
    width, height = flags["figure_width"], flags["figure_height"]
    fields = [field_name(word) for word in flags["fields"].split(",")]
    png_file = flags["png_file"] or paths[0].with_suffix(".png")
    if png_file.is_dir() or png_file in paths:
        raise UserError(f"the figure cannot be written as {png_file}: give another --png_file")
    if width * height * dpi**2 > MAX_PIXELS:
        raise UserError(f"a figure of {width:g} × {height:g} inches at {dpi} dpi is too large: lower --dpi")
    names = _names(paths)
    runs = [read_run(*run, flags["skiprows"], flags["delimiter"]) for run in zip(paths, names, strict=True)]
    save(draw(runs, fields, width, height), png_file, dpi)
    print(f"The figure is in {png_file}")
