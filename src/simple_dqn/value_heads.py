"""Value heads: the N numbers per action that represent its return, and the loss of each representation.

`ScalarHead` is DQN's own. A head turns its numbers into Q-values, applies the Bellman operator to them, and
compares predictions with targets.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from simple_dqn.config import NetworkConfig


class ValueHead(nn.Module, ABC):
    """A representation of an action's return. It is in float32 or wider, as the output layer is."""

    size: int  # N

    def qvalues(self, outputs: Tensor) -> Tensor:
        """Return the Q-values [B, A] of a network's `outputs` [B, A, N]: their mean."""
        return outputs.mean(-1)

    def bellman(self, rewards: Tensor, discounts: Tensor, outputs: Tensor) -> Tensor:
        """Return the targets y = r + γ z [B, K, N], for each of K next actions.

        Args:
            rewards: r [B, 1, 1].
            discounts: γ [B, 1, 1]; 0 after a terminal.
            outputs: z [B, K, N], the target network's outputs.
        """
        return rewards + discounts * outputs

    @abstractmethod
    def losses(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss and the error, ≥ 0, of each transition: both [B].

        Args:
            outputs: The online network's outputs for the action taken [B, N].
            targets: y [B, N].
        """


class ScalarHead(ValueHead):
    """The expected return: one number per action (Mnih et al. 2015, equation 2)."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.size = 1
        self._clip_error = config.clip_error if config.loss == "huber" else 0.0

    def losses(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the Huber loss or δ²/2, and |δ| for the TD errors δ = y - Q(s, a)."""
        losses = huber(outputs, targets, self._clip_error).squeeze(1)
        return losses, (targets - outputs.detach()).abs().squeeze(1)


class QuantileHead(ValueHead):
    """N quantiles of the return, at the midpoints of N equal fractions (Dabney et al. 2018, QR-DQN)."""

    fractions: Tensor  # τ̂ [N]

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.size = config.quantiles
        self._clip_error = config.clip_error
        midpoints = (torch.arange(self.size, dtype=torch.float64) + 0.5) / self.size  # Lemma 2
        self.register_buffer("fractions", midpoints, persistent=False)

    def losses(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the quantile Huber losses (Algorithm 1), and |δ| of the expectations."""
        errors = (targets - outputs.detach()).mean(1).abs()
        return quantile_huber(outputs, targets, self.fractions, self._clip_error), errors


class CategoricalHead(ValueHead):
    """The probabilities of N returns z from `v_min` to `v_max`, as logits (Bellemare et al. 2017, C51)."""

    atoms: Tensor  # z [N]

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.size = config.atoms
        atoms = torch.linspace(config.v_min, config.v_max, self.size, dtype=torch.float64)
        self.register_buffer("atoms", atoms, persistent=False)

    def qvalues(self, outputs: Tensor) -> Tensor:
        """Return the Q-values Σ_i z_i p_i [B, A] (Algorithm 1)."""
        return outputs.softmax(-1) @ self.atoms

    def bellman(self, rewards: Tensor, discounts: Tensor, outputs: Tensor) -> Tensor:
        """Return the probabilities [B, K, N] of r + γ z, projected onto the atoms (equation 7)."""
        moved = (rewards + discounts * self.atoms).clamp(self.atoms[0], self.atoms[-1])  # [B, 1, N]
        spacing = self.atoms[1] - self.atoms[0]
        # shares[b, j, i] is the share of the moved atom j that goes to the atom i. Most are 0, but summing
        # all of them costs no more than scattering the rest, and is deterministic on a GPU.
        shares = (1 - (moved.mT - self.atoms).abs() / spacing).clamp(min=0)
        return outputs.softmax(-1) @ shares

    def losses(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cross-entropies, and the divergences D_KL(y ‖ p) (Hessel et al. 2018, equation 3)."""
        losses = -(targets * functional.log_softmax(outputs, 1)).sum(1)
        entropies = torch.special.entr(targets).sum(1)
        return losses, (losses.detach() - entropies).clamp(min=0)


VALUE_HEADS: dict[str, Callable[[NetworkConfig], ValueHead]] = {
    "none": ScalarHead,
    "quantile": QuantileHead,
    "c51": CategoricalHead,
}


def huber(predictions: Tensor, targets: Tensor, clip_error: float) -> Tensor:
    """Return δ²/2 of the errors δ, growing linearly where |δ| exceeds κ = `clip_error` (Huber 1964).

    Elementwise, for tensors of one shape. Its gradient is the error clipped to ± κ, as in Mnih et al. 2015.
    With κ = 0 errors are not clipped.
    """
    if clip_error == 0:
        return functional.mse_loss(predictions, targets, reduction="none") / 2
    return functional.huber_loss(predictions, targets, reduction="none", delta=clip_error)


def quantile_huber(quantiles: Tensor, targets: Tensor, fractions: Tensor, clip_error: float) -> Tensor:
    """Return Σ_i E_j |τ̂_i - 1{u_ij < 0}| L_κ(u_ij) / κ [B] with u_ij = y_j - θ_i (Dabney et al. 2018, 9, 10).

    The division by κ is that of their IQN (2018b, equation 3). With it the loss tends to that of plain
    quantile regression (equation 8) as κ = `clip_error` goes to 0, and κ = 0 means that limit. L is `huber`.

    Args:
        quantiles: θ [B, N].
        targets: y [B, M], equally weighted samples or quantiles.
        fractions: τ̂ [N], from 0 to 1.
        clip_error: κ.
    """
    targets = targets.unsqueeze(1).expand(-1, quantiles.shape[1], -1)
    estimates = quantiles.unsqueeze(2).expand_as(targets)
    costs = huber(estimates, targets, clip_error) if clip_error else (targets - estimates).abs()
    fractions = fractions.unsqueeze(1)
    weights = torch.where(targets < estimates, 1 - fractions, fractions)
    return (weights * costs).mean(2).sum(1) / (clip_error or 1)
