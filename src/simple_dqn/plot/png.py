"""Draws a plot as a picture with matplotlib."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, MaxNLocator, StrMethodFormatter

from simple_dqn.files import replacing
from simple_dqn.plot.panels import AXES, Line, Panel, Plot

MAX_LEGEND_COLUMNS = 6
FEW_POINTS = 25  # lines of up to this many points have marks, without which a single point is invisible
LARGE = 10_000  # numbers from here on have thousands separators
MARK = 4  # diameter in points; less on a thin line


def draw(plot: Plot, width: float, height: float) -> Figure:
    """Return a figure of `width` × `height` inches."""
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12, wspace=0.02, hspace=0.02)
    figure = Figure(figsize=(width, height), layout=layout)
    runs = len(plot.names)
    if plot.title:
        figure.suptitle(plot.title, fontsize=16)
    for number, panel in enumerate(plot.panels, 1):
        axes = figure.add_subplot(*plot.grid, number)
        _draw_panel(axes, panel)
        if runs == 1 and panel.lines:
            named = _by_label([axes])
            axes.legend(list(named.values()), list(named), loc="best", edgecolor="none", framealpha=0.8)
    if runs > 1:
        _draw_shared_legend(figure, plot)
    return figure


def _draw_panel(axes: Axes, panel: Panel) -> None:
    for line in panel.lines:
        _draw_line(axes, line, interval=bool(panel.rows))
    axes.set_title(panel.title, fontsize=13, pad=8)
    axes.set_xlabel(panel.axis.label)
    axes.grid(True, linewidth=0.5, color="#dddddd")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if panel.axis == AXES["epoch"]:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
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
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    if not panel.lines:
        axes.text(0.5, 0.5, "no values yet", transform=axes.transAxes, ha="center", color="#7f7f7f")


def _draw_line(axes: Axes, line: Line, interval: bool) -> None:
    """Draw a curve, a level, or an `interval` [low, value, high], in which only the value has a mark."""
    if not len(line.x):
        drawn = axes.axhline(line.values[0])
    else:
        if line.low is not None and line.high is not None:
            axes.fill_between(line.x, line.low, line.high, color=line.colour, alpha=0.2, linewidth=0)
        size, marker = min(MARK, 3 * line.width), "o" if len(line.values) <= FEW_POINTS else ""
        marked = slice(1, 2) if interval and len(line.x) == 3 else None
        (drawn,) = axes.plot(line.x, line.values, marker=marker, markersize=size, markevery=marked)
    drawn.set(label=line.label, color=line.colour, linestyle=line.style, linewidth=line.width)


def _draw_shared_legend(figure: Figure, plot: Plot) -> None:
    """Draw one legend below all panels, with a column for each run if the width allows it."""
    drawn = _by_label(figure.axes)
    lines = [drawn[label] for label in plot.legend]
    for columns in range(min(len(plot.names), MAX_LEGEND_COLUMNS), 0, -1):
        legend = figure.legend(lines, plot.legend, loc="outside lower center", ncols=columns, frameon=False)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def _by_label(panels: Sequence[Axes]) -> dict[str, Line2D]:
    """Return one drawn line of each label, in the order of drawing."""
    return {str(line.get_label()): line for axes in panels for line in axes.lines}


def write(plot: Plot, path: Path, width: float = 16, height: float = 9, dpi: int = 80) -> None:
    """Write a picture of `width` × `height` inches as a PNG file, completely or not at all.

    Raises:
        UserError: It cannot be written.
    """
    with replacing(path) as beside:
        draw(plot, width, height).savefig(beside, format="png", dpi=dpi)
