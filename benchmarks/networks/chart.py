"""The chart: the time of a prediction and of an update of the deep Q-network in each framework."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from networks.measuring import Cell, Row
from networks.work import DATATYPES, Subject, Task
from simple_dqn.files import replacing

PANELS = ((False, 1), (False, 16), (True, 32), (True, 128))  # update or prediction, batch size
COLOURS = {"float32": "C0", "bfloat16": "C1"}
BAR = 0.38  # thickness, relative to the distance between two frameworks
DPI = 80


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write a PNG file with a panel for each task of `PANELS` that was measured.

    Raises:
        UserError: The file cannot be written.
    """
    tasks = {task for row in rows for task, cell in row.cells.items() if cell.seconds}
    panels = [
        panel for panel in PANELS if any(Task(Subject("nature", d), *panel) in tasks for d in DATATYPES)
    ]
    if not panels:
        return
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12, wspace=0.02, hspace=0.02)
    figure = Figure(figsize=(16, 9), layout=layout)
    columns = min(2, len(panels))
    for number, (training, batch) in enumerate(panels, 1):
        axes = figure.add_subplot(-(-len(panels) // columns), columns, number)
        draw_panel(axes, rows, training, batch)
    with replacing(path) as beside:
        figure.savefig(beside, format="png", dpi=DPI)


def draw_panel(axes: Axes, rows: Sequence[Row], training: bool, batch: int) -> None:
    """Draw a bar for each framework and datatype, with the first framework at the top."""
    shown = [row for row in rows if any(cell.seconds for cell in row.cells.values())]
    several = len({row.device for row in shown}) > 1
    for offset, datatype in zip((-BAR / 2, BAR / 2), DATATYPES, strict=True):
        task = Task(Subject("nature", datatype), training, batch)
        cells = [row.cells.get(task, Cell()) for row in shown]
        places = [place + offset for place, cell in enumerate(cells) if cell.seconds]
        widths = [cell.middle * 1e3 for cell in cells if cell.seconds]
        bars = axes.barh(places, widths, BAR, color=COLOURS[datatype], label=datatype)
        axes.bar_label(bars, [f"{width:,.3g}" for width in widths], padding=3)
    labels = [f"{row.title}, {row.device}" if several else row.title for row in shown]
    axes.set_yticks(range(len(shown)), labels)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.margins(x=0.15)
    axes.set_xlabel("milliseconds")
    axes.set_title(f"{'Update' if training else 'Prediction'} of {batch}", fontsize=13, pad=8)
    axes.grid(True, axis="x", linewidth=0.5, color="#dddddd")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="best", edgecolor="none", framealpha=0.8)
