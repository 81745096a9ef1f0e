"""The positions of a ring buffer with T rows, whose oldest row is overwritten next.

A row holds one step of each of E games, that is E experiences. An experience has

    an index    row * E + game: its position in arrays [T, E] that are flattened to [T * E]
    a number    how many experiences were added before it

An index is used again when its row is overwritten; a number is unique. In a ring with one game, as in
`examples/dqn.py`, the experience with number t has the index t % T.
"""

import numpy as np

from simple_dqn.types import CheckpointState, Indices, Numbers


class Ring:
    """A ring buffer's positions; the first R rows can be kept, and then only the other T - R are overwritten.

    Attributes:
        rows: T. games: E. written: How many rows were written so far. held: How many of them have not been
        overwritten, at most T. kept: R, 0 by default. The first row after the last kept one is taken to be
        row 0, so that the kept rows are a ring of their own. next_row: The row to write next.
    """

    def __init__(self, rows: int, games: int) -> None:
        self.rows, self.games = rows, games
        self.written = self.held = self.kept = self.next_row = 0

    def advance(self) -> int:
        """Return the row to write, the oldest one if the ring is full, and advance to the next row."""
        row = self.next_row
        self.written += 1
        self.next_row = row + 1 if row + 1 < self.rows else self.kept
        self.held = min(self.held + 1, self.rows)
        return row

    def keep(self) -> None:
        """Keep the rows written so far, which must be fewer than T."""
        assert self.held == self.written < self.rows
        self.kept = self.held

    @property
    def oldest(self) -> int:
        """How many rows were written before the oldest row that is held and not kept."""
        return self.written - (self.held - self.kept)

    def indices(self, numbers: Numbers) -> Indices:
        """Return the indices of the experiences with these `numbers`, which are held."""
        return self._wrapped(numbers, numbers)

    def numbers(self, indices: Indices) -> Numbers:
        """Return the numbers of the experiences at these `indices`."""
        kept, oldest = self.kept * self.games, self.oldest * self.games
        numbers = oldest + (indices - oldest) % (self.rows * self.games - kept)
        return np.where(indices < kept, indices, numbers) if kept else numbers

    def around(self, indices: Indices, offsets: Indices) -> Indices:
        """Return the indices of earlier and later experiences of the same games.

        Args:
            indices: int64 [B].
            offsets: int64 [K], E for each row later, -E for each row earlier.

        Returns:
            int64 [B, K]. The row after the newest is the oldest.
        """
        indices = indices[:, np.newaxis]
        return self._wrapped(indices + offsets, indices)

    def held_rows(self) -> Indices:
        """Return the rows that are held, int64 [held], in the order in which they were written."""
        written = np.concatenate((np.arange(self.kept), np.arange(self.oldest, self.written)))
        return self.indices(written * self.games) // self.games

    def get_state(self) -> CheckpointState:
        """Return the positions for a checkpoint."""
        return {"rows": self.rows, "position": self.next_row, "held": self.held, "kept": self.kept}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` of a ring with as many rows and games returned."""
        self.next_row, self.held = state["position"], state["held"]
        self.kept = state.get("kept", 0)  # absent from older checkpoints, in which no row was kept
        self.written = self.next_row + (self.rows - self.kept if self.held == self.rows else 0)

    def _wrapped(self, indices: Indices, origins: Indices) -> Indices:
        """Return `indices`, which may lie beyond an end of the ring, modulo its length.

        Args:
            indices: int64 [...], indices or numbers.
            origins: int64, broadcast to `indices`: below R * E for those that belong to the kept rows.
        """
        kept, size = self.kept * self.games, self.rows * self.games
        if not kept:
            return indices % size
        return np.where(origins < kept, indices % kept, kept + (indices - kept) % (size - kept))
