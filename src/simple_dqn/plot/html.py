"""Draws a plot as a page with Bokeh: one file for use without a network, with zoom, hover and a legend."""

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

MAX_LEGEND_ROWS = 4  # one for each run, or for several runs if there are more
LEGEND_ROW, LEGEND_SPACING = 20, 10  # pixels
SPACING = 12  # pixels between panels
MARK = 5  # diameter in pixels; less on a thin line
MIN_HEIGHT = 240  # pixels of a panel; all panels together fill the window if it is higher
RELOAD_SECONDS = 10

# A click on a line of the legend hides or shows the lines of that label. Not with js_link: a legend loses its
# lines when any model changes that it links to, and through js_link that is every axis.
LINK = """
lines.forEach((line, place) => line.properties.visible.change.connect(() => {
    for (const other of drawn[place]) {
        other.visible = line.visible
    }
}))
"""

# A reload would lose the zoom and the hidden lines, so the tab stores both.
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
        plot: The panels.
        path: The HTML file.
        reload_seconds: How often the page loads itself again; None: never.

    Raises:
        UserError: It cannot be written.
    """
    html = file_html(_document(plot, reload_seconds), resources=INLINE)
    with replacing(path) as beside:
        beside.write_text(html, encoding="utf-8")


def _document(plot: Plot, reload_seconds: float | None) -> Document:
    epochs = DataRange1d(only_visible=True)  # shared, so that a zoom into epochs applies to all panels
    drawn: dict[str, list[Renderer]] = {}  # label -> the lines that a click in the legend hides
    figures: list[Any] = [_figure(panel, epochs, drawn) for panel in plot.panels]
    rows, columns = plot.grid
    panels = gridplot(figures, ncols=columns, sizing_mode="stretch_both", toolbar_location="right")
    panels.update(spacing=SPACING, min_height=rows * (MIN_HEIGHT + SPACING))
    legend, lines = _legend(plot)
    document = Document(title=plot.title)
    document.add_root(column(panels, legend, sizing_mode="stretch_both"))
    linked = {"lines": lines, "drawn": [drawn[label] for label in plot.legend]}
    document.js_on_event("document_ready", CustomJS(args=linked, code=LINK))
    if reload_seconds is not None:
        ranges = [epochs, *(one.y_range for one in figures)]
        arguments = {"ranges": ranges, "lines": lines, "seconds": reload_seconds}
        document.js_on_event("document_ready", CustomJS(args=arguments, code=RELOAD))
    return document


def _figure(panel: Panel, epochs: DataRange1d, drawn: dict[str, list[Renderer]]) -> figure:
    """Return the figure of a panel, and add its lines to `drawn`."""
    result = figure(
        title=panel.title,
        x_axis_label=EPOCH,
        y_axis_label=panel.title,
        x_range=epochs,
        y_range=DataRange1d(only_visible=True),
        tools="pan,box_zoom,wheel_zoom,reset,save",
        active_scroll="wheel_zoom",
        min_height=MIN_HEIGHT,
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
    look = _style(line)
    if line.is_level:
        return [into.hspan(y="value", source=source, **look)]
    drawn: list[Renderer] = [into.line("epoch", "value", source=source, **look)]
    if line.marked:
        size = min(MARK, 4 * line.width)
        drawn.append(into.scatter("epoch", "value", source=source, color=line.colour, size=size))
    return drawn


def _style(line: Line) -> dict[str, Any]:
    return {
        "line_color": line.colour,
        "line_dash": line.style,
        "line_width": line.width,
        "name": line.label,
    }


def _legend(plot: Plot) -> tuple[figure, list[Renderer]]:
    """Return one legend for all panels, and the lines in it.

    In Bokeh a legend belongs to a figure, so this is a figure with nothing else in it.
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
    # Each line runs from a point to itself, so that only the legend shows it.
    lines = [result.line([0], [0], **_style(look)) for look in plot.legend.values()]
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
