"""Which rows of the ring are transitions, and which screens a state shows.

`ReplayMemory` in `examples/dqn.py` has the rule for a state of 4 screens: row t holds action t, its reward,
whether the episode ended, and the screen seen after all that. With S screens transition t reads

    prestate    screens t-S ... t-1     what the agent saw
    action t, reward t, terminal t      what it did, and what came of it
    poststate   screens t-S+1 ... t     what it saw then

and the S + 1 screens t-S ... t, the transition's window, hold both states.

A row is no transition if a game starts there (`starts`): no action led to its screen. In a full ring the
oldest S rows are none either: their windows would reach back over the oldest row to the newest ones. While
the ring is not full, a window may reach back beyond row 0, and shows zeros there.

A state never mixes episodes: screens from before its episode are hidden, that is, zero, as in DeepMind's
code for Mnih et al. (2015). An episode begins at a row that starts a game, and at a terminal row: the screen
on which a life is lost ends one episode and begins the next. (If the whole game ended, the next row starts a
game and hides the terminal screen too.) So screen k of window t is hidden if an episode begins in rows
k+1 ... t-1. An episode that begins at row t makes no difference: either t is no transition, or it is
terminal, and the value of its poststate is not used.

Three things are not on the page.

Several steps: with `n_step` n above 1, transition t goes on to row e. That is row t+n-1, or the first before
it at which the episode ends: row e is terminal, or row e+1 starts a game because this one was cut off (then
the value of the poststate still counts).

    prestate    screens t-S ... t-1
    action t, rewards t ... e, terminal e
    poststate   screens e-S+1 ... e

The newest n-1 rows are no transitions yet: each waits until row t+n-1 is written.

Kept rows: windows and steps stay within the ring they begin in, see `Ring`. After the last kept row comes row
0, where a game starts: it ends the steps that reach it, and hides what a window shows before it. So all kept
rows but row 0 can be transitions.

Context: rows that are part of other rows' transitions, but are none themselves; see `CONTEXT` in `types.py`.
"""

import numpy as np

from simple_dqn.replay_memory.ring import Ring
from simple_dqn.types import CheckpointState, Flags, Indices, Numbers, States, Step


class TransitionRing(Ring):
    """A ring that knows its transitions of n steps, between states of S screens.

    The flags of the experiences at some indices are `starts.take(indices)`, and so on.

    Attributes:
        history_length: S.
        n_step: n.
        needed: How many rows must be held for there to be a transition, S + n.
        starts: bool [T, E], a game starts at this row: no action led to its screen.
        terminals: bool [T, E], the episode ended at this row.
        excluded: bool [T, E], this row is no transition: it starts a game, or is context.
    """

    def __init__(self, rows: int, games: int, history_length: int, n_step: int = 1) -> None:
        super().__init__(rows, games)
        self.history_length, self.n_step = history_length, n_step
        self.needed = history_length + n_step
        self.starts = np.zeros((rows, games), np.bool_)
        self.terminals = np.zeros((rows, games), np.bool_)
        self.excluded = np.zeros((rows, games), np.bool_)
        self._window = games * np.arange(-history_length, 1)  # offsets of indices
        self._steps = games * np.arange(n_step)

    def append(self, starts: Flags, terminals: Flags, context: Flags) -> int:
        """Write what a step says of E games, bool [E] each, into the next row; return the row."""
        first = self.held == self.kept  # What came before the first row is not known: a game starts there.
        row = self.advance()
        self.write(row, np.ones_like(starts) if first else starts, terminals, context)
        return row

    def write(self, rows: int | Indices, starts: Flags, terminals: Flags, context: Flags) -> None:
        """Write into `rows` int64 [K] what as many steps say, bool [K, E] each."""
        self.starts[rows] = starts
        self.terminals[rows] = terminals
        self.excluded[rows] = starts | context

    def candidates(self) -> tuple[int, int]:
        """Return the first number, and the last plus one, of which all screens and steps are held.

        All transitions are among them, and among `kept_candidates`; the others are excluded.
        """
        first = self.oldest + (self.history_length if self.held == self.rows else 1)
        return first * self.games, max(first, self.written - self.n_step + 1) * self.games

    def kept_candidates(self) -> tuple[int, int]:
        """Return the same of the kept rows: all but row 0, to which no action led."""
        return self.games, max(1, self.kept) * self.games

    def are_candidates(self, numbers: Numbers) -> Flags:
        """Return for each of `numbers`, which were candidates once, whether they still are, bool [B]."""
        return (numbers < self.kept * self.games) | (numbers >= self.candidates()[0])

    def transitions(self) -> Numbers:
        """Return the numbers of all transitions, oldest first; slow for a large ring."""
        candidates = np.concatenate([np.arange(*of) for of in (self.kept_candidates(), self.candidates())])
        return candidates[~self.excluded.take(self.indices(candidates))]

    def windows(self, indices: Indices) -> Indices:
        """Return the indices of the screens of each transition's window, int64 [B, S + 1]."""
        return self.around(indices, self._window)

    def hidden(self, windows: Indices) -> Flags | None:
        """Return which screens of `windows` int64 [B, S + 1] come before their episode.

        Returns:
            bool [B, S - 1], for all screens but the last two, which are always shown. None: all are
            shown, as in most minibatches.
        """
        between = windows[:, 1:-1]
        begins = self.starts.take(between) | self.terminals.take(between)
        if not begins.any():
            return None
        return np.logical_or.accumulate(begins[:, ::-1], axis=1)[:, ::-1]

    def steps(self, indices: Indices) -> tuple[Indices, Indices]:
        """Return the indices of rows t ... t+n-1 of each transition, and how many of them it goes through.

        Returns:
            int64 [B, n], and int64 [B] from 1 to n: the last that counts is row e.
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
        if hidden is not None:  # A poststate lacks the first screen of its window, and shows the last two.
            hidden[count:, :-1] = hidden[count:, 1:]
            hidden[count:, -1] = False
        return np.concatenate((windows[:count, :-1], windows[count:, 1:])), hidden


class StateBuffer:
    """The current states of E games, which the agent acts on.

    They show what the prestates of the next transitions in the replay memory will show, bit for bit.
    """

    def __init__(self, games: int, history_length: int, screen_shape: tuple[int, int]) -> None:
        self._states = np.zeros((games, history_length, *screen_shape), np.uint8)
        self._readable = self._states.view()
        self._readable.flags.writeable = False

    @property
    def states(self) -> States:
        """The current states, uint8 [E, S, H, W]: a read-only view, valid until the next `update`."""
        return self._readable

    def update(self, step: Step) -> None:
        """Append the screens of `step`; where an episode begins, hide those before.

        A game that ended keeps its last state to be looked at: the next step starts another.
        """
        states = self._states
        states[:, :-1] = states[:, 1:]
        states[:, -1] = step.screens
        begins = step.starts | (step.terminals & ~step.resets)
        if begins.any():
            states[begins, :-1] = 0

    def get_state(self) -> CheckpointState:
        """Return all that is needed to go on: a view, valid until the next `update`."""
        return {"states": self._readable}

    def set_state(self, state: CheckpointState) -> None:
        """Go on from what `get_state` of a buffer of the same shape returned."""
        self._states[...] = state["states"]
