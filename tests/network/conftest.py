from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from simple_dqn.config import BackendConfig, Config
from simple_dqn.dqn import DeepQNetwork
from simple_dqn.networks import Convolution, Dense, NetworkSpec, uniform_by_inputs
from simple_dqn.types import Minibatch

ACTIONS = 5
STATE_SHAPE = (3, 20, 17)
SMALL = NetworkSpec(
    (Convolution(6, 5, 3), Convolution(7, 3, 1), Dense(19)), biases=True, initializer=uniform_by_inputs
)


@pytest.fixture
def make_network() -> Callable[..., DeepQNetwork]:
    """Return a function that draws a small network from a seed; other keywords are those of NetworkConfig."""

    def make(
        seed: int = 0,
        datatype: str = "float32",
        use_target_network: bool = True,
        actions: int = ACTIONS,
        state_shape: tuple[int, int, int] = STATE_SHAPE,
        spec: NetworkSpec = SMALL,
        threads: int = 1,
        backend: str = "cpu",
        **settings: Any,
    ) -> DeepQNetwork:
        return DeepQNetwork(
            actions,
            state_shape[0],
            state_shape[1:],
            Config.from_flags(settings).network,
            BackendConfig(backend=backend, datatype=datatype, threads=threads),
            np.random.default_rng(seed),
            use_target_network=use_target_network,
            spec=spec,
        )

    return make


@pytest.fixture
def make_minibatch() -> Callable[..., Minibatch]:
    """Return a function that draws a minibatch: rewards up to ±3, some terminals, mixed discounts."""

    def make(
        seed: int,
        size: int = 8,
        actions: int = ACTIONS,
        state_shape: tuple[int, int, int] = STATE_SHAPE,
        steps: int = 1,
    ) -> Minibatch:
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

    return make
