"""Uniform sampling of transitions."""

import numpy as np

from simple_dqn.config import MemoryConfig
from simple_dqn.errors import UserError
from simple_dqn.replay_memory.transitions import TransitionRing
from simple_dqn.types import CheckpointState, Factors, Numbers

# Few rows are excluded, so two rounds are nearly always enough. If nearly all are, listing the transitions
# is faster than more rounds.
ROUNDS = 8


class Uniform:
    """Samples transitions uniformly; `Prioritized` has the same methods."""

    experience_bytes = 0  # bytes for each experience, at most
    nbytes = 0  # bytes in all
    uses_errors = False  # whether `update` has an effect

    def __init__(self, ring: TransitionRing, _config: MemoryConfig) -> None:
        self._ring = ring

    def on_append(self) -> None:
        """Called after each row that is appended to the ring."""

    def draw(self, count: int, _steps: int, rng: np.random.Generator) -> tuple[Numbers, Factors]:
        """Sample transitions with replacement.

        Args:
            count: B.
            _steps: Training steps so far, over all games.
            rng: The random stream.

        Returns:
            Their numbers int64 [B], and their weights in the loss float32 [B]; new arrays.

        Raises:
            UserError: The ring holds no transition yet.
        """
        return draw(self._ring, count, rng), np.ones(count, np.float32)

    def update(self, numbers: Numbers, errors: Factors) -> None:
        """Receive the TD errors of sampled transitions, float32 [N], ≥ 0, by their numbers int64 [N].

        Of two equal numbers the later counts, and those no longer held are ignored.
        """

    def get_state(self) -> CheckpointState:
        """Return the state for a checkpoint, valid until the next change."""
        return {}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned; the ring is restored already."""


def draw(ring: TransitionRing, count: int, rng: np.random.Generator) -> Numbers:
    """Return the numbers int64 [count] of transitions, sampled uniformly with replacement.

    Raises:
        UserError: The ring holds no transition yet.
    """
    if ring.held < ring.needed:
        raise no_transition(ring)
    numbers = rng.integers(*ring.candidates(), count)
    for _ in range(ROUNDS):
        excluded = np.flatnonzero(ring.excluded.take(ring.indices(numbers)))
        if not excluded.size:
            return numbers
        numbers[excluded] = rng.integers(*ring.candidates(), excluded.size)
    transitions = ring.transitions()
    if not transitions.size:
        raise no_transition(ring)
    excluded = np.flatnonzero(ring.excluded.take(ring.indices(numbers)))
    numbers[excluded] = transitions[rng.integers(transitions.size, size=excluded.size)]
    return numbers


def no_transition(ring: TransitionRing) -> UserError:
    """Return the error for a ring without transitions."""
    screens = f"{ring.held} screen{'s' if ring.held != 1 else ''}" + (
        " of each game" if ring.games > 1 else ""
    )
    if ring.held < ring.needed:
        reason = f"a transition needs {ring.needed}"
    else:
        reason = "no action between any two of them"
    return UserError(f"memory holds {screens} and {reason}: raise --random_steps")
