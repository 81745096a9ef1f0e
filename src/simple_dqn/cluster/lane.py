"""How the chunks of one actor become rows of a memory that many actors share."""

from collections.abc import Iterator
from dataclasses import fields

import numpy as np

from simple_dqn.types import CONTEXT, Experience, Flags, Step

FIELDS = tuple(field.name for field in fields(Experience))


class Piece:
    """Rows that lie together in the memory: a chunk, after the rows that it follows on.

    Which of them are context, and why: see `simple_dqn.types.CONTEXT`.

    Attributes:
        experience: All the rows [R, W].
        first: The first row at which transitions may begin.
        end: The last, plus one.
    """

    def __init__(self, before: Experience | None, chunk: Experience, n_step: int) -> None:
        """Put `chunk` after the rows `before` it, which end with n-1 whose turn to begin has not come yet."""
        self.experience = chunk if before is None else joined(before, chunk)
        self.first = 0 if before is None else len(before.actions) - (n_step - 1)
        self.end = len(self.experience.actions) - (n_step - 1)

    @property
    def begins(self) -> Flags:
        """Where transitions begin, bool [R, W]."""
        begins = ~self.experience.starts
        begins[: self.first] = begins[self.end :] = False
        return begins

    def steps(self) -> Iterator[Step]:
        """Yield the rows as the memory is to take them."""
        rows = self.experience
        actions, starts = rows.actions.copy(), rows.starts.copy()
        actions[: self.first] = actions[self.end :] = CONTEXT
        starts[0] = True  # Hides what lies before it.
        nothing = np.zeros(starts.shape[1], np.bool_)  # neither tells the memory anything
        for row, screens in enumerate(rows.screens):
            yield Step(
                screens, actions[row], rows.rewards[row], rows.terminals[row], nothing, nothing, starts[row]
            )


class Lane:
    """Follows one actor from chunk to chunk."""

    def __init__(self, history_length: int, n_step: int) -> None:
        """Expect the first chunk, for states of S = `history_length` screens and n = `n_step` steps."""
        self._kept, self._n_step = history_length + n_step - 1, n_step
        self._before: Experience | None = None

    def take(self, chunk: Experience) -> Piece:
        """Return what the memory is to take in for the actor's next `chunk`, of S + n rows or more."""
        piece = Piece(self._before, chunk, self._n_step)
        # Copies, lest all of every actor's last chunk stay in memory.
        self._before = Experience(*(getattr(chunk, name)[-self._kept :].copy() for name in FIELDS))
        return piece


def joined(one: Experience, other: Experience) -> Experience:
    """Return the rows of `one`, then those of `other`."""
    return Experience(*(np.concatenate((getattr(one, name), getattr(other, name))) for name in FIELDS))
