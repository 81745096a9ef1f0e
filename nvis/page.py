"""Plays one game, finds what activates a network's filters and explains its choices, and draws a page.

The page is one self-contained HTML file with the game, the choices in it, and the filters' peaks. Letters in
shapes are those of `simple_dqn.types`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from bokeh import models
from bokeh.embed import file_html
from bokeh.events import DoubleTap, Tap
from bokeh.layouts import column, row
from bokeh.palettes import Category20, Inferno256
from bokeh.plotting import figure
from bokeh.resources import INLINE
from bokeh.settings import settings
from numpy.typing import NDArray
from tqdm import tqdm

from simple_dqn.agent import Player
from simple_dqn.types import Actions, QValues, Rewards, Screens, States

if TYPE_CHECKING:
    from simple_dqn.dqn import DeepQNetwork
    from simple_dqn.guided import ConvolutionalLayer, GuidedBackpropagation

Rgba = NDArray[np.uint32]  # [H, W]: the bytes of a pixel are red, green, blue and opacity

BATCH = 32  # states per forward pass: the activations of all units take some MB
MOST_MOMENTS = 2000  # a longer game shows only every 2nd, 3rd, ... step
# Arguments of tqdm; None: no bar unless on a terminal.
BAR: dict[str, Any] = {"unit": " steps", "leave": False, "dynamic_ncols": True, "disable": None}
HERE = Path(__file__).parent
TITLE = {"text_font_size": "12px", "text_font_style": "normal", "text_color": "#444444"}
CHANNELS = ("red", "green", "blue")
SIDE = 282  # the longer side of a picture, in pixels of the page
LEGEND_ROWS = 12  # actions in a column of the legend
HEAT = [f"{color}{alpha:02x}" for color, alpha in zip(Inferno256[55:], range(55, 256), strict=True)]
RESET = "for (const range of [across, down]) { range.reset() }"
JUMP = "slider.value = Math.min(Math.max(Math.round(cb_obj.x / slider.step), 0) * slider.step, slider.end)"


@dataclass(frozen=True)
class PlayedGame:
    """The T states of a game in which the agent chose an action; each screen is stored once."""

    history_length: int  # screens in a state, S
    action_names: tuple[str, ...]
    screens: Screens  # uint8 [T, H, W], the newest of each state
    actions: Actions  # int64 [T], the action taken in each state
    rewards: Rewards  # float32 [T], raw game points for the action

    def __len__(self) -> int:
        """Return T."""
        return len(self.screens)

    def states(self, times: Actions) -> States:
        """Return the states at `times`, int64 [B], as a new array uint8 [B, S, H, W].

        Screens from before the game are zero, as they were for the agent.
        """
        which = times[:, np.newaxis] + np.arange(1 - self.history_length, 1)
        states: States = self.screens[which.clip(min=0)]
        states[which < 0] = 0
        return states

    def whole(self) -> Actions:
        """Return the times, int64 [B], of the states that contain no screen from before the game.

        In the other states the change from black screens to a bright one, which occurs only there, would
        activate many filters most strongly. For a game shorter than a state, return that of the last state.
        """
        return np.arange(min(self.history_length, len(self)) - 1, len(self))


def play_game(player: Player, history_length: int, exploration_rate: float) -> PlayedGame:
    """Play the first game of `player` to its end, and return it."""
    screens, actions, rewards = [], [], []
    step = player.start()
    with tqdm(desc="playing", **BAR) as progress:
        while not step.resets[0]:
            screens.append(step.screens[0].copy())
            step = player.step(exploration_rate)
            actions.append(step.actions[0])
            rewards.append(step.rewards[0])
            progress.update()
    names = player.environment.action_names
    return PlayedGame(history_length, names, np.stack(screens), np.array(actions), np.array(rewards))


class Peaks(NamedTuple):
    """The state and the place of the strongest activation of each of N filters of a layer."""

    filters: NDArray[np.int64]  # [N], counted from 0
    activations: NDArray[np.float32]  # [N], after the rectifier
    times: NDArray[np.int64]  # [N], of the state
    rows: NDArray[np.int64]  # [N], of the unit
    columns: NDArray[np.int64]  # [N]


def find_peaks(
    game: PlayedGame, guided: "GuidedBackpropagation", layer: "ConvolutionalLayer", number: int
) -> Peaks:
    """Return the strongest activation of each filter of `layer` in `game`; the first of equal ones.

    Only the `number` most active filters are returned, strongest first. The activations of a whole game would
    take gigabytes, so they are computed for a few states at a time.
    """
    filters = np.arange(layer.filters)
    highest, places = np.zeros(len(filters), np.float32), np.zeros((3, len(filters)), np.int64)
    for times in _batches(game.whole(), f"looking at {layer.name}"):
        # Of each filter, all units in all states: [K, B * rows * columns].
        activations = guided.activations(game.states(times), layer.name).swapaxes(0, 1)
        flat = activations.reshape(len(filters), -1)
        where = flat.argmax(axis=1)
        strongest = flat[filters, where]
        better = strongest > highest
        state, rows, columns = np.unravel_index(where, activations.shape[1:])
        highest[better] = strongest[better]
        places[:, better] = np.stack([times[state], rows, columns])[:, better]
    order = np.argsort(-highest, kind="stable")[:number]
    order = order[highest[order] > 0]
    return Peaks(order, highest[order], *places[:, order])


class Moments(NamedTuple):
    """The M steps of a game that the page shows."""

    times: NDArray[np.int64]  # [M], evenly apart
    apart: int  # steps between two of them
    qvalues: QValues  # float32 [M, A]
    saliency: NDArray[np.uint8]  # [M, H, W], of the action taken: percent of the moment's strongest pixel


def look_at_moments(game: PlayedGame, network: "DeepQNetwork", guided: "GuidedBackpropagation") -> Moments:
    """Return the Q-values and saliency of at most `MOST_MOMENTS` states of `game`."""
    apart = -(-len(game) // MOST_MOMENTS)
    shown, qvalues, saliency = np.arange(0, len(game), apart), [], []
    for times in _batches(shown, "looking at choices"):
        states = game.states(times)
        qvalues.append(network.predict(states))
        saliency.append(percent_of_strongest(guided.saliency(states, game.actions[times])))
    return Moments(shown, apart, np.concatenate(qvalues), np.concatenate(saliency))


def percent_of_strongest(gradients: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return the strength of each pixel in percent of its state's strongest, uint8 [B, H, W].

    The strength is the largest of the `gradients` float32 [B, S, H, W] over the S screens.
    """
    strengths: NDArray[np.float32] = np.abs(gradients).max(axis=1)
    strongest = strengths.max(axis=(1, 2), keepdims=True)
    return np.round(100 * strengths / np.where(strongest > 0, strongest, 1)).astype(np.uint8)


def _batches(times: Actions, description: str) -> Iterator[Actions]:
    """Yield `times`, int64 [B], in parts of at most `BATCH`, with a progress bar."""
    with tqdm(desc=description, total=len(times), **BAR) as progress:
        for batch in np.split(times, range(BATCH, len(times), BATCH)):
            yield batch
            progress.update(len(batch))


def draw(game: PlayedGame, network: "DeepQNetwork", filters: int, facts: Mapping[str, Any]) -> str:
    """Return the HTML of a page about `network` in a `game` that it played; it loads nothing from elsewhere.

    It has at most `filters` filters of each convolution, and at the top the `facts`: game, snapshot, epoch,
    exploration_rate, seed.
    """
    guided = network.guided_backpropagation()
    moments = look_at_moments(game, network, guided)
    roots, layers = [_scrubber(game, moments)], []
    for layer in guided.layers:
        peaks = find_peaks(game, guided, layer, filters)
        states = game.states(peaks.times)
        gradients = guided.guided_gradients(states, layer.name, peaks.filters, peaks.rows, peaks.columns)
        pairs = [_filter(layer, peaks, n, states[n], gradients[n]) for n in range(len(states))]
        roots += pairs
        layers.append({"layer": layer, "pairs": [pair.name for pair in pairs]})
    variables = {
        **facts, "layers": layers, "steps": len(game), "apart": moments.apart,
        "score": f"{game.rewards.sum(dtype=float):.7g}", "history_length": game.history_length,
    }  # fmt: skip
    settings.compression_level = 9  # gzip's highest: the page is written once and kept
    title, template = f"What the network sees: {facts['game']}", (HERE / "page.html").read_text("utf-8")
    return str(file_html(roots, INLINE, title, template=template, template_variables=variables))


def color_channels(values: NDArray[Any]) -> NDArray[Any]:
    """Return the last three of `values` [S, H, W] as channels [H, W, 3]: red the oldest, blue the newest.

    With fewer than three, the oldest fills the other channels.
    """
    return np.stack([values[max(len(values) - age, 0)] for age in (3, 2, 1)], axis=-1)


def state_picture(state: States) -> Rgba:
    """Return a state, uint8 [S, H, W], as a picture: gray where nothing moves, colored elsewhere."""
    channels = color_channels(state)
    opaque = np.full((*channels.shape[:2], 1), 255, np.uint8)
    return np.concatenate((channels, opaque), axis=2).view(np.uint32)[..., 0]


def gradient_picture(gradient: NDArray[np.float32]) -> Rgba:
    """Return a gradient, float32 [S, H, W], as a picture: gray for 0, brighter above 0, darker below."""
    strongest = float(np.abs(gradient[-3:]).max()) or 1.0
    return state_picture(np.round(127.5 + 127.5 * gradient / strongest).clip(0, 255).astype(np.uint8))


class LinkedPanes:
    """Panes of the same screen, (H, W) pixels, which zoom and move together and share a crosshair."""

    def __init__(self, screen_shape: tuple[int, int]) -> None:
        height, width = screen_shape  # the center of the first pixel, top left, is at (0, 0)
        scale = SIDE / max(height, width)
        self.place = {"x": -0.5, "y": -0.5, "dw": width, "dh": height}  # of an image that fills a pane
        self._size = {"frame_width": round(width * scale), "frame_height": round(height * scale)}
        ends = (-0.5, width - 0.5), (height - 0.5, -0.5)
        self._ranges = [models.Range1d(*each, bounds="auto", min_interval=4) for each in ends]
        look = {"line_color": "white", "line_alpha": 0.6, "line_dash": "dotted"}
        self._cross = tuple(models.Span(dimension=way, **look) for way in ("width", "height"))

    def pane(self, name: str, title: str, tooltip: tuple[str, str]) -> figure:
        """Return an empty pane; `tooltip` is Bokeh's, about the pixel under the pointer."""
        across, down = self._ranges
        pane = figure(
            name=name, title=title, **self._size, x_range=across, y_range=down, tools="pan,wheel_zoom",
            active_scroll="wheel_zoom", toolbar_location=None, outline_line_color=None,
            tooltips=[("column, row", "$x{0}, $y{0}"), tooltip],
        )  # fmt: skip
        pane.axis.visible = pane.grid.visible = False
        pane.min_border = 0
        pane.title.update(**TITLE)
        pane.add_tools(models.CrosshairTool(overlay=self._cross))
        pane.js_on_event(DoubleTap, models.CustomJS(args={"across": across, "down": down}, code=RESET))
        return pane


def _filter(
    layer: "ConvolutionalLayer", peaks: Peaks, number: int, state: States, gradient: NDArray[np.float32]
) -> models.Model:
    """Return the panes of a filter in `peaks`: the state uint8 [S, H, W], and its guided gradient float32."""
    filter_, time = int(peaks.filters[number]), int(peaks.times[number])
    name = f"{layer.name}_{filter_}"
    columns: dict[str, Any] = {"state": [state_picture(state)], "gradient": [gradient_picture(gradient)]}
    for kind, values in (("state", state), ("gradient", gradient)):
        for place, channel in enumerate(CHANNELS):
            columns[f"{kind}_{channel}"] = [color_channels(values)[..., place]]
    source, linked = models.ColumnDataSource(columns), LinkedPanes(state.shape[1:])
    corner = int(peaks.columns[number]), int(peaks.rows[number])
    left, top = (layer.field_start - 0.5 + place * layer.field_stride for place in corner)
    panes = []
    best = f"filter {filter_}: activation {peaks.activations[number]:.3g} at step {time}"
    for kind, title, what, form in (
        ("state", best, "gray", "{0}"), ("gradient", "guided backpropagation", "influence", "{0.0000}"),
    ):  # fmt: skip
        levels = " ".join(f"@{kind}_{channel}{form}" for channel in CHANNELS)
        pane = linked.pane(f"{name}_{kind}", title, (what, levels))
        pane.hover.renderers = [pane.image_rgba(kind, source=source, **linked.place)]
        pane.quad(  # the receptive field
            left=left, top=top, right=left + layer.field_size, bottom=top + layer.field_size,
            fill_color=None, line_color="#ffd84d", line_width=1.5,
        )  # fmt: skip
        panes.append(pane)
    return row(*panes, name=name, spacing=6)


def _scrubber(game: PlayedGame, moments: Moments) -> models.Model:
    """Return a slider through `game`, and the pictures, curves and text that follow it."""
    captions, screens = _captions(game, moments), game.screens[moments.times]
    film = models.ColumnDataSource({"screen": screens, "saliency": moments.saliency, "captions": captions})
    shown = models.ColumnDataSource({name: [film.data[name][0].copy()] for name in ("screen", "saliency")})
    last = int(moments.times[-1])
    slider = models.Slider(
        name="step", title="Step", start=0, end=max(last, moments.apart), step=moments.apart, value=0,
        width=820, bar_color="#b5367a",
    )  # fmt: skip
    play = models.Toggle(name="play", label="▶ Play", width=90, align="end")
    caption = models.Div(name="caption", text=captions[0], width=900, styles={"font-size": "14px"})
    marker = models.Span(name="marker", location=0, dimension="height", line_color="#222222", line_width=2)
    parts = {"slider": slider, "film": film, "shown": shown, "caption": caption, "marker": marker}
    slider.js_on_change("value", models.CustomJS(args=parts, code=(HERE / "show_step.js").read_text()))
    moved = {"slider": slider}
    play.js_on_change("active", models.CustomJS(args=moved, code=(HERE / "play.js").read_text()))
    curves = _curves(game, moments)
    curves.add_layout(marker)
    curves.js_on_event(Tap, models.CustomJS(args=moved, code=JUMP))
    panes = row(*_pictures(shown, game.screens.shape[1:]), curves, spacing=6)
    return column(row(play, slider), caption, panes, spacing=4, name="scrubber")


def _captions(game: PlayedGame, moments: Moments) -> list[str]:
    """Return the caption of each moment, in HTML."""
    scores = np.cumsum(game.rewards, dtype=float) - game.rewards  # before the action's reward
    result, names = [], game.action_names
    for time, qvalues in zip(moments.times.tolist(), moments.qvalues, strict=True):
        taken, best = game.actions[time], qvalues.argmax()
        reason = "the best" if taken == best else f"by chance; the best was {names[best]}"
        choice = f"takes <b>{names[taken]}</b> (Q-value {qvalues[taken]:.3f}), {reason}"
        result.append(f"Step <b>{time}</b> of {len(game)}: {choice}. Score so far: {scores[time]:.7g}.")
    return result


def _pictures(shown: models.ColumnDataSource, screen_shape: tuple[int, int]) -> list[figure]:
    """Return two panes: the current screen, and the screen with the saliency over it."""
    linked = LinkedPanes(screen_shape)
    screen = linked.pane("screen", "the newest screen of the state", ("gray level", "@screen"))
    heat = linked.pane("saliency", "saliency of the action taken", ("saliency", "@saliency %"))
    dim = [f"#{level:02x}{level:02x}{level:02x}" for level in range(150)]
    for pane, palette in ((screen, "Greys256"), (heat, dim)):
        grays = models.LinearColorMapper(palette, low=0, high=255)
        pane.image("screen", source=shown, color_mapper=grays, **linked.place)
    colors = models.LinearColorMapper(["#00000000", *HEAT], low=0, high=100)
    heat.hover.renderers = [heat.image("saliency", source=shown, color_mapper=colors, **linked.place)]
    return [screen, heat]


def _curves(game: PlayedGame, moments: Moments) -> figure:
    """Return the Q-value of each action over time, with the rewards."""
    columns = 1 + len(game.action_names) // LEGEND_ROWS
    curves = figure(
        name="curves", title="Q-values", x_axis_label="step",
        frame_width=max(230, 530 - 100 * columns), frame_height=252,
        tools="xpan,xwheel_zoom,reset", active_scroll="xwheel_zoom", toolbar_location=None,
        x_range=(0, max(int(moments.times[-1]), 1)), outline_line_color=None,
    )  # fmt: skip
    items = []
    # Each line is thinner than the one below it, since the values of actions are often nearly equal.
    widths = np.linspace(min(1.3 + len(game.action_names), 8), 1.3, len(game.action_names))
    colors = Category20[20][::2] + Category20[20][1::2]
    lines = zip(game.action_names, moments.qvalues.T, cycle(colors), widths, strict=False)
    for name, qvalues, color, width in lines:
        line = curves.line(moments.times, qvalues, color=color, line_width=width)
        items.append(models.LegendItem(label=name, renderers=[line]))
    height = moments.qvalues.max(axis=1)
    rewards = ("reward", 1, "triangle", "#222222"), ("penalty", -1, "inverted_triangle", "#888888")
    for word, sign, marker, color in rewards:
        paid = np.flatnonzero(sign * game.rewards > 0)
        if len(paid):
            points = curves.scatter(paid, height[paid // moments.apart], marker=marker, color=color, size=8)
            items.append(models.LegendItem(label=word, renderers=[points]))
    legend = models.Legend(
        items=items, click_policy="hide", label_text_font_size="11px", spacing=-3, padding=4, ncols=columns,
        border_line_color=None,
    )  # fmt: skip
    curves.add_layout(legend, "right")
    curves.title.update(**TITLE)
    return curves
