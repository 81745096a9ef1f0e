"""What games are worth so far: raw points, from a game's start to its end; a lost life does not end it."""

import numpy as np
from numpy.typing import NDArray

from simple_dqn.types import Step


class Scores:
    """The scores of E games side by side.

    Attributes:
        running: float64 [E], points so far of the games that are on; 0 where one has ended.
    """

    def __init__(self, running: NDArray[np.float64]) -> None:
        """Go on from `running` float64 [E], which is copied."""
        self.running = running.copy()

    def add(self, step: Step) -> list[float]:
        """Count one `step` of every game; return the scores of those that it ended, by their places."""
        if np.count_nonzero(step.starts):
            self.running[step.starts] = 0
        self.running += step.rewards
        if not np.count_nonzero(step.resets):
            return []
        scores: list[float] = self.running[step.resets].tolist()
        self.running[step.resets] = 0
        return scores
