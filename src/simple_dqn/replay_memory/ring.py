"""Which rows of the ring hold transitions, and which screens their states may show.

The ring has T rows; row t is what one `Step` of E games brought: the action, the reward it paid,
whether the episode ended, and the screen seen after all that. So transition t, of game e, reads

    prestate    screens t-S ... t-1     what the agent saw
    action t, reward t, terminal t      what it did, and what came of it
    poststate   screens t-S+1 ... t     what it saw then

and the S + 1 screens t-S ... t, the transition's window, hold both states.

Row t is a transition unless no action led to it (`starts`: the first screen of a game) or its
window leaves the ring: when the ring is full, the row at the write position is the oldest, and a
window may not reach over it to the newest. Before the ring is full, row 0 is where all began: a
window may reach beyond it, and shows zeros there.

A state never mixes episodes; screens from before its episode are zero, as in DeepMind's code for
Mnih et al. (2015). An episode begins at a row that starts a game, and also at a terminal row: the
screen on which a life is lost ends one episode and is the first of the next. (Where the whole game
ended there, the next row starts a game and hides the terminal screen in its turn.) So screen k of
transition t's window is hidden if an episode begins in rows k+1 ... t-1. Whether one begins at
row t is no matter: then the transition is terminal, and the value of its poststate is not used.

Rows are circular. The index of an experience is row * E + game.
"""

import numpy as np
from numpy.typing import NDArray

from simple_dqn.types import Flags, State

Indices = NDArray[np.int64]  # [B], of experiences


class Ring:
    """The rows of a ring of T rows of E games, for states of S screens.

    Attributes:
        rows: T.
        games: E.
        history_length: S.
        starts: bool [T, E], this row starts a game: no action led to it.
        terminals: bool [T, E], the episode ended at this row.
        position: The row that is written next.
        held: The rows written so far, T at most.
    """

    def __init__(self, rows: int, games: int, history_length: int) -> None:
        self.rows, self.games, self.history_length = rows, games, history_length
        self.starts = np.zeros((rows, games), np.bool_)
        self.terminals = np.zeros((rows, games), np.bool_)
        self.position = 0
        self.held = 0
        self._to_window = games * np.arange(-history_length, 1)

    def append(self, starts: Flags, terminals: Flags) -> int:
        """Take the next row for a step with `starts` and `terminals` bool [E]; return the row."""
        row = self.position
        # What came before the first row is not known, so no action counts as having led to it.
        self.starts[row] = starts if self.held else True
        self.terminals[row] = terminals
        self.position = (row + 1) % self.rows
        self.held = min(self.held + 1, self.rows)
        return row

    def candidates(self) -> tuple[int, int]:
        """Return the first and the last plus one of those numbers whose window is in the ring.

        Experiences are numbered from the oldest, row by row; see `indices`.
        """
        full = self.held == self.rows
        return (self.history_length if full else 1) * self.games, self.held * self.games

    def indices(self, numbers: Indices) -> Indices:
        """Return the indices of the experiences with these `numbers`, counted from the oldest."""
        oldest = self.position if self.held == self.rows else 0
        return (numbers + oldest * self.games) % (self.rows * self.games)

    def started(self, indices: Indices) -> Flags:
        """Return for each of `indices` whether no action led there, bool [B]."""
        return self.starts.reshape(-1)[indices]

    def ended(self, indices: Indices) -> Flags:
        """Return for each of `indices` whether the episode ended there, bool [B]."""
        return self.terminals.reshape(-1)[indices]

    def transitions(self) -> Indices:
        """Return the indices of all transitions, oldest first: exact, and slow for a large ring."""
        candidates = self.indices(np.arange(*self.candidates()))
        return candidates[~self.started(candidates)]

    def windows(self, indices: Indices) -> Indices:
        """Return the indices of the screens of each transition's window, int64 [B, S + 1]."""
        return (indices[:, np.newaxis] + self._to_window) % (self.rows * self.games)

    def hidden(self, windows: Indices) -> Flags | None:
        """Return which screens of `windows` int64 [B, S + 1] lie before their episode.

        Returns:
            bool [B, S - 1], True where zeros stand for the screen; the last two screens of a
            window are never hidden. None if no screen at all is, as for most minibatches.
        """
        between = windows[:, 1:-1]
        begins = self.started(between) | self.ended(between)
        if not begins.any():
            return None
        return np.logical_or.accumulate(begins[:, ::-1], axis=1)[:, ::-1]

    def get_state(self) -> State:
        """Return where the ring stands; what its rows say is told by the log."""
        return {"rows": self.rows, "position": self.position, "held": self.held}

    def set_state(self, state: State) -> None:
        """Stand where `get_state` of a ring of as many rows and games said; the rows are to be filled yet."""
        self.position, self.held = state["position"], state["held"]
