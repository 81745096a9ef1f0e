"""The panels as a page, by Bokeh: one file that needs no network, with zoom, hover and a legend to click."""

import math
from pathlib import Path
from typing import Any, TypeAlias

from bokeh.document import Document
from bokeh.embed import file_html
from bokeh.layouts import column, gridplot
from bokeh.models import (
    BasicTicker,
    ColumnDataSource,
    CustomJS,
    DataRange1d,
    HoverTool,
    NumeralTickFormatter,
    Range1d,
)
from bokeh.models.annotations import Legend, LegendItem, Title
from bokeh.models.renderers import GlyphRenderer
from bokeh.plotting import figure
from bokeh.resources import INLINE

from simple_dqn.files import replacing
from simple_dqn.plot.panels import EPOCH, PHASES, Line, Panel, Plot

Renderer: TypeAlias = "GlyphRenderer[Any]"  # of a line, or of its marks

MAX_LEGEND_ROWS = 4  # each of one run, or of several where there are more
LEGEND_ROW, LEGEND_SPACING = 20, 10  # pixels
SPACING = 12  # pixels between panels
MARK = 5  # pixels across; less on a thin line
LEAST_HEIGHT = 240  # pixels of a panel; otherwise the panels together are as high as the reader's window
RELOAD_SECONDS = 10

# A line in the legend hides and shows those in the panels. Not by js_link: a legend loses its lines when
# anything changes that can be reached from it, and through such links that is every axis.
LINK = """
lines.forEach((line, place) => line.properties.visible.change.connect(() => {
    for (const other of drawn[place]) {
        other.visible = line.visible
    }
}))
"""

# A reload would lose what the reader zoomed and hid: both are kept in the tab meanwhile.
RELOAD = """
const key = "simple-dqn " + location.pathname
const kept = JSON.parse(sessionStorage.getItem(key) ?? '{"zoomed": [], "hidden": []}')
for (const [place, start, end] of kept.zoomed) {
    if (place < ranges.length) {
        ranges[place].setv({start, end})
        ranges[place].have_updated_interactively = true
    }
}
for (const line of lines) {
    line.visible = !kept.hidden.includes(line.name)
}
setInterval(() => {
    if (document.hidden) {
        return
    }
    const zoomed = ranges.map((range, place) => [place, range.start, range.end])
        .filter(([place]) => ranges[place].have_updated_interactively)
    const hidden = lines.filter((line) => !line.visible).map((line) => line.name)
    sessionStorage.setItem(key, JSON.stringify({zoomed, hidden}))
    location.reload()
}, seconds * 1000)
"""


def save(plot: Plot, path: Path, reload_seconds: float | None = None) -> None:
    """Write `plot` as a page, whole or not at all.

    Args:
        plot: What it shows.
        path: The HTML file.
        reload_seconds: How often the page loads itself again; None: never.

    Raises:
        UserError: It cannot be written.
    """
    html = file_html(_document(plot, reload_seconds), resources=INLINE)
    with replacing(path) as beside:
        beside.write_text(html, encoding="utf-8")


def _document(plot: Plot, reload_seconds: float | None) -> Document:
    epochs = DataRange1d(only_visible=True)  # one for all panels: who zooms into epochs means all of them
    drawn: dict[str, list[Renderer]] = {}  # by label: what a click in the legend hides
    figures: list[Any] = [_figure(panel, epochs, drawn) for panel in plot.panels]
    rows, columns = plot.grid
    panels = gridplot(figures, ncols=columns, sizing_mode="stretch_both", toolbar_location="right")
    panels.update(spacing=SPACING, min_height=rows * (LEAST_HEIGHT + SPACING))
    legend, lines = _legend(plot)
    document = Document(title=plot.title)
    document.add_root(column(panels, legend, sizing_mode="stretch_both"))
    linked = {"lines": lines, "drawn": [drawn[label] for label in plot.legend]}
    document.js_on_event("document_ready", CustomJS(args=linked, code=LINK))
    if reload_seconds is not None:
        ranges = [epochs, *(one.y_range for one in figures)]
        told = {"ranges": ranges, "lines": lines, "seconds": reload_seconds}
        document.js_on_event("document_ready", CustomJS(args=told, code=RELOAD))
    return document


def _figure(panel: Panel, epochs: DataRange1d, drawn: dict[str, list[Renderer]]) -> figure:
    """Return the figure of a panel, and enter its lines in `drawn`."""
    result = figure(
        title=panel.title,
        x_axis_label=EPOCH,
        y_axis_label=panel.title,
        x_range=epochs,
        y_range=DataRange1d(only_visible=True),
        tools="pan,box_zoom,wheel_zoom,reset,save",
        active_scroll="wheel_zoom",
        min_height=LEAST_HEIGHT,
    )
    result.xaxis.ticker = BasicTicker(min_interval=1, num_minor_ticks=0)
    if panel.large:
        result.yaxis.formatter = NumeralTickFormatter(format="0,0.[0000]")
    if not panel.lines:
        result.add_layout(Title(text="no values yet", align="center", text_color="#7f7f7f"), "below")
    for band in panel.bands:
        result.varea(band.epochs, band.low, band.high, color=band.colour, alpha=0.2)
    hovered: list[Any] = []
    for line in panel.lines:
        renderers = _draw_line(result, line)
        hovered.append(renderers[0])
        drawn.setdefault(line.label, []).extend(renderers)
    tooltips = [("", "$name"), (EPOCH, "@epoch"), (panel.title, "@text")]
    result.add_tools(HoverTool(renderers=hovered, tooltips=tooltips, line_policy="nearest"))
    return result


def _draw_line(into: figure, line: Line) -> list[Renderer]:
    text = [f"{value:,.6g}" for value in line.values]
    source = ColumnDataSource({"epoch": line.epochs, "value": line.values, "text": text})
    look = _look(line)
    if line.is_level:
        return [into.hspan(y="value", source=source, **look)]
    drawn: list[Renderer] = [into.line("epoch", "value", source=source, **look)]
    if line.marked:
        size = min(MARK, 4 * line.width)
        drawn.append(into.scatter("epoch", "value", source=source, color=line.colour, size=size))
    return drawn


def _look(line: Line) -> dict[str, Any]:
    return {
        "line_color": line.colour,
        "line_dash": line.style,
        "line_width": line.width,
        "name": line.label,
    }


def _legend(plot: Plot) -> tuple[figure, list[Renderer]]:
    """Return one legend for all panels, and the lines in it.

    Bokeh's legends belong to a figure: this one has nothing else in it.
    """
    columns = len(PHASES) * math.ceil(len(plot.names) / MAX_LEGEND_ROWS)
    rows = math.ceil(len(plot.legend) / columns)
    result = figure(
        height=(LEGEND_ROW + LEGEND_SPACING) * (rows + 1),
        sizing_mode="stretch_width",
        toolbar_location=None,
        outline_line_color=None,
        min_border=0,
        x_range=Range1d(),
        y_range=Range1d(),
    )
    result.axis.visible = False
    result.grid.visible = False
    lines: list[Any] = []
    for look in plot.legend.values():
        line = result.line([0], [0], **_look(look))  # A line from a point to itself: it shows nowhere else.
        lines.append(line)
    items = [LegendItem(label=line.name, renderers=[line]) for line in lines]
    place: dict[str, Any] = {
        "location": "center",
        "orientation": "horizontal",
        "ncols": columns,
        "border_line_color": None,
        "spacing": LEGEND_SPACING,
    }
    result.add_layout(Legend(items=items, click_policy="hide", **place))
    return result, lines
