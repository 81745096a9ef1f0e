from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.errors import UserError
from simple_dqn.types import CheckpointState, Minibatch
from tests.deepqnetwork.updates import train

MakeNetwork = Callable[..., DeepQNetwork]
MakeMinibatch = Callable[..., Minibatch]


def assert_same_weights(one: DeepQNetwork, other: DeepQNetwork) -> None:
    theirs = other.get_weights()
    for name, values in one.get_weights().items():
        np.testing.assert_array_equal(values, theirs[name], err_msg=name)


def differs(one: DeepQNetwork, other: DeepQNetwork) -> bool:
    theirs = other.get_weights()
    return any(np.any(values != theirs[name]) for name, values in one.get_weights().items())


def target_weights(network: DeepQNetwork) -> dict[str, NDArray[np.float32]]:
    return cast(dict[str, NDArray[np.float32]], network.get_state()["target"])


@pytest.mark.parametrize("batch", [1, 2, 7, 33])
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
    assert not windows.flags.writeable
    for view in (windows, windows[::2], windows[::-1], windows[:, ::-1]):
        np.testing.assert_array_equal(network.predict(view), network.predict(view.copy()))
    batch = make_minibatch(1, size=7)
    for values in (batch.actions, batch.rewards, batch.terminals, batch.discounts):
        values.flags.writeable = False
    strided, copied = make_network(), make_network()
    train(strided, replace(batch, prestates=windows, poststates=windows[::-1]))
    train(copied, replace(batch, prestates=windows.copy(), poststates=windows[::-1].copy()))
    assert_same_weights(strided, copied)


def test_q_values_are_the_callers(make_network: MakeNetwork, make_minibatch: MakeMinibatch) -> None:
    network = make_network()
    batch = make_minibatch(0)
    first = network.predict(batch.prestates)
    kept = first.copy()
    train(network, batch)
    second = network.predict(batch.prestates)
    np.testing.assert_array_equal(first, kept)
    first[:] = 0
    np.testing.assert_array_equal(network.predict(batch.prestates), second)


def test_training_leaves_the_minibatch_alone(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    batch, expected = make_minibatch(0), make_minibatch(0)
    train(make_network(), batch)
    for name in Minibatch.__slots__:
        np.testing.assert_array_equal(getattr(batch, name), getattr(expected, name), err_msg=name)


def test_every_weight_learns(make_network: MakeNetwork, make_minibatch: MakeMinibatch) -> None:
    network = make_network()
    before = network.get_weights()
    train(network, make_minibatch(0))
    assert network.updates == 1
    for name, values in network.get_weights().items():
        assert np.any(values != before[name]), name


def test_rewards_are_clipped(make_network: MakeNetwork, make_minibatch: MakeMinibatch) -> None:
    batch = make_minibatch(0)
    signs = np.sign(batch.rewards).astype(np.float32)
    large, small = make_network(), make_network()
    assert train(large, replace(batch, rewards=signs * 500)) == train(small, replace(batch, rewards=signs))
    assert_same_weights(large, small)
    wide, narrow = make_network(max_reward=1000, min_reward=-1000), make_network()
    assert train(wide, replace(batch, rewards=signs * 500)) > 100
    train(narrow, replace(batch, rewards=signs))
    assert differs(wide, narrow)


def test_rewards_are_clipped_before_they_are_added_up(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    batch = make_minibatch(0, steps=3)
    paid, counted = (np.tile(np.array(each, np.float32), (8, 1)) for each in ([5, -7, 0.5], [1, -1, 0.5]))
    total = np.full((8, 1), 1 - 0.99 + 0.99**2 * 0.5, np.float32)
    losses = [train(make_network(), replace(batch, rewards=rewards)) for rewards in (paid, counted, total)]
    assert losses[0] == losses[1]
    assert losses[0] == pytest.approx(losses[2], rel=1e-6)


def test_errors_are_clipped(make_network: MakeNetwork, make_minibatch: MakeMinibatch) -> None:
    # After a terminal δ = Q - r. With r far below Q every error, and its gradient, is clipped alike.
    batch = make_minibatch(0)
    ended = replace(batch, terminals=np.ones(8, np.bool_))
    far, farther = (replace(ended, rewards=np.full((8, 1), r, np.float32)) for r in (-50, -500))
    one, other = (make_network(min_reward=-1000, clip_error=0.5) for _ in range(2))
    q = one.predict(batch.prestates)[np.arange(8), batch.actions]
    assert train(one, far) == pytest.approx(float(np.mean(0.5 * (q + 50 - 0.25))), rel=1e-5)
    assert train(other, farther) == pytest.approx(float(np.mean(0.5 * (q + 500 - 0.25))), rel=1e-5)
    assert_same_weights(one, other)
    squared = make_network(min_reward=-1000, clip_error=0)
    assert train(squared, far) == pytest.approx(float(np.mean((q + 50) ** 2 / 2)), rel=1e-5)
    assert differs(squared, one)


@pytest.mark.parametrize("terminal", [True, False])
def test_what_follows_a_terminal_or_a_discount_of_zero_does_not_count(
    terminal: bool, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    batch = make_minibatch(0)
    if terminal:
        alone = replace(batch, terminals=np.ones(8, np.bool_))
    else:
        alone = replace(batch, discounts=np.zeros(8, np.float32))
    one, other = make_network(), make_network()
    inverted = 255 - batch.poststates
    assert train(one, alone) == train(other, replace(alone, poststates=inverted))
    assert_same_weights(one, other)
    assert train(one, batch) != train(other, replace(batch, poststates=inverted))


def test_target_network_changes_only_when_told(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network = make_network()
    at_first = network.get_weights()
    for seed in range(3):
        train(network, make_minibatch(seed))
    for name, values in target_weights(network).items():
        np.testing.assert_array_equal(values, at_first[name])
        assert np.any(network.get_weights()[name] != values)
    network.update_target_network()
    for name, values in target_weights(network).items():
        np.testing.assert_array_equal(values, network.get_weights()[name])


def test_without_target_network_the_online_network_values_poststates(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    without, always_copied, never_copied = (
        make_network(use_target_network=False),
        make_network(),
        make_network(),
    )
    for seed in range(4):
        always_copied.update_target_network()
        losses = [train(network, make_minibatch(seed)) for network in (without, always_copied, never_copied)]
        assert losses[0] == losses[1]
    without.update_target_network()
    assert_same_weights(without, always_copied)
    assert differs(without, never_copied)


@pytest.mark.parametrize(
    ("optimizer", "learning_rate"), [("rmsprop", 0.001), ("adam", 0.001), ("adadelta", 1.0)]
)
@pytest.mark.parametrize("batch_norm", [False, True])
def test_loss_falls_on_rewards_that_can_be_learnt_by_heart(
    optimizer: str,
    learning_rate: float,
    batch_norm: bool,
    make_network: MakeNetwork,
    make_minibatch: MakeMinibatch,
) -> None:
    network = make_network(optimizer=optimizer, learning_rate=learning_rate, batch_norm=batch_norm)
    batch = replace(make_minibatch(0), terminals=np.ones(8, np.bool_))
    losses = [train(network, batch) for _ in range(150)]
    assert losses[-1] < losses[0] / 10


def test_batch_norm_uses_the_batch_in_training_and_running_means_in_prediction(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network = make_network(batch_norm=True)
    batch = make_minibatch(0)
    before = network.get_state()
    together = network.predict(batch.prestates)
    np.testing.assert_allclose(network.predict(batch.prestates[:1]), together[:1], rtol=0, atol=1e-6)
    unchanged, mean = cast(CheckpointState, network.get_state()["online"]), "hidden.conv1_norm.running_mean"
    np.testing.assert_array_equal(unchanged[mean], cast(CheckpointState, before["online"])[mean])
    train(network, batch)
    assert np.any(network.get_weights()[mean] != unchanged[mean])
    np.testing.assert_array_equal(target_weights(network)[mean], unchanged[mean])
    network.update_target_network()
    np.testing.assert_array_equal(target_weights(network)[mean], network.get_weights()[mean])


def test_batch_of_one_cannot_be_normalised(make_network: MakeNetwork) -> None:
    with pytest.raises(UserError, match="--batch_size"):
        make_network(batch_norm=True, batch_size=1)
