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
not full, a window may reach back before row 0, where the screens are zero.

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

Kept rows: They form a ring of their own, see `Ring`, in which windows and steps stay. Row 0, where a game
starts, follows the last kept row: it ends the steps that reach it, and hides the screens before it. So every
kept row but row 0 can be a transition.

Context rows: Their screens belong to the states of other rows, but they are no transitions; see `CONTEXT` in
`types.py`.
"""

import numpy as np

from simple_dqn.replay_memory.ring import Ring
from simple_dqn.types import CheckpointState, Flags, Indices, Numbers, States, Step


class TransitionRing(Ring):
    """A ring with its transitions of n steps between states of S screens.

    `starts.take(indices)` are the flags of the experiences at these indices, and so on.

    Attributes:
        history_length: S.
        n_step: n.
        needed: How many rows a transition needs, S + n.
        starts: bool [T, E], a game starts at this row: no action led to its screen.
        terminals: bool [T, E], the episode ended at this row.
        excluded: bool [T, E], this row is no transition: a game starts there, or it is context.
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
        """Write the flags of a step, bool [E] each, into the next row, and return the row."""
        first = self.held == self.kept  # as if a game started there, since nothing is known of the row before
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

        Kept rows not included. Each candidate is a transition unless it is `excluded`.
        """
        first = self.oldest + (self.history_length if self.held == self.rows else 1)
        return first * self.games, max(first, self.written - self.n_step + 1) * self.games

    def _kept_candidates(self) -> tuple[int, int]:
        """Return the same for the kept rows: all but row 0."""
        return self.games, max(1, self.kept) * self.games

    def are_candidates(self, numbers: Numbers) -> Flags:
        """Return bool [B], whether earlier candidates still are candidates, kept ones included."""
        return (numbers < self.kept * self.games) | (numbers >= self.candidates()[0])

    def draw_candidates(self, count: int, rng: np.random.Generator) -> Numbers:
        """Return the numbers int64 [count] of candidates, kept ones included, uniform with replacement."""
        first, end = self.candidates()
        kept_first, kept_end = self._kept_candidates()
        numbers = rng.integers(first - (kept_end - kept_first), end, count)
        if self.kept:
            numbers[numbers < first] -= first - kept_end
        return numbers

    def transitions(self) -> Numbers:
        """Return the numbers of all transitions, oldest first; slow for a large ring."""
        candidates = np.concatenate([np.arange(*of) for of in (self._kept_candidates(), self.candidates())])
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


class StateBuffer:
    """The current states of E games, on which the agent acts.

    They equal the prestates of the next transitions in the replay memory, bit for bit.
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
        """Append the screens of `step`, and set those from before an episode to zero.

        A game that ended keeps its last state until the next step starts another game.
        """
        states = self._states
        states[:, :-1] = states[:, 1:]
        states[:, -1] = step.screens
        begins = step.starts | (step.terminals & ~step.resets)
        if begins.any():
            states[begins, :-1] = 0

    def get_state(self) -> CheckpointState:
        """Return the states for a checkpoint: a view, valid until the next `update`."""
        return {"states": self._readable}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` of a buffer of the same shape returned."""
        self._states[...] = state["states"]
