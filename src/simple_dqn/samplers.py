"""The transitions of the replay memory, and the samplers that choose among them.

Row t of one game holds action t, its reward, whether the episode ended, and the screen observed afterward.
With S screens in a state, transition t is

    prestate    screens t-S ... t-1     observed before the action
    action t, reward t, terminal t
    poststate   screens t-S+1 ... t     observed after the action

and the S + 1 screens t-S ... t, the transition's window, hold both states. This is `ReplayMemory` of
`examples/dqn.py`, whose states have 4 screens.

Which rows are transitions: A row at which a game starts is not one, because no action led to its screen. In
a full ring the oldest S rows are not, because their windows would contain the newest rows. While the ring is
not full, a window may reach back before row 0. Those screens are hidden, because a game starts at row 0.

Which screens are hidden: A state never mixes episodes. Screens from before its episode are zero, as in
DeepMind's code for Mnih et al. (2015). An episode begins at a row that starts a game, and at a terminal row:
the screen on which a life is lost ends one episode and begins the next. So screen k of window t is hidden if
an episode begins in rows k+1 ... t-1. One that begins at row t itself makes no difference: row t is not a
transition, or it is terminal and the value of its poststate is not used.

n steps (`n_step` above 1): Transition t lasts to row e. This is row t+n-1, or an earlier one if the episode
ends there: row e is terminal, or row e+1 starts a game because this one was truncated (then the value of the
poststate still counts). The transition has the prestate of t, action t, the rewards t ... e, terminal e, and
the poststate of e. The newest n-1 rows are not transitions yet, since row t+n-1 is still to come.

Context rows: Their screens belong to the states of other rows, but they are not transitions; see `CONTEXT`
in `types.py`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simple_dqn.config import MemoryConfig
from simple_dqn.errors import UserError
from simple_dqn.types import CheckpointState, Floats, Ids, Indices, Mask

Masses = NDArray[np.float64]  # [B], ≥ 0

# Uniform sampling draws again, in rounds, where it drew an excluded row. Few rows are excluded, so two rounds
# are nearly always enough. If nearly all are, listing the transitions is faster than more rounds.
ROUNDS = 8
LEAST_PRIORITY = 1e-6  # ε, with which transitions without an error are sampled again; as in OpenAI Baselines
FIRST_PRIORITY = 1.0  # p₁ of Algorithm 1, until the first TD error is known
# Children of a node in the sum tree. A wide tree has few levels, and each level costs a few calls of numpy.
WIDTH = 32


class Ring:
    """A ring buffer of T rows with its transitions of n steps between states of S screens.

    A row holds one step of each of E games, that is E experiences. The number of an experience says how many
    were added before it. Its index is row * E + game, which is number % (T * E): its position in flattened
    arrays [T, E].

    Attributes:
        rows, games, size: T, E and T * E.
        history_length, n_step, needed: S, n, and the rows that a transition needs, S + n.
        written: How many rows were written. A resumed run counts a full ring as filled once.
        held: How many rows are held, at most T; the others are overwritten.
        starts: bool [T, E], a game starts at this row: no action led to its screen.
        terminals: bool [T, E], the episode ended at this row.
        excluded: bool [T, E], this row is not a transition: a game starts there, or it is context.
    """

    def __init__(self, rows: int, games: int, history_length: int, n_step: int = 1) -> None:
        self.rows, self.games, self.size = rows, games, rows * games
        self.written = self.held = 0
        self.history_length, self.n_step, self.needed = history_length, n_step, history_length + n_step
        self.starts, self.terminals, self.excluded = (np.zeros((rows, games), np.bool_) for _ in range(3))
        self._window = games * np.arange(-history_length, 1)  # offsets of indices
        self._steps = games * np.arange(n_step)

    def append(self, starts: Mask, terminals: Mask, context: Mask) -> int:
        """Write the masks of a step, bool [E] each, into the next row, and return the row."""
        row = self.written % self.rows
        # The first row counts as a start, since nothing is known of the row before.
        self.starts[row] = starts if self.held else True
        self.terminals[row] = terminals
        self.excluded[row] = self.starts[row] | context
        self.written, self.held = self.written + 1, min(self.held + 1, self.rows)
        return row

    def candidates(self) -> tuple[int, int]:
        """Return the first number and the end of a range: each is a transition unless it is `excluded`."""
        first = self.written - self.held + (self.history_length if self.held == self.rows else 1)
        return first * self.games, max(first, self.written - self.n_step + 1) * self.games

    def transitions(self) -> Ids:
        """Return the numbers of all transitions, oldest first; slow for a large ring."""
        candidates = np.arange(*self.candidates())
        return candidates[~self.excluded.take(candidates % self.size)]

    def numbers(self, indices: Indices) -> Ids:
        """Return the numbers of the experiences at these `indices`."""
        oldest = (self.written - self.held) * self.games
        return oldest + (indices - oldest) % self.size

    def windows(self, indices: Indices) -> tuple[Indices, Mask]:
        """Return the indices of each transition's window [B, S + 1], and which of its screens are hidden.

        The latter is a mask [B, S - 1]: the last two screens never are.
        """
        windows = (indices[:, np.newaxis] + self._window) % self.size  # after the newest row is the oldest
        between = windows[:, 1:-1]
        begins = self.starts.take(between) | self.terminals.take(between)
        return windows, np.logical_or.accumulate(begins[:, ::-1], axis=1)[:, ::-1]

    def steps(self, indices: Indices) -> tuple[Indices, Indices]:
        """Return the indices t ... t+n-1 of each transition [B, n], and its number of steps e - t + 1 [B]."""
        through = (indices[:, np.newaxis] + self._steps) % self.size
        ends = self.terminals.take(through)
        ends[:, :-1] |= self.starts.take(through[:, 1:])
        ends[:, -1] = True
        return through, ends.argmax(axis=1) + 1

    def windows_of_states(self, firsts: Indices, lasts: Indices) -> tuple[Indices, Mask]:
        """Return the indices of each prestate, then of each poststate [2 B, S], and which screens are hidden.

        `firsts` int64 [B] are the indices of row t of each transition, and `lasts` those of its row e. The
        mask is [2 B, S - 1]: the last screen of a state never is.
        """
        count, (windows, hidden) = len(firsts), self.windows(np.concatenate((firsts, lasts)))
        hidden[count:, :-1] = hidden[count:, 1:]  # a poststate has all screens of its window but the first
        hidden[count:, -1:] = False
        return np.concatenate((windows[:count, :-1], windows[count:, 1:])), hidden

    def held_rows(self) -> Indices:
        """Return the rows that are held, int64 [held], in the order in which they were written."""
        return np.arange(self.written - self.held, self.written) % self.rows

    def get_state(self) -> CheckpointState:
        """Return the positions for a checkpoint."""
        return {"rows": self.rows, "position": self.written % self.rows, "held": self.held}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` of a ring with as many rows and games returned."""
        self.held, position = state["held"], state["position"]
        fits = 0 <= position < self.rows == state["rows"]
        if not fits or self.held not in (position, self.rows):
            raise ValueError(f"a ring of {self.rows} rows has no row {position}, or cannot hold {self.held}")
        self.written = position + (self.rows if self.held == self.rows else 0)


class Uniform:
    """Samples transitions uniformly; the other samplers have the same methods."""

    uses_errors = False  # whether `set_errors` has an effect

    def __init__(self, ring: Ring, config: MemoryConfig) -> None:
        self._ring, self._config = ring, config

    def draw(self, count: int, _steps: int, rng: np.random.Generator) -> tuple[Ids, Floats]:
        """Sample B = `count` transitions with replacement, after `_steps` training steps over all games.

        Returns:
            Their numbers int64 [B], and their weights in the loss float32 [B]; new arrays.

        Raises:
            UserError: The ring holds no transition yet.
        """
        ring, weights = self._ring, np.ones(count, np.float32)
        if ring.held < ring.needed:
            raise no_transition(ring)
        first, end = ring.candidates()
        numbers = rng.integers(first, end, count)
        for _ in range(ROUNDS):
            excluded = np.flatnonzero(ring.excluded.take(numbers % ring.size))
            if not excluded.size:
                return numbers, weights
            numbers[excluded] = rng.integers(first, end, excluded.size)
        excluded = np.flatnonzero(ring.excluded.take(numbers % ring.size))
        transitions = ring.transitions()
        if not transitions.size:
            raise no_transition(ring)
        numbers[excluded] = transitions[rng.integers(transitions.size, size=excluded.size)]
        return numbers, weights

    def set_errors(self, numbers: Ids, errors: Floats) -> None:
        """Receive the TD errors of sampled transitions, float32 [N], ≥ 0, by their numbers int64 [N].

        Of two equal numbers the later counts, and those no longer held are ignored.
        """

    def get_state(self) -> CheckpointState:
        """Return the state for a checkpoint, valid until the next change."""
        return {}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned; the ring is restored already."""


class Prioritized(Uniform):
    """Samples transition i with probability P(i) = p_i^α / Σ_k p_k^α and p_i = |δ_i| + ε (equation 1).

    The proportional variant of Schaul et al. (2016). δ_i is its latest TD error; a new transition has the
    greatest priority so far. The sum tree holds the mass p_i^α of each transition, and 0 for other rows.
    """

    uses_errors = True

    def __init__(self, ring: Ring, config: MemoryConfig) -> None:
        super().__init__(ring, config)
        self._tree = SumTree(ring.size)
        self._greatest = FIRST_PRIORITY
        self._first = self._end = 0  # the range of the numbers that have a mass, unless excluded

    def draw(self, count: int, steps: int, rng: np.random.Generator) -> tuple[Ids, Floats]:
        """Sample one transition from each of `count` segments of equal mass.

        The weights are those of importance sampling, (N P(i))^-β, divided by their maximum (section 3.4).
        """
        tree = self._up_to_date()
        if self._ring.held < self._ring.needed or not tree.total:
            raise no_transition(self._ring)
        shares = (np.arange(count) + rng.random(count)) / count
        indices, masses = tree.find(shares * tree.total)
        start, last = self._config.priority_beta_start, self._config.priority_beta_steps
        beta = 1.0 if steps >= last else start + (1 - start) * steps / last
        weights = (masses.min() / masses) ** beta  # N and the sum of masses cancel out
        return self._ring.numbers(indices), weights.astype(np.float32)

    def set_errors(self, numbers: Ids, errors: Floats) -> None:
        """Set the priorities of sampled transitions."""
        tree, priorities = self._up_to_date(), errors.astype(np.float64) + LEAST_PRIORITY
        self._greatest = max(self._greatest, float(priorities.max(initial=0)))
        held = numbers >= self._first
        tree.set(numbers[held] % self._ring.size, priorities[held] ** self._config.priority_exponent)

    def get_state(self) -> CheckpointState:
        """Return the masses p^α float64 [held * E], by index, and the greatest p."""
        held = self._ring.held * self._ring.games
        return {"masses": self._up_to_date().masses[:held], "greatest": self._greatest}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned; transitions that only the present `--n_step` has are new."""
        self._greatest, masses = state["greatest"], state["masses"]
        ring = self._ring
        held, indices = ring.held * ring.games, ring.transitions() % ring.size
        largest = float(np.finfo(np.float32).max)
        good = masses.shape == (held,) and masses.dtype == np.float64 and np.isfinite(masses).all()
        if not (good and masses.min(initial=0) >= 0 and 0 <= self._greatest <= largest):
            raise ValueError("its priorities are not those of its transitions")
        saved = masses[indices]
        self._tree = SumTree(ring.size)
        self._tree.set(indices, np.where(saved, saved, self._mass_of_new))
        self._first, self._end = ring.candidates()

    def _up_to_date(self) -> "SumTree":
        """Return the tree, with a mass for the transitions of new rows and none for overwritten ones."""
        first, end = self._ring.candidates()
        if (first, end) != (self._first, self._end):
            dropped = np.arange(self._first, min(first, self._end)) % self._ring.size
            new = np.arange(max(first, self._end), end) % self._ring.size
            masses = np.where(self._ring.excluded.take(new), 0, self._mass_of_new)
            # Where many rows were appended, an index may be among both, and its new mass counts.
            self._tree.set(np.concatenate((dropped, new)), np.concatenate((np.zeros(len(dropped)), masses)))
            self._first, self._end = first, end
        return self._tree

    @property
    def _mass_of_new(self) -> float:
        """The mass of a transition that was never sampled."""
        return float(self._greatest**self._config.priority_exponent)


class SumTree:
    """Masses ≥ 0 of N indices, and a tree of their sums to sample by (Schaul et al. 2016, B.2.1).

    The lowest level holds the masses in groups of WIDTH; the next one the sum of each group, again in groups
    of WIDTH; and so on up to one group. Each sum is computed from its whole group, from left to right, so it
    depends on the masses only, not on their history.
    """

    def __init__(self, size: int) -> None:
        """Create a tree of N = `size` zeros; the system allocates its memory as masses are set."""
        self._levels: list[Masses] = []  # [groups, WIDTH] each, the lowest first
        while size > 1 or not self._levels:
            size = -(-size // WIDTH)
            self._levels.append(np.zeros((size, WIDTH)))
        self.total = 0.0

    @property
    def masses(self) -> Masses:
        """The masses by index, padded with zeros: a view to read."""
        return self._levels[0].reshape(-1)

    def set(self, indices: Indices, masses: Masses) -> None:
        """Set the masses at `indices` int64 [B] to `masses` float64 [B]; of equal indices the last counts."""
        if not len(indices):
            return
        for level in self._levels:
            level.reshape(-1)[indices] = masses
            groups = indices // WIDTH
            indices = groups[np.concatenate(([True], groups[1:] != groups[:-1]))]  # most duplicates removed
            masses = level[indices].cumsum(axis=1)[:, -1]
        self.total = float(masses[-1])

    def find(self, points: Masses) -> tuple[Indices, Masses]:
        """Return the first index at which the cumulative sum of masses exceeds each point, and its mass.

        The `points` float64 [B] are from 0 up to `total`, which is above 0. No index with mass 0 is returned.
        """
        each, indices = np.arange(len(points)), np.zeros(len(points), np.int64)
        masses = np.full(len(points), self.total)
        for level in reversed(self._levels):
            points = np.minimum(points, np.nextafter(masses, 0))  # rounding may exceed the sum
            sums = level[indices].cumsum(axis=1)
            columns = (sums > points[:, np.newaxis]).argmax(axis=1)
            masses = level[indices, columns]
            points = np.maximum(points - (sums[each, columns] - masses), 0)
            indices = indices * WIDTH + columns
        return indices, masses


def no_transition(ring: Ring) -> UserError:
    """Return the error of a draw from a ring without transitions."""
    screens = "1 screen" if ring.held == 1 else f"{ring.held} screens"
    each, few = " of each game" if ring.games > 1 else "", ring.held < ring.needed
    reason = f"a transition needs {ring.needed}" if few else "no action between any two of them"
    return UserError(f"memory holds {screens}{each} and {reason}: raise --random_steps")


def check_drawn(drawn: Any, count: int, ring: Ring, name: str) -> None:
    """Raise UserError unless `drawn`, by a sampler of the user's, is what `Uniform.draw` returns."""
    pair = drawn if isinstance(drawn, tuple | list) and len(drawn) == 2 else (drawn,)
    kinds = [(part.dtype.kind, part.shape) if isinstance(part, np.ndarray) else type(part) for part in pair]
    if kinds != [("i", (count,)), ("f", (count,))]:
        found = [f"{it.dtype} {[*it.shape]}" if hasattr(it, "shape") else type(it).__name__ for it in pair]
        wanted = f"return numbers int64 [{count}] and weights float32 [{count}]"
        raise UserError(f"--sampler {name} returned {' and '.join(found)}: {wanted}")
    (first, end), numbers = ring.candidates(), pair[0]
    if not ((pair[-1] >= 0) & (pair[-1] < np.inf)).all():
        raise UserError(f"--sampler {name} returned a negative, infinite or NaN weight: return finite ones")
    wrong = numbers[(numbers < first) | (numbers >= end) | ring.excluded.take(numbers % ring.size)]
    if wrong.size:
        held = f"from {first} to {end - 1}, without those that its ring has `excluded`"
        raise UserError(f"--sampler {name} drew {wrong[0]}, which is no transition: draw numbers {held}")


# The samplers, by name.
SAMPLERS: dict[str, type[Uniform]] = {"uniform": Uniform, "prioritized": Prioritized}
