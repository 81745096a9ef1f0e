"""The transitions of a replay memory: the rows at which they are, and the screens of their states.

Row t of one game holds action t, its reward, whether the episode ended, and the screen observed afterwards.
With S screens in a state, transition t is

    prestate    screens t-S ... t-1     observed before the action
    action t, reward t, terminal t
    poststate   screens t-S+1 ... t     observed after the action

and the S + 1 screens t-S ... t, the transition's window, hold both states. This is `ReplayMemory` of
`examples/dqn.py`, whose states have 4 screens.

Which rows are transitions: A row at which a game starts is none, because no action led to its screen. In a
full ring the oldest S rows are none, because their windows would contain the newest rows. While the ring is
not full, a window may reach back before row 0. Those screens are hidden, because a game starts at row 0.

Which screens are hidden: A state never mixes episodes. Screens from before its episode are zero, as in
DeepMind's code for Mnih et al. (2015). An episode begins at a row that starts a game, and at a terminal row:
the screen on which a life is lost ends one episode and begins the next. (If the whole game ended, the next
row starts a game, and hides the terminal screen too.) So screen k of window t is hidden if an episode begins
in rows k+1 ... t-1. An episode that begins at row t itself makes no difference: t is no transition, or it is
terminal and the value of its poststate is not used.

n steps (`n_step` above 1): Transition t goes on to row e, which is row t+n-1, or the last row before that in
the episode: row e is terminal, or row e+1 starts a game because this one was truncated (then the value of
the poststate still counts).

    prestate    screens t-S ... t-1
    action t, rewards t ... e, terminal e
    poststate   screens e-S+1 ... e

The newest n-1 rows are no transitions until row t+n-1 is written.

Context rows: Their screens belong to the states of other rows, but they are no transitions; see `CONTEXT` in
`types.py`.
"""

import numpy as np

from simple_dqn.types import CheckpointState, Flags, Indices, Numbers


class TransitionRing:
    """A ring buffer of T rows with its transitions of n steps between states of S screens.

    A row holds one step of each of E games, that is E experiences. An experience has

        an index    row * E + game: its position in arrays [T, E] that are flattened to [T * E]
        a number    how many experiences were added before it

    An index is used again when its row, the oldest, is overwritten; a number is unique. With one game, as in
    `examples/dqn.py`, the experience with number t has the index t % T.

    Attributes:
        rows: T. games: E. history_length: S. n_step: n. needed: How many rows a transition needs, S + n.
        written: How many rows were written, since the run began or, after a resume, as if the ring had been
            filled once at most. held: How many of them are not overwritten, at most T.
        next_row: The row to write next.
        starts: bool [T, E], a game starts at this row: no action led to its screen.
        terminals: bool [T, E], the episode ended at this row.
        excluded: bool [T, E], this row is no transition: a game starts there, or it is context.
    """

    def __init__(self, rows: int, games: int, history_length: int, n_step: int = 1) -> None:
        self.rows, self.games = rows, games
        self.written = self.held = self.next_row = 0
        self.history_length, self.n_step = history_length, n_step
        self.needed = history_length + n_step
        self.starts = np.zeros((rows, games), np.bool_)
        self.terminals = np.zeros((rows, games), np.bool_)
        self.excluded = np.zeros((rows, games), np.bool_)
        self._window = games * np.arange(-history_length, 1)  # offsets of indices
        self._steps = games * np.arange(n_step)

    def append(self, starts: Flags, terminals: Flags, context: Flags) -> int:
        """Write the flags of a step, bool [E] each, into the next row, and return the row."""
        first = self.held == 0  # as if a game started there, since nothing is known of the row before
        row = self.advance()
        self.write(row, np.ones_like(starts) if first else starts, terminals, context)
        return row

    def write(self, rows: int | Indices, starts: Flags, terminals: Flags, context: Flags) -> None:
        """Write the flags of K steps, bool [K, E] each, into `rows` int64 [K]."""
        self.starts[rows] = starts
        self.terminals[rows] = terminals
        self.excluded[rows] = starts | context

    def candidates(self) -> tuple[int, int]:
        """Return the first number, and the last plus one, of rows whose screens and steps are all held.

        Each candidate is a transition unless it is `excluded`.
        """
        first = self.oldest + (self.history_length if self.held == self.rows else 1)
        return first * self.games, max(first, self.written - self.n_step + 1) * self.games

    def transitions(self) -> Numbers:
        """Return the numbers of all transitions, oldest first; slow for a large ring."""
        candidates = np.arange(*self.candidates())
        return candidates[~self.excluded.take(self.indices(candidates))]

    def windows(self, indices: Indices) -> Indices:
        """Return the indices of the screens of each transition's window, int64 [B, S + 1]."""
        return self.around(indices, self._window)

    def hidden(self, windows: Indices) -> Flags | None:
        """Return which screens of `windows` int64 [B, S + 1] are from before their episode.

        Returns:
            bool [B, S - 1], for all screens but the last two, which never are. None: no screen is, as in most
            minibatches.
        """
        between = windows[:, 1:-1]
        begins = self.starts.take(between) | self.terminals.take(between)
        if not begins.any():
            return None
        return np.logical_or.accumulate(begins[:, ::-1], axis=1)[:, ::-1]

    def steps(self, indices: Indices) -> tuple[Indices, Indices]:
        """Return the indices of rows t ... t+n-1 of each transition, and how many steps it has.

        Returns:
            int64 [B, n], and int64 [B] from 1 to n, which is e - t + 1.
        """
        through = self.around(indices, self._steps)
        ends = self.terminals.take(through)
        ends[:, :-1] |= self.starts.take(through[:, 1:])
        ends[:, -1] = True
        return through, ends.argmax(axis=1) + 1

    def windows_of_states(self, firsts: Indices, lasts: Indices) -> tuple[Indices, Flags | None]:
        """Return the indices of the screens of each prestate, then of each poststate, and which are hidden.

        Args:
            firsts: int64 [B], the index of row t of each transition.
            lasts: int64 [B], the index of its row e.

        Returns:
            int64 [2 B, S], and for the first S - 1 of each what `hidden` returns.
        """
        count, windows = len(firsts), self.windows(np.concatenate((firsts, lasts)))
        hidden = self.hidden(windows)
        if hidden is not None:  # A poststate has all screens of its window but the first.
            hidden[count:, :-1] = hidden[count:, 1:]
            hidden[count:, -1] = False
        return np.concatenate((windows[:count, :-1], windows[count:, 1:])), hidden

    def advance(self) -> int:
        """Return the row to write, the oldest one if the ring is full, and advance to the next row."""
        row = self.next_row
        self.written += 1
        self.next_row = (row + 1) % self.rows
        self.held = min(self.held + 1, self.rows)
        return row

    @property
    def oldest(self) -> int:
        """The number of rows written before the oldest row that is held."""
        return self.written - self.held

    def indices(self, numbers: Numbers) -> Indices:
        """Return the indices of the experiences with these `numbers`, which are held."""
        return numbers % (self.rows * self.games)

    def numbers(self, indices: Indices) -> Numbers:
        """Return the numbers of the experiences at these `indices`."""
        oldest = self.oldest * self.games
        return oldest + (indices - oldest) % (self.rows * self.games)

    def around(self, indices: Indices, offsets: Indices) -> Indices:
        """Return the indices, int64 [B, K], of earlier and later experiences of the same games.

        An offset is E for each row later, -E for each row earlier. The row after the newest is the oldest.
        """
        return (indices[:, np.newaxis] + offsets) % (self.rows * self.games)

    def held_rows(self) -> Indices:
        """Return the rows that are held, int64 [held], in the order in which they were written."""
        return np.arange(self.oldest, self.written) % self.rows

    def get_state(self) -> CheckpointState:
        """Return the positions for a checkpoint."""
        return {"rows": self.rows, "position": self.next_row, "held": self.held}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` of a ring with as many rows and games returned."""
        self.next_row, self.held = state["position"], state["held"]
        self.written = self.next_row + (self.rows if self.held == self.rows else 0)
