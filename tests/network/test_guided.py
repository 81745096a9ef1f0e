"""Guided backpropagation against a network written out with rectifiers of that kind; receptive fields."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d, linear

from simple_dqn.dqn import DeepQNetwork
from simple_dqn.networks import Dense, NetworkSpec, ResidualSection, uniform_by_inputs
from tests.network.updates import SMALL, make_minibatch, make_network, train

STATES = np.random.default_rng(7).integers(0, 256, (6, 3, 20, 17), dtype=np.uint8)
IMPALA = NetworkSpec((ResidualSection(3), ResidualSection(4), Dense(50)), True, uniform_by_inputs)
PLAIN: dict[str, dict[str, Any]] = {
    "plain": {}, "no biases": {"spec": replace(SMALL, biases=False)}, "batch norm": {"batch_norm": True},
}  # fmt: skip
OTHERS: dict[str, dict[str, Any]] = {
    "layer norm, dueling": {"layer_norm": True, "dueling": True},
    "c51": {"distributional": "c51", "atoms": 7},
    "quantile, noisy": {"distributional": "quantile", "quantiles": 5, "noisy": True},
    "impala, all": {
        "spec": IMPALA, "layer_norm": True, "dueling": True, "noisy": True, "distributional": "c51",
        "atoms": 5,
    },
    "impala, batch norm": {"spec": IMPALA, "batch_norm": True, "datatype": "bfloat16"},
}  # fmt: skip


def taught(kind: str) -> DeepQNetwork:
    network = make_network(learning_rate=0.002, **(PLAIN | OTHERS)[kind])
    for seed in range(5):
        train(network, make_minibatch(seed))
    return network


class Rectifier(torch.autograd.Function):
    """It passes a gradient only where both its input and the gradient are positive."""

    @staticmethod
    def forward(context: Any, values: Tensor) -> Tensor:
        context.save_for_backward(values)
        return values.clamp(min=0)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        values: Tensor = context.saved_tensors[0]
        return gradient.clamp(min=0) * (values > 0)


def written_out(network: DeepQNetwork, states: Tensor) -> dict[str, Tensor]:
    arrays = network.get_weights().items()
    weights = {name.removeprefix("hidden."): torch.from_numpy(array).double() for name, array in arrays}
    outputs, values = dict[str, Tensor](), states
    for name, stride in (("conv1", 3), ("conv2", 1), ("dense1", 0)):
        weight, bias = weights[f"{name}.weight"], weights.get(f"{name}.bias")
        sums = conv2d(values, weight, bias, stride) if stride else linear(values.flatten(1), weight, bias)
        if f"{name}_norm.weight" in weights:
            names = ("running_mean", "running_var", "weight", "bias")
            mean, variance, gain, offset = (weights[f"{name}_norm.{part}"] for part in names)
            sums = batch_norm(sums, mean, variance, gain, offset)
        outputs[name] = values = Rectifier.apply(sums)  # type: ignore[no-untyped-call]
    outputs["qvalues"] = linear(values, weights["output.weight"], weights.get("output.bias"))
    return outputs


def assert_near(found: NDArray[np.float32], expected: Tensor) -> None:
    values = expected.detach().numpy()
    assert found.dtype == np.float32
    assert values.any()
    np.testing.assert_allclose(found, values, rtol=1e-4, atol=1e-5 * np.abs(values).max())


@pytest.mark.parametrize("kind", PLAIN)
def test_activations_and_gradients_are_those_written_out(kind: str) -> None:
    network, states = taught(kind), (torch.from_numpy(STATES).double() / 255).requires_grad_()
    guided, outputs = network.guided_backpropagation(), written_out(network, states)
    which = np.arange(len(STATES))
    for layer in guided.layers:
        expected = outputs[layer.name]
        assert expected.shape[1:] == (layer.filters, layer.rows, layer.columns)
        assert_near(guided.activations(STATES, layer.name), expected)
        filters = which % layer.filters
        rows, columns = filters % layer.rows, (filters + 1) % layer.columns
        filters[0], rows[0], columns[0] = (expected[0] == 0).nonzero()[0].tolist()  # blocked
        units = expected[which, filters, rows, columns]
        (gradients,) = torch.autograd.grad(units.sum(), states, retain_graph=True)
        assert (gradients.abs().amax((1, 2, 3)) > 0).tolist() == (units > 0).tolist()
        assert_near(guided.guided_gradients(STATES, layer.name, filters, rows, columns), gradients)
    best = outputs["qvalues"].argmax(1).numpy()
    for asked, actions in ((None, best), ((best + 1) % 5,) * 2):
        chosen = outputs["qvalues"][which, actions].sum()
        (gradients,) = torch.autograd.grad(chosen, states, retain_graph=True)
        assert_near(guided.saliency(STATES, asked), gradients)


@pytest.mark.parametrize("kind", ["plain", *OTHERS])
def test_the_copy_has_the_networks_values_and_receptive_fields(kind: str) -> None:
    """And saliency differs by action."""
    network = taught(kind)
    before = network.predict(STATES)
    guided = network.guided_backpropagation()
    pictures = [guided.saliency(STATES, np.full(len(STATES), action)) for action in range(2)]
    assert all(np.isfinite(picture).all() and np.any(picture) for picture in pictures)
    assert not np.allclose(pictures[0], pictures[1])
    inside = guided._network(torch.from_numpy(STATES) / 255).detach().numpy()
    np.testing.assert_allclose(inside, before, atol=0.02 * np.abs(before).max())
    np.testing.assert_array_equal(network.predict(STATES), before)
    assert len(guided.layers) == 2
    for layer in guided.layers:
        activations = guided.activations(STATES, layer.name)
        assert activations.shape[1:] == (layer.filters, layer.rows, layer.columns)
        for row, column in ((0, 0), (layer.rows - 1, layer.columns - 1), (layer.rows // 2, 1)):
            place = np.full(len(STATES), row), np.full(len(STATES), column)
            best = activations[:, :, row, column].argmax(1)
            gradients = guided.guided_gradients(STATES, layer.name, best, *place)
            starts = (layer.field_start + at * layer.field_stride for at in (row, column))
            field = tuple(slice(max(0, start), max(0, start + layer.field_size)) for start in starts)
            # Without padding the corners of the field count, too.
            inside = gradients[:, :, *field]
            assert np.any(inside[:, :, [0, -1], [0, -1]] if kind == "plain" else inside)
            gradients[:, :, *field] = 0
            assert not np.any(gradients)


def test_a_residual_section_against_one_written_out() -> None:
    network = make_network(spec=IMPALA)
    weights = {name: torch.from_numpy(values) for name, values in network.get_weights().items()}

    def convolution(name: str, values: Tensor) -> Tensor:
        where = f"hidden.{name}.sums"
        return nn.functional.conv2d(values, weights[f"{where}.weight"], weights[f"{where}.bias"], padding=1)

    values = torch.from_numpy(STATES) / 255
    for section in ("section1", "section2"):
        values = convolution(f"{section}.convolution", values)
        padded = nn.functional.pad(values, (1, 1, 1, 1), value=-torch.inf)
        values = padded.unfold(2, 3, 2).unfold(3, 3, 2).amax((-1, -2))
        for block in ("0", "1"):
            branch = convolution(f"{section}.blocks.{block}.branch.1", values.clamp(min=0))
            values = values + convolution(f"{section}.blocks.{block}.branch.3", branch.clamp(min=0))
    features = values.clamp(min=0).flatten(1)
    dense = (features @ weights["hidden.dense1.weight"].T + weights["hidden.dense1.bias"]).clamp(min=0)
    expected: NDArray[np.float32] = (dense @ weights["output.weight"].T + weights["output.bias"]).numpy()
    np.testing.assert_allclose(network.predict(STATES), expected, atol=1e-6)
