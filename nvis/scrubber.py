"""The game, step by step: its screens, the saliency of each choice, and the Q-values over time."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from bokeh.events import Tap
from bokeh.layouts import column, row
from bokeh.models import (
    ColumnDataSource,
    CustomJS,
    Div,
    Legend,
    LegendItem,
    LinearColorMapper,
    Model,
    Slider,
    Span,
    Toggle,
)  # fmt: skip
from bokeh.palettes import Category20, Inferno256
from bokeh.plotting import figure
from numpy.typing import NDArray

from nvis.pictures import LinkedPanes, percent_of_strongest, style_title
from nvis.played import PlayedGame, batches
from simple_dqn.types import QValues

if TYPE_CHECKING:
    from simple_dqn.dqn import DeepQNetwork

LEGEND_ROWS = 12  # actions in a column of the legend
MOST_MOMENTS = 2000  # a longer game shows only every 2nd, 3rd, ... step

HERE = Path(__file__).parent
HEAT = [f"{colour}{alpha:02x}" for colour, alpha in zip(Inferno256[55:], range(55, 256), strict=True)]
JUMP = "slider.value = Math.min(Math.max(Math.round(cb_obj.x / slider.step), 0) * slider.step, slider.end)"


@dataclass(frozen=True)
class Moments:
    """The M steps of a game that the page shows."""

    times: NDArray[np.int64]  # [M], evenly apart
    apart: int  # steps between two of them
    qvalues: QValues  # float32 [M, A]
    saliency: NDArray[np.uint8]  # [M, H, W], of the action taken: percent of the moment's strongest pixel


def look_at_moments(game: PlayedGame, network: "DeepQNetwork") -> Moments:
    """Return the Q-values and saliency of at most `MOST_MOMENTS` states of `game`."""
    apart = -(-len(game) // MOST_MOMENTS)
    shown = np.arange(0, len(game), apart)
    guided = network.guided_backpropagation()
    qvalues, saliency = [], []
    for times in batches(shown, "looking at choices"):
        states = game.states(times)
        qvalues.append(network.predict(states))
        saliency.append(percent_of_strongest(guided.saliency(states, game.actions[times])))
    return Moments(shown, apart, np.concatenate(qvalues), np.concatenate(saliency))


def draw_scrubber(game: PlayedGame, moments: Moments) -> Model:
    """Return a slider through `game`, and the pictures, curves and text that follow it."""
    film = ColumnDataSource(
        {"screen": game.screens[moments.times], "saliency": moments.saliency, "words": _words(game, moments)}
    )
    shown = ColumnDataSource({name: [film.data[name][0].copy()] for name in ("screen", "saliency")})
    last = int(moments.times[-1])
    slider = Slider(
        name="step", title="Step", start=0, end=max(last, moments.apart), step=moments.apart, value=0,
        width=820, bar_color="#b5367a",
    )  # fmt: skip
    play = Toggle(name="play", label="▶ Play", width=90, align="end")
    caption = Div(name="caption", text=film.data["words"][0], width=900, styles={"font-size": "14px"})
    marker = Span(name="marker", location=0, dimension="height", line_color="#222222", line_width=2)
    told = {"slider": slider, "film": film, "shown": shown, "caption": caption, "marker": marker}
    slider.js_on_change("value", CustomJS(args=told, code=(HERE / "show_step.js").read_text()))
    play.js_on_change("active", CustomJS(args={"slider": slider}, code=(HERE / "play.js").read_text()))
    curves = _curves(game, moments)
    curves.add_layout(marker)
    curves.js_on_event(Tap, CustomJS(args={"slider": slider}, code=JUMP))
    pictures = _pictures(shown, game.screens.shape[1:])
    return column(row(play, slider), caption, row(*pictures, curves, spacing=6), spacing=4)


def _words(game: PlayedGame, moments: Moments) -> list[str]:
    """Return the caption of each moment, in HTML."""
    scores = np.cumsum(game.rewards) - game.rewards  # before the action's reward
    result = []
    for time, qvalues in zip(moments.times.tolist(), moments.qvalues, strict=True):
        taken, best = int(game.actions[time]), int(qvalues.argmax())
        choice = "the best" if taken == best else f"by chance; the best was {game.action_names[best]}"
        result.append(
            f"Step <b>{time}</b> of {len(game)}: takes <b>{game.action_names[taken]}</b> "
            f"(Q-value {qvalues[taken]:.3f}), {choice}. Score so far: {scores[time]:g}."
        )
    return result


def _pictures(shown: ColumnDataSource, screen_shape: tuple[int, int]) -> list[figure]:
    """Return two panes: the current screen, and the screen with the saliency over it."""
    linked = LinkedPanes(screen_shape)
    screen = linked.pane("screen", "the newest screen of the state", [("grey level", "@screen")])
    heat = linked.pane("saliency", "saliency of the action taken", [("saliency", "@saliency %")])
    grey = LinearColorMapper("Greys256", low=0, high=255)
    dim = LinearColorMapper([f"#{level:02x}{level:02x}{level:02x}" for level in range(150)], low=0, high=255)
    screen.image("screen", source=shown, color_mapper=grey, **linked.place())
    heat.image("screen", source=shown, color_mapper=dim, **linked.place())
    colours = LinearColorMapper(["#00000000", *HEAT], low=0, high=100)
    glowing = heat.image("saliency", source=shown, color_mapper=colours, **linked.place())
    heat.hover.renderers = [glowing]
    return [screen, heat]


def _curves(game: PlayedGame, moments: Moments) -> figure:
    """Return the Q-value of each action over time, with the rewards."""
    columns = 1 + len(game.action_names) // LEGEND_ROWS
    curves = figure(
        name="curves", title="Q-values", x_axis_label="step",
        frame_width=530 - 100 * columns, frame_height=252,
        tools="xpan,xwheel_zoom,reset", active_scroll="xwheel_zoom", toolbar_location=None,
        x_range=(0, max(int(moments.times[-1]), 1)), outline_line_color=None,
    )  # fmt: skip
    colours = Category20[20][::2] + Category20[20][1::2]
    items = []
    # Each line is thinner than the one below it, since the values of actions are often nearly equal.
    widths = np.linspace(min(1.3 + len(game.action_names), 8), 1.3, len(game.action_names))
    lines = zip(game.action_names, moments.qvalues.T, colours, widths, strict=False)
    for name, qvalues, colour, width in lines:
        line = curves.line(moments.times, qvalues, color=colour, line_width=width)
        items.append(LegendItem(label=name, renderers=[line]))
    height = moments.qvalues.max(axis=1)
    for word, sign, marker, colour in (
        ("reward", 1, "triangle", "#222222"),
        ("penalty", -1, "inverted_triangle", "#888888"),
    ):
        paid = np.flatnonzero(sign * game.rewards > 0)
        if len(paid):
            points = curves.scatter(paid, height[paid // moments.apart], marker=marker, color=colour, size=8)
            items.append(LegendItem(label=word, renderers=[points]))
    legend = Legend(
        items=items, click_policy="hide", label_text_font_size="11px", spacing=-3, padding=4,
        ncols=columns,
    )  # fmt: skip
    legend.border_line_color = None
    curves.add_layout(legend, "right")
    style_title(curves)
    return curves
