"""Predictions and updates of `DeepQNetwork`: what each depends on, and what it leaves alone; saved states."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from simple_dqn.errors import UserError
from simple_dqn.networks import NETWORKS, NetworkSpec
from simple_dqn.optimizers import AVERAGE_EVERY
from simple_dqn.types import Minibatch
from tests.network import updates
from tests.network.updates import assert_same, assert_same_weights, learn, make_minibatch, make_network, train


@pytest.mark.filterwarnings("error")
def test_states_may_be_strided_and_read_only_and_arrays_of_the_caller_are_left_alone() -> None:
    network, batch, expected = make_network(), make_minibatch(1, size=7), make_minibatch(1, size=7)
    screens = make_minibatch(0, size=3).prestates.reshape(9, 20, 17)
    windows = np.moveaxis(sliding_window_view(screens, 3, axis=0), -1, 1)  # [7, 3, 20, 17], read-only
    for view in (windows[::-1], windows[:, ::-1]):
        np.testing.assert_array_equal(network.predict(view), network.predict(view.copy()))
    qvalues = network.predict(windows)
    kept = qvalues.copy()
    for count in (1, 2):  # Q-values do not depend on the batch
        np.testing.assert_allclose(network.predict(windows[:count]), kept[:count], rtol=0, atol=1e-6)
    strided, copied = make_network(), make_network()
    train(strided, replace(batch, prestates=windows, poststates=windows[::-1]))
    train(copied, replace(batch, prestates=windows.copy(), poststates=windows[::-1].copy()))
    assert_same_weights(strided, copied)
    np.testing.assert_array_equal(qvalues, kept)
    for name in Minibatch.__slots__:
        np.testing.assert_array_equal(getattr(batch, name), getattr(expected, name), err_msg=name)


def test_outcomes_come_in_order_and_once() -> None:
    network, sizes = make_network(), (8, 3, 5)
    batches = [replace(make_minibatch(0, size), numbers=np.full(size, size)) for size in sizes]
    for batch in batches:
        network.update(network.prepare(batch))
    outcomes = network.take_outcomes()
    assert [(len(each.errors), *set(each.numbers)) for each in outcomes] == [(size, size) for size in sizes]
    other = make_network()
    assert [each.loss for each in outcomes] == [train(other, batch) for batch in batches]
    assert not network.take_outcomes()


def test_poststates_are_valued_by_the_last_copy_or_without_one_by_the_online_network() -> None:
    without, copied, kept = make_network(use_target_network=False), make_network(), make_network()
    states, at_first = make_minibatch(9).prestates, kept.get_weights()
    for seed in range(4):
        copied.update_target_network()
        losses = [train(network, make_minibatch(seed)) for network in (without, copied, kept)]
        assert losses[0] == losses[1]
    assert losses[0] != losses[2]
    assert_same_weights(without, copied)
    assert_same(kept.get_state()["target"], at_first)
    np.testing.assert_array_equal(kept.predict(states, target=True), make_network().predict(states))
    kept.update_target_network()
    np.testing.assert_array_equal(kept.predict(states, target=True), kept.predict(states))
    with pytest.raises(AssertionError, match="no target network"):
        without.predict(states, target=True)


def test_batch_norm_uses_the_batch_in_training_and_running_means_in_prediction() -> None:
    network, batch, mean = make_network(batch_norm=True), make_minibatch(0), "hidden.conv1_norm.running_mean"
    before, together = network.get_weights(), network.predict(batch.prestates)
    np.testing.assert_allclose(network.predict(batch.prestates[:1]), together[:1], rtol=0, atol=1e-6)
    assert_same(network.get_weights(), before)
    train(network, batch)
    assert np.any(network.get_weights()[mean] != before[mean])
    np.testing.assert_array_equal(network.get_state()["target"][mean], before[mean])
    network.update_target_network()
    np.testing.assert_array_equal(network.get_state()["target"][mean], network.get_weights()[mean])
    with pytest.raises(UserError, match="--batch_size"):
        make_network(batch_norm=True, batch_size=1)


def test_a_state_without_a_target_network_or_a_mean_begins_them_with_its_weights() -> None:
    without = make_network(use_target_network=False)
    learn(without, range(3))
    network = make_network(1, average_updates=2 * AVERAGE_EVERY)
    network.set_state(without.get_state())
    assert_same(network.get_state()["target"], without.get_weights())
    assert_same(network.get_weights(average=True), without.get_weights())
    network.set_weights(make_network(2).get_weights())
    assert_same(network.get_weights(average=True), make_network(2).get_weights())


@pytest.mark.parametrize(("updates", "datatype", "batch_norm"), [
    (2 * AVERAGE_EVERY, "bfloat16", False), (5 * AVERAGE_EVERY, "float32", True), (1, "float64", False),
])  # fmt: skip
def test_the_mean_is_that_of_saved_weights(updates: int, datatype: str, batch_norm: bool) -> None:
    """Weights, and the mean of them, carry the Q-values."""
    settings: dict[str, Any] = {
        "datatype": datatype, "batch_norm": batch_norm, "learning_rate": 0.01, "optimizer": "adam",
    }  # fmt: skip
    network, other = make_network(average_updates=updates, **settings), make_network(1, **settings)
    saved, states = [], make_minibatch(99).prestates
    np.testing.assert_array_equal(network.predict(states, average=True), network.predict(states))
    for seed in range(5 * AVERAGE_EVERY):
        train(network, make_minibatch(seed))
        saved.append(network.get_weights())
    mean = {name: np.float64(0) * values for name, values in saved[0].items()}
    for count, weights in enumerate(saved[AVERAGE_EVERY - 1 :: AVERAGE_EVERY], 1):
        share = min(1.0, max(AVERAGE_EVERY / updates, 1 / count))
        mean = {name: (1 - share) * mean[name] + share * weights[name].astype(float) for name in mean}
    averaged = network.get_weights(average=True)
    for name, values in mean.items():
        np.testing.assert_allclose(averaged[name], values, rtol=1e-5, atol=1e-6, err_msg=name)
    assert any(np.any(averaged[name] != values) for name, values in saved[-1].items()) == (updates > 1)
    for average in (False, True):
        other.set_weights(network.get_weights(average))
        expected = network.predict(states, average=average)
        np.testing.assert_allclose(other.predict(states), expected, rtol=0, atol=1e-6)


IMPALA = NetworkSpec(NETWORKS["impala"].layers[-3:], True, updates.SMALL.initializer)


@pytest.mark.parametrize("other", [
    {"actions": 4}, {"state_shape": (2, 20, 17)}, {"state_shape": (3, 30, 17)}, {"batch_norm": True},
    {"dueling": True}, {"noisy": True}, {"layer_norm": True}, pytest.param({"spec": IMPALA}, id="impala"),
    {"distributional": "c51"}, {"distributional": "quantile"},
], ids=str)  # fmt: skip
def test_another_networks_weights_are_refused_and_change_nothing(other: dict[str, Any]) -> None:
    network, stranger = make_network(0, average_updates=9), make_network(1, average_updates=9, **other)
    before = network.get_state()
    with pytest.raises(UserError, match=r"give the game and --history_length.*--quantiles as in training"):
        network.set_weights(stranger.get_weights())
    assert_same(network.get_state(), before)
