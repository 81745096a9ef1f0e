"""One update of deep Q-learning (Mnih et al. 2015, Algorithm 1): its targets, its loss and its descent.

`Update.targets` holds the Bellman equation. Nothing here depends on the machine or the device.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from simple_dqn.config import NetworkConfig
from simple_dqn.deepqnetwork.layers import Network
from simple_dqn.types import Floats, Ids


@dataclass(frozen=True, slots=True)
class Transitions:
    """A minibatch on the network's device."""

    prestates: Tensor  # s, floats in 0..1 [B, S, H, W]
    actions: Tensor  # a, int64 [B, 1]
    rewards: Tensor  # r, floats [B]: the discounted sum of the clipped rewards of n steps
    poststates: Tensor  # s', floats in 0..1 [B, S, H, W]
    discounts: Tensor  # γ, or γ^m after m steps, floats [B]; 0 after a terminal


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """A minibatch with its targets, on the network's device."""

    prestates: Tensor  # floats in 0..1 [B, S, H, W]
    actions: Tensor  # int64 [B, 1]
    targets: Tensor  # y, floats [B, 1, N]; or [B, A, N], one for each next action
    weights: Tensor  # floats [B], importance-sampling weights
    numbers: Ids  # int64 [B], the transitions' numbers in the replay memory, on the host
    poststates: Tensor | None  # floats in 0..1 [B, S, H, W], where the next action is yet to be chosen


@dataclass(frozen=True, slots=True)
class UpdateOutcome:
    """The result of one update from B transitions."""

    loss: float  # the mean over the transitions
    errors: Floats  # float32 [B], ≥ 0: |δ|, or as `ValueHead.losses` defines the error
    numbers: Ids  # int64 [B], the transitions' numbers in the replay memory


class Update:
    """Moves an online network θ towards the targets of a target network θ⁻.

    `targets` reads only the target network; `choose` and `descend` use only the online network. So one
    thread may call `targets` while another calls the other two. Control flow does not depend on values in
    tensors, so all three can be recorded as CUDA graphs.
    """

    def __init__(
        self, online: Network, target: Network, config: NetworkConfig, step: Callable[[Tensor], None]
    ) -> None:
        """Set up updates of `online`, θ, towards `target`, θ⁻, which may be the same network.

        A call of `step` makes one optimizer step down the gradient of a loss.
        """
        self._online, self._target = online, target
        self._config = config
        self._step = step
        self._rule = TARGET_RULES[config.target_rule]

    @torch.no_grad()
    def targets(
        self,
        prestates: Tensor,
        actions: Tensor,
        rewards: Tensor,
        poststates: Tensor,
        terminals: Tensor,
        discounts: Tensor,
        noise: Tensor,
    ) -> Tensor:
        """Return the targets y [B, 1, N], or [B, A, N] where the next action is yet to be chosen.

        Args:
            prestates: s, floats [B, S, H, W] in [0, 1].
            actions: a, int64 [B, 1].
            rewards: r of each step, floats [B, n], raw game points; 0 after the last step.
            poststates: s', floats [B, S, H, W] in [0, 1].
            terminals: The episode ends at s', bool [B].
            discounts: γ^m after m steps, float32 [B].
            noise: Of the target network, float32 [1, K].
        """
        clipped = rewards.clamp(self._config.min_reward, self._config.max_reward)
        total = n_step_return(clipped, self._config.discount_rate)
        transitions = Transitions(prestates, actions, total, poststates, discounts * ~terminals)
        return self._rule(self._target, self._config, transitions, noise)

    @torch.no_grad()
    def choose(self, poststates: Tensor, targets: Tensor, noise: Tensor) -> Tensor:
        """Return the targets y [B, N] of a' = argmax Q(s', a'; θ), selected from `targets` [B, A, N].

        Double Q-learning (van Hasselt et al. 2016, equation 4).
        """
        qvalues: Tensor = self._online(poststates, noise)
        return of_actions(targets, qvalues.argmax(1, keepdim=True))

    def descend(
        self, prestates: Tensor, actions: Tensor, targets: Tensor, weights: Tensor, noise: Tensor
    ) -> Tensor:
        """Update θ by one optimizer step, and return the loss followed by the errors [1 + B].

        Args:
            prestates: s, floats [B, S, H, W] in [0, 1].
            actions: a, int64 [B, 1].
            targets: y, floats [B, N].
            weights: Importance-sampling weights, floats [B].
            noise: Of the online network, float32 [1, K].
        """
        if self._config.normalization == "batch":  # the only layer that behaves differently in training
            self._online.train()
        outputs = self._online.outputs(prestates, noise)
        if self._config.normalization == "batch":
            self._online.eval()
        losses, errors = self._online.value_head.losses(of_actions(outputs, actions), targets)
        loss = losses.dot(weights / len(weights))
        self._step(loss)
        return torch.cat((loss.detach().unsqueeze(0), errors))


def n_step_return(rewards: Tensor, discount_rate: float) -> Tensor:
    """Return r = Σ_k γ^k r_k [B] of the `rewards` r_k [B, n] of n steps.

    Sutton 1988; Hessel et al. 2018, section 3, "multi-step learning".
    """
    *earlier, total = rewards.unbind(1)
    for reward in reversed(earlier):
        total = reward + discount_rate * total
    return total


# (target network, settings, transitions, noise [1, K]) -> y [B, 1, N] or [B, A, N]
TargetRule: TypeAlias = Callable[[Network, NetworkConfig, Transitions, Tensor], Tensor]


def max_targets(target: Network, _config: NetworkConfig, transitions: Transitions, noise: Tensor) -> Tensor:
    """Return y = r + γ z(s', argmax_a' Q(s', a'; θ⁻); θ⁻) [B, 1, N] (Mnih et al. 2015, equation 2).

    The N numbers z represent an action's return; see `ValueHead`. For DQN itself z is Q.
    """
    outputs = target.outputs(transitions.poststates, noise)
    best = target.value_head.qvalues(outputs).argmax(1, keepdim=True)
    return bellman(target, transitions, of_actions(outputs, best).unsqueeze(1))


def double_targets(
    target: Network, _config: NetworkConfig, transitions: Transitions, noise: Tensor
) -> Tensor:
    """Return y = r + γ z(s', a'; θ⁻) [B, A, N] for each a'.

    `Update.choose` then takes argmax_a' Q(s', a'; θ) (van Hasselt et al. 2016, equation 4): other updates may
    change the online network θ between the two.
    """
    return bellman(target, transitions, target.outputs(transitions.poststates, noise))


def munchausen_targets(
    target: Network, config: NetworkConfig, transitions: Transitions, noise: Tensor
) -> Tensor:
    """Return the y [B, 1, N] of Munchausen reinforcement learning (Vieillard et al. 2020, equation 1).

    y = r + α [τ ln π(a|s)]_l₀^0 + γ Σ_a' π(a'|s') (z(s', a'; θ⁻) - τ ln π(a'|s')) with π = softmax(Q / τ) of
    the target network, and the N numbers z in place of Q, as in their M-IQN. Only the first of n steps has
    the added reward: by now the policy might choose other actions in the later steps.
    """
    tau = config.munchausen_tau
    both = torch.cat((transitions.prestates, transitions.poststates))
    before, after = target.outputs(both, noise).chunk(2)
    qvalues = target.value_head.qvalues
    log_policy = tau * functional.log_softmax(qvalues(before) / tau, 1)  # τ ln π(·|s) [B, A]
    next_log_policy = tau * functional.log_softmax(qvalues(after) / tau, 1)
    bonus = config.munchausen_alpha * log_policy.gather(1, transitions.actions).clamp(config.munchausen_floor)
    policy = (next_log_policy / tau).exp().unsqueeze(2)
    outputs = (policy * (after - next_log_policy.unsqueeze(2))).sum(1, keepdim=True)
    return bellman(target, transitions, outputs, bonus.squeeze(1))


def bellman(
    target: Network, transitions: Transitions, outputs: Tensor, bonus: Tensor | float = 0.0
) -> Tensor:
    """Return y = (r + bonus) + γ z [B, K, N] for the next actions' `outputs` z [B, K, N] and `bonus` [B]."""
    rewards = (transitions.rewards + bonus)[:, None, None]
    return target.value_head.targets(rewards, transitions.discounts[:, None, None], outputs)


def of_actions(outputs: Tensor, actions: Tensor) -> Tensor:
    """Return those of the `outputs` [B, A, N] that belong to `actions` int64 [B, 1]: [B, N]."""
    return outputs.gather(1, actions.unsqueeze(2).expand(-1, -1, outputs.shape[2])).squeeze(1)


# The target rules, by name.
TARGET_RULES: dict[str, TargetRule] = {
    "max": max_targets,
    "double": double_targets,
    "munchausen": munchausen_targets,
}


def fetch_outcomes(results: Sequence[tuple[Tensor, Ids]]) -> list[UpdateOutcome]:
    """Return the outcomes of updates, given the results of `Update.descend` and the transitions' numbers.

    All results are copied from the device at once, because each copy waits for the device.
    """
    if not results:
        return []
    values = torch.cat([result for result, _ in results]).cpu().numpy()
    each = np.split(values, np.cumsum([len(result) for result, _ in results])[:-1])
    return [
        UpdateOutcome(float(one[0]), one[1:].astype(np.float32), numbers)
        for one, (_, numbers) in zip(each, results, strict=True)
    ]
