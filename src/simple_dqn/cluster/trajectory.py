"""The trajectories that actors send, and their rows in the replay memory that all actors share."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from simple_dqn.types import CONTEXT, Experience, Mask, Step

FIELDS = tuple(field.name for field in fields(Experience))


@dataclass(frozen=True, slots=True)
class Trajectory:
    """T consecutive steps of an actor's W games, played by one version of the weights.

    An actor's first trajectory has one more row, before the others, with the games' first screens.
    """

    number: int  # how many trajectories the actor sent before
    packed: bytes  # the rows as `experience_log.pack` compresses them, each screen once
    steps: int  # T · W
    scores: list[float]  # of the games that ended, in raw game points, including earlier trajectories
    version: int  # of the weights: the number of updates that produced them
    # float32 [rows, W], |TD error| of each row where `MemoryRows` lets a transition begin; None: unknown.
    errors: NDArray[np.float32] | None


class MemoryRows:
    """The rows that the memory stores for one trajectory: it and copies of the rows before it.

    `simple_dqn.types.CONTEXT` explains which rows are context.

    Attributes:
        experience: All rows [R, W].
        first: The first row in which a transition may begin.
        end: The last such row, plus one.
    """

    def __init__(self, before: Experience | None, trajectory: Experience, n_step: int) -> None:
        """Append `trajectory` to the rows `before` it; in the last n - 1 of these no transition began yet."""
        rows = [trajectory] if before is None else [before, trajectory]
        columns = ([getattr(part, name) for part in rows] for name in FIELDS)
        self.experience = Experience(*map(np.concatenate, columns))
        self.first = 0 if before is None else len(before.actions) - (n_step - 1)
        self.end = len(self.experience.actions) - (n_step - 1)

    @property
    def begins(self) -> Mask:
        """The rows and games in which transitions begin, bool [R, W]."""
        begins = ~self.experience.starts
        begins[: self.first] = begins[self.end :] = False
        return begins

    def steps(self) -> Iterator[Step]:
        """Yield the rows in the form that `ReplayMemory.add` takes."""
        rows = self.experience
        actions, starts = rows.actions.copy(), rows.starts.copy()
        actions[: self.first] = actions[self.end :] = CONTEXT
        starts[0] = True  # separates the rows from those of other actors
        unused = np.zeros(starts.shape[1], np.bool_)  # The memory ignores truncations and resets.
        for row, screens in enumerate(rows.screens):
            yield Step(
                screens, actions[row], rows.rewards[row], rows.terminals[row], unused, unused, starts[row]
            )


class TrajectoryStream:
    """The trajectories of one actor in their order; keeps the rows that the next one needs before it."""

    def __init__(self, history_length: int, n_step: int) -> None:
        """Expect the first trajectory, for states of S = `history_length` screens and n = `n_step` steps."""
        self._kept, self._n_step = history_length + n_step - 1, n_step
        self._before: Experience | None = None

    def append(self, trajectory: Experience) -> MemoryRows:
        """Return the rows to store for the actor's next `trajectory`, which has at least S + n rows."""
        rows = MemoryRows(self._before, trajectory, self._n_step)
        # Copies: views would keep the whole trajectory in memory.
        self._before = Experience(*(getattr(trajectory, name)[-self._kept :].copy() for name in FIELDS))
        return rows


def td_errors(
    rewards: NDArray[np.float32],
    terminals: NDArray[np.bool_],
    starts: NDArray[np.bool_],
    taken: NDArray[np.float32],
    best: NDArray[np.float32],
    discount_rate: float,
    n_step: int,
) -> NDArray[np.float32]:
    """Return |r + γ^m max_a Q(s', a) - Q(s, a)| of the transition of up to n steps that begins in each row.

    These are the first priorities of the transitions (Horgan et al. 2018, section 3), so the learner need not
    predict them again. Both Q are the actor's own, from when it acted: there is no target network here, and
    no double Q-learning.

    Args:
        rewards: r [L, W], clipped as in an update.
        terminals: [L, W], the episode ended in this row.
        starts: [L, W], a game starts in this row.
        taken: [L, W], Q(s, a) of the action that led to this row.
        best: [L + 1, W], max_a Q(s, a) of the state before each row, and of the state after the last.
        discount_rate: γ.
        n_step: n.

    Returns:
        float32 [L - n + 1, W]: the transitions of later rows are not complete yet.
    """
    count = len(rewards) - n_step + 1
    returns = np.zeros((count, rewards.shape[1]), np.float32)
    going = np.ones(returns.shape, np.bool_)
    for k in range(n_step):
        rows, after = slice(k, k + count), slice(k + 1, k + 1 + count)
        returns += np.where(going, discount_rate**k * rewards[rows], 0)
        ends = terminals[rows] | (starts[after] if k < n_step - 1 else True)
        values = np.where(terminals[rows], 0, discount_rate ** (k + 1) * best[after])
        returns += np.where(going & ends, values, 0)
        going &= ~ends
    np.abs(returns - taken[:count], out=returns)
    return returns
