"""What all pictures on the page have in common: how they zoom, and how they are drawn."""

from collections.abc import Sequence

from bokeh.events import DoubleTap
from bokeh.models import CrosshairTool, CustomJS, Range1d, Span
from bokeh.plotting import figure

SIDE = 282  # pixels on the page, of the longer side of a picture

RESET = "for (const range of [across, down]) { range.reset() }"


class LinkedPanes:
    """Panes beside each other that show the same screen: they zoom, move and point together.

    A pixel's centre is at its column and row, counted from 0 at the top left.
    """

    def __init__(self, screen_shape: tuple[int, int]) -> None:
        """Link panes for screens of `screen_shape` (H, W) in pixels."""
        height, width = screen_shape
        self._shape = screen_shape
        self._scale = SIDE / max(height, width)
        self._across = Range1d(-0.5, width - 0.5, bounds="auto", min_interval=4)
        self._down = Range1d(height - 0.5, -0.5, bounds="auto", min_interval=4)
        self._cross = tuple(
            Span(dimension=way, line_color="white", line_alpha=0.6, line_dash="dotted")
            for way in ("width", "height")
        )

    def pane(self, name: str, title: str, tooltips: Sequence[tuple[str, str]]) -> figure:
        """Return an empty pane; `tooltips` are Bokeh's, shown for the pixel under the pointer."""
        height, width = self._shape
        pane = figure(
            name=name,
            title=title,
            frame_width=round(width * self._scale),
            frame_height=round(height * self._scale),
            x_range=self._across,
            y_range=self._down,
            tools="pan,wheel_zoom",
            active_scroll="wheel_zoom",
            toolbar_location=None,
            tooltips=[("column, row", "$x{0}, $y{0}"), *tooltips],
            outline_line_color=None,
        )
        pane.axis.visible = False
        pane.grid.visible = False
        pane.min_border = 0
        style_title(pane)
        pane.add_tools(CrosshairTool(overlay=self._cross))
        pane.js_on_event(DoubleTap, CustomJS(args={"across": self._across, "down": self._down}, code=RESET))
        return pane

    def place(self) -> dict[str, float]:
        """Return where an image that fills a pane is."""
        height, width = self._shape
        return {"x": -0.5, "y": -0.5, "dw": width, "dh": height}


def style_title(plot: figure) -> None:
    """Make the title of `plot` a quiet one."""
    plot.title.text_font_size = "12px"
    plot.title.text_font_style = "normal"
    plot.title.text_color = "#444444"
