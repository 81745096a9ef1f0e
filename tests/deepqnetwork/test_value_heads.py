"""Distributions of returns: recovered where they are known."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from simple_dqn.config import NetworkConfig
from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.deepqnetwork.networks import Dense, NetworkSpec, uniform_by_inputs
from simple_dqn.deepqnetwork.value_heads import CategoricalHead, quantile_huber
from simple_dqn.types import Minibatch
from tests.deepqnetwork.updates import train

UPDATES, DISCOUNT = 800, 0.5
STATES = (255 * np.eye(2, dtype=np.uint8)).reshape(2, 1, 1, 2)
PAYS, ODDS = np.array([-1.0, 0.0, 1.0]), np.array([0.2, 0.3, 0.5])  # of the second step
# The first step pays 0 or 0.5, alike, and leads to the second: returns of the start, and their odds.
RETURNS = sorted(
    (first + DISCOUNT * pay, odds / 2) for first in (0, 0.5) for pay, odds in zip(PAYS, ODDS, strict=True)
)


# Each of them as often in a minibatch as its odds say.
FIRST, SECOND = np.repeat((0, 0.5), 10), np.repeat(PAYS, (4, 6, 10))
IS_SECOND = np.repeat((False, True), 20)
BATCH = Minibatch(
    prestates=STATES[IS_SECOND.astype(int)],
    actions=np.zeros(40, np.int64),
    rewards=np.concatenate((FIRST, SECOND)).astype(np.float32)[:, np.newaxis],
    poststates=STATES[np.ones(40, int)],
    terminals=IS_SECOND,
    discounts=np.full(40, DISCOUNT, np.float32),
    weights=np.ones(40, np.float32),
    numbers=np.arange(40),
)


def learn(make_network: Callable[..., DeepQNetwork], **settings: object) -> DeepQNetwork:
    spec = NetworkSpec((Dense(32),), biases=True, initializer=uniform_by_inputs)
    network = make_network(
        actions=1, state_shape=(1, 1, 2), spec=spec, optimizer="adam", learning_rate=0.003, **settings
    )
    for update in range(UPDATES):
        train(network, BATCH)
        if update % 100 == 0:
            network.update_target_network()
    expected = [sum(pay * odds for pay, odds in RETURNS), PAYS @ ODDS]
    np.testing.assert_allclose(network.predict(STATES)[:, 0], expected, atol=0.03)
    return network


def outputs(network: DeepQNetwork) -> torch.Tensor:
    """Return what stands for the returns of both states [2, N]."""
    return network._online.outputs(torch.from_numpy(STATES) / 255).detach()[:, 0]


def test_c51_recovers_the_odds(make_network: Callable[..., DeepQNetwork]) -> None:
    network = learn(make_network, distributional="c51", atoms=9, v_min=-2.0, v_max=2.0)
    start, second = outputs(network).softmax(1).numpy()
    atoms = np.linspace(-2, 2, 9)
    for learnt, returns in ((start, RETURNS), (second, zip(PAYS, ODDS, strict=True))):
        expected = np.zeros(9)
        for value, odds in returns:
            expected[np.abs(atoms - value).argmin()] += odds
        np.testing.assert_allclose(learnt, expected, atol=0.02)


def test_quantiles_are_recovered(make_network: Callable[..., DeepQNetwork]) -> None:
    network = learn(make_network, distributional="quantile", quantiles=10, clip_error=0.01)
    fractions = (np.arange(10) + 0.5) / 10
    for learnt, returns in zip(
        outputs(network).numpy(), (RETURNS, list(zip(PAYS, ODDS, strict=True))), strict=True
    ):
        values, odds = (np.array(column) for column in zip(*returns, strict=True))
        expected = values[np.searchsorted(odds.cumsum(), fractions)]
        # Where a fraction falls on the edge between two returns, any value between them will do.
        edge = np.abs(odds.cumsum()[:, None] - fractions).min(0) < 0.04
        np.testing.assert_allclose(learnt[~edge], expected[~edge], atol=0.1)
        assert (~edge).sum() >= 5


def test_projection_keeps_the_mean_of_what_lies_between_the_atoms() -> None:
    config = NetworkConfig(distributional="c51", atoms=21, v_min=-5.0, v_max=5.0)
    returns = CategoricalHead(config).double()
    rng = np.random.default_rng(0)
    logits = torch.from_numpy(rng.normal(size=(50, 3, 21)))
    rewards, discounts = (torch.from_numpy(rng.uniform(-1, high, (50, 1, 1))) for high in (1, 0.5))
    discounts = discounts.clamp(0)
    projected = returns.targets(rewards, discounts, logits)
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
