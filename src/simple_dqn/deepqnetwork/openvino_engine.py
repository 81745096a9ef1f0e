"""OpenVINO: a network as a graph that is compiled for the CPU, with its weights in it.

The graph is written by hand, module by module, not traced: so its datatypes are those of PyTorch (the
compiler's own narrowing would take in the output layer), and it takes milliseconds, as often as the weights
change. To compile it takes some 30 ms, which 50 to 100 predictions bring in.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import openvino
import torch
from openvino import opset1
from openvino import opset13 as ops
from torch import Tensor, nn

from simple_dqn.deepqnetwork.layers import Dueling, Layers, Network, ResidualBlock, Section
from simple_dqn.deepqnetwork.noisy import NoisyLinear
from simple_dqn.deepqnetwork.returns import Categorical, Expectation, Quantiles, Returns
from simple_dqn.types import QValues, States

Node: TypeAlias = Any  # OpenVINO's, one output of the graph

TYPES = {torch.float32: openvino.Type.f32, torch.bfloat16: openvino.Type.bf16}


@functools.cache
def _core() -> Any:
    return openvino.Core()


class OpenVinoEngine:
    """Predicts by a network as it was when a batch of that size was first asked after its weights changed.

    From the same weights the same bits follow, however often it was asked before. See `Engine`.
    """

    def __init__(self, network: Network, threads: int) -> None:
        """Predict by `network`, on so many `threads`, of which the calling one is the first."""
        self._network = network
        self._settings = {
            "INFERENCE_PRECISION_HINT": "f32",  # nothing is narrower than the graph says
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
            "ENABLE_CPU_PINNING": False,  # the calling thread does other work on other cores
        }
        self._requests: dict[tuple[tuple[int, ...], ...], Any] = {}  # by the shapes of states and noise

    def predict(self, states: States, noise: Tensor | None = None) -> QValues:
        """Return the Q-values [B, A] of `states`; see `Engine`."""
        inputs = [np.ascontiguousarray(states)]
        if noise is not None and self._network.noise_size:
            inputs.append(noise.numpy())
        shapes = tuple(values.shape for values in inputs)
        if shapes not in self._requests:
            compiled = _core().compile_model(graph(self._network, *shapes), "CPU", self._settings)
            self._requests[shapes] = compiled.create_infer_request()
        qvalues: QValues = self._requests[shapes].infer(inputs, share_inputs=True)[0]
        return qvalues

    def weights_changed(self) -> None:
        """Forget what was compiled."""
        self._requests.clear()


def graph(network: Network, states_shape: tuple[int, ...], noise_shape: tuple[int, ...] | None = None) -> Any:
    """Return `network`, with a copy of its weights, as a graph from states, and noise, to Q-values.

    Args:
        network: It stands still meanwhile.
        states_shape: [B, S, H, W].
        noise_shape: [B, K]; None: noisy layers are still.
    """
    states = ops.parameter(list(states_shape), np.uint8, "states")
    noise = ops.parameter(list(noise_shape), np.float32, "noise") if noise_shape else None
    narrow = next(network.hidden.parameters()).dtype
    floats = _to(ops.divide(ops.convert(states, np.float32), np.float32(255)), narrow)
    outputs = _answer(network.output, _answer(network.hidden, floats, noise), noise)
    outputs = ops.reshape(outputs, np.array([0, -1, network.returns.size]), True)
    qvalues = VALUES[type(network.returns)](network.returns, outputs)
    return openvino.Model([ops.result(qvalues)], [states, noise] if noise else [states], "network")


def _answer(module: nn.Module, values: Node, noise: Node | None) -> Node:
    return TRANSLATIONS[type(module)](module, values, noise)


def _to(values: Node, dtype: torch.dtype) -> Node:
    return ops.convert(values, TYPES[dtype])


def _constant(values: Tensor, *shape: int) -> Node:
    """Return a copy of `values`, in their datatype, as a node of `shape`, by default their own."""
    fresh = values.detach().reshape(shape or values.shape).clone(memory_format=torch.contiguous_format)
    if fresh.dtype == torch.bfloat16:  # which numpy does not know
        bits = fresh.view(torch.int16).numpy()
        return ops.constant(openvino.Tensor(bits, list(bits.shape), TYPES[fresh.dtype]), shared_memory=False)
    return ops.constant(fresh.numpy())


def _along_channels(values: Node, channels: Tensor) -> Node:
    """Return `channels` [C] as a node that fits `values` [B, C, ...] unit by unit."""
    return _constant(channels, 1, -1, *[1] * (len(values.get_output_partial_shape(0)) - 2))


def _in_turn(layers: nn.Module, values: Node, noise: Node | None) -> Node:
    for module in layers.children():
        values = _answer(module, values, noise)
    return values


def _convolution(layer: nn.Conv2d, values: Node, _noise: Node | None) -> Node:
    padding = list(layer.padding)
    sums = ops.convolution(values, _constant(layer.weight), list(layer.stride), padding, padding, [1, 1])
    return sums if layer.bias is None else ops.add(sums, _along_channels(sums, layer.bias))


def _product(values: Node, weight: Tensor, bias: Tensor | None) -> Node:
    sums = ops.matmul(values, _constant(weight), False, True)
    return sums if bias is None else ops.add(sums, _constant(bias, 1, -1))


def _linear(layer: nn.Linear, values: Node, _noise: Node | None) -> Node:
    return _product(_to(values, layer.weight.dtype), layer.weight, layer.bias)


def _noisy(layer: NoisyLinear, values: Node, noise: Node | None) -> Node:
    """Return y = (μʷ + σʷ ⊙ εʷ) x + μᵇ + σᵇ ⊙ εᵇ; see `NoisyLinear`."""
    means = _linear(layer, values, noise)
    if noise is None:
        return means
    places = np.cumsum([layer.place, layer.in_features, layer.out_features])
    of_inputs, of_outputs = (
        _to(ops.slice(noise, [start], [stop], [1], [1]), layer.weight.dtype)
        for start, stop in itertools.pairwise(places)
    )
    inputs = ops.multiply(of_inputs, _to(values, layer.weight.dtype))
    return ops.add(means, ops.multiply(of_outputs, _product(inputs, layer.weight_sigma, layer.bias_sigma)))


def _batch_norm(layer: nn.BatchNorm1d | nn.BatchNorm2d, values: Node, _noise: Node | None) -> Node:
    """Return γ (x - mean) / √(variance + ε) + β, by running means, which are wide."""
    assert layer.running_mean is not None
    assert layer.running_var is not None
    gain = layer.weight / (layer.running_var + layer.eps).sqrt()
    offset = layer.bias - layer.running_mean * gain
    wide = ops.multiply(_to(values, gain.dtype), _along_channels(values, gain))
    narrow = values.get_output_element_type(0)
    return ops.convert(ops.add(wide, _along_channels(values, offset)), narrow)


def _layer_norm(layer: nn.GroupNorm, values: Node, _noise: Node | None) -> Node:
    """Return γ (x - mean) / √(variance + ε) + β, by means over the units of each state.

    Not by the operation GroupNormalization: in bfloat16 that of a dense layer is wrong for two states or
    more (OpenVINO 2026.4).
    """
    assert layer.num_groups == 1
    units = np.arange(1, len(values.get_output_partial_shape(0)))
    normal = ops.mvn(values, units, True, layer.eps, "inside_sqrt")
    gain, offset = _along_channels(values, layer.weight), _along_channels(values, layer.bias)
    return ops.add(ops.multiply(normal, gain), offset)


def _section(section: Section, values: Node, noise: Node | None) -> Node:
    sums = _answer(section.convolution, values, noise)
    # Those of later opsets have a second output.
    maximum = opset1.max_pool(sums, strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1], kernel_shape=[3, 3])
    return _answer(section.blocks, maximum, noise)


def _residual_block(block: ResidualBlock, values: Node, noise: Node | None) -> Node:
    return ops.add(values, _answer(block.branch, values, noise))


def _dueling(streams: Dueling, values: Node, noise: Node | None) -> Node:
    value, advantages = (_answer(stream, values, noise) for stream in (streams.value, streams.advantages))
    size = value.get_output_shape(0)[1]
    advantages = ops.reshape(advantages, np.array([0, -1, size]), True)
    means = ops.reduce_mean(advantages, np.array([1]), True)
    return ops.subtract(ops.add(ops.unsqueeze(value, np.array([1])), advantages), means)


# Returns what a module answers to values, and noise, as a node. Each `--network` is made of these.
TRANSLATIONS: dict[type[nn.Module], Callable[[Any, Node, Node | None], Node]] = {
    Layers: _in_turn,
    nn.Sequential: _in_turn,
    Section: _section,
    ResidualBlock: _residual_block,
    Dueling: _dueling,
    nn.Conv2d: _convolution,
    nn.Linear: _linear,
    NoisyLinear: _noisy,
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.GroupNorm: _layer_norm,
    nn.ReLU: lambda _layer, values, _noise: ops.relu(values),
    nn.Flatten: lambda _layer, values, _noise: ops.reshape(values, np.array([0, -1]), True),
}


def _mean(_returns: Returns, outputs: Node) -> Node:
    return ops.reduce_mean(outputs, np.array([2]), False)


def _expected_atom(returns: Categorical, outputs: Node) -> Node:
    odds = ops.softmax(outputs, 2)
    return ops.reduce_sum(ops.multiply(odds, _constant(returns.atoms, 1, 1, -1)), np.array([2]), False)


# Returns the Q-values [B, A] that outputs [B, A, N] stand for; see `Returns.values`.
VALUES: dict[type[Returns], Callable[[Any, Node], Node]] = {
    Expectation: _mean,
    Quantiles: _mean,
    Categorical: _expected_atom,
}
