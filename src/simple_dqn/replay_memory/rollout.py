"""Sampling from the latest rollout, in place of a replay memory: PQN (Gallici et al. 2024)."""

import numpy as np

from simple_dqn.config import MemoryConfig
from simple_dqn.replay_memory.transitions import TransitionRing
from simple_dqn.replay_memory.uniform import Uniform, no_transition
from simple_dqn.types import Factors, Numbers


class Shuffled(Uniform):
    """Samples the latest `rollout_steps` rows without replacement, and shuffles again when all were drawn."""

    def __init__(self, ring: TransitionRing, config: MemoryConfig) -> None:
        """Sample from `ring`, whose latest rows are the rollout."""
        super().__init__(ring, config)
        self._rows = config.rollout_steps
        self._order: Numbers = np.empty(0, np.int64)  # of the transitions to take next

    def on_append(self) -> None:
        """Forget the order: the rollout has another row."""
        self._order = np.empty(0, np.int64)

    def draw(self, count: int, _steps: int, rng: np.random.Generator) -> tuple[Numbers, Factors]:
        """Return the next `count` transitions, each with the weight 1; see `Uniform.draw`."""
        while len(self._order) < count:
            numbers = self._ring.transitions()
            numbers = numbers[numbers >= (self._ring.written - self._rows) * self._ring.games]
            if not numbers.size:
                raise no_transition(self._ring)
            self._order = np.concatenate((self._order, rng.permutation(numbers)))
        numbers, self._order = np.split(self._order, [count])
        return numbers, np.ones(count, np.float32)
