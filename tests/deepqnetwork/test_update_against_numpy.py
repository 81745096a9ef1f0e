"""Updates of the network against the same written out in plain numpy, in float64."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from simple_dqn.config import NetworkConfig
from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.deepqnetwork.networks import NATURE, Convolution, NetworkSpec
from simple_dqn.types import CheckpointState, Minibatch, States
from tests.deepqnetwork.updates import train

Array = NDArray[np.float64]
Weights = dict[str, Array]

TOLERANCE = {"float32": 1e-5, "float64": 1e-10}


def convolve(inputs: Array, filters: Array, stride: int) -> Array:
    size = filters.shape[-1]
    rows, columns = ((side - size) // stride + 1 for side in inputs.shape[2:])
    outputs = np.zeros((len(inputs), len(filters), rows, columns))
    for i in range(rows):
        for j in range(columns):
            patch = inputs[:, :, i * stride : i * stride + size, j * stride : j * stride + size]
            outputs[:, :, i, j] = np.tensordot(patch, filters, ((1, 2, 3), (1, 2, 3)))
    return outputs


def convolve_backward(gradient: Array, inputs: Array, filters: Array, stride: int) -> tuple[Array, Array]:
    """Return the gradients of the filters and of the inputs, given that of the outputs."""
    size = filters.shape[-1]
    of_filters, of_inputs = np.zeros_like(filters), np.zeros_like(inputs)
    for i in range(gradient.shape[2]):
        for j in range(gradient.shape[3]):
            rows, columns = (slice(k * stride, k * stride + size) for k in (i, j))
            of_filters += np.tensordot(gradient[:, :, i, j], inputs[:, :, rows, columns], (0, 0))
            of_inputs[:, :, rows, columns] += np.tensordot(gradient[:, :, i, j], filters, 1)
    return of_filters, of_inputs


class NumpyNetwork:
    """A stack of layers with rectifiers between, and its gradient by the chain rule."""

    def __init__(self, spec: NetworkSpec, weights: CheckpointState) -> None:
        self.weights: Weights = {name: np.asarray(cast(Array, w), np.float64) for name, w in weights.items()}
        self.names = [name.removesuffix(".weight") for name in weights if name.endswith(".weight")]
        self.strides = [layer.stride for layer in spec.layers if isinstance(layer, Convolution)]

    def forward(self, states: States) -> tuple[Array, list[Array]]:
        """Return the Q-values and the inputs of every layer."""
        values, inputs = states / 255.0, []
        for depth, name in enumerate(self.names):
            weight = self.weights[f"{name}.weight"]
            bias = self.weights.get(f"{name}.bias", np.zeros(len(weight)))
            if depth < len(self.strides):
                inputs.append(values)
                values = convolve(values, weight, self.strides[depth]) + bias[:, None, None]
            else:
                inputs.append(values.reshape(len(values), -1))
                values = inputs[-1] @ weight.T + bias
            if name != "output":
                values = np.maximum(values, 0)
        return values, inputs

    def backward(self, gradient: Array, inputs: list[Array]) -> Weights:
        """Return the gradient of every weight, given that of the Q-values."""
        result: Weights = {}
        for depth in reversed(range(len(self.names))):
            name = self.names[depth]
            weight = self.weights[f"{name}.weight"]
            if depth < len(self.strides):
                gradient = gradient.reshape(
                    len(gradient), len(weight), *self.output_shape(inputs[depth], depth)
                )
                of_weight, of_inputs = convolve_backward(gradient, inputs[depth], weight, self.strides[depth])
                of_bias = gradient.sum((0, 2, 3))
            else:
                of_weight, of_inputs, of_bias = gradient.T @ inputs[depth], gradient @ weight, gradient.sum(0)
            result[f"{name}.weight"] = of_weight
            if f"{name}.bias" in self.weights:
                result[f"{name}.bias"] = of_bias
            gradient = of_inputs * (inputs[depth] > 0)  # the rectifier below; unused below the first layer
        return result

    def output_shape(self, inputs: Array, depth: int) -> tuple[int, int]:
        size = self.weights[f"{self.names[depth]}.weight"].shape[-1]
        height, width = ((side - size) // self.strides[depth] + 1 for side in inputs.shape[2:])
        return height, width


def added_up(rewards: NDArray[np.float32], config: NetworkConfig) -> float:
    """Return what the steps of one transition pay, each clipped for itself, discounted from the first on."""
    total = 0.0
    for k, paid in enumerate(rewards.tolist()):
        total += config.discount_rate**k * min(max(paid, config.min_reward), config.max_reward)
    return total


def loss_and_gradient(
    online: NumpyNetwork, target: NumpyNetwork, batch: Minibatch, config: NetworkConfig
) -> tuple[float, Weights]:
    qvalues, inputs = online.forward(batch.prestates)
    postvalues, _ = target.forward(batch.poststates)
    gradient = np.zeros_like(qvalues)
    losses = []
    for n, action in enumerate(batch.actions):
        y = added_up(batch.rewards[n], config)
        if not batch.terminals[n]:
            y += float(batch.discounts[n]) * postvalues[n].max()
        error = qvalues[n, action] - y
        clip = config.clip_error or np.inf
        losses.append(error**2 / 2 if abs(error) <= clip else clip * (abs(error) - clip / 2))
        gradient[n, action] = min(max(error, -clip), clip) / len(batch.actions)
    return float(np.mean(losses)), online.backward(gradient, inputs)


class RMSProp:
    def __init__(self, config: NetworkConfig) -> None:
        self.rate, self.decay, self.v = config.learning_rate, config.decay_rate, 0.0 * np.zeros(1)

    def step(self, g: Array) -> Array:
        self.v = self.decay * self.v + (1 - self.decay) * g**2
        return -self.rate * g / (np.sqrt(self.v + 1e-6) + 1e-6)


class Adam:
    def __init__(self, config: NetworkConfig) -> None:
        self.rate, self.epsilon = config.learning_rate, config.adam_epsilon
        self.t, self.m, self.v = 0, np.zeros(1), np.zeros(1)

    def step(self, g: Array) -> Array:
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * g
        self.v = 0.999 * self.v + 0.001 * g**2
        mean, mean_square = self.m / (1 - 0.9**self.t), self.v / (1 - 0.999**self.t)
        return -self.rate * mean / (np.sqrt(mean_square) + self.epsilon)


class Adadelta:
    def __init__(self, config: NetworkConfig) -> None:
        self.rate, self.decay = config.learning_rate, config.decay_rate
        self.v, self.steps = np.zeros(1), np.zeros(1)

    def step(self, g: Array) -> Array:
        self.v = self.decay * self.v + (1 - self.decay) * g**2
        step = -np.sqrt(self.steps + 1e-6) / np.sqrt(self.v + 1e-6) * g
        self.steps = self.decay * self.steps + (1 - self.decay) * step**2
        return self.rate * step


OPTIMIZERS: dict[str, Callable[[NetworkConfig], RMSProp | Adam | Adadelta]] = {
    "rmsprop": RMSProp,
    "adam": Adam,
    "adadelta": Adadelta,
}


def online_weights(network: DeepQNetwork) -> CheckpointState:
    return cast(CheckpointState, network.get_state()["online"])


def assert_updates_equal(
    network: DeepQNetwork, spec: NetworkSpec, config: NetworkConfig, batches: list[Minibatch], within: float
) -> None:
    """Make an update from each batch, here and in numpy, and compare all that can be seen of both."""
    before = online_weights(network)
    online, target = NumpyNetwork(spec, before), NumpyNetwork(spec, before)
    rules = {name: OPTIMIZERS[config.optimizer](config) for name in before}
    for batch in batches:
        # Q-values leave the network as float32, whatever it computes in.
        for use_target, reference in ((False, online), (True, target)):
            expected_qvalues, _ = reference.forward(batch.prestates)
            qvalues = network.predict(batch.prestates, target=use_target)
            np.testing.assert_allclose(qvalues, expected_qvalues, rtol=0, atol=1e-5)
        loss, gradient = loss_and_gradient(online, target, batch, config)
        assert train(network, batch) == pytest.approx(loss, rel=0, abs=within)
        for name, rule in rules.items():
            online.weights[name] = online.weights[name] + rule.step(gradient[name])
    after = online_weights(network)
    for name, expected in online.weights.items():
        np.testing.assert_allclose(after[name], expected, rtol=0, atol=within, err_msg=name)
        assert np.abs(expected - before[name]).max() > 100 * within, f"{name} hardly moved: too weak a test"


@pytest.mark.parametrize("settings", [
    {},
    {"clip_error": 0.0},
    {"clip_error": 0.1, "min_reward": -0.2, "max_reward": 2.5},
    {"decay_rate": 0.0},
    {"decay_rate": 1.0},
    {"optimizer": "adam"},
    {"optimizer": "adam", "adam_epsilon": 1e-8},
    {"optimizer": "adadelta", "decay_rate": 0.9, "learning_rate": 0.5},
])  # fmt: skip
@pytest.mark.parametrize("biases", [True, False])
def test_three_updates_of_a_small_network_in_float64(
    settings: dict[str, Any],
    biases: bool,
    small_spec: NetworkSpec,
    make_network: Callable[..., DeepQNetwork],
    make_minibatch: Callable[..., Minibatch],
) -> None:
    spec = replace(small_spec, biases=biases)
    network = make_network(datatype="float64", spec=spec, **settings)
    batches = [make_minibatch(seed) for seed in range(3)]
    assert_updates_equal(network, spec, NetworkConfig(**settings), batches, within=1e-10)


@pytest.mark.parametrize("steps", [2, 5])
def test_three_updates_from_transitions_of_many_steps(
    steps: int,
    small_spec: NetworkSpec,
    make_network: Callable[..., DeepQNetwork],
    make_minibatch: Callable[..., Minibatch],
) -> None:
    settings: dict[str, Any] = {"discount_rate": 0.7, "min_reward": -0.4, "max_reward": 1.5}
    network = make_network(datatype="float64", spec=small_spec, **settings)
    batches = [make_minibatch(seed, steps=steps) for seed in range(3)]
    batches[1].rewards[2, 1:] = 0  # an episode that ends after one step
    assert_updates_equal(network, small_spec, NetworkConfig(**settings), batches, within=1e-10)


@pytest.mark.parametrize("datatype", ["float32", "float64"])
def test_an_update_of_natures_network(
    datatype: str, make_network: Callable[..., DeepQNetwork], make_minibatch: Callable[..., Minibatch]
) -> None:
    sizes = {"actions": 4, "state_shape": (4, 84, 84)}
    network = make_network(datatype=datatype, spec=NATURE, learning_rate=0.01, **sizes)
    batch = make_minibatch(0, size=4, **sizes)
    config = NetworkConfig(learning_rate=0.01)
    assert_updates_equal(network, NATURE, config, [batch], TOLERANCE[datatype])


# How long the difference to the exact gradient of a layer may be, as a share of that gradient's length.
@pytest.mark.parametrize(("datatype", "bound"), [("float32", 1e-5), ("bfloat16", 0.1)])
def test_gradients_of_natures_network(
    datatype: str,
    bound: float,
    make_network: Callable[..., DeepQNetwork],
    make_minibatch: Callable[..., Minibatch],
) -> None:
    sizes = {"actions": 4, "state_shape": (4, 84, 84)}
    network = make_network(spec=NATURE, optimizer="adam", datatype=datatype, **sizes)
    batch = make_minibatch(1, size=32, **sizes)
    reference = NumpyNetwork(NATURE, online_weights(network))
    _, expected = loss_and_gradient(reference, reference, batch, NetworkConfig())
    train(network, batch)
    slots = cast(CheckpointState, cast(CheckpointState, network.get_state()["training"])["slots"])
    for name, gradient in expected.items():
        mean = cast(
            Array, cast(CheckpointState, slots[name])["exp_avg"]
        )  # a tenth of the gradient after one update
        assert np.linalg.norm(mean / 0.1 - gradient) < bound * np.linalg.norm(gradient), name
