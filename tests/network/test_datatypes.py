"""Narrow and wide datatypes: near float32 where they should be, and what stays wide."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from simple_dqn.device import CPU, Device
from simple_dqn.networks import NATURE, ScreenConvolution
from tests.network.updates import make_minibatch, make_network, train

NATURES: dict[str, Any] = {"actions": 4, "state_shape": (4, 84, 84)}


# Relative spacing of numbers: 2^-8 in bfloat16 and 2^-11 in float16; four layers each round a few times.
@pytest.mark.parametrize(("datatype", "of_q", "of_gradient"), [
    ("bfloat16", 4 * 2.0**-8, 0.1), ("float16", 4 * 2.0**-11, 0.05), ("float32", 1e-6, 1e-5),
])  # fmt: skip
def test_natures_network_is_near_that_of_float64(datatype: str, of_q: float, of_gradient: float) -> None:
    batch, spec = make_minibatch(1, size=4, **NATURES), {"spec": NATURE, "optimizer": "adam", **NATURES}
    exact, near = (make_network(datatype=kind, **spec) for kind in ("float64", datatype))
    expected, found = (network.predict(batch.prestates) for network in (exact, near))
    assert found.dtype == np.float32
    assert np.abs(found - expected).max() < of_q * np.abs(expected).max()
    assert train(near, batch) == pytest.approx(train(exact, batch), rel=of_gradient)
    slots = [network.get_state()["training"]["slots"] for network in (exact, near)]
    for name in slots[0]:  # after one update, a tenth of the gradient
        gradient, other = (each[name]["exp_avg"] for each in slots)
        assert np.linalg.norm(other - gradient) < of_gradient * np.linalg.norm(gradient), name


@pytest.mark.parametrize(("datatype", "narrow"), [("bfloat16", torch.bfloat16), ("float16", torch.float16)])
def test_hidden_layers_are_narrow_and_the_output_layer_is_not(datatype: str, narrow: torch.dtype) -> None:
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


def test_steps_too_small_for_a_narrow_datatype_add_up() -> None:
    batch = replace(make_minibatch(0), terminals=np.ones(8, np.bool_))
    networks = [make_network(datatype=name, learning_rate=1e-6) for name in ("bfloat16", "float32")]
    before = networks[0].get_weights()["hidden.dense1.weight"]
    for network in networks:
        for _ in range(50):
            train(network, batch)
    narrow, exact = (network.get_weights()["hidden.dense1.weight"] - before for network in networks)
    assert np.linalg.norm(narrow - exact) < 0.1 * np.linalg.norm(exact)


def test_float16_skips_a_step_that_overflows_and_lowers_the_scale() -> None:
    network, batch = make_network(datatype="float16", min_reward=-1e6, clip_error=0), make_minibatch(0)
    before = network.get_weights()
    train(network, replace(batch, rewards=np.full((8, 1), -1e6, np.float32)))
    for name, values in network.get_weights().items():
        np.testing.assert_array_equal(values, before[name])
    assert network.get_state()["training"]["scaler"]["scale"] == 2.0**15
    train(network, batch)
    assert all(np.any(values != before[name]) for name, values in network.get_weights().items())


@pytest.mark.parametrize(("capabilities", "datatype"), [
    ({"avx512_bf16": True, "amx_bf16": False}, "bfloat16"), ({"avx512_bf16": False}, "float32"),
])  # fmt: skip
def test_auto_is_narrow_where_the_processor_computes_so(
    capabilities: dict[str, bool], datatype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert make_network(datatype="auto").device.datatype == datatype


def test_a_convolution_over_blocks_is_the_same_function() -> None:
    device = Device(CPU, "bfloat16")
    device.layout = torch.channels_last  # as where the CPU has AMX
    states = make_minibatch(0, size=3, **NATURES).prestates
    screens, blocks = torch.from_numpy(states).double() / 255, device.floats(states, 4)
    assert blocks.shape == (3, 64, 21, 21)
    convolution = ScreenConvolution(4, 32, 8, 4).double()
    outputs = [convolution(each.double()) for each in (screens, blocks)]
    gradients = [torch.autograd.grad(each.square().sum(), convolution.weight)[0] for each in outputs]
    torch.testing.assert_close(*outputs)
    torch.testing.assert_close(*gradients)
    odd = states[:, :, :83, :82]
    assert torch.equal(device.floats(odd, 4), device.floats(odd))
