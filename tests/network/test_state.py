"""Weights and states of a network: resumed updates are the same, and those of other networks are refused."""

from typing import Any

import numpy as np
import pytest
import torch

from simple_dqn.errors import UserError
from simple_dqn.networks import NETWORKS, NetworkSpec
from simple_dqn.weights import EVERY
from tests.network.conftest import SMALL
from tests.network.updates import MakeMinibatch, MakeNetwork, assert_same, learn, train


@pytest.mark.parametrize("datatype", ["float32", "bfloat16"])
def test_same_stream_and_minibatches_give_the_same_bits(
    datatype: str, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    states = []
    for torch_seed in (1, 2):
        torch.manual_seed(torch_seed)
        network = make_network(seed=7, datatype=datatype)
        learn(network, make_minibatch, range(6))
        states.append(network.get_state())
    assert_same(states[0], states[1])
    first, other = (make_network(seed=seed, datatype=datatype).get_weights() for seed in (7, 8))
    assert all(np.any(values != first[name]) for name, values in other.items())


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam", "radam", "adadelta"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"datatype": "bfloat16", "batch_norm": True},
        {"datatype": "float16"},
        {"datatype": "float64", "average_updates": 2 * EVERY},
    ],
    ids=str,
)
def test_resumed_updates_equal_uninterrupted_ones(
    optimizer: str, settings: dict[str, Any], make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    whole, resumed = (make_network(seed, optimizer=optimizer, **settings) for seed in (0, 1))
    fresh = whole.get_state()
    losses = learn(whole, make_minibatch, range(EVERY + 1))
    halfway = whole.get_state()
    learn(resumed, make_minibatch, range(90, 92))  # these must not matter
    resumed.set_state(halfway)
    assert_same(resumed.get_state(), halfway)
    seeds = range(EVERY + 1, 2 * EVERY + 2)
    assert learn(resumed, make_minibatch, seeds) == learn(whole, make_minibatch, seeds)
    assert_same(resumed.get_state(), whole.get_state())
    states = make_minibatch(50).prestates
    for average in (False, True):
        assert_same(resumed.predict(states, average=average), whole.predict(states, average=average))
    resumed.set_state(fresh)  # of before the first update: it was a copy, and undoes all of them
    assert_same(resumed.get_state(), fresh)
    assert learn(resumed, make_minibatch, range(EVERY + 1)) == losses


def test_a_state_without_a_target_network_or_a_mean_begins_them_with_its_weights(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    without = make_network(use_target_network=False)
    learn(without, make_minibatch, range(3))
    network = make_network(seed=1, average_updates=2 * EVERY)
    network.set_state(without.get_state())
    assert_same(network.get_state()["target"], without.get_weights())
    assert_same(network.get_weights(average=True), without.get_weights())
    network.set_weights(make_network(seed=2).get_weights())
    assert_same(network.get_weights(average=True), make_network(seed=2).get_weights())


@pytest.mark.parametrize("datatype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("batch_norm", [False, True])
def test_weights_carry_the_q_values_and_so_does_their_mean(
    datatype: str, batch_norm: bool, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    settings: dict[str, Any] = {"datatype": datatype, "batch_norm": batch_norm, "learning_rate": 0.01}
    taught = make_network(seed=0, optimizer="adam", average_updates=3 * EVERY, **settings)
    network, states = make_network(seed=1, **settings), make_minibatch(99).prestates
    np.testing.assert_array_equal(taught.predict(states, average=True), taught.predict(states))
    learn(taught, make_minibatch, range(3 * EVERY))
    for average in (False, True):
        weights = taught.get_weights(average)
        assert all(values.dtype == np.float32 for values in weights.values())
        network.set_weights(weights)
        np.testing.assert_array_equal(network.predict(states), taught.predict(states, average=average))
    assert np.any(taught.predict(states, average=True) != taught.predict(states))


@pytest.mark.parametrize("datatype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("updates", [2 * EVERY, 5 * EVERY, 1])
def test_the_mean_is_that_of_saved_weights(
    updates: int, datatype: str, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network = make_network(datatype=datatype, average_updates=updates, optimizer="adam", learning_rate=0.01)
    saved = []
    for seed in range(7 * EVERY):
        train(network, make_minibatch(seed))
        saved.append(network.get_weights())
    mean = {name: np.float64(0) * values for name, values in saved[0].items()}
    for count, weights in enumerate(saved[EVERY - 1 :: EVERY], 1):
        share = min(1.0, max(EVERY / updates, 1 / count))
        mean = {name: (1 - share) * mean[name] + share * weights[name].astype(float) for name in mean}
    averaged = network.get_weights(average=True)
    for name, values in mean.items():
        np.testing.assert_allclose(averaged[name], values, rtol=1e-5, atol=1e-6, err_msg=name)
    assert any(np.any(averaged[name] != values) for name, values in saved[-1].items()) == (updates > 1)


def spec_like(name: str) -> NetworkSpec:
    return NetworkSpec(NETWORKS[name].layers[-3:], True, SMALL.initializer)


@pytest.mark.parametrize(
    "other",
    [
        {"actions": 4},
        {"state_shape": (2, 20, 17)},
        {"state_shape": (3, 30, 17)},
        {"batch_norm": True},
        {"dueling": True},
        {"noisy": True},
        {"layer_norm": True},
        pytest.param({"spec": spec_like("impala")}, id="impala"),
        {"distributional": "c51"},
        {"distributional": "quantile"},
    ],
    ids=str,
)
def test_another_networks_weights_are_refused_and_change_nothing(
    other: dict[str, Any], make_network: MakeNetwork
) -> None:
    network, stranger = (make_network(0, average_updates=9), make_network(1, average_updates=9, **other))
    before = network.get_state()
    with pytest.raises(UserError, match=r"give the game and --history_length.*--quantiles as in training"):
        network.set_weights(stranger.get_weights())
    assert_same(network.get_state(), before)
