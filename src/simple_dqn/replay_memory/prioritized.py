"""Drawing transitions by priority: the proportional variant of Schaul et al. (2016)."""

import numpy as np

from simple_dqn.config import MemoryConfig
from simple_dqn.replay_memory.ring import Ring
from simple_dqn.replay_memory.sampler import no_action, require_rows
from simple_dqn.replay_memory.sum_tree import WIDTH, SumTree
from simple_dqn.types import Factors, Indices, State

LEAST_PRIORITY = 1e-6  # ε, so that what was predicted exactly can be drawn again; as in OpenAI Baselines
FIRST_PRIORITY = 1.0  # p₁ of Algorithm 1, as long as no error is known


class Prioritized:
    """A `Sampler` with the odds P(i) = p_i^α / Σ_k p_k^α, where p_i = |δ_i| + ε is a priority (equation 1).

    |δ_i| is how wrong the latest prediction for transition i was; a new one has the greatest priority so
    far, so that it is drawn soon. What is no transition has no mass in the tree, and so cannot be drawn:
    rows that start a game, and those whose window or whose steps are not all in the ring. As rows come,
    the turn of others to be drawn begins, and ends, in the order of their numbers.
    """

    experience_bytes = 8 + -(-8 // (WIDTH - 1))  # the mass, and its share of the sums

    def __init__(self, ring: Ring, config: MemoryConfig) -> None:
        """Draw from `ring`, which is empty, by the α and β of `config`."""
        self._ring, self._config = ring, config
        self._tree = SumTree(ring.rows * ring.games)
        self._greatest = FIRST_PRIORITY
        self._first, self._end = ring.candidates()  # of the numbers between, the transitions have mass

    @property
    def nbytes(self) -> int:
        """Bytes of the tree."""
        return self._tree.nbytes

    def on_append(self) -> None:
        """Let what the ring now holds whole be drawn, and what it has begun to lose no longer."""
        first, end = self._ring.candidates()
        gone, come = (
            self._ring.indices(np.arange(*numbers)) for numbers in ((self._first, first), (self._end, end))
        )
        masses = np.where(self._ring.begin_none(come), 0, self._mass_of_new)
        self._tree.set(np.concatenate((gone, come)), np.concatenate((np.zeros(len(gone)), masses)))
        self._first, self._end = first, end

    def draw(self, count: int, steps: int, rng: np.random.Generator) -> tuple[Indices, Factors]:
        """Draw one transition from each of `count` parts of equal mass; see `Sampler`.

        The weights are those of importance sampling, (N P(i))^-β, divided by the greatest (equation 2).
        """
        require_rows(self._ring)
        if not self._tree.total:
            raise no_action(self._ring)
        shares = (np.arange(count) + rng.random(count)) / count
        indices, masses = self._tree.find(shares * self._tree.total)
        weights = (masses.min() / masses) ** self._beta(steps)  # N and the sum of all masses cancel out
        return self._ring.numbers(indices), weights.astype(np.float32)

    def update(self, numbers: Indices, errors: Factors) -> None:
        """Set the priorities of transitions that were drawn; see `Sampler`."""
        priorities = errors.astype(np.float64) + LEAST_PRIORITY
        self._greatest = max(self._greatest, float(priorities.max(initial=0)))
        held = np.flatnonzero(self._ring.are_candidates(numbers))[::-1]  # the latest first
        numbers, firsts = np.unique(numbers[held], return_index=True)
        masses = priorities[held[firsts]] ** self._config.priority_exponent
        self._tree.set(self._ring.indices(numbers), masses)

    def get_state(self) -> State:
        """Return p^α of all that is held, float64 [held * E] by index, and the greatest p; see `Sampler`."""
        held = self._ring.held * self._ring.games
        return {"masses": self._tree.masses[:held], "greatest": self._greatest}

    def set_state(self, state: State) -> None:
        """Go on from what `get_state` returned; see `Sampler`.

        What could not be drawn then and can now, since `--n_step` or `--prioritized` was another or since
        rows are kept, is as new.
        """
        self._greatest = state.get("greatest", FIRST_PRIORITY)
        ring = self._ring
        places = ring.indices(ring.transitions())
        saved = state.get("masses", np.zeros(ring.held * ring.games))[places]
        self._tree = SumTree(ring.rows * ring.games)
        self._tree.set(places, np.where(saved, saved, self._mass_of_new))
        self._first, self._end = ring.candidates()

    @property
    def _mass_of_new(self) -> float:
        """The mass of a transition that was never drawn."""
        return float(self._greatest**self._config.priority_exponent)

    def _beta(self, steps: int) -> float:
        """Return β after `steps` of training: it rises linearly to 1, then stays."""
        start, last = self._config.priority_beta_start, self._config.priority_beta_steps
        return 1.0 if steps >= last else start + (1 - start) * steps / last
