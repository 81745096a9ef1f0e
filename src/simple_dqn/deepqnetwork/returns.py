"""What is learnt of an action's return: its expectation, or how it is distributed.

Each kind has N numbers for each action, and knows how they become a Q-value, what they come to when they
are discounted and a reward is added, and how wrong they are.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from simple_dqn.config import NetworkConfig
from simple_dqn.deepqnetwork.losses import LOSSES, quantile_huber


class Returns(nn.Module, ABC):
    """One kind of knowledge of an action's return. It is in float32 or wider, as the output layer is."""

    size: int  # N

    def values(self, outputs: Tensor) -> Tensor:
        """Return the Q-values [B, A] that a network's outputs [B, A, N] stand for: their mean."""
        return outputs.mean(-1)

    def targets(self, rewards: Tensor, discounts: Tensor, outputs: Tensor) -> Tensor:
        """Return the targets y = r + γ z [B, K, N], for each of K ways to go on.

        Args:
            rewards: r [B, 1, 1].
            discounts: γ [B, 1, 1]; 0 after a terminal.
            outputs: z [B, K, N], what the target network says of each way.
        """
        return rewards + discounts * outputs

    @abstractmethod
    def losses(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of each transition, and how wrong its prediction was, ≥ 0: both [B].

        Args:
            outputs: What the online network says of the action taken [B, N].
            targets: y [B, N].
        """


class Expectation(Returns):
    """The expected return, one number an action (Mnih et al. 2015, equation 2)."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.size = 1
        self._loss = LOSSES[config.loss]
        self._clip_error = config.clip_error

    def losses(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the `--loss` of each error, and |δ| = |y - Q(s, a)|."""
        losses = self._loss(outputs, targets, self._clip_error).squeeze(1)
        return losses, (targets - outputs.detach()).abs().squeeze(1)


class Quantiles(Returns):
    """N quantiles of the return, in the middle of N equal parts (Dabney et al. 2018, QR-DQN)."""

    fractions: Tensor  # τ̂ [N]

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.size = config.quantiles
        self._clip_error = config.clip_error
        middles = (torch.arange(self.size, dtype=torch.float64) + 0.5) / self.size  # Lemma 2
        self.register_buffer("fractions", middles, persistent=False)

    def losses(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the quantile Huber losses (Algorithm 1), and |δ| of the expectations."""
        errors = (targets - outputs.detach()).mean(1).abs()
        return quantile_huber(outputs, targets, self.fractions, self._clip_error), errors


class Categorical(Returns):
    """The odds of N atoms z from `v_min` to `v_max`, as logits (Bellemare et al. 2017, C51)."""

    atoms: Tensor  # z [N]

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.size = config.atoms
        atoms = torch.linspace(config.v_min, config.v_max, self.size, dtype=torch.float64)
        self.register_buffer("atoms", atoms, persistent=False)

    def values(self, outputs: Tensor) -> Tensor:
        """Return the Q-values Σ_i z_i p_i [B, A] (Algorithm 1)."""
        return outputs.softmax(-1) @ self.atoms

    def targets(self, rewards: Tensor, discounts: Tensor, outputs: Tensor) -> Tensor:
        """Return the odds [B, K, N] of r + γ z, projected onto the atoms (equation 7)."""
        moved = (rewards + discounts * self.atoms).clamp(self.atoms[0], self.atoms[-1])  # [B, 1, N]
        apart = self.atoms[1] - self.atoms[0]
        # shares[b, j, i] is how much of the moved atom j falls to the atom i. Most are 0, but to add all up
        # costs no more than to scatter the others, and comes to the same bits each time on a GPU too.
        shares = (1 - (moved.mT - self.atoms).abs() / apart).clamp(min=0)
        return outputs.softmax(-1) @ shares

    def losses(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cross-entropies, and the divergences D_KL(y ‖ p) (Hessel et al. 2018, equation 3)."""
        losses = -(targets * functional.log_softmax(outputs, 1)).sum(1)
        entropies = torch.special.entr(targets).sum(1)
        return losses, (losses.detach() - entropies).clamp(min=0)


RETURNS: dict[str, Callable[[NetworkConfig], Returns]] = {
    "none": Expectation,
    "quantile": Quantiles,
    "c51": Categorical,
}
