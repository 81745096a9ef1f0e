"""Returns of many steps: what they are for, on a chain that pays at its end alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from simple_dqn.config import MemoryConfig
from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.deepqnetwork.networks import Dense, NetworkSpec, uniform_by_inputs
from simple_dqn.replay import ReplayMemory
from simple_dqn.types import Step
from tests.deepqnetwork.updates import train

MakeNetwork = Callable[..., DeepQNetwork]

LENGTH, DISCOUNT, BATCH, COPY, PATIENCE = 8, 0.9, 32, 25, 1500
STATES = (255 * np.eye(LENGTH + 1, dtype=np.uint8)).reshape(LENGTH + 1, 1, 1, LENGTH + 1)
VALUES = DISCOUNT ** np.arange(LENGTH)[::-1]  # of the states in which there is an action to take
WAYS: list[dict[str, Any]] = [
    {},
    {"double": True},
    {"distributional": "quantile", "quantiles": 5},
    {"distributional": "c51", "atoms": 31, "v_min": -0.5, "v_max": 1.5},
]


def memory_of(n_step: int, games: int = 20) -> ReplayMemory:
    """Return a memory of walks along the chain, whose one action leads from each state to the next."""
    config = MemoryConfig(replay_size=1000, history_length=1, n_step=n_step)
    memory = ReplayMemory(config, 1, (1, LENGTH + 1), DISCOUNT, np.random.default_rng(0))
    for _ in range(games):
        memory.add(Step.start(STATES[0]))
        for place in range(1, LENGTH + 1):
            step = Step.start(STATES[place])
            step.starts[:] = False
            step.rewards[:] = step.terminals[:] = step.resets[:] = place == LENGTH
            memory.add(step)
    return memory


def updates_needed(make_network: MakeNetwork, n_step: int, way: dict[str, Any]) -> int:
    """Return after how many updates all values are right."""
    memory = memory_of(n_step)
    network = make_network(
        actions=1, state_shape=(1, 1, LENGTH + 1), optimizer="adam", learning_rate=0.01,
        discount_rate=DISCOUNT, spec=NetworkSpec((Dense(32),), biases=True, initializer=uniform_by_inputs),
        **way,
    )  # fmt: skip
    for update in range(PATIENCE):
        if update % COPY == 0:
            network.update_target_network()
            if np.abs(network.predict(STATES[:LENGTH])[:, 0] - VALUES).max() < 0.05:
                return update
        train(network, memory.sample(BATCH))
    raise AssertionError("they never are")


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_reward_is_known_sooner_to_what_led_to_it(way: dict[str, Any], make_network: MakeNetwork) -> None:
    one, three, all_of_them = (updates_needed(make_network, n_step, way) for n_step in (1, 3, LENGTH))
    assert all_of_them < three < one
    assert all_of_them < one / 2
