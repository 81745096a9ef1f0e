"""What each filter of a convolution answers to most strongly."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nvis.played import PlayedGame
from nvis.progress import batches

if TYPE_CHECKING:
    from simple_dqn.deepqnetwork.guided_backpropagation import ConvolutionalLayer, Insight


@dataclass(frozen=True)
class Peaks:
    """Where in a game each of N filters of one layer answers most strongly."""

    filters: NDArray[np.int64]  # [N], counted from 0
    activations: NDArray[np.float32]  # [N], how strongly, after the rectifier
    times: NDArray[np.int64]  # [N], in which state
    rows: NDArray[np.int64]  # [N], the unit that answers
    columns: NDArray[np.int64]  # [N]

    def most_active(self, number: int) -> "Peaks":
        """Return the `number` filters with the strongest answers, strongest first, if that many answer."""
        order = np.argsort(-self.activations, kind="stable")[:number]
        return self._only(order[self.activations[order] > 0])

    def _only(self, chosen: NDArray[np.int64]) -> "Peaks":
        return Peaks(
            self.filters[chosen],
            self.activations[chosen],
            self.times[chosen],
            self.rows[chosen],
            self.columns[chosen],
        )


def find_peaks(game: PlayedGame, insight: "Insight", layer: "ConvolutionalLayer") -> Peaks:
    """Return the strongest answer of every filter of `layer` to a whole state of `game`; of equals the first.

    Only the best so far is kept, since the answers to all states of a game take gigabytes.
    """
    peaks = Peaks(
        np.arange(layer.filters),
        np.full(layer.filters, -1, np.float32),
        *np.zeros((3, layer.filters), np.int64),
    )
    for times in batches(game.whole(), f"looking at {layer.name}"):
        # [K, B * rows * columns]: of each filter all units in all states, oldest state first
        answers = insight.activations(game.states(times), layer.name).swapaxes(0, 1)
        flat = answers.reshape(layer.filters, -1)
        where = flat.argmax(axis=1)
        strongest = flat[peaks.filters, where]
        better = strongest > peaks.activations
        state, rows, columns = np.unravel_index(where, answers.shape[1:])
        peaks.activations[better] = strongest[better]
        for kept, new in ((peaks.times, times[state]), (peaks.rows, rows), (peaks.columns, columns)):
            kept[better] = new[better]
    return peaks
