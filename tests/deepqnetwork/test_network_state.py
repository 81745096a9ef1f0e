from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
import torch

from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.errors import UserError
from simple_dqn.types import CheckpointState, Minibatch
from tests.deepqnetwork.updates import train

MakeNetwork = Callable[..., DeepQNetwork]
MakeMinibatch = Callable[..., Minibatch]


def assert_same(one: object, other: object, path: str = "state") -> None:
    """Compare two nested states, bit for bit."""
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


def learn(network: DeepQNetwork, make_minibatch: MakeMinibatch, seeds: range) -> list[float]:
    """Make an update for each seed, with a target update at every third."""
    losses = []
    for seed in seeds:
        if seed % 3 == 0:
            network.update_target_network()
        losses.append(train(network, make_minibatch(seed)))
    return losses


@pytest.mark.parametrize("datatype", ["float32", "bfloat16"])
def test_same_stream_and_minibatches_give_the_same_bits(
    datatype: str, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    states: list[CheckpointState] = []
    for torch_seed in (1, 2):
        torch.manual_seed(torch_seed)
        network = make_network(seed=7, datatype=datatype)
        learn(network, make_minibatch, range(6))
        states.append(network.get_state())
    assert_same(states[0], states[1])
    other = make_network(seed=8, datatype=datatype).get_weights()
    assert all(np.any(values != make_network(seed=7).get_weights()[name]) for name, values in other.items())


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam", "radam", "adadelta"])
@pytest.mark.parametrize("datatype", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("batch_norm", [False, True])
def test_resumed_updates_equal_uninterrupted_ones(
    optimizer: str, datatype: str, batch_norm: bool, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    settings = {"optimizer": optimizer, "datatype": datatype, "batch_norm": batch_norm}
    whole = make_network(seed=0, **settings)
    learn(whole, make_minibatch, range(5))
    halfway = whole.get_state()
    resumed = make_network(seed=1, **settings)
    learn(resumed, make_minibatch, range(90, 92))  # what it was before must not matter
    resumed.set_state(halfway)
    assert_same(resumed.get_state(), halfway)
    losses = learn(whole, make_minibatch, range(5, 10))
    assert learn(resumed, make_minibatch, range(5, 10)) == losses
    assert_same(resumed.get_state(), whole.get_state())
    states = make_minibatch(50).prestates
    np.testing.assert_array_equal(resumed.predict(states), whole.predict(states))
    assert resumed.updates == 10


def test_state_before_the_first_update_undoes_later_ones(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network = make_network(optimizer="adam")
    fresh = network.get_state()
    losses = learn(network, make_minibatch, range(4))
    network.set_state(fresh)
    assert_same(network.get_state(), fresh)
    assert learn(network, make_minibatch, range(4)) == losses


def test_a_state_is_a_copy(make_network: MakeNetwork, make_minibatch: MakeMinibatch) -> None:
    one, other = make_network(), make_network()
    taken, expected = one.get_state(), other.get_state()
    learn(one, make_minibatch, range(2))
    assert_same(taken, expected)


def test_a_target_network_can_be_had_from_a_state_without(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    without = make_network(use_target_network=False)
    learn(without, make_minibatch, range(3))
    network = make_network()
    network.set_state(without.get_state())
    state = network.get_state()
    assert_same(state["target"], state["online"])


@pytest.mark.parametrize("datatype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("batch_norm", [False, True])
def test_weights_carry_the_q_values(
    datatype: str, batch_norm: bool, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    settings = {"datatype": datatype, "batch_norm": batch_norm}
    taught = make_network(seed=0, **settings)
    learn(taught, make_minibatch, range(5))
    network = make_network(seed=1, **settings)
    network.set_weights(taught.get_weights())
    states = make_minibatch(9).prestates
    np.testing.assert_array_equal(network.predict(states), taught.predict(states))
    assert all(values.dtype == np.float32 for values in network.get_weights().values())


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        (
            {"actions": 4},
            r"output.weight has the shape \(4, 19\) and the network's \(5, 19\): give the game, --minimal_",
        ),
        ({"state_shape": (2, 20, 17)}, "conv1.weight .*--history_length"),
        ({"state_shape": (3, 30, 17)}, "dense1.weight .*--screen_height"),
        ({"batch_norm": True}, "--normalization"),
    ],
)
def test_another_networks_weights_are_refused_and_change_nothing(
    other: dict[str, object], complaint: str, make_network: MakeNetwork
) -> None:
    network, stranger = make_network(seed=0), make_network(seed=1, **other)
    before = network.get_state()
    with pytest.raises(UserError, match=complaint) as error:
        network.set_weights(stranger.get_weights())
    assert "\n" not in str(error.value)
    for state in (stranger.get_state(), {**stranger.get_state(), "target": None}):
        with pytest.raises(UserError, match=complaint):
            network.set_state(state)
    assert_same(network.get_state(), before)


def test_another_optimizers_state_is_refused_and_changes_nothing(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network, stranger = make_network(seed=0), make_network(seed=1, optimizer="adam")
    learn(stranger, make_minibatch, range(1))
    before = network.get_state()
    with pytest.raises(UserError, match="trained with --optimizer adam, not rmsprop"):
        network.set_state(stranger.get_state())
    assert_same(network.get_state(), before)


def test_optimizer_memory_is_part_of_the_state(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network = make_network(optimizer="adam")
    learn(network, make_minibatch, range(1))
    training = cast(CheckpointState, network.get_state()["training"])
    slots = cast(CheckpointState, training["slots"])
    assert slots.keys() == network.get_weights().keys()
    assert all(
        cast(CheckpointState, slot).keys() == {"step", "exp_avg", "exp_avg_sq"} for slot in slots.values()
    )
