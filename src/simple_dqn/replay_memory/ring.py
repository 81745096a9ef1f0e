"""Where experience lies: rows that are overwritten in turn, but for the first, which can be kept for good.

An experience is what one step of one game brought. In `examples/dqn.py`, with one game and nothing kept,
step t lies in row t % T. Here each row has the experiences of E games. Three words name an experience:

    row     0 ... T - 1, which row of arrays [T, E] it lies in
    index   row * E + game, where it lies in the same arrays seen as [T * E]
    number  how many experiences were added before it

Rows and indices pass on to other experiences as the ring is overwritten; a number is never used again.
"""

import numpy as np

from simple_dqn.types import CheckpointState, Indices, Numbers


class Ring:
    """The rows of a ring, of which the first R may be `kept`.

    The kept rows are a ring of their own that stands still; the other T - R are overwritten in turn.

    Attributes:
        rows: T.
        games: E.
        written: How many rows were written so far.
        held: How many of them are still there, T at most.
        kept: How many of them are never overwritten, R.
        next_row: The row that is written next.
    """

    def __init__(self, rows: int, games: int) -> None:
        self.rows, self.games = rows, games
        self.written = self.held = self.kept = self.next_row = 0

    def advance(self) -> int:
        """Return the row to write now, the oldest if the ring is full, and go on to the next."""
        row = self.next_row
        self.written += 1
        self.next_row = row + 1 if row + 1 < self.rows else self.kept
        self.held = min(self.held + 1, self.rows)
        return row

    def keep(self) -> None:
        """Never overwrite what is held now."""
        assert self.held == self.written < self.rows
        self.kept = self.held

    @property
    def oldest(self) -> int:
        """How many rows were written before the oldest that is held and not kept."""
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
        """Return the indices of the rows before and after each of `indices`, of the same game.

        Args:
            indices: int64 [B].
            offsets: int64 [K], E for each row later, -E for each row earlier.

        Returns:
            int64 [B, K]. The row after the newest is the oldest, and of the kept rows likewise.
        """
        indices = indices[:, np.newaxis]
        return self._wrapped(indices + offsets, indices)

    def held_rows(self) -> Indices:
        """Return the rows that are held, int64 [held], in the order in which they were written."""
        written = np.concatenate((np.arange(self.kept), np.arange(self.oldest, self.written)))
        return self.indices(written * self.games) // self.games

    def get_state(self) -> CheckpointState:
        """Return where the ring stands, without what its rows hold."""
        return {"rows": self.rows, "position": self.next_row, "held": self.held, "kept": self.kept}

    def set_state(self, state: CheckpointState) -> None:
        """Stand where `get_state` of a ring of as many rows and games said; its rows are to be filled yet."""
        self.next_row, self.held = state["position"], state["held"]
        self.kept = state.get("kept", 0)  # absent from older states, in which nothing was kept
        self.written = self.next_row + (self.rows - self.kept if self.held == self.rows else 0)

    def _wrapped(self, indices: Indices, origins: Indices) -> Indices:
        """Return `indices` that may lie beyond the end of a ring as they are within it.

        Args:
            indices: int64 [...], indices or numbers.
            origins: int64, of a shape that goes with it: an experience in the ring that is meant.
        """
        kept, size = self.kept * self.games, self.rows * self.games
        if not kept:
            return indices % size
        return np.where(origins < kept, indices % kept, kept + (indices - kept) % (size - kept))
