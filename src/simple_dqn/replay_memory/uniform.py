"""Drawing transitions, each as likely as any other."""

import numpy as np

from simple_dqn.errors import UserError
from simple_dqn.replay_memory.ring import Indices, Ring

# Of all rows hardly any start a game, so two rounds are nearly always enough; where almost all do,
# listing those that do not is quicker than drawing on.
ROUNDS = 8


def draw(ring: Ring, count: int, rng: np.random.Generator) -> Indices:
    """Return the indices int64 [count] of transitions, drawn uniformly and with replacement.

    Raises:
        UserError: The ring holds no transition yet.
    """
    needed = ring.history_length + 1
    if ring.held < needed:
        raise UserError(f"memory holds {_screens(ring)} and a state needs {needed}: raise --random_steps")
    first, end = ring.candidates()
    indices = ring.indices(rng.integers(first, end, count))
    for _ in range(ROUNDS):
        invalid = np.flatnonzero(ring.started(indices))
        if not invalid.size:
            return indices
        indices[invalid] = ring.indices(rng.integers(first, end, invalid.size))
    return _redraw_from_list(ring, indices, rng)


def _redraw_from_list(ring: Ring, indices: Indices, rng: np.random.Generator) -> Indices:
    """Return `indices` with those that are no transitions drawn anew from the list of all that are."""
    transitions = ring.transitions()
    if not transitions.size:
        raise UserError(
            f"memory holds {_screens(ring)} and no action between any two of them: raise --random_steps"
        )
    invalid = np.flatnonzero(ring.started(indices))
    indices[invalid] = transitions[rng.integers(transitions.size, size=invalid.size)]
    return indices


def _screens(ring: Ring) -> str:
    """Return in words how many screens the ring holds of a game."""
    return f"{ring.held} screen{'s' if ring.held != 1 else ''}" + (" of each game" if ring.games > 1 else "")
