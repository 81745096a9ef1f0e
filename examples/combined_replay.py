"""Combined experience replay (Zhang & Sutton 2017): minibatches include the latest transition of each game.

./train.sh pong combined --import examples/combined_replay.py --sampler combined --preset simple_dqn
"""

import numpy as np

import simple_dqn
from simple_dqn.samplers import Uniform
from simple_dqn.types import Floats, Ids


class Combined(Uniform):
    """Samples uniformly, but always includes the latest transitions."""

    def draw(self, count: int, steps: int, rng: np.random.Generator) -> tuple[Ids, Floats]:
        """Sample `count` transitions of equal weight, like `Uniform`."""
        numbers, weights = super().draw(count, steps, rng)
        _, end = self._ring.candidates()
        latest = np.arange(end - self._ring.games, end)
        latest = latest[~self._ring.starts.take(latest % self._ring.size)][:count]  # not first screens
        numbers[: len(latest)] = latest
        return numbers, weights


simple_dqn.register_sampler("combined", Combined)
