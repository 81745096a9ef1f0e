"""The page: one HTML file that holds all it needs."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from bokeh.embed import file_html
from bokeh.layouts import row
from bokeh.models import ColumnDataSource, Model
from bokeh.resources import INLINE
from bokeh.settings import settings
from numpy.typing import NDArray

from nvis.filters import Peaks, find_peaks
from nvis.panes import LinkedPanes
from nvis.pictures import colour_channels, gradient_picture, state_picture
from nvis.played import PlayedGame
from nvis.scrubber import draw_scrubber, look_at_moments
from simple_dqn.types import States

if TYPE_CHECKING:
    from simple_dqn.deepqnetwork import DeepQNetwork
    from simple_dqn.deepqnetwork.guided_backpropagation import ConvolutionalLayer

TEMPLATE = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")
CHANNELS = ("red", "green", "blue")
LEAST_BYTES = 9  # gzip's level: the page is written once and kept


def draw(game: PlayedGame, network: "DeepQNetwork", filters: int, facts: Mapping[str, Any]) -> str:
    """Return a page on what `network` sees in `game`, as HTML that asks the network for nothing.

    Args:
        game: What was played.
        network: Who played it.
        filters: Filters shown of each convolution, at most.
        facts: What the page says about where it comes from: game, snapshot, epoch, exploration_rate, seed.
    """
    insight = network.look_into()
    models: list[Model] = []
    layers = []
    for layer in insight.layers:
        peaks = find_peaks(game, insight, layer).most_active(filters)
        states = game.states(peaks.times)
        gradients = insight.guided_gradients(states, layer.name, peaks.filters, peaks.rows, peaks.columns)
        pairs = draw_filters(layer, peaks, states, gradients)
        models += pairs
        layers.append({"layer": layer, "pairs": [pair.name for pair in pairs]})
    moments = look_at_moments(game, network)
    scrubber = draw_scrubber(game, moments)
    scrubber.name = "scrubber"
    words = {
        **facts,
        "layers": layers,
        "steps": len(game),
        "apart": moments.apart,
        "score": f"{game.rewards.sum():g}",
        "history_length": game.history_length,
    }
    settings.compression_level = LEAST_BYTES
    title = f"What the network sees: {facts['game']}"
    page: str = file_html([scrubber, *models], INLINE, title, template=TEMPLATE, template_variables=words)
    return page


def draw_filters(
    layer: "ConvolutionalLayer", peaks: Peaks, states: States, gradients: NDArray[np.float32]
) -> list[Model]:
    """Return a pair of pictures for each of the N filters of `peaks`.

    Args:
        layer: Whose filters they are.
        peaks: Where they answer most strongly.
        states: uint8 [N, S, H, W], the states in which they do.
        gradients: float32 [N, S, H, W], their guided gradients there.
    """
    return [
        _draw_filter(layer, peaks, number, states[number], gradients[number]) for number in range(len(states))
    ]


def _draw_filter(
    layer: "ConvolutionalLayer", peaks: Peaks, number: int, state: States, gradient: NDArray[np.float32]
) -> Model:
    """Return the `number`-th pair: the state on the left, the guided gradient on the right."""
    filter_, time = int(peaks.filters[number]), int(peaks.times[number])
    name = f"{layer.name}_{filter_}"
    columns: dict[str, Any] = {"state": [state_picture(state)], "gradient": [gradient_picture(gradient)]}
    for place, channel in enumerate(CHANNELS):
        columns[f"grey_{channel}"] = [colour_channels(state)[..., place]]
        columns[f"influence_{channel}"] = [colour_channels(gradient)[..., place]]
    source = ColumnDataSource(columns)
    linked = LinkedPanes(state.shape[1:])
    field = _receptive_field(layer, int(peaks.rows[number]), int(peaks.columns[number]))
    panes = []
    for kind, title, what in (
        ("state", f"filter {filter_} answers {peaks.activations[number]:.3g} at step {time}", "grey"),
        ("gradient", "guided backpropagation", "influence"),
    ):
        shape = "{0}" if what == "grey" else "{0.0000}"
        levels = " ".join(f"@{what}_{channel}{shape}" for channel in CHANNELS)
        pane = linked.pane(f"{name}_{kind}", title, [(what, levels)])
        picture = pane.image_rgba(kind, source=source, **linked.place())
        pane.quad(**field, fill_color=None, line_color="#ffd84d", line_width=1.5)
        pane.hover.renderers = [picture]
        panes.append(pane)
    return row(*panes, name=name, spacing=6)


def _receptive_field(layer: "ConvolutionalLayer", row: int, column: int) -> dict[str, float]:
    """Return the edges of what the unit at (row, column) sees, in pixels."""
    start = layer.field_start - 0.5  # a pixel's middle is at its number
    left, top = start + column * layer.field_stride, start + row * layer.field_stride
    return {"left": left, "top": top, "right": left + layer.field_size, "bottom": top + layer.field_size}
