"""What came of updates, which on a GPU is fetched for many at once."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, slots=True)
class UpdateOutcome:
    """What came of one update from B transitions."""

    loss: float  # the mean over the transitions
    errors: NDArray[np.float32]  # [B], ≥ 0, how wrong each prediction was: |δ|, or as `Returns` says


class Outcomes:
    """The outcomes of updates that nobody has asked for yet."""

    def __init__(self) -> None:
        self._outcomes: list[Tensor] = []

    def add(self, outcome: Tensor) -> None:
        """Keep the outcome of an update: its loss, followed by the errors [1 + B], on any device."""
        self._outcomes.append(outcome)

    def take(self) -> list[UpdateOutcome]:
        """Return what was added since this was last asked, in its order, and wait for the last."""
        if not self._outcomes:
            return []
        sizes = [len(outcome) for outcome in self._outcomes]
        numbers = torch.cat(self._outcomes).cpu().numpy()
        self._outcomes = []
        each = np.split(numbers, np.cumsum(sizes)[:-1])
        return [UpdateOutcome(float(one[0]), one[1:].astype(np.float32)) for one in each]
