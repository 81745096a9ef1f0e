"""Guided backpropagation against the same written out in plain numpy, one state and one unit at a time."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.deepqnetwork.networks import Convolution, NetworkSpec
from simple_dqn.types import Minibatch, States
from tests.deepqnetwork.updates import train

Array = NDArray[np.float64]
MakeNetwork = Callable[..., DeepQNetwork]

STATES = np.random.default_rng(7).integers(0, 256, (6, 3, 20, 17), dtype=np.uint8)
EPSILON = 1e-5  # of batch normalisation, beside the variance


class PlainNetwork:
    """The network as a list of steps, each of which can go forwards and, guided, backwards."""

    def __init__(self, spec: NetworkSpec, network: DeepQNetwork, narrow: bool) -> None:
        weights = {name: torch.from_numpy(values) for name, values in network.get_weights().items()}
        if narrow:  # as the hidden layers compute with them
            weights = {
                name: values if name.startswith("output") else values.bfloat16().float()
                for name, values in weights.items()
            }
        self.weights = {name: values.double().numpy() for name, values in weights.items()}
        self.kinds = ["conv" if isinstance(layer, Convolution) else "dense" for layer in spec.layers]
        self.names = [f"{kind}{self.kinds[: i + 1].count(kind)}" for i, kind in enumerate(self.kinds)]
        self.strides = {
            name: layer.stride
            for name, layer in zip(self.names, spec.layers, strict=True)
            if isinstance(layer, Convolution)
        }

    def of(self, name: str, what: str) -> Array | None:
        return self.weights.get(f"hidden.{name}.{what}")

    def forward(self, state: States, last: str | None = None) -> Array:
        """Return what the layer `last` answers to one state, or the Q-values; keep each layer's input."""
        values = state / 255.0
        self.inputs: dict[str, Array] = {}
        self.sums: dict[str, Array] = {}  # what comes to each rectifier
        for name in self.names:
            if name not in self.strides:
                values = values.reshape(-1)
            self.inputs[name] = values
            values = self.scale(name)[1] + self.scale(name)[0] * self.weighted(name, values)
            self.sums[name] = values
            values = np.maximum(values, 0)
            if name == last:
                return values
        bias = self.weights.get("output.bias", np.zeros(1))
        result: Array = self.weights["output.weight"] @ values + bias
        return result

    def weighted(self, name: str, values: Array) -> Array:
        weight = self.of(name, "weight")
        assert weight is not None
        if name not in self.strides:
            dense: Array = weight @ values
            return dense
        size, stride = weight.shape[-1], self.strides[name]
        rows, columns = ((side - size) // stride + 1 for side in values.shape[1:])
        result = np.zeros((len(weight), rows, columns))
        for k in range(len(weight)):
            for i in range(rows):
                for j in range(columns):
                    patch = values[:, i * stride : i * stride + size, j * stride : j * stride + size]
                    result[k, i, j] = (patch * weight[k]).sum()
        return result

    def scale(self, name: str) -> tuple[Array, Array]:
        """Return the factor and the offset between the weighted sums of a layer and its rectifier."""
        weight = self.of(name, "weight")
        assert weight is not None
        factor, offset = np.ones(len(weight)), np.zeros(len(weight))
        mean, variance = self.of(f"{name}_norm", "running_mean"), self.of(f"{name}_norm", "running_var")
        if mean is not None and variance is not None:
            gain, shift = self.of(f"{name}_norm", "weight"), self.of(f"{name}_norm", "bias")
            assert gain is not None
            assert shift is not None
            factor = gain / np.sqrt(variance + EPSILON)
            offset = shift - mean * factor
        bias = self.of(name, "bias")
        if bias is not None:
            offset = bias
        shape = (-1, 1, 1) if name in self.strides else (-1,)
        return factor.reshape(shape), offset.reshape(shape)

    def guided(self, gradient: Array, last: str) -> Array:
        """Return the guided gradient of the state, given that of what the layer `last` answers."""
        for name in reversed(self.names[: self.names.index(last) + 1]):
            gradient = gradient.reshape(self.sums[name].shape)
            gradient = gradient * (gradient > 0) * (self.sums[name] > 0) * self.scale(name)[0]
            weight = self.of(name, "weight")
            assert weight is not None
            if name not in self.strides:
                gradient = gradient @ weight
                continue
            back, size, stride = np.zeros_like(self.inputs[name]), weight.shape[-1], self.strides[name]
            for k, i, j in np.ndindex(gradient.shape):
                rows, columns = (slice(at * stride, at * stride + size) for at in (i, j))
                back[:, rows, columns] += gradient[k, i, j] * weight[k]
            gradient = back
        return gradient.reshape(self.inputs[self.names[0]].shape)


@pytest.fixture(params=["nature", "no biases", "batch norm", "bfloat16"])
def networks(
    request: pytest.FixtureRequest,
    make_network: MakeNetwork,
    make_minibatch: Callable[..., Minibatch],
    small_spec: NetworkSpec,
) -> tuple[DeepQNetwork, PlainNetwork]:
    """A small network that has learnt a little, and the same in numpy."""
    kind = request.param
    spec = replace(small_spec, biases=kind != "no biases")
    datatype = "bfloat16" if kind == "bfloat16" else "float32"
    network = make_network(spec=spec, datatype=datatype, batch_norm=kind == "batch norm", learning_rate=0.002)
    for seed in range(10):
        train(network, make_minibatch(seed))
    return network, PlainNetwork(spec, network, narrow=kind == "bfloat16")


def assert_near(got: NDArray[np.float32], wanted: Array) -> None:
    assert got.dtype == np.float32
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


def test_activations(networks: tuple[DeepQNetwork, PlainNetwork]) -> None:
    network, plain = networks
    guided = network.guided_backpropagation()
    for layer in guided.layers:
        wanted = np.array([plain.forward(state, layer.name) for state in STATES])
        assert wanted.shape[1:] == (layer.filters, layer.rows, layer.columns)
        assert 0 < (wanted > 0).mean() < 1
        assert_near(guided.activations(STATES, layer.name), wanted)


def test_gradients_of_units(networks: tuple[DeepQNetwork, PlainNetwork]) -> None:
    network, plain = networks
    guided = network.guided_backpropagation()
    for layer in guided.layers:
        filters = np.arange(len(STATES)) % layer.filters
        rows, columns = filters % layer.rows, (filters + 1) % layer.columns
        got = guided.guided_gradients(STATES, layer.name, filters, rows, columns)
        wanted = []
        for state, *unit in zip(STATES, filters, rows, columns, strict=True):
            one = np.zeros_like(plain.forward(state, layer.name))
            one[tuple(unit)] = 1
            wanted.append(plain.guided(one, layer.name))
        assert np.any(wanted)
        assert_near(got, np.array(wanted))


def test_saliency_of_an_action_and_of_the_best(networks: tuple[DeepQNetwork, PlainNetwork]) -> None:
    network, plain = networks
    guided = network.guided_backpropagation()
    weight = plain.weights["output.weight"]

    def wanted(actions: NDArray[np.int64]) -> Array:
        results = []
        for state, action in zip(STATES, actions, strict=True):
            plain.forward(state)
            results.append(plain.guided(weight[action], plain.names[-1]))
        return np.array(results)

    best = np.array([plain.forward(state).argmax() for state in STATES])
    others = (best + 1) % len(weight)
    assert_near(guided.saliency(STATES), wanted(best))
    assert_near(guided.saliency(STATES, others), wanted(others))
    assert not np.allclose(wanted(best), wanted(others))


def test_a_blocked_rectifier_passes_nothing(make_network: MakeNetwork) -> None:
    guided = make_network().guided_backpropagation()
    for layer in guided.layers:
        answers = guided.activations(STATES, layer.name)
        blocked = np.argwhere(answers == 0)
        open_units = np.argwhere(answers > 0)
        for units, passes in ((blocked[:50], False), (open_units[:50], True)):
            which, *place = units.T
            gradients = guided.guided_gradients(STATES[which], layer.name, *place)
            assert (np.abs(gradients).max((1, 2, 3)) > 0).all() == passes
            assert np.any(gradients) == passes


def test_a_unit_sees_its_receptive_field_alone(make_network: MakeNetwork) -> None:
    """Whatever changes in the field changes the unit, or can; what changes around it cannot."""
    guided = make_network().guided_backpropagation()
    for layer in guided.layers:
        for row, column in ((0, 0), (layer.rows - 1, layer.columns - 1)):
            top, left = row * layer.field_stride, column * layer.field_stride
            field = slice(top, top + layer.field_size), slice(left, left + layer.field_size)
            outside, inside = STATES.copy(), STATES.copy()
            outside[:] = np.random.default_rng(1).integers(0, 256, STATES.shape)
            outside[:, :, *field] = STATES[:, :, *field]
            inside[:, :, *field] = 255 - STATES[:, :, *field]
            answers, same, other = (
                guided.activations(states, layer.name)[:, :, row, column]
                for states in (STATES, outside, inside)
            )
            np.testing.assert_allclose(same, answers, atol=1e-6)
            assert (np.abs(other - answers) > 1e-3).any()
            gradients = guided.guided_gradients(
                STATES, layer.name, answers.argmax(1), np.full(6, row), np.full(6, column)
            )
            corners = gradients[:, :, *field][:, :, [0, -1], [0, -1]]
            assert np.any(corners), "the field is smaller than it is said to be"
            gradients[:, :, *field] = 0
            assert not np.any(gradients)


def test_looking_changes_nothing_and_sees_the_network_as_it_was(
    make_network: MakeNetwork, make_minibatch: Callable[..., Minibatch]
) -> None:
    network, other = make_network(), make_network()
    guided = network.guided_backpropagation()
    before = guided.saliency(STATES)
    states = STATES.copy()
    assert train(network, make_minibatch(1)) == train(other, make_minibatch(1))
    np.testing.assert_array_equal(network.predict(STATES), other.predict(STATES))
    np.testing.assert_array_equal(guided.saliency(STATES), before)
    np.testing.assert_array_equal(states, STATES)
    assert not np.array_equal(network.guided_backpropagation().saliency(STATES), before)


def test_a_state_alone_and_among_others(make_network: MakeNetwork) -> None:
    guided = make_network(batch_norm=True).guided_backpropagation()
    together = guided.saliency(STATES)
    alone = np.concatenate([guided.saliency(state[np.newaxis]) for state in STATES])
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-6 * np.abs(alone).max())
