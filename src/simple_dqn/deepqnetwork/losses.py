"""How much an error costs."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

# (predictions, targets, both in the same shape, clip_error) -> losses in that shape
Loss: TypeAlias = Callable[[Tensor, Tensor, float], Tensor]


def half_square(predictions: Tensor, targets: Tensor, _clip_error: float) -> Tensor:
    """Return δ²/2 for the errors δ = target - prediction."""
    return functional.mse_loss(predictions, targets, reduction="none") / 2


def huber(predictions: Tensor, targets: Tensor, clip_error: float) -> Tensor:
    """Return δ²/2, which grows linearly where |δ| exceeds κ = `clip_error` (Huber 1964); 0: it never does.

    So its gradient is the error clipped to ± κ, as Mnih et al. 2015 have it.
    """
    if clip_error == 0:
        return half_square(predictions, targets, clip_error)
    return functional.huber_loss(predictions, targets, reduction="none", delta=clip_error)


LOSSES: dict[str, Loss] = {"huber": huber, "mse": half_square}


def quantile_huber(quantiles: Tensor, targets: Tensor, fractions: Tensor, clip_error: float) -> Tensor:
    """Return Σ_i E_j |τ̂_i - 1{u_ij < 0}| L_κ(u_ij) / κ with u_ij = y_j - θ_i (Dabney et al. 2018, 9 and 10).

    The division by κ is that of their IQN (2018b, equation 3). With it the loss becomes that of plain
    quantile regression (equation 8) as κ = `clip_error` goes to 0, and so it is taken at 0. L is `huber`.

    Args:
        quantiles: θ [B, N].
        targets: y [B, M], samples or quantiles that count alike.
        fractions: τ̂ [N], from 0 to 1.
        clip_error: κ.

    Returns:
        [B].
    """
    targets = targets.unsqueeze(1).expand(-1, quantiles.shape[1], -1)
    estimates = quantiles.unsqueeze(2).expand_as(targets)
    costs = huber(estimates, targets, clip_error) if clip_error else (targets - estimates).abs()
    fractions = fractions.unsqueeze(1)
    weights = torch.where(targets < estimates, 1 - fractions, fractions)
    return (weights * costs).mean(2).sum(1) / (clip_error or 1)
