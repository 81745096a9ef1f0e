"""Plain numpy with hand-written gradients: a baseline, and in float64 the reference for the frameworks.

A convolution is a matrix product over all patches of its input ("im2col"). numpy's BLAS library computes the
products.
"""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import DTypeLike, NDArray

from networks.interface import Framework, QNetwork, UnsupportedError
from networks.work import ADAM_DECAYS, ADAM_EPSILON, ADAM_RATE, CONVOLUTIONS, Convolution, Weights
from simple_dqn.types import Minibatch, States

Array: TypeAlias = NDArray[np.floating[Any]]


class Numpy(Framework):
    """The BLAS library reads the number of threads from the environment."""

    def __init__(self, device: str, threads: int) -> None:
        super().__init__(device, threads)
        if device != "cpu":
            raise UnsupportedError("runs on the CPU only")
        self.version = np.__version__

    def q_network(self, weights: Weights, target: Weights, datatype: str) -> QNetwork:
        if datatype != "float32":
            raise UnsupportedError(f"no {datatype}")
        return NumpyQNetwork(weights, target)


@dataclass
class Intermediates:
    """Intermediate results of the forward pass that the backward pass needs."""

    patches: list[Array] = field(default_factory=list)  # [B * rows * columns, C * size²] for each convolution
    inputs: list[tuple[int, ...]] = field(default_factory=list)  # shapes [B, C, H, W] of the inputs by layer
    outputs: list[Array] = field(default_factory=list)  # outputs of the rectifiers by layer


class NumpyNetwork:
    """The network in `dtype`."""

    def __init__(self, weights: Weights, dtype: DTypeLike) -> None:
        self.dtype = dtype
        self.weights: dict[str, Array] = {name: values.astype(dtype) for name, values in weights.items()}

    def forward(self, inputs: Array, kept: Intermediates | None = None) -> Array:
        """Return the outputs [B, A] of `inputs` [B, 4, 84, 84]; store intermediate results in `kept`."""
        kept = Intermediates() if kept is None else kept
        features = inputs
        for number, layer in enumerate(CONVOLUTIONS, 1):
            patches = _patches(features, layer)
            filters = self.weights[f"conv{number}.weight"].reshape(layer.filters, -1)
            output = np.maximum(patches @ filters.T + self.weights[f"conv{number}.bias"], 0)
            kept.patches.append(patches)
            kept.inputs.append(features.shape)
            kept.outputs.append(output)
            side = (features.shape[2] - layer.size) // layer.stride + 1
            features = output.reshape(len(inputs), side, side, layer.filters).transpose(0, 3, 1, 2)
        flat = features.reshape(len(inputs), -1)
        dense = np.maximum(flat @ self.weights["dense.weight"].T + self.weights["dense.bias"], 0)
        kept.outputs += [flat, dense]
        return dense @ self.weights["output.weight"].T + self.weights["output.bias"]

    def gradients(self, kept: Intermediates, errors: Array) -> dict[str, Array]:
        """Return the gradients of a loss by weight, given its gradient for the outputs, `errors` [B, A]."""
        *convolved, flat, dense = kept.outputs
        result = {"output.weight": errors.T @ dense, "output.bias": errors.sum(0)}
        errors = errors @ self.weights["output.weight"] * (dense > 0)
        result |= {"dense.weight": errors.T @ flat, "dense.bias": errors.sum(0)}
        errors = errors @ self.weights["dense.weight"]
        for number in range(len(convolved), 0, -1):
            layer, weight = CONVOLUTIONS[number - 1], self.weights[f"conv{number}.weight"]
            errors = (
                errors.reshape(len(flat), layer.filters, -1).transpose(0, 2, 1).reshape(-1, layer.filters)
            )
            errors = errors * (convolved[number - 1] > 0)
            result[f"conv{number}.weight"] = (errors.T @ kept.patches[number - 1]).reshape(weight.shape)
            result[f"conv{number}.bias"] = errors.sum(0)
            if number > 1:
                patches = errors @ weight.reshape(layer.filters, -1)
                errors = _overlay(patches, kept.inputs[number - 1], layer)
        return result


def _patches(features: Array, layer: Convolution) -> Array:
    """Return all patches of `features` [B, C, H, W] under the filter, [B * rows * columns, C * size²]."""
    windows = sliding_window_view(features, (layer.size, layer.size), axis=(2, 3))
    strided = windows[:, :, :: layer.stride, :: layer.stride].transpose(0, 2, 3, 1, 4, 5)
    return strided.reshape(-1, features.shape[1] * layer.size**2)


def _overlay(patches: Array, shape: tuple[int, ...], layer: Convolution) -> Array:
    """Sum the errors of overlapping patches: the transpose of `_patches`, [B, C, H, W]."""
    batch, channels, height, _ = shape
    side = (height - layer.size) // layer.stride + 1
    cells = patches.reshape(batch, side, side, channels, layer.size, layer.size).transpose(0, 3, 1, 2, 4, 5)
    result = np.zeros(shape, patches.dtype)
    reach = side * layer.stride
    for row in range(layer.size):
        for column in range(layer.size):
            here = result[:, :, row : row + reach : layer.stride, column : column + reach : layer.stride]
            here += cells[..., row, column]
    return result


class NumpyQNetwork:
    """The Q-network of `interface`."""

    def __init__(self, weights: Weights, target: Weights, dtype: DTypeLike = np.float32) -> None:
        self.online, self.target = NumpyNetwork(weights, dtype), NumpyNetwork(target, dtype)
        self.updates = 0
        self._means = {name: np.zeros_like(values) for name, values in self.online.weights.items()}
        self._squares = {name: np.zeros_like(values) for name, values in self.online.weights.items()}

    def predict(self, states: States) -> NDArray[np.float32]:
        return self.online.forward(self._floats(states)).astype(np.float32)

    def train(self, minibatch: Minibatch) -> float:
        kept, rows = Intermediates(), np.arange(len(minibatch.actions))
        postvalues = self.target.forward(self._floats(minibatch.poststates)).max(1)
        rewards = minibatch.rewards[:, 0].clip(-1, 1)
        targets = rewards + np.where(minibatch.terminals, 0, minibatch.discounts * postvalues)
        values = self.online.forward(self._floats(minibatch.prestates), kept)
        differences = values[rows, minibatch.actions] - targets
        clipped = differences.clip(-1, 1)
        errors = np.zeros_like(values)
        errors[rows, minibatch.actions] = clipped / len(rows)
        self._adam(self.online.gradients(kept, errors))
        return float((clipped * (differences - clipped / 2)).mean())

    def _adam(self, gradients: dict[str, Array]) -> None:
        """Take one step of Adam (Kingma & Ba 2015, Algorithm 1)."""
        self.updates += 1
        keep, keep_squares = ADAM_DECAYS
        for name, gradient in gradients.items():
            mean, square = self._means[name], self._squares[name]
            mean += (1 - keep) * (gradient - mean)
            square += (1 - keep_squares) * (gradient * gradient - square)
            root = np.sqrt(square / (1 - keep_squares**self.updates)) + ADAM_EPSILON
            self.online.weights[name] -= ADAM_RATE / (1 - keep**self.updates) * mean / root

    def _floats(self, states: States) -> Array:
        floats: Array = states.astype(self.online.dtype) / np.asarray(255, self.online.dtype)
        return floats
