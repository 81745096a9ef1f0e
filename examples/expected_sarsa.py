"""Expected SARSA (van Seijen et al. 2009): targets use the value of the ε-greedy policy, not the maximum.

PYTHONPATH=src .venv/bin/python examples/expected_sarsa.py train pong sarsa --preset simple_dqn
"""

from torch import Tensor

import simple_dqn
from simple_dqn.config import NetworkConfig
from simple_dqn.deepqnetwork.layers import Network
from simple_dqn.deepqnetwork.update import Transitions, bellman, of_actions
from simple_dqn.main import console

EXPLORATION = 0.1  # ε of the policy whose value is learned: --exploration_rate_end of simple_dqn


def of_policy(target: Network, _config: NetworkConfig, transitions: Transitions, noise: Tensor) -> Tensor:
    """Return y = r + γ Σ_a' π(a'|s') Q(s', a'; θ⁻) [B, 1, N] for an ε-greedy policy π."""
    outputs = target.outputs(transitions.poststates, noise)  # [B, A, N]
    best = target.value_head.qvalues(outputs).argmax(1, keepdim=True)  # [B, 1]
    greedy = of_actions(outputs, best).unsqueeze(1)
    average = outputs.mean(1, keepdim=True)
    return bellman(target, transitions, (1 - EXPLORATION) * greedy + EXPLORATION * average)


if __name__ == "__main__":
    simple_dqn.register_target_rule("max", of_policy)  # replaces it; a new name is for --target_rule NAME
    console()
