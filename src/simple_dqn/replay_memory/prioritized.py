"""Prioritized sampling of transitions: the proportional variant of Schaul et al. (2016)."""

import numpy as np
from numpy.typing import NDArray

from simple_dqn.config import MemoryConfig
from simple_dqn.replay_memory.transitions import TransitionRing
from simple_dqn.replay_memory.uniform import no_transition
from simple_dqn.types import CheckpointState, Factors, Indices, Numbers

Masses = NDArray[np.float64]  # [B], ≥ 0

LEAST_PRIORITY = 1e-6  # ε, with which transitions without an error are sampled again; as in OpenAI Baselines
FIRST_PRIORITY = 1.0  # p₁ of Algorithm 1, until the first TD error is known

# Children of a node in the sum tree. A wide tree has few levels, and each level costs a few calls of numpy.
WIDTH = 32


class Prioritized:
    """Samples transition i with probability P(i) = p_i^α / Σ_k p_k^α and p_i = |δ_i| + ε (equation 1).

    δ_i is the latest TD error of transition i. A new transition has the greatest priority so far. The sum
    tree holds the mass p_i^α of each transition, and 0 for other rows. `Uniform` documents the methods.
    """

    experience_bytes = 8 + -(-8 // (WIDTH - 1))  # the mass float64, and its part of the sums
    uses_errors = True

    def __init__(self, ring: TransitionRing, config: MemoryConfig) -> None:
        """Sample from `ring`, which is empty, with the α and β of `config`."""
        self._ring, self._config = ring, config
        self._tree = SumTree(ring.rows * ring.games)
        self._greatest = FIRST_PRIORITY
        self._first, self._end = ring.candidates()  # the numbers that have a mass, unless excluded

    @property
    def nbytes(self) -> int:
        """Bytes of the tree."""
        return self._tree.nbytes

    def on_append(self) -> None:
        """Set the mass of the transitions that the new row completes; clear that of those it overwrites."""
        first, end = self._ring.candidates()
        gone, new = (
            self._ring.indices(np.arange(*numbers)) for numbers in ((self._first, first), (self._end, end))
        )
        masses = np.where(self._ring.excluded.take(new), 0, self._mass_of_new)
        self._tree.set(np.concatenate((gone, new)), np.concatenate((np.zeros(len(gone)), masses)))
        self._first, self._end = first, end

    def draw(self, count: int, steps: int, rng: np.random.Generator) -> tuple[Numbers, Factors]:
        """Sample one transition from each of `count` segments of equal mass.

        The weights are those of importance sampling, (N P(i))^-β, divided by their maximum (equation 2).
        """
        if self._ring.held < self._ring.needed or not self._tree.total:
            raise no_transition(self._ring)
        shares = (np.arange(count) + rng.random(count)) / count
        indices, masses = self._tree.find(shares * self._tree.total)
        weights = (masses.min() / masses) ** self._beta(steps)  # N and the sum of masses cancel out
        return self._ring.numbers(indices), weights.astype(np.float32)

    def update(self, numbers: Numbers, errors: Factors) -> None:
        """Set the priorities of sampled transitions."""
        priorities = errors.astype(np.float64) + LEAST_PRIORITY
        self._greatest = max(self._greatest, float(priorities.max(initial=0)))
        held = np.flatnonzero(numbers >= self._ring.candidates()[0])[::-1]  # the latest first
        numbers, firsts = np.unique(numbers[held], return_index=True)
        masses = priorities[held[firsts]] ** self._config.priority_exponent
        self._tree.set(self._ring.indices(numbers), masses)

    def get_state(self) -> CheckpointState:
        """Return the masses p^α float64 [held * E], by index, and the greatest p."""
        held = self._ring.held * self._ring.games
        return {"masses": self._tree.masses[:held], "greatest": self._greatest}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned.

        Transitions without a mass are new ones: `--n_step` or `--prioritized` has changed.
        """
        self._greatest = state.get("greatest", FIRST_PRIORITY)
        ring = self._ring
        indices = ring.indices(ring.transitions())
        saved = state.get("masses", np.zeros(ring.held * ring.games))[indices]
        self._tree = SumTree(ring.rows * ring.games)
        self._tree.set(indices, np.where(saved, saved, self._mass_of_new))
        self._first, self._end = ring.candidates()

    @property
    def _mass_of_new(self) -> float:
        """The mass of a transition that was never sampled."""
        return float(self._greatest**self._config.priority_exponent)

    def _beta(self, steps: int) -> float:
        """Return β after `steps` training steps: it rises linearly to 1, then stays."""
        start, last = self._config.priority_beta_start, self._config.priority_beta_steps
        return 1.0 if steps >= last else start + (1 - start) * steps / last


class SumTree:
    """Masses ≥ 0 of N indices, and a tree of their sums to sample by (Schaul et al. 2016, B.2.1).

    The lowest level holds the masses in groups of WIDTH; the level above holds the sum of each group, again
    in groups of WIDTH; and so on up to a level with one group. A million masses make four levels. Each sum
    is computed from its whole group, from left to right, so it depends on the masses only, not on their
    history.
    """

    def __init__(self, size: int) -> None:
        """Create a tree of N = `size` zeros; the system allocates its memory as masses are set."""
        self._levels: list[Masses] = []  # [groups, WIDTH] each, the lowest first
        while size > 1 or not self._levels:
            size = -(-size // WIDTH)
            self._levels.append(np.zeros((size, WIDTH)))
        self.total = 0.0

    @property
    def nbytes(self) -> int:
        """Bytes of all levels."""
        return sum(level.nbytes for level in self._levels)

    @property
    def masses(self) -> Masses:
        """The masses by index, padded with zeros: a view to read."""
        return self._levels[0].reshape(-1)

    def set(self, indices: Indices, masses: Masses) -> None:
        """Set the masses at `indices` int64 [B], all different, to `masses` float64 [B]."""
        if not len(indices):
            return
        for level in self._levels:
            level.reshape(-1)[indices] = masses
            groups = indices // WIDTH
            indices = groups[np.concatenate(([True], groups[1:] != groups[:-1]))]  # most duplicates removed
            masses = level[indices].cumsum(axis=1)[:, -1]
        self.total = float(masses[-1])

    def find(self, points: Masses) -> tuple[Indices, Masses]:
        """Return for each point the first index at which the cumulative sum of masses exceeds it.

        An index with mass 0 is never returned.

        Args:
            points: float64 [B], from 0 up to `total`, which is above 0.

        Returns:
            The indices int64 [B], and their masses float64 [B].
        """
        each, indices = np.arange(len(points)), np.zeros(len(points), np.int64)
        masses = np.full(len(points), self.total)
        for level in reversed(self._levels):
            points = np.minimum(points, np.nextafter(masses, 0))  # rounding may exceed the sum
            sums = level[indices].cumsum(axis=1)
            columns = (sums > points[:, np.newaxis]).argmax(axis=1)
            masses = level[indices, columns]
            points = np.maximum(points - (sums[each, columns] - masses), 0)
            indices = indices * WIDTH + columns
        return indices, masses
