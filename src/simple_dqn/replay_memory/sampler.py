"""Who chooses the transitions of a minibatch, and what is said where there are none."""

from typing import Protocol

import numpy as np

from simple_dqn.errors import UserError
from simple_dqn.replay_memory.ring import Ring
from simple_dqn.types import Factors, Indices, State


class Sampler(Protocol):
    """Draws transitions of a ring, by their numbers; see `Ring`."""

    experience_bytes: int  # what it takes for each experience, at the most

    @property
    def nbytes(self) -> int:
        """Bytes that it takes in all."""

    def on_append(self) -> None:
        """Hear that the ring has taken a row."""

    def draw(self, count: int, steps: int, rng: np.random.Generator) -> tuple[Indices, Factors]:
        """Draw transitions, with replacement.

        Args:
            count: B, how many.
            steps: Steps of training so far, over all games.
            rng: The random stream that decides.

        Returns:
            Their numbers int64 [B], and how much each counts in the update float32 [B]; fresh arrays.

        Raises:
            UserError: The ring holds no transition yet.
        """

    def update(self, numbers: Indices, errors: Factors) -> None:
        """Hear how wrong the latest predictions were for transitions that were drawn.

        Args:
            numbers: int64 [N], the later of two that are the same counts; those that have left the ring
                since are passed over.
            errors: float32 [N], ≥ 0.
        """

    def get_state(self) -> State:
        """Return all that is needed to go on, but for what the ring holds; valid until the next change."""

    def set_state(self, state: State) -> None:
        """Go on from what `get_state` returned; the ring holds again what it held then."""


def require_rows(ring: Ring) -> None:
    """Refuse to draw from a `ring` that holds too few rows for a transition.

    Raises:
        UserError: It does.
    """
    if ring.held < ring.needed:
        raise UserError(
            f"memory holds {_screens(ring)} and a transition needs {ring.needed}: raise --random_steps"
        )


def no_action(ring: Ring) -> UserError:
    """Return the complaint about a `ring` of rows enough, in which each starts a game."""
    return UserError(
        f"memory holds {_screens(ring)} and no action between any two of them: raise --random_steps"
    )


def _screens(ring: Ring) -> str:
    """Return in words how many screens the ring holds of a game."""
    return f"{ring.held} screen{'s' if ring.held != 1 else ''}" + (" of each game" if ring.games > 1 else "")
