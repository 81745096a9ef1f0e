"""The returns of a rollout, which are the targets of PQN (Gallici et al. 2024)."""

import numpy as np
from numpy.typing import NDArray

from simple_dqn.types import Rollout

Values = NDArray[np.float32]  # [T, E] or [T + 1, E]


def lambda_returns(
    rollout: Rollout, rewards: Values, values: Values, discount_rate: float, trace_decay: float
) -> Values:
    """Return the λ-returns G float32 [T, E], from the last step to the first.

    G_t = r_t + γ ((1 - λ) V_t+1 + λ G_t+1), and G_t = r_t where the episode ends. At the end of the rollout,
    and where a time limit ended the game, G_t+1 = V_t+1 (Peng & Williams 1996; Gallici et al. 2024).

    Args:
        rollout: Its T steps of E games.
        rewards: r, clipped, float32 [T, E].
        values: V = max_a Q(s, a) of the states before each step and after the last one, float32 [T + 1, E].
        discount_rate: γ.
        trace_decay: λ.
    """
    returns, after = np.empty_like(rewards), values[-1]
    for t in reversed(range(len(rewards))):
        following = (1 - trace_decay) * values[t + 1] + trace_decay * after
        after = rewards[t] + discount_rate * following * ~rollout.terminals[t]
        after = returns[t] = np.where(rollout.starts[t], values[t], after)
    return returns
