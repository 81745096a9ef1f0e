"""Combined experience replay (Zhang & Sutton 2017): every minibatch holds the latest transition of each game.

PYTHONPATH=src .venv/bin/python examples/combined_replay.py train pong combined --preset simple_dqn
"""

import numpy as np

import simple_dqn
from simple_dqn.main import console
from simple_dqn.replay_memory.uniform import Uniform
from simple_dqn.types import Factors, Numbers


class Combined(Uniform):
    """Draws uniformly, but for the latest transitions, which are always there."""

    def draw(self, count: int, steps: int, rng: np.random.Generator) -> tuple[Numbers, Factors]:
        """Draw `count` transitions, which all count alike; see `Uniform`."""
        numbers, weights = super().draw(count, steps, rng)
        _, end = self._ring.candidates()
        latest = np.arange(end - self._ring.games, end)
        latest = latest[~self._ring.starts.take(self._ring.indices(latest))][:count]  # an action led to these
        numbers[: len(latest)] = latest
        return numbers, weights


if __name__ == "__main__":
    simple_dqn.register_sampler("uniform", Combined)  # in its place; a new name is for --sampler NAME
    console()
