"""Predictions and updates of `DeepQNetwork`: what each depends on, and what it leaves alone."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from simple_dqn.dqn import DeepQNetwork
from simple_dqn.errors import UserError
from simple_dqn.types import Minibatch, QValues
from tests.network.updates import (
    MakeMinibatch,
    MakeNetwork,
    assert_same,
    assert_same_weights,
    learn,
    take_losses,
    train,
)


def differs(one: DeepQNetwork, other: DeepQNetwork) -> bool:
    theirs = other.get_weights()
    return any(np.any(values != theirs[name]) for name, values in one.get_weights().items())


@pytest.mark.parametrize("batch", [1, 2, 33])
def test_q_values_do_not_depend_on_the_batch(
    batch: int, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network = make_network()
    states = make_minibatch(0, size=33).prestates
    qvalues = network.predict(states[:batch])
    assert qvalues.shape == (batch, 5)
    assert qvalues.dtype == np.float32
    one_by_one = np.concatenate([network.predict(states[n : n + 1]) for n in range(batch)])
    np.testing.assert_allclose(qvalues, one_by_one, rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("error")
def test_states_may_be_strided_and_read_only(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network = make_network()
    screens = make_minibatch(0, size=3).prestates.reshape(9, 20, 17)
    windows = np.moveaxis(sliding_window_view(screens, 3, axis=0), -1, 1)  # [7, 3, 20, 17], read-only
    for view in (windows, windows[::2], windows[::-1], windows[:, ::-1]):
        np.testing.assert_array_equal(network.predict(view), network.predict(view.copy()))
    batch = make_minibatch(1, size=7)
    for values in (batch.actions, batch.rewards, batch.terminals, batch.discounts):
        values.flags.writeable = False
    strided, copied = make_network(), make_network()
    train(strided, replace(batch, prestates=windows, poststates=windows[::-1]))
    train(copied, replace(batch, prestates=windows.copy(), poststates=windows[::-1].copy()))
    assert_same_weights(strided, copied)


def test_arrays_of_the_caller_are_left_alone(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network, batch, expected = make_network(), make_minibatch(0), make_minibatch(0)
    first = network.predict(batch.prestates)
    kept, before = first.copy(), network.get_weights()
    train(network, batch)
    second = network.predict(batch.prestates)
    np.testing.assert_array_equal(first, kept)
    first[:] = 0
    np.testing.assert_array_equal(network.predict(batch.prestates), second)
    for name in Minibatch.__slots__:
        np.testing.assert_array_equal(getattr(batch, name), getattr(expected, name), err_msg=name)
    assert network.updates == 1
    for name, values in network.get_weights().items():
        assert np.any(values != before[name]), name


def test_outcomes_come_in_order_and_once(make_network: MakeNetwork, make_minibatch: MakeMinibatch) -> None:
    one_by_one, together = make_network(), make_network()
    sizes, expected = (8, 3, 5), []
    assert take_losses(together) == []
    for seed, size in enumerate(sizes):
        batch = make_minibatch(seed, size=size)
        one_by_one.update(one_by_one.prepare(batch))
        expected += one_by_one.take_outcomes()
        together.update(together.prepare(batch))
    outcomes = together.take_outcomes()
    assert [len(outcome.errors) for outcome in outcomes] == list(sizes)
    for one, other in zip(outcomes, expected, strict=True):
        assert one.loss == other.loss
        np.testing.assert_array_equal(one.errors, other.errors)
        np.testing.assert_array_equal(one.numbers, other.numbers)
    assert not together.take_outcomes()


def test_the_target_network_changes_only_by_a_copy(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network, states = make_network(), make_minibatch(9).prestates
    at_first, before = network.get_weights(), network.predict(states)
    for seed in range(3):
        train(network, make_minibatch(seed))
    assert_same(network.get_state()["target"], at_first)
    np.testing.assert_array_equal(network.predict(states, target=True), before)
    assert np.all(network.predict(states) != before)
    network.update_target_network()
    assert_same(network.get_state()["target"], network.get_weights())
    np.testing.assert_array_equal(network.predict(states, target=True), network.predict(states))


def test_without_target_network_the_online_network_values_poststates(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    without, copied, kept = make_network(use_target_network=False), make_network(), make_network()
    for seed in range(4):
        copied.update_target_network()
        losses = [train(network, make_minibatch(seed)) for network in (without, copied, kept)]
        assert losses[0] == losses[1]
    without.update_target_network()
    assert_same_weights(without, copied)
    assert differs(without, kept)
    with pytest.raises(AssertionError, match="no target network"):
        without.predict(make_minibatch(0).prestates, target=True)


def test_batch_norm_uses_the_batch_in_training_and_running_means_in_prediction(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network, batch, mean = make_network(batch_norm=True), make_minibatch(0), "hidden.conv1_norm.running_mean"
    before = network.get_weights()
    together = network.predict(batch.prestates)
    np.testing.assert_allclose(network.predict(batch.prestates[:1]), together[:1], rtol=0, atol=1e-6)
    assert_same(network.get_weights(), before)
    train(network, batch)
    assert np.any(network.get_weights()[mean] != before[mean])
    np.testing.assert_array_equal(network.get_state()["target"][mean], before[mean])
    network.update_target_network()
    np.testing.assert_array_equal(network.get_state()["target"][mean], network.get_weights()[mean])
    with pytest.raises(UserError, match="--batch_size"):
        make_network(batch_norm=True, batch_size=1)


@pytest.mark.parametrize("datatype", ["float32", "bfloat16"])
@pytest.mark.parametrize("batch_norm", [False, True])
def test_a_thread_may_predict_by_the_target_network_during_updates(
    datatype: str, batch_norm: bool, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    alone, watched = (make_network(datatype=datatype, batch_norm=batch_norm) for _ in range(2))
    batches = [make_minibatch(99, size=size).prestates for size in (1, 8, 3)]
    expected = [alone.predict(states, target=True) for states in batches]
    seeds = [seed for seed in range(50) if seed % 3]  # without copies to the target network
    losses = learn(alone, make_minibatch, seeds)
    predictions: list[list[QValues]] = []
    begun, done = threading.Event(), threading.Event()

    def predict() -> None:
        watched.use_one_thread()
        while not done.is_set():
            predictions.append([watched.predict(states, target=True) for states in batches])
            begun.set()

    thread = threading.Thread(target=predict)
    thread.start()
    begun.wait(60)
    try:
        before = len(predictions)
        assert learn(watched, make_minibatch, seeds) == losses
        during = len(predictions) - before
    finally:
        done.set()
        thread.join()
    assert during > 5
    for qvalues in predictions:
        for one, other in zip(qvalues, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    assert_same_weights(alone, watched)
