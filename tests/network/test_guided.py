"""Guided backpropagation: against plain numpy, one state and one unit at a time, and its receptive fields."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from simple_dqn.dqn import DeepQNetwork
from simple_dqn.networks import Dense, NetworkSpec, ResidualSection, uniform_by_inputs
from simple_dqn.types import States
from tests.network.conftest import SMALL
from tests.network.updates import MakeMinibatch, MakeNetwork, assert_same_weights, train

Array = NDArray[np.float64]

STATES = np.random.default_rng(7).integers(0, 256, (6, 3, 20, 17), dtype=np.uint8)
EPSILON = 1e-5  # of batch normalisation, beside the variance
IMPALA = NetworkSpec((ResidualSection(3), ResidualSection(4), Dense(50)), True, uniform_by_inputs)
PLAIN: dict[str, dict[str, Any]] = {
    "plain": {},
    "no biases": {"spec": replace(SMALL, biases=False)},
    "batch norm": {"batch_norm": True},
    "bfloat16": {"datatype": "bfloat16"},
}
OTHERS: dict[str, dict[str, Any]] = {
    "layer norm, dueling": {"layer_norm": True, "dueling": True},
    "c51": {"distributional": "c51", "atoms": 7},
    "quantile, noisy": {"distributional": "quantile", "quantiles": 5, "noisy": True},
    "impala, all": {
        "spec": IMPALA, "layer_norm": True, "dueling": True, "noisy": True, "distributional": "c51",
        "atoms": 5,
    },
    "impala, batch norm": {"spec": IMPALA, "batch_norm": True},
    "impala, bfloat16": {"spec": IMPALA, "datatype": "bfloat16", "layer_norm": True},
}  # fmt: skip


def taught(kind: str, make_network: MakeNetwork, make_minibatch: MakeMinibatch) -> DeepQNetwork:
    """Return a network of one kind that has learnt a little."""
    network = make_network(learning_rate=0.002, **(PLAIN | OTHERS)[kind])
    for seed in range(5):
        train(network, make_minibatch(seed))
    return network


class PlainNetwork:
    """The small network: the sums of each layer forwards, and guided gradients backwards."""

    NAMES, STRIDES = ("conv1", "conv2", "dense1"), {"conv1": 3, "conv2": 1}

    def __init__(self, network: DeepQNetwork) -> None:
        self.weights: dict[str, Array] = {}
        for name, values in network.get_weights().items():
            tensor = torch.from_numpy(values)
            if network.datatype == "bfloat16" and not name.startswith("output"):
                tensor = tensor.bfloat16()  # as the hidden layers compute with them
            self.weights[name.removeprefix("hidden.")] = tensor.double().numpy()

    def forward(self, state: States, last: str | None = None) -> Array:
        """Return the output of the layer `last` for one state, or the Q-values; keep inputs and sums."""
        values = state / 255.0
        self.inputs, self.sums = dict[str, Array](), dict[str, Array]()
        for name in self.NAMES:
            self.inputs[name] = values = values if name in self.STRIDES else values.reshape(-1)
            factor, offset = self.scale(name)
            self.sums[name] = self.weighted(name, values) * factor + offset
            values = np.maximum(self.sums[name], 0)
            if name == last:
                return values
        result: Array = self.weights["output.weight"] @ values + self.weights.get("output.bias", 0)
        return result

    def weighted(self, name: str, values: Array) -> Array:
        weight = self.weights[f"{name}.weight"]
        if name not in self.STRIDES:
            dense: Array = weight @ values
            return dense
        size, stride = weight.shape[-1], self.STRIDES[name]
        rows, columns = ((side - size) // stride + 1 for side in values.shape[1:])
        result = np.zeros((len(weight), rows, columns))
        for i, j in np.ndindex(rows, columns):
            patch = values[:, i * stride : i * stride + size, j * stride : j * stride + size]
            result[:, i, j] = np.tensordot(weight, patch, 3)
        return result

    def scale(self, name: str) -> tuple[Array, Array]:
        """Return the factor and the offset between the weighted sums of a layer and its rectifier."""
        shape = (-1, 1, 1) if name in self.STRIDES else (-1,)
        units = np.zeros(len(self.weights[f"{name}.weight"]))
        factor, offset = units + 1, self.weights.get(f"{name}.bias", units)
        if f"{name}_norm.running_var" in self.weights:
            gain, shift, mean, variance = (
                self.weights[f"{name}_norm.{part}"]
                for part in ("weight", "bias", "running_mean", "running_var")
            )
            factor = gain / np.sqrt(variance + EPSILON)
            offset = shift - mean * factor
        return factor.reshape(shape), offset.reshape(shape)

    def guided(self, gradient: Array, last: str) -> Array:
        """Return the guided gradient of the state, given that of the output of the layer `last`."""
        for name in reversed(self.NAMES[: self.NAMES.index(last) + 1]):
            gradient = gradient.reshape(self.sums[name].shape)
            gradient = gradient * (gradient > 0) * (self.sums[name] > 0) * self.scale(name)[0]
            weight = self.weights[f"{name}.weight"]
            if name not in self.STRIDES:
                gradient = gradient @ weight
                continue
            back, size, stride = np.zeros_like(self.inputs[name]), weight.shape[-1], self.STRIDES[name]
            for k, i, j in np.ndindex(gradient.shape):
                rows, columns = (slice(at * stride, at * stride + size) for at in (i, j))
                back[:, rows, columns] += gradient[k, i, j] * weight[k]
            gradient = back
        return gradient.reshape(self.inputs["conv1"].shape)


def assert_near(found: NDArray[np.float32], expected: Array) -> None:
    assert found.dtype == np.float32
    assert np.any(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("kind", PLAIN)
def test_activations_and_gradients_are_those_of_numpy(
    kind: str, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network = taught(kind, make_network, make_minibatch)
    guided, plain = network.guided_backpropagation(), PlainNetwork(network)
    for layer in guided.layers:
        expected = np.array([plain.forward(state, layer.name) for state in STATES])
        assert expected.shape[1:] == (layer.filters, layer.rows, layer.columns)
        assert 0 < (expected > 0).mean() < 1
        assert_near(guided.activations(STATES, layer.name), expected)
        filters = np.arange(len(STATES)) % layer.filters
        rows, columns = filters % layer.rows, (filters + 1) % layer.columns
        gradients = []
        for state, *unit in zip(STATES, filters, rows, columns, strict=True):
            one = np.zeros_like(plain.forward(state, layer.name))
            one[tuple(unit)] = 1
            gradients.append(plain.guided(one, layer.name))
        assert_near(guided.guided_gradients(STATES, layer.name, filters, rows, columns), np.array(gradients))
    weight = plain.weights["output.weight"]
    best = np.array([plain.forward(state).argmax() for state in STATES])
    for asked, actions in ((None, best), ((best + 1) % len(weight),) * 2):
        gradients = []
        for state, action in zip(STATES, actions, strict=True):
            plain.forward(state)
            gradients.append(plain.guided(weight[action], "dense1"))
        assert_near(guided.saliency(STATES, asked), np.array(gradients))


def test_a_blocked_rectifier_passes_nothing(make_network: MakeNetwork) -> None:
    guided = make_network().guided_backpropagation()
    for layer in guided.layers:
        activations = guided.activations(STATES, layer.name)
        for units, passes in ((activations == 0, False), (activations > 0, True)):
            which, *place = np.argwhere(units)[:50].T
            gradients = guided.guided_gradients(STATES[which], layer.name, *place)
            assert (np.abs(gradients).max((1, 2, 3)) > 0).all() == passes
            assert np.any(gradients) == passes


@pytest.mark.parametrize("kind", OTHERS)
def test_other_networks(kind: str, make_network: MakeNetwork, make_minibatch: MakeMinibatch) -> None:
    """The copy has the network's Q-values, and saliency differs by action."""
    network = taught(kind, make_network, make_minibatch)
    before = network.predict(STATES)
    guided = network.guided_backpropagation()
    pictures = [guided.saliency(STATES, np.full(len(STATES), action)) for action in range(3)]
    assert all(np.isfinite(picture).all() and np.any(picture) for picture in pictures)
    assert not np.allclose(pictures[0], pictures[1])
    inside = guided._network(torch.from_numpy(STATES) / 255).detach().numpy()
    np.testing.assert_allclose(inside, before, atol=0.02 * np.abs(before).max())
    np.testing.assert_array_equal(network.predict(STATES), before)


@pytest.mark.parametrize("kind", ["plain", *OTHERS])
def test_a_unit_depends_on_its_receptive_field_alone(
    kind: str, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    guided = taught(kind, make_network, make_minibatch).guided_backpropagation()
    assert len(guided.layers) == 2
    for layer in guided.layers:
        activations = guided.activations(STATES, layer.name)
        assert activations.shape[1:] == (layer.filters, layer.rows, layer.columns)
        assert activations.min() == 0 < activations.max()
        for row, column in ((0, 0), (layer.rows - 1, layer.columns - 1), (layer.rows // 2, 1)):
            place = np.full(len(STATES), row), np.full(len(STATES), column)
            best = activations[:, :, row, column].argmax(1)
            gradients = guided.guided_gradients(STATES, layer.name, best, *place)
            starts = (layer.field_start + at * layer.field_stride for at in (row, column))
            field = tuple(slice(max(0, start), max(0, start + layer.field_size)) for start in starts)
            assert np.any(gradients)
            if kind == "plain":  # without padding the corners of the field count, too
                assert np.any(gradients[:, :, *field][:, :, [0, -1], [0, -1]])
                outside = 255 - STATES
                outside[:, :, *field] = STATES[:, :, *field]
                same = guided.activations(outside, layer.name)[:, :, row, column]
                np.testing.assert_allclose(same, activations[:, :, row, column], atol=1e-6)
            gradients[:, :, *field] = 0
            assert not np.any(gradients)


def test_fields_of_residual_sections_reach_as_far_as_they_say(make_network: MakeNetwork) -> None:
    guided = make_network(spec=IMPALA, state_shape=(3, 90, 90)).guided_backpropagation()
    states = np.random.default_rng(0).integers(0, 256, (40, 3, 90, 90), dtype=np.uint8)
    for layer in guided.layers:
        middle = layer.rows // 2
        touched = np.zeros((90, 90), bool)
        for filter_ in range(layer.filters):
            unit = (np.full(40, at) for at in (filter_, middle, middle))
            touched |= np.any(guided.guided_gradients(states, layer.name, *unit), axis=(0, 1))
        start = layer.field_start + middle * layer.field_stride
        for axis in (1, 0):
            reach = np.flatnonzero(touched.any(axis))
            assert start <= reach[0] <= start + layer.field_size // 3
            assert start + layer.field_size * 2 // 3 <= reach[-1] < start + layer.field_size


def test_it_changes_nothing_and_keeps_the_network_as_it_was(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network, other = make_network(batch_norm=True), make_network(batch_norm=True)
    guided, states = network.guided_backpropagation(), STATES.copy()
    before = guided.saliency(states)
    alone = np.concatenate([guided.saliency(state[np.newaxis]) for state in states])
    np.testing.assert_allclose(before, alone, rtol=1e-4, atol=1e-6 * np.abs(alone).max())
    assert train(network, make_minibatch(1)) == train(other, make_minibatch(1))
    assert_same_weights(network, other)
    np.testing.assert_array_equal(guided.saliency(states), before)
    np.testing.assert_array_equal(states, STATES)
    assert not np.array_equal(network.guided_backpropagation().saliency(states), before)


def test_a_residual_section_against_one_written_out(make_network: MakeNetwork) -> None:
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
