"""The page: one self-contained HTML file."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bokeh.embed import file_html
from bokeh.models import Model
from bokeh.resources import INLINE
from bokeh.settings import settings

from nvis.filters import draw_filters, find_peaks
from nvis.played import PlayedGame
from nvis.scrubber import draw_scrubber, look_at_moments

if TYPE_CHECKING:
    from simple_dqn.dqn import DeepQNetwork

TEMPLATE = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")
COMPRESSION = 9  # gzip's highest level: the page is written once and kept


def draw(game: PlayedGame, network: "DeepQNetwork", filters: int, facts: Mapping[str, Any]) -> str:
    """Return the HTML of a page about `network` in `game`; it loads nothing from the internet.

    Args:
        game: The game that `network` played.
        network: The network.
        filters: Filters shown of each convolution, at most.
        facts: Shown at the top: game, snapshot, epoch, exploration_rate, seed.
    """
    guided = network.guided_backpropagation()
    models: list[Model] = []
    layers = []
    for layer in guided.layers:
        peaks = find_peaks(game, guided, layer).most_active(filters)
        states = game.states(peaks.times)
        gradients = guided.guided_gradients(states, layer.name, peaks.filters, peaks.rows, peaks.columns)
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
    settings.compression_level = COMPRESSION
    title = f"What the network sees: {facts['game']}"
    page: str = file_html([scrubber, *models], INLINE, title, template=TEMPLATE, template_variables=words)
    return page
