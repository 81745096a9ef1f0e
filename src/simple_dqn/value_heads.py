"""Value heads: the numbers of a Q-network's output that represent an action's return, and their losses."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from simple_dqn.config import NetworkConfig


class ValueHead(nn.Module):
    """The N numbers that represent an action's return: here one, the expected return (Mnih et al. 2015).

    A head turns them into Q-values, applies the Bellman operator, and compares predictions with targets.
    """

    size = 1  # N

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self._clip_error = 0.0 if config.loss == "mse" else config.clip_error

    def qvalues(self, outputs: Tensor) -> Tensor:
        """Return the Q-values [B, A] of a network's `outputs` [B, A, N]: their mean."""
        return outputs.mean(-1)

    def bellman(self, rewards: Tensor, discounts: Tensor, outputs: Tensor) -> Tensor:
        """Return the targets y = r + γ z [B, K, N], for each of K next actions.

        r and γ are [B, 1, 1], γ being 0 after a terminal; z are the target network's `outputs` [B, K, N].
        """
        return rewards + discounts * outputs

    def losses(self, outputs: Tensor, targets: Tensor, _noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the loss of each transition [B], Huber's or δ²/2, and its error |δ| [B].

        δ = y - Q(s, a), for the `targets` y [B, N] and the online network's `outputs` [B, N] for the action
        taken, which it computed with the noise. Other heads define the error in their own way; it is ≥ 0.
        """
        losses = huber(outputs, targets, self._clip_error).squeeze(1)
        return losses, (targets - outputs.detach()).abs().squeeze(1)


class QuantileHead(ValueHead):
    """The quantiles of the return, at the midpoints of N equal fractions (Dabney et al. 2018, QR-DQN)."""

    fractions: Tensor  # τ̂ [N]

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config)
        self.size = config.quantiles
        midpoints = (torch.arange(self.size, dtype=torch.float64) + 0.5) / self.size  # Lemma 2
        self.register_buffer("fractions", midpoints, persistent=False)

    def fractions_of(self, _noise: Tensor | None) -> Tensor:
        """Return the fractions of the N quantiles, [1, N]."""
        return self.fractions.unsqueeze(0)

    def losses(self, outputs: Tensor, targets: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return Σ_i E_j |τ̂_i - 1{u_ij < 0}| L_κ(u_ij) / κ, u_ij = y_j - θ_i, and |δ| of the expectations.

        Equations 9 and 10, and Algorithm 1. The division by κ is that of their IQN (2018b, equation 3). With
        it the loss tends to that of plain quantile regression (equation 8) as κ, the `clip_error`, goes to 0,
        and κ = 0 means that limit.
        """
        errors, clip_error = (targets - outputs.detach()).mean(1).abs(), self._clip_error
        targets = targets.unsqueeze(1).expand(-1, outputs.shape[1], -1)
        estimates = outputs.unsqueeze(2).expand_as(targets)
        costs = huber(estimates, targets, clip_error) if clip_error else (targets - estimates).abs()
        fractions = self.fractions_of(noise).unsqueeze(2)
        weights = torch.where(targets < estimates, 1 - fractions, fractions)
        return (weights * costs).mean(2).sum(1) / (clip_error or 1), errors


class ImplicitHead(QuantileHead):
    """Quantiles of the return at N fractions drawn for each state (Dabney et al. 2018b, IQN).

    To act, and to choose the next action of double Q-learning, the network uses the midpoints.
    """

    noise_start = 0  # index of the fractions in the noise of the whole network

    def fractions_of(self, noise: Tensor | None) -> Tensor:
        """Return the fractions [B, N] in 0..1 that `noise` [B, K] holds; the midpoints without it."""
        if noise is None or noise.shape[1] < self.noise_start + self.size:
            return super().fractions_of(noise)
        drawn = noise[:, self.noise_start : self.noise_start + self.size].to(self.fractions.dtype)
        return cast(Tensor, torch.special.ndtr(drawn * drawn.abs()))  # f(ε) |f(ε)| = ε; see `_draw_noise`


class CategoricalHead(ValueHead):
    """The probabilities of N returns z from `v_min` to `v_max`, as logits (Bellemare et al. 2017, C51)."""

    atoms: Tensor  # z [N]

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config)
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

    def losses(self, outputs: Tensor, targets: Tensor, _noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the cross-entropies, and the divergences D_KL(y ‖ p) (Hessel et al. 2018, equation 3)."""
        losses = -(targets * functional.log_softmax(outputs, 1)).sum(1)
        entropies = torch.special.entr(targets).sum(1)
        return losses, (losses.detach() - entropies).clamp(min=0)


VALUE_HEADS = {"none": ValueHead, "quantile": QuantileHead, "iqn": ImplicitHead, "c51": CategoricalHead}


def huber(predictions: Tensor, targets: Tensor, clip_error: float) -> Tensor:
    """Return δ²/2 of the errors δ, growing linearly where |δ| exceeds κ = `clip_error` (Huber 1964).

    Elementwise, for tensors of one shape. Its gradient is the error clipped to ± κ, as in Mnih et al. 2015.
    With κ = 0 errors are not clipped.
    """
    if clip_error == 0:
        return functional.mse_loss(predictions, targets, reduction="none") / 2
    return functional.huber_loss(predictions, targets, reduction="none", delta=clip_error)
