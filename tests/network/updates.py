"""What the tests of the network share."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

from simple_dqn.dqn import DeepQNetwork
from simple_dqn.types import Minibatch

MakeNetwork: TypeAlias = Callable[..., DeepQNetwork]
MakeMinibatch: TypeAlias = Callable[..., Minibatch]


def train(network: DeepQNetwork, minibatch: Minibatch) -> float:
    """Make one update of `network`, and return its loss."""
    network.update(network.prepare(minibatch))
    return take_losses(network)[-1]


def take_losses(network: DeepQNetwork) -> list[float]:
    """Return the losses of the updates since the last call."""
    return [outcome.loss for outcome in network.take_outcomes()]


def learn(network: DeepQNetwork, make_minibatch: MakeMinibatch, seeds: Iterable[int]) -> list[float]:
    """Make an update for each seed, with a target update at every third; return the losses."""
    losses = []
    for seed in seeds:
        if seed % 3 == 0:
            network.update_target_network()
        losses.append(train(network, make_minibatch(seed)))
    return losses


def assert_same(one: object, other: object, path: str = "state") -> None:
    """Compare two nested states, bit for bit."""
    if isinstance(one, dict):
        assert isinstance(other, dict)
        assert one.keys() == other.keys(), path
        for name in one:
            assert_same(one[name], other[name], f"{path}.{name}")
    elif isinstance(one, np.ndarray):
        assert isinstance(other, np.ndarray)
        assert one.dtype == other.dtype, path
        np.testing.assert_array_equal(one, other, err_msg=path)
    else:
        assert one == other, path


def assert_same_weights(one: DeepQNetwork, other: DeepQNetwork) -> None:
    """Compare the weights of two networks, bit for bit."""
    assert_same(one.get_weights(), other.get_weights())
