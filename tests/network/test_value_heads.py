"""Distributions of returns: properties of the projection and of the quantile loss."""

import math

import numpy as np
import pytest
import torch

from simple_dqn.config import NetworkConfig
from simple_dqn.value_heads import CategoricalHead, quantile_huber


def test_projection_keeps_the_mean_of_returns_between_the_atoms() -> None:
    config = NetworkConfig(distributional="c51", atoms=21, v_min=-5.0, v_max=5.0)
    returns = CategoricalHead(config).double()
    rng = np.random.default_rng(0)
    logits = torch.from_numpy(rng.normal(size=(50, 3, 21)))
    rewards, discounts = (torch.from_numpy(rng.uniform(-1, high, (50, 1, 1))) for high in (1, 0.5))
    discounts = discounts.clamp(0)
    projected = returns.bellman(rewards, discounts, logits)
    torch.testing.assert_close(projected.sum(-1), torch.ones(50, 3, dtype=torch.float64))
    means = rewards[..., 0] + discounts[..., 0] * returns.qvalues(logits)
    torch.testing.assert_close(projected @ returns.atoms, means)


@pytest.mark.parametrize("clip_error", [0.0, 1e-3])
def test_the_quantile_loss_is_least_at_the_quantiles(clip_error: float) -> None:
    samples = torch.tensor([[1.0, 2, 3, 4, 5]], dtype=torch.float64)
    fractions = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    grid = [torch.tensor([[value] * 3], dtype=torch.float64) for value in np.linspace(0, 6, 121)]
    for place, expected in enumerate((1, 3, 5)):
        one = fractions[place : place + 1]
        losses = [quantile_huber(values[:, :1], samples, one, clip_error).item() for values in grid]
        assert math.isclose(float(grid[int(np.argmin(losses))][0, 0]), expected, abs_tol=0.051)
