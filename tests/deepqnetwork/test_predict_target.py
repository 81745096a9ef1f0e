import threading
from collections.abc import Callable

import numpy as np
import pytest

from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.deepqnetwork.compute.threads import use_one_thread
from simple_dqn.types import Minibatch, QValues
from tests.deepqnetwork.updates import train

MakeNetwork = Callable[..., DeepQNetwork]
MakeMinibatch = Callable[..., Minibatch]

UPDATES = 50


def updates(network: DeepQNetwork, make_minibatch: MakeMinibatch) -> list[float]:
    return [train(network, make_minibatch(seed)) for seed in range(UPDATES)]


def test_it_is_as_the_online_network_was(make_network: MakeNetwork, make_minibatch: MakeMinibatch) -> None:
    network, states = make_network(), make_minibatch(9).prestates
    before = network.predict(states)
    train(network, make_minibatch(0))
    np.testing.assert_array_equal(network.predict(states, target=True), before)
    assert np.all(network.predict(states) != before)
    network.update_target_network()
    np.testing.assert_array_equal(network.predict(states, target=True), network.predict(states))


@pytest.mark.parametrize("datatype", ["float32", "bfloat16"])
@pytest.mark.parametrize("batch_norm", [False, True])
def test_predicting_in_a_thread_and_learning_do_not_touch_each_other(
    datatype: str, batch_norm: bool, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    settings = {"datatype": datatype, "batch_norm": batch_norm}
    alone, watched = make_network(**settings), make_network(**settings)
    batches = [make_minibatch(99, size=size).prestates for size in (1, 8, 3)]
    expected = [alone.predict(states, target=True) for states in batches]
    losses = updates(alone, make_minibatch)

    predictions: list[list[QValues]] = []
    begun, done = threading.Event(), threading.Event()

    def predict() -> None:
        use_one_thread()
        while not done.is_set():
            predictions.append([watched.predict(states, target=True) for states in batches])
            begun.set()

    thread = threading.Thread(target=predict)
    thread.start()
    begun.wait(60)
    try:
        before = len(predictions)
        assert updates(watched, make_minibatch) == losses
        during = len(predictions) - before
    finally:
        done.set()
        thread.join()
    assert during > 5
    for qvalues in predictions:
        for one, other in zip(qvalues, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    weights = alone.get_weights()
    for name, values in watched.get_weights().items():
        np.testing.assert_array_equal(values, weights[name], err_msg=name)


def test_without_a_target_network_it_is_a_mistake(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    with pytest.raises(AssertionError, match="no target network"):
        make_network(use_target_network=False).predict(make_minibatch(0).prestates, target=True)
