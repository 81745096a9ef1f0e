"""Drawing transitions, each as likely as any other."""

import numpy as np

from simple_dqn.config import MemoryConfig
from simple_dqn.errors import UserError
from simple_dqn.replay_memory.transitions import TransitionRing
from simple_dqn.types import CheckpointState, Factors, Numbers

# Hardly any row is excluded, so two rounds are nearly always enough. Where almost all are, it is faster to
# list the others than to draw on.
ROUNDS = 8


class Uniform:
    """Draws transitions uniformly. Its methods are what the memory asks of a sampler."""

    experience_bytes = 0  # memory taken for each experience, at most
    nbytes = 0  # memory taken in all

    def __init__(self, ring: TransitionRing, _config: MemoryConfig) -> None:
        self._ring = ring

    def on_append(self) -> None:
        """Hear that the ring has a new row."""

    def draw(self, count: int, _steps: int, rng: np.random.Generator) -> tuple[Numbers, Factors]:
        """Draw transitions with replacement.

        Args:
            count: B, how many.
            _steps: Steps of training so far, over all games.
            rng: The random stream that decides.

        Returns:
            Their numbers int64 [B], and how much each counts in the update float32 [B]; fresh arrays.

        Raises:
            UserError: The ring holds no transition yet.
        """
        return draw(self._ring, count, rng), np.ones(count, np.float32)

    def update(self, numbers: Numbers, errors: Factors) -> None:
        """Hear how wrong the latest predictions were for transitions that were drawn.

        Args:
            numbers: int64 [N]. Of two that are the same the later counts; those that have left the ring
                since are ignored.
            errors: float32 [N], ≥ 0.
        """

    def get_state(self) -> CheckpointState:
        """Return all that is needed to go on, without the ring; valid until the next change."""
        return {}

    def set_state(self, state: CheckpointState) -> None:
        """Go on from what `get_state` returned; the ring holds again what it held then."""


def draw(ring: TransitionRing, count: int, rng: np.random.Generator) -> Numbers:
    """Return the numbers int64 [count] of transitions, drawn uniformly and with replacement.

    Raises:
        UserError: The ring holds no transition yet.
    """
    if ring.held < ring.needed:
        raise no_transition(ring)
    numbers = _draw_candidates(ring, count, rng)
    for _ in range(ROUNDS):
        excluded = np.flatnonzero(ring.excluded.take(ring.indices(numbers)))
        if not excluded.size:
            return numbers
        numbers[excluded] = _draw_candidates(ring, excluded.size, rng)
    transitions = ring.transitions()
    if not transitions.size:
        raise no_transition(ring)
    excluded = np.flatnonzero(ring.excluded.take(ring.indices(numbers)))
    numbers[excluded] = transitions[rng.integers(transitions.size, size=excluded.size)]
    return numbers


def _draw_candidates(ring: TransitionRing, count: int, rng: np.random.Generator) -> Numbers:
    """Return the numbers of `count` candidates, kept or not, each as likely as any other."""
    first, end = ring.candidates()
    kept_first, kept_end = ring.kept_candidates()
    numbers = rng.integers(first - (kept_end - kept_first), end, count)
    if ring.kept:  # Those below the first stand for kept ones.
        numbers[numbers < first] -= first - kept_end
    return numbers


def no_transition(ring: TransitionRing) -> UserError:
    """Return the error that says why nothing can be drawn from `ring`."""
    screens = f"{ring.held} screen{'s' if ring.held != 1 else ''}" + (
        " of each game" if ring.games > 1 else ""
    )
    if ring.held < ring.needed:
        reason = f"a transition needs {ring.needed}"
    else:
        reason = "no action between any two of them"
    return UserError(f"memory holds {screens} and {reason}: raise --random_steps")
