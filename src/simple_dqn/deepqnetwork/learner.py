"""The two halves of an update (Mnih et al. 2015, Algorithm 1): its targets, and the descent towards them."""

import torch
from torch import Tensor

from simple_dqn.config import NetworkConfig
from simple_dqn.deepqnetwork.layers import Network
from simple_dqn.deepqnetwork.master_weights import MasterWeights
from simple_dqn.deepqnetwork.optimizers import annealed
from simple_dqn.deepqnetwork.recorded import recorded
from simple_dqn.deepqnetwork.targets import TARGET_RULES, Transitions, added_up, of_actions


class Learner:
    """Moves an online network θ towards what a target network θ⁻ says.

    The target network is only read, and the online network only by `choose` and `descend`: so `value` may be
    called in another thread than those two. On a GPU all three are recorded, and so do nothing that depends
    on the data's values.
    """

    def __init__(
        self, online: Network, target: Network, master: MasterWeights, config: NetworkConfig, record: bool
    ) -> None:
        """Learn by `config`'s rules.

        Args:
            online: θ.
            target: θ⁻; the same as `online`, if there is none.
            master: The weights of θ, and the optimizer.
            config: How to learn.
            record: Whether the work is to be recorded as CUDA graphs.
        """
        self._online, self._target, self._master = online, target, master
        self._config = config
        self._record = record
        self._rule = TARGET_RULES[config.double, config.munchausen]
        self.value = recorded(self._value, record)
        self.choose = recorded(self._choose, record)
        self.descend = recorded(self._descend, record)

    def anneal(self, updates: int) -> None:
        """Have `descend` make its next step with the learning rate that is due after `updates`."""
        if self._master.scale_learning_rate(annealed(self._config, updates)):
            self.descend = recorded(self._descend, self._record)  # the old rate is part of the recording

    @torch.no_grad()
    def _value(
        self,
        prestates: Tensor,
        actions: Tensor,
        rewards: Tensor,
        poststates: Tensor,
        terminals: Tensor,
        discounts: Tensor,
        noise: Tensor,
    ) -> Tensor:
        """Return y [B, 1, N], or [B, A, N] for each action that may follow; see `targets`.

        Args:
            prestates: s, floats in [0, 1] [B, S, H, W].
            actions: a, int64 [B, 1].
            rewards: r of each step, floats [B, n], raw game points; 0 after the last, which clipping keeps.
            poststates: s', floats in [0, 1] [B, S, H, W].
            terminals: Nothing follows s', bool [B].
            discounts: γ^m after m steps, float32 [B].
            noise: Of the target network, float32 [1, K].
        """
        clipped = rewards.clamp(self._config.min_reward, self._config.max_reward)
        total = added_up(clipped, self._config.discount_rate)
        transitions = Transitions(prestates, actions, total, poststates, discounts * ~terminals)
        return self._rule(self._target, self._config, transitions, noise)

    @torch.no_grad()
    def _choose(self, poststates: Tensor, targets: Tensor, noise: Tensor) -> Tensor:
        """Return of `targets` y [B, A, N] those of argmax_a' Q(s', a'; θ) [B, N].

        Double Q-learning (van Hasselt et al. 2016, equation 4).
        """
        qvalues: Tensor = self._online(poststates, noise)
        return of_actions(targets, qvalues.argmax(1, keepdim=True))

    def _descend(
        self, prestates: Tensor, actions: Tensor, targets: Tensor, weights: Tensor, noise: Tensor
    ) -> Tensor:
        """Change θ by one step of the optimizer, and return the loss, followed by the errors [1 + B].

        Args:
            prestates: s, floats in [0, 1] [B, S, H, W].
            actions: a, int64 [B, 1].
            targets: y, floats [B, N].
            weights: How much each transition counts, floats [B].
            noise: Of the online network, float32 [1, K].
        """
        self._online.train()
        outputs = self._online.outputs(prestates, noise)
        self._online.eval()
        losses, errors = self._online.returns.losses(of_actions(outputs, actions), targets)
        loss = losses.dot(weights / len(weights))
        self._master.descend(loss)
        return torch.cat((loss.detach().unsqueeze(0), errors))
