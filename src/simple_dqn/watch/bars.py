"""How long the bars of Q-values are."""

import numpy as np
from numpy.typing import NDArray

SPREAD_KEPT = 0.998  # per picture: by what the scale narrows again after a wide moment, to half in 6 s


class BarScale:
    """The scale of a game's bars, which show how much worse than the best each action is.

    The best action's bar is full. A bar is empty at the widest difference between two actions of a
    state in the last seconds. A scale from zero would hide what actions differ by, which is little
    beside what they are worth; a scale for each state would draw every difference alike.
    """

    def __init__(self) -> None:
        self._spread = 0.0

    def lengths(self, qvalues: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the length of each action's bar, from 0 to 1, for one picture's `qvalues`; both [A]."""
        worse = float(qvalues.max()) - qvalues.astype(np.float64)
        self._spread = max(float(worse.max()), self._spread * SPREAD_KEPT)
        return 1 - worse / (self._spread or 1.0)
