"""The mean of the weights, against the same mean in float64 of the weights after each update."""

from collections.abc import Callable

import numpy as np
import pytest

from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.deepqnetwork.weight_average import EVERY
from simple_dqn.errors import UserError
from simple_dqn.types import Minibatch
from tests.deepqnetwork.test_network_state import assert_same
from tests.deepqnetwork.updates import train

MakeNetwork = Callable[..., DeepQNetwork]
MakeMinibatch = Callable[..., Minibatch]


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


@pytest.mark.parametrize("settings", [{}, {"batch_norm": True}, {"datatype": "bfloat16"}])
def test_predictions_by_the_mean_are_those_of_a_network_with_its_weights(
    settings: dict[str, object], make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network = make_network(average_updates=3 * EVERY, optimizer="adam", learning_rate=0.01, **settings)
    states = make_minibatch(99).prestates
    np.testing.assert_array_equal(network.predict(states, average=True), network.predict(states))
    for seed in range(4 * EVERY):
        train(network, make_minibatch(seed))
    other = make_network(seed=1, **settings)
    other.set_weights(network.get_weights(average=True))
    np.testing.assert_array_equal(network.predict(states, average=True), other.predict(states))
    assert np.any(network.predict(states, average=True) != network.predict(states))


def test_a_resumed_mean_is_the_same(make_network: MakeNetwork, make_minibatch: MakeMinibatch) -> None:
    whole, resumed = (make_network(seed=seed, average_updates=2 * EVERY) for seed in (0, 1))
    for seed in range(3 * EVERY + 5):
        train(whole, make_minibatch(seed))
    resumed.set_state(whole.get_state())
    for seed in range(2 * EVERY):
        train(whole, make_minibatch(seed))
        train(resumed, make_minibatch(seed))
    assert_same(resumed.get_state(), whole.get_state())
    assert_same(resumed.get_weights(average=True), whole.get_weights(average=True))


def test_without_a_mean_in_the_state_it_begins_with_the_weights(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    plain, averaging = make_network(), make_network(seed=1, average_updates=2 * EVERY)
    for seed in range(EVERY):
        train(plain, make_minibatch(seed))
    averaging.set_state(plain.get_state())
    assert_same(averaging.get_weights(average=True), plain.get_weights())
    averaging.set_weights(make_network(seed=2).get_weights())
    assert_same(averaging.get_weights(average=True), make_network(seed=2).get_weights())


def test_the_mean_of_another_network_is_refused(make_network: MakeNetwork) -> None:
    network, other = make_network(average_updates=9), make_network(average_updates=9, dueling=True)
    with pytest.raises(UserError, match="dueling"):
        network.set_state({**network.get_state(), "average": other.get_state()["average"]})
