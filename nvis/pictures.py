"""States and gradients as pictures, and the panes that show them."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from bokeh.events import DoubleTap
from bokeh.models import CrosshairTool, CustomJS, Range1d, Span
from bokeh.plotting import figure
from numpy.typing import NDArray

from simple_dqn.types import States

Number = TypeVar("Number", np.uint8, np.float32)
Rgba = NDArray[np.uint32]  # [H, W]: the bytes of a pixel are red, green, blue and opacity

SIDE = 282  # the longer side of a picture, in pixels of the page

RESET = "for (const range of [across, down]) { range.reset() }"


def colour_channels(values: NDArray[Number]) -> NDArray[Number]:
    """Return the last three of `values` [S, H, W] as channels [H, W, 3]: red the oldest, blue the newest.

    With fewer than three, the oldest fills the other channels.
    """
    screens = len(values)
    return np.stack([values[max(screens - age, 0)] for age in (3, 2, 1)], axis=-1)


def state_picture(state: States) -> Rgba:
    """Return a state, uint8 [S, H, W], as a picture: grey where nothing moves, coloured elsewhere."""
    return _picture(colour_channels(state))


def gradient_picture(gradient: NDArray[np.float32]) -> Rgba:
    """Return a gradient, float32 [S, H, W], as a picture: grey for 0, brighter above 0, darker below."""
    channels = colour_channels(gradient)
    strongest = float(np.abs(channels).max()) or 1.0
    return _picture(np.round(127.5 + 127.5 * channels / strongest).astype(np.uint8))


def percent_of_strongest(gradients: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return the strength of each pixel's gradient in percent of its state's strongest, uint8 [B, H, W].

    Args:
        gradients: float32 [B, S, H, W]; the strength of a pixel is its maximum over the S screens.
    """
    strengths: NDArray[np.float32] = np.abs(gradients).max(axis=1)
    strongest = strengths.max(axis=(1, 2), keepdims=True)
    percent = np.round(100 * strengths / np.where(strongest > 0, strongest, 1))
    return percent.astype(np.uint8)


def _picture(channels: NDArray[np.uint8]) -> Rgba:
    """Return the picture whose red, green and blue are `channels`, uint8 [H, W, 3]."""
    height, width, _ = channels.shape
    picture = np.full((height, width, 4), 255, np.uint8)
    picture[..., :3] = channels
    return picture.view(np.uint32).reshape(height, width)


class LinkedPanes:
    """Panes of the same screen, which zoom and move together and share a crosshair.

    A pixel's centre is at its column and row, counted from 0 at the top left.
    """

    def __init__(self, screen_shape: tuple[int, int]) -> None:
        """Set up panes for screens of `screen_shape` (H, W) in pixels."""
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
        """Return an empty pane; `tooltips` are Bokeh's, about the pixel under the pointer."""
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
        """Return the position and size of an image that fills a pane, as arguments for Bokeh."""
        height, width = self._shape
        return {"x": -0.5, "y": -0.5, "dw": width, "dh": height}


def style_title(plot: figure) -> None:
    """Set the title of `plot` in small grey letters."""
    plot.title.text_font_size = "12px"
    plot.title.text_font_style = "normal"
    plot.title.text_color = "#444444"
