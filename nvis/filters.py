"""The strongest activation of each filter of a convolution, with pictures."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from bokeh.layouts import row
from bokeh.models import ColumnDataSource, Model
from numpy.typing import NDArray

from nvis.pictures import LinkedPanes, colour_channels, gradient_picture, state_picture
from nvis.played import PlayedGame, batches
from simple_dqn.types import States

if TYPE_CHECKING:
    from simple_dqn.guided import ConvolutionalLayer, GuidedBackpropagation

CHANNELS = ("red", "green", "blue")


@dataclass(frozen=True)
class Peaks:
    """The state and the place of the strongest activation of each of N filters of a layer."""

    filters: NDArray[np.int64]  # [N], counted from 0
    activations: NDArray[np.float32]  # [N], after the rectifier
    times: NDArray[np.int64]  # [N], of the state
    rows: NDArray[np.int64]  # [N], of the unit
    columns: NDArray[np.int64]  # [N]

    def most_active(self, number: int) -> "Peaks":
        """Return the `number` most active filters, strongest first; fewer if fewer are active."""
        order = np.argsort(-self.activations, kind="stable")[:number]
        chosen = order[self.activations[order] > 0]
        return Peaks(*(getattr(self, field.name)[chosen] for field in fields(self)))


def find_peaks(game: PlayedGame, guided: "GuidedBackpropagation", layer: "ConvolutionalLayer") -> Peaks:
    """Return the strongest activation of each filter of `layer` in `game`; the first of equal ones.

    Only the strongest so far is kept: the activations for all states of a game would take gigabytes.
    """
    peaks = Peaks(
        np.arange(layer.filters),
        np.full(layer.filters, -1, np.float32),
        *np.zeros((3, layer.filters), np.int64),
    )
    for times in batches(game.whole(), f"looking at {layer.name}"):
        # of each filter, all units in all states: [K, B * rows * columns]
        activations = guided.activations(game.states(times), layer.name).swapaxes(0, 1)
        flat = activations.reshape(layer.filters, -1)
        where = flat.argmax(axis=1)
        strongest = flat[peaks.filters, where]
        better = strongest > peaks.activations
        state, rows, columns = np.unravel_index(where, activations.shape[1:])
        peaks.activations[better] = strongest[better]
        for kept, new in ((peaks.times, times[state]), (peaks.rows, rows), (peaks.columns, columns)):
            kept[better] = new[better]
    return peaks


def draw_filters(
    layer: "ConvolutionalLayer", peaks: Peaks, states: States, gradients: NDArray[np.float32]
) -> list[Model]:
    """Return a pair of panes for each of the N filters in `peaks`, of `layer`.

    They show `states` uint8 [N, S, H, W] and the guided `gradients` float32 [N, S, H, W].
    """
    return [
        _draw_filter(layer, peaks, number, states[number], gradients[number]) for number in range(len(states))
    ]


def _draw_filter(
    layer: "ConvolutionalLayer", peaks: Peaks, number: int, state: States, gradient: NDArray[np.float32]
) -> Model:
    """Return a pair of panes: the state on the left, the guided gradient on the right."""
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
        ("state", f"filter {filter_}: activation {peaks.activations[number]:.3g} at step {time}", "grey"),
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
    """Return the edges of the receptive field of the unit at (row, column), in pixels."""
    start = layer.field_start - 0.5  # a pixel's centre is at its number
    left, top = start + column * layer.field_stride, start + row * layer.field_stride
    return {"left": left, "top": top, "right": left + layer.field_size, "bottom": top + layer.field_size}
