"""Drawing transitions, each as likely as any other."""

import numpy as np

from simple_dqn.config import MemoryConfig
from simple_dqn.replay_memory.ring import Ring
from simple_dqn.replay_memory.sampler import no_action, require_rows
from simple_dqn.types import Factors, Indices, State

# Of all rows hardly any start a game, so two rounds are nearly always enough; where almost all do,
# listing those that do not is quicker than drawing on.
ROUNDS = 8


class Uniform:
    """A `Sampler` that draws uniformly, and to which errors are all the same."""

    experience_bytes = nbytes = 0

    def __init__(self, ring: Ring, _config: MemoryConfig) -> None:
        self._ring = ring

    def on_append(self) -> None:
        """Do nothing: the ring says what can be drawn."""

    def draw(self, count: int, _steps: int, rng: np.random.Generator) -> tuple[Indices, Factors]:
        """Draw `count` transitions, which all count alike; see `Sampler`."""
        return draw(self._ring, count, rng), np.ones(count, np.float32)

    def update(self, _numbers: Indices, _errors: Factors) -> None:
        """Do nothing."""

    def get_state(self) -> State:
        """Return nothing."""
        return {}

    def set_state(self, _state: State) -> None:
        """Do nothing."""


def draw(ring: Ring, count: int, rng: np.random.Generator) -> Indices:
    """Return the numbers int64 [count] of transitions, drawn uniformly and with replacement.

    Raises:
        UserError: The ring holds no transition yet.
    """
    require_rows(ring)
    numbers = _draw_candidates(ring, count, rng)
    for _ in range(ROUNDS):
        invalid = np.flatnonzero(ring.begin_none(ring.indices(numbers)))
        if not invalid.size:
            return numbers
        numbers[invalid] = _draw_candidates(ring, invalid.size, rng)
    return _redraw_from_list(ring, numbers, rng)


def _draw_candidates(ring: Ring, count: int, rng: np.random.Generator) -> Indices:
    """Return `count` numbers of candidates, kept or not, each as likely as any other."""
    first, end = ring.candidates()
    kept_first, kept_end = ring.kept_candidates()
    numbers = rng.integers(first - (kept_end - kept_first), end, count)
    if ring.kept:  # Those below the first stand for what is kept.
        numbers[numbers < first] -= first - kept_end
    return numbers


def _redraw_from_list(ring: Ring, numbers: Indices, rng: np.random.Generator) -> Indices:
    """Return `numbers` with those that are no transitions drawn anew from the list of all that are."""
    transitions = ring.transitions()
    if not transitions.size:
        raise no_action(ring)
    invalid = np.flatnonzero(ring.begin_none(ring.indices(numbers)))
    numbers[invalid] = transitions[rng.integers(transitions.size, size=invalid.size)]
    return numbers
