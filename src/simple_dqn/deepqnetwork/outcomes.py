"""What came of updates, which on a GPU is fetched for many at once."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from simple_dqn.types import Factors, Numbers


@dataclass(frozen=True, slots=True)
class UpdateOutcome:
    """What came of one update from B transitions."""

    loss: float  # the mean over the transitions
    errors: Factors  # float32 [B], ≥ 0, how wrong each prediction was: |δ|, or as `Returns` says
    numbers: Numbers  # int64 [B], which transitions these are, as the minibatch said


class Outcomes:
    """The outcomes of updates that nobody has asked for yet."""

    def __init__(self) -> None:
        self._outcomes: list[Tensor] = []
        self._numbers: list[Numbers] = []

    def add(self, outcome: Tensor, numbers: Numbers) -> None:
        """Keep the outcome of an update.

        Args:
            outcome: Its loss, followed by the errors [1 + B], on any device.
            numbers: int64 [B], which transitions it was made from.
        """
        self._outcomes.append(outcome)
        self._numbers.append(numbers)

    def take(self) -> list[UpdateOutcome]:
        """Return what was added since this was last asked, in its order, and wait for the last."""
        if not self._outcomes:
            return []
        sizes = [len(outcome) for outcome in self._outcomes]
        values = torch.cat(self._outcomes).cpu().numpy()
        each, numbers = np.split(values, np.cumsum(sizes)[:-1]), self._numbers
        self._outcomes, self._numbers = [], []
        return [
            UpdateOutcome(float(one[0]), one[1:].astype(np.float32), which)
            for one, which in zip(each, numbers, strict=True)
        ]
