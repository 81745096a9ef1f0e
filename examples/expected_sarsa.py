"""Expected SARSA (van Seijen et al. 2009): targets use the value of the ε-greedy policy, not the maximum.

./train.sh pong sarsa --import examples/expected_sarsa.py --target_rule expected_sarsa --preset simple_dqn
"""

from torch import Tensor

import simple_dqn
from simple_dqn.config import NetworkConfig
from simple_dqn.dqn import Transitions, of_actions
from simple_dqn.networks import Network

EXPLORATION = 0.1  # ε of the policy whose value is learned: --exploration_rate_end of simple_dqn


def of_policy(target: Network, _config: NetworkConfig, transitions: Transitions, noise: Tensor) -> Tensor:
    """Return y = r + γ Σ_a' π(a'|s') Q(s', a'; θ⁻) [B, 1, N] for an ε-greedy policy π."""
    z = target.outputs(transitions.poststates, noise)  # [B, A, N]
    best = target.value_head.qvalues(z).argmax(1, keepdim=True)  # [B, 1]
    value = (1 - EXPLORATION) * of_actions(z, best) + EXPLORATION * z.mean(1, keepdim=True)
    return target.value_head.bellman(transitions.rewards, transitions.discounts, value)


simple_dqn.register_target_rule("expected_sarsa", of_policy)
