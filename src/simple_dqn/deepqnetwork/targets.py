"""What an update moves the predictions towards: the y of each way to value the state that follows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from simple_dqn.config import NetworkConfig
from simple_dqn.deepqnetwork.layers import Network
from simple_dqn.types import Numbers


@dataclass(frozen=True, slots=True)
class Transitions:
    """A minibatch on the network's device."""

    prestates: Tensor  # s, floats in [0, 1] [B, S, H, W]
    actions: Tensor  # a, int64 [B, 1]
    rewards: Tensor  # r, floats [B], those of all steps, clipped and discounted
    poststates: Tensor  # s', floats in [0, 1] [B, S, H, W]
    discounts: Tensor  # γ, or γ^m after m steps, floats [B]; 0 where nothing follows


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """What an update needs of a minibatch, on the network's device."""

    prestates: Tensor  # floats in [0, 1] [B, S, H, W]
    actions: Tensor  # int64 [B, 1]
    targets: Tensor  # y, floats [B, 1, N]; or [B, A, N], one for each action that may follow
    weights: Tensor  # floats [B], how much each transition counts
    numbers: Numbers  # int64 [B], which transitions these are; the one thing that stays on the host
    poststates: Tensor | None  # floats in [0, 1] [B, S, H, W], where it is yet to be seen which follows


def added_up(rewards: Tensor, discount_rate: float) -> Tensor:
    """Return r = Σ_k γ^k r_k [B] of the `rewards` r_k [B, n] of n steps.

    Sutton 1988; Hessel et al. 2018, section 3, "multi-step learning".
    """
    *earlier, total = rewards.unbind(1)
    for paid in reversed(earlier):
        total = paid + discount_rate * total
    return total


# (target network, settings, transitions, noise [1, K]) -> y [B, 1, N] or [B, A, N]
TargetRule: TypeAlias = Callable[[Network, NetworkConfig, Transitions, Tensor], Tensor]


def of_best_action(
    target: Network, _config: NetworkConfig, transitions: Transitions, noise: Tensor
) -> Tensor:
    """Return y = r + γ z(s', argmax_a' Q(s', a'; θ⁻); θ⁻) [B, 1, N] (Mnih et al. 2015, equation 2).

    The numbers z stand for the return; see `Returns`.
    """
    outputs = target.outputs(transitions.poststates, noise)
    best = target.returns.values(outputs).argmax(1, keepdim=True)
    return targets_of(target, transitions, of_actions(outputs, best).unsqueeze(1))


def of_each_action(
    target: Network, _config: NetworkConfig, transitions: Transitions, noise: Tensor
) -> Tensor:
    """Return y = r + γ z(s', a'; θ⁻) [B, A, N] for each a'.

    The update will take that of argmax_a' Q(s', a'; θ) (van Hasselt et al. 2016, equation 4): only then is
    it known which online network θ that is, for until then others may be updating it.
    """
    return targets_of(target, transitions, target.outputs(transitions.poststates, noise))


def of_soft_policy(target: Network, config: NetworkConfig, transitions: Transitions, noise: Tensor) -> Tensor:
    """Return the y [B, 1, N] of Munchausen reinforcement learning (Vieillard et al. 2020, equation 1).

    y = r + α [τ ln π(a|s)]_l₀^0 + γ Σ_a' π(a'|s') (z(s', a'; θ⁻) - τ ln π(a'|s')) with π = softmax(Q / τ) of
    the target network, and with the N numbers z that stand for the return in place of Q, as in their M-IQN.
    Of n steps the first alone has what is added: the others' actions may not be the policy's any more.
    """
    tau = config.munchausen_tau
    both = torch.cat((transitions.prestates, transitions.poststates))
    before, after = target.outputs(both, noise).chunk(2)
    log_policy = tau * functional.log_softmax(target.returns.values(before) / tau, 1)  # τ ln π(·|s) [B, A]
    next_log_policy = tau * functional.log_softmax(target.returns.values(after) / tau, 1)
    bonus = config.munchausen_alpha * log_policy.gather(1, transitions.actions).clamp(config.munchausen_floor)
    policy = (next_log_policy / tau).exp().unsqueeze(2)
    outputs = (policy * (after - next_log_policy.unsqueeze(2))).sum(1, keepdim=True)
    return targets_of(target, transitions, outputs, bonus.squeeze(1))


def targets_of(
    target: Network, transitions: Transitions, outputs: Tensor, bonus: Tensor | float = 0.0
) -> Tensor:
    """Return y [B, K, N] for the `outputs` z [B, K, N] that stand for what follows, with `bonus` [B]."""
    rewards = (transitions.rewards + bonus)[:, None, None]
    return target.returns.targets(rewards, transitions.discounts[:, None, None], outputs)


def of_actions(outputs: Tensor, actions: Tensor) -> Tensor:
    """Return the numbers [B, N] among `outputs` [B, A, N] that belong to `actions` int64 [B, 1]."""
    return outputs.gather(1, actions.unsqueeze(2).expand(-1, -1, outputs.shape[2])).squeeze(1)


# By `double` and `munchausen`; both at once are refused, for a soft policy chooses no action.
TARGET_RULES: dict[tuple[bool, bool], TargetRule] = {
    (False, False): of_best_action,
    (True, False): of_each_action,
    (False, True): of_soft_policy,
}
