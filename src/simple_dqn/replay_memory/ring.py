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

With `n_step` n above 1 a transition goes on after its first action, to row e, its last: row t+n-1,
or the first before at which its episode ends, be it by a terminal or because row e+1 starts
another game (row e was cut off, and the value of its poststate still counts). So it reads

    prestate    screens t-S ... t-1     what the agent saw at first
    action t, rewards t ... e, terminal e
    poststate   screens e-S+1 ... e     what it saw at last

The newest n-1 rows are no transitions yet, even where the end of their episode is held already:
rows t ... t+n-1 are then all held, and what comes after them changes nothing.

A row can also be context: it has screen, reward and terminal, and may be shown and gone through like any
other, but no transition begins there. So experience that did not come row after row can lie row after row:
each piece follows copies of the rows that it follows on, of which the first is marked as starting a game,
lest a window reach into the piece before, and the first S are context. As a transition of n steps cannot
go on from one piece to the next either, the last n-1 rows of a piece are context too, and come again, as
rows like any other, before the next piece of the same games; so no transition is there twice, and none is
shorter than it would be.

Rows are circular. The index of an experience is row * E + game, and with the row it passes on to
another; its number counts all experiences, from the first that the ring took, and stays its own.

The first R rows can be kept for good, as demonstrations are. Then there are two rings in the one: the
kept rows, a full ring that stands still, and the T - R others, which go round as above. Windows and
steps go round within their own ring, so none leads from the one into the other. The end of the kept
ring meets its row 0, which starts a game in each column: so that hides what a window finds before it,
and ends the steps that come round to it. All but row 0 can thus be transitions, to the last.
"""

import numpy as np

from simple_dqn.types import Flags, Indices, State


class Ring:
    """The rows of a ring of T rows of E games, for states of S screens and transitions of n steps.

    Attributes:
        rows: T.
        games: E.
        history_length: S.
        n_step: n.
        needed: The rows that must be held for there to be a transition, S + n.
        starts: bool [T, E], this row starts a game: no action led to it.
        terminals: bool [T, E], the episode ended at this row.
        barren: bool [T, E], no transition begins at this row: it starts a game, or is context.
        written: The rows taken so far.
        held: Those of them that are still there, T at most.
        kept: Those of them that are never overwritten, R.
        position: The row that is written next.
    """

    def __init__(self, rows: int, games: int, history_length: int, n_step: int = 1) -> None:
        self.rows, self.games, self.history_length, self.n_step = rows, games, history_length, n_step
        self.needed = history_length + n_step
        self.starts = np.zeros((rows, games), np.bool_)
        self.terminals = np.zeros((rows, games), np.bool_)
        self.barren = np.zeros((rows, games), np.bool_)
        self.written = self.held = self.kept = self.position = 0
        self._to_window = games * np.arange(-history_length, 1)
        self._to_steps = games * np.arange(n_step)

    def append(self, starts: Flags, terminals: Flags, context: Flags | bool = False) -> int:
        """Take the next row for a step with `starts`, `terminals` and `context` bool [E]; return the row."""
        row = self.position
        # What came before the first row is not known, so no action counts as having led to it.
        self.starts[row] = starts if self.held > self.kept else True
        self.terminals[row] = terminals
        self.barren[row] = self.starts[row] | context
        self.written += 1
        self.position = row + 1 if row + 1 < self.rows else self.kept
        self.held = min(self.held + 1, self.rows)
        return row

    def keep(self) -> None:
        """Never overwrite what is held now; the rows that are left must have room for a transition."""
        assert self.held == self.written <= self.rows - self.needed
        self.kept = self.held

    def candidates(self) -> tuple[int, int]:
        """Return the first and the last plus one of those numbers all of whose rows and screens are held.

        Those that are kept are told by `kept_candidates`.
        """
        first = self._oldest + (self.history_length if self.held == self.rows else 1)
        return first * self.games, max(first, self.written - self.n_step + 1) * self.games

    def kept_candidates(self) -> tuple[int, int]:
        """Return the same of what is kept: all but row 0, to which no action led."""
        return self.games, max(1, self.kept) * self.games

    def are_candidates(self, numbers: Indices) -> Flags:
        """Return for each of `numbers`, which were candidates once, whether they still are, bool [B]."""
        return (numbers < self.kept * self.games) | (numbers >= self.candidates()[0])

    def indices(self, numbers: Indices) -> Indices:
        """Return the indices of the experiences with these `numbers`, which are held."""
        return self._within(numbers, numbers)

    def numbers(self, indices: Indices) -> Indices:
        """Return the numbers of the experiences at these `indices`."""
        kept, oldest = self.kept * self.games, self._oldest * self.games
        numbers = oldest + (indices - oldest) % (self.rows * self.games - kept)
        return np.where(indices < kept, indices, numbers) if kept else numbers

    def held_rows(self) -> Indices:
        """Return the rows that are held, int64 [held], in the order in which they were taken."""
        taken = np.concatenate((np.arange(self.kept), np.arange(self._oldest, self.written)))
        return self.indices(taken * self.games) // self.games

    def started(self, indices: Indices) -> Flags:
        """Return for each of `indices` whether a game starts there, bool [B]."""
        return self.starts.reshape(-1)[indices]

    def begin_none(self, indices: Indices) -> Flags:
        """Return for each of `indices` whether no transition begins there, bool [B]."""
        return self.barren.reshape(-1)[indices]

    def ended(self, indices: Indices) -> Flags:
        """Return for each of `indices` whether the episode ended there, bool [B]."""
        return self.terminals.reshape(-1)[indices]

    def transitions(self) -> Indices:
        """Return the numbers of all transitions, oldest first: exact, and slow for a large ring."""
        candidates = np.concatenate([np.arange(*of) for of in (self.kept_candidates(), self.candidates())])
        return candidates[~self.begin_none(self.indices(candidates))]

    def windows(self, indices: Indices) -> Indices:
        """Return the indices of the screens of each transition's window, int64 [B, S + 1]."""
        indices = indices[:, np.newaxis]
        return self._within(indices + self._to_window, indices)

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

    def steps(self, indices: Indices) -> tuple[Indices, Indices]:
        """Return the indices of rows t ... t+n-1 of each transition, and how many of them it goes through.

        Returns:
            int64 [B, n], and int64 [B] from 1 to n: the last that counts is row e.
        """
        indices = indices[:, np.newaxis]
        rows = self._within(indices + self._to_steps, indices)
        ends = self.ended(rows)
        ends[:, :-1] |= self.started(rows[:, 1:])
        ends[:, -1] = True
        return rows, ends.argmax(axis=1) + 1

    def windows_of_states(self, indices: Indices, lasts: Indices) -> tuple[Indices, Flags | None]:
        """Return the indices of the screens of each prestate, then of each poststate, and which are hidden.

        Args:
            indices: int64 [B], of the transitions.
            lasts: int64 [B], of the row e of each.

        Returns:
            int64 [2 B, S], and what `hidden` says of the first S - 1 of each.
        """
        count, windows = len(indices), self.windows(np.concatenate((indices, lasts)))
        hidden = self.hidden(windows)
        if hidden is not None:  # A poststate lacks the first screen of its window, and shows the last two.
            hidden[count:, :-1] = hidden[count:, 1:]
            hidden[count:, -1] = False
        return np.concatenate((windows[:count, :-1], windows[count:, 1:])), hidden

    def get_state(self) -> State:
        """Return where the ring stands; what its rows say is told by the log."""
        return {"rows": self.rows, "position": self.position, "held": self.held, "kept": self.kept}

    def set_state(self, state: State) -> None:
        """Stand where `get_state` of a ring of as many rows and games said; the rows are to be filled yet."""
        self.position, self.held = state["position"], state["held"]
        self.kept = state.get("kept", 0)  # unknown to states from before there were rows to keep
        self.written = self.position + (self.rows - self.kept if self.held == self.rows else 0)

    @property
    def _oldest(self) -> int:
        """How many rows were taken before the oldest that is held and not kept."""
        return self.written - (self.held - self.kept)

    def _within(self, places: Indices, origins: Indices) -> Indices:
        """Return the indices of `places`, each gone round within the ring in which its origin lies.

        Args:
            places: int64 [...], indices or numbers, which may lie beyond the end of that ring.
            origins: int64, of a shape that goes with it: indices or numbers of experiences.
        """
        kept, size = self.kept * self.games, self.rows * self.games
        if not kept:
            return places % size
        return np.where(origins < kept, places % kept, kept + (places - kept) % (size - kept))
