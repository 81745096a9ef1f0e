from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.deepqnetwork.networks import NATURE
from simple_dqn.types import CheckpointState, Minibatch
from tests.deepqnetwork.updates import train

MakeNetwork = Callable[..., DeepQNetwork]
MakeMinibatch = Callable[..., Minibatch]

# Relative spacing of numbers: 2^-8 in bfloat16 and 2^-11 in float16; four layers each round a few times.
BOUNDS = {"bfloat16": 4 * 2.0**-8, "float16": 4 * 2.0**-11, "float64": 1e-6}


@pytest.mark.parametrize(("datatype", "bound"), BOUNDS.items())
def test_q_values_are_near_those_of_float32(
    datatype: str, bound: float, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    sizes = {"actions": 4, "state_shape": (4, 84, 84)}
    states = make_minibatch(0, size=4, **sizes).prestates
    exact = make_network(spec=NATURE, **sizes).predict(states)
    near = make_network(spec=NATURE, datatype=datatype, **sizes).predict(states)
    assert near.dtype == np.float32
    assert np.abs(near - exact).max() < bound * np.abs(exact).max()


@pytest.mark.parametrize(("datatype", "narrow"), [("bfloat16", torch.bfloat16), ("float16", torch.float16)])
def test_hidden_layers_are_narrow_and_the_output_layer_is_not(
    datatype: str, narrow: torch.dtype, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network = make_network(datatype=datatype)
    states = make_minibatch(0, size=32).prestates
    qvalues = torch.from_numpy(network.predict(states))
    assert (qvalues != qvalues.to(narrow).float()).float().mean() > 0.9
    # A change to a weight that is lost in the narrow datatype alters Q-values through the output layer only.
    for name, matters in (("hidden.dense1.weight", False), ("output.weight", True)):
        weights = network.get_weights()
        rounded = torch.from_numpy(weights[name]).to(narrow).float().numpy()
        assert np.any(rounded != weights[name])
        network.set_weights({**weights, name: rounded})
        assert np.any(network.predict(states) != qvalues.numpy()) == matters
        network.set_weights(weights)


@pytest.mark.parametrize(("datatype", "bound"), [("bfloat16", 0.3), ("float16", 0.15), ("float64", 1e-4)])
def test_updates_are_near_those_of_float32(
    datatype: str, bound: float, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    # Wide bounds: rounding turns a rectifier that is near 0 on or off, and with it a whole filter's gradient.
    exact, near = make_network(), make_network(datatype=datatype)
    before = exact.get_weights()
    batch = make_minibatch(0, size=32)
    assert train(near, batch) == pytest.approx(train(exact, batch), rel=bound)
    updated = near.get_weights()
    for name, values in exact.get_weights().items():
        step, other = values - before[name], updated[name] - before[name]
        assert np.linalg.norm(step - other) < bound * np.linalg.norm(step), name


@pytest.mark.parametrize("datatype", ["bfloat16", "float16"])
def test_steps_too_small_for_a_narrow_datatype_add_up(
    datatype: str, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    batch = replace(make_minibatch(0), terminals=np.ones(8, np.bool_))
    networks = [make_network(datatype=name, learning_rate=1e-6) for name in (datatype, "float32")]
    before = networks[0].get_weights()["hidden.dense1.weight"]
    for network in networks:
        for _ in range(50):
            train(network, batch)
    narrow, exact = (network.get_weights()["hidden.dense1.weight"] - before for network in networks)
    assert np.linalg.norm(narrow - exact) < 0.1 * np.linalg.norm(exact)


@pytest.mark.parametrize("datatype", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("batch_norm", [False, True])
def test_loss_falls_in_every_datatype(
    datatype: str, batch_norm: bool, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network = make_network(datatype=datatype, batch_norm=batch_norm, learning_rate=0.001)
    batch = replace(make_minibatch(0), terminals=np.ones(8, np.bool_))
    losses = [train(network, batch) for _ in range(120)]
    assert losses[-1] < losses[0] / 10


def test_float16_leaves_out_a_step_that_overflows_and_lowers_the_scale(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network = make_network(datatype="float16", min_reward=-1e6, clip_error=0)
    batch = make_minibatch(0)
    before = network.get_weights()
    train(network, replace(batch, rewards=np.full((8, 1), -1e6, np.float32)))
    for name, values in network.get_weights().items():
        np.testing.assert_array_equal(values, before[name])
    scaler = cast(CheckpointState, cast(CheckpointState, network.get_state()["training"])["scaler"])
    assert scaler["scale"] == 2.0**15
    train(network, batch)
    changed: list[NDArray[np.bool_]] = [v != before[name] for name, v in network.get_weights().items()]
    assert all(np.any(flags) for flags in changed)


def test_float64_state_is_kept_in_float64(make_network: MakeNetwork) -> None:
    online = cast(dict[str, NDArray[np.float64]], make_network(datatype="float64").get_state()["online"])
    assert all(values.dtype == np.float64 for values in online.values())
    assert any(np.any(values != values.astype(np.float32)) for values in online.values())


@pytest.mark.parametrize(
    ("capabilities", "datatype"),
    [({"avx512_bf16": True, "amx_bf16": False}, "bfloat16"), ({"avx512_bf16": False}, "float32")],
)
def test_auto_is_narrow_where_the_processor_computes_so(
    capabilities: dict[str, bool], datatype: str, make_network: MakeNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert make_network(datatype="auto").datatype == datatype
