"""How wrong an actor's predictions were, by what it saw while it played (Horgan et al. 2018, section 3)."""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float32]  # [L, W]
Truths = NDArray[np.bool_]  # [L, W]


def first_errors(
    rewards: Numbers,
    terminals: Truths,
    starts: Truths,
    taken: Numbers,
    best: Numbers,
    discount_rate: float,
    n_step: int,
) -> Numbers:
    """Return |r + γ^m max_a Q(s', a) - Q(s, a)| for the transitions of up to n steps that begin in each row.

    It spares the learner a look at what it has not drawn yet. Both Q are the actor's own, as it acted by
    them, so that nothing is predicted twice; a target network and what else the learner's targets are made
    of are not looked at.

    Args:
        rewards: r of L rows, clipped as in an update.
        terminals: The episode ended there.
        starts: A game starts there.
        taken: Q(s, a) of the action that led there.
        best: [L + 1, W], max_a Q(s, a) of the state before each row, and of that after the last.
        discount_rate: γ.
        n_step: n.

    Returns:
        float32 [L - n + 1, W]: the later rows lack what follows.
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
