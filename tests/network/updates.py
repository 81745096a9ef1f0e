"""Small networks and minibatches, and updates by them."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from simple_dqn.config import BackendConfig, Config
from simple_dqn.dqn import DeepQNetwork
from simple_dqn.networks import Convolution, Dense, NetworkSpec, uniform_by_inputs
from simple_dqn.types import Minibatch

ACTIONS, STATE_SHAPE = 5, (3, 20, 17)
SMALL = NetworkSpec((Convolution(6, 5, 3), Convolution(7, 3, 1), Dense(19)), True, uniform_by_inputs)


def make_network(seed: int = 0, /, **settings: Any) -> DeepQNetwork:
    """Return a small network drawn from a seed; most keywords are those of NetworkConfig."""

    def take(name: str, default: Any) -> Any:
        return settings.pop(name, default)

    devices = BackendConfig(take("backend", "cpu"), 0, take("datatype", "float32"), take("threads", 1))
    actions, shape, spec = take("actions", ACTIONS), take("state_shape", STATE_SHAPE), take("spec", SMALL)
    target, rng = take("use_target_network", True), np.random.default_rng(seed)
    config = Config.from_flags(settings).network
    return DeepQNetwork(
        actions, shape[0], shape[1:], config, devices, rng, use_target_network=target, spec=spec
    )


def make_minibatch(
    seed: int, size: int = 8, actions: int = ACTIONS, state_shape: tuple[int, int, int] = STATE_SHAPE,
    steps: int = 1,
) -> Minibatch:  # fmt: skip
    """Return a random minibatch: rewards up to ±3, some terminals, mixed discounts."""
    rng = np.random.default_rng(seed)
    return Minibatch(
        prestates=rng.integers(0, 256, (size, *state_shape), dtype=np.uint8),
        actions=rng.integers(0, actions, size),
        rewards=rng.uniform(-3, 3, (size, steps)).astype(np.float32),
        poststates=rng.integers(0, 256, (size, *state_shape), dtype=np.uint8),
        terminals=rng.random(size) < 0.3,
        discounts=rng.choice([0.99, 0.99**2, 0.99**3], size).astype(np.float32),
        weights=np.ones(size, np.float32),
        numbers=rng.integers(0, 1000, size),
    )


def train(network: DeepQNetwork, minibatch: Minibatch) -> float:
    network.update(network.prepare(minibatch))
    return take_losses(network)[-1]


def take_losses(network: DeepQNetwork) -> list[float]:
    return [outcome.loss for outcome in network.take_outcomes()]


def learn(network: DeepQNetwork, seeds: Iterable[int]) -> list[float]:
    """Make an update per seed, copying the target network at every third; return the losses."""
    losses = []
    for seed in seeds:
        if seed % 3 == 0:
            network.update_target_network()
        losses.append(train(network, make_minibatch(seed)))
    return losses


def assert_same(one: object, other: object, path: str = "state") -> None:
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
    assert_same(one.get_weights(), other.get_weights())
