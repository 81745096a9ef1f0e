"""Double Q-learning: what it is for, on a chain whose values are known."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.deepqnetwork.networks import Dense, NetworkSpec, uniform_by_inputs
from simple_dqn.types import Minibatch
from tests.deepqnetwork.updates import train

LENGTH, ACTIONS, BATCH, UPDATES, COPY = 3, 8, 16, 750, 75
STATES = (255 * np.eye(LENGTH, dtype=np.uint8)).reshape(LENGTH, 1, 1, LENGTH)


def draw(rng: np.random.Generator) -> Minibatch:
    """Draw steps along the chain: every action leads on, and pays a normal number, so all values are 0."""
    places: NDArray[np.int64] = rng.integers(LENGTH, size=BATCH)
    ones = np.ones(BATCH, np.float32)
    return Minibatch(
        prestates=STATES[places],
        actions=rng.integers(ACTIONS, size=BATCH),
        rewards=rng.normal(size=(BATCH, 1)).astype(np.float32),
        poststates=STATES[np.minimum(places + 1, LENGTH - 1)],
        terminals=places == LENGTH - 1,
        discounts=ones,
        weights=ones,
        numbers=places,
    )


def estimate(network: DeepQNetwork, seed: int) -> float:
    """Return what `network` holds the best action at the start of the chain to be worth, on average."""
    rng, estimates = np.random.default_rng(seed), []
    for update in range(UPDATES):
        train(network, draw(rng))
        if update % COPY == 0:
            network.update_target_network()
        if update > UPDATES // 3 and update % 5 == 0:
            estimates.append(network.predict(STATES[:1]).max())
    return float(np.mean(estimates))


def test_it_overestimates_less(make_network: Callable[..., DeepQNetwork]) -> None:
    spec = NetworkSpec((Dense(32),), biases=True, initializer=uniform_by_inputs)
    single, double = (
        np.mean(
            [
                estimate(
                    make_network(
                        seed=seed, actions=ACTIONS, state_shape=(1, 1, LENGTH), spec=spec, double=double,
                        optimizer="adam", learning_rate=0.03, clip_error=0.0, min_reward=-9.0, max_reward=9.0,
                    ),
                    seed,
                )
                for seed in range(2)
            ]
        )
        for double in (False, True)
    )  # fmt: skip
    assert 0 < double < 0.75 * single
