"""JAX: XLA compiles prediction and update into one program each, for each shape."""

import math
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from networks.interface import Framework, QNetwork, UnsupportedError
from networks.work import ADAM_DECAYS, ADAM_EPSILON, ADAM_RATE, BATCH_FIELDS, CONVOLUTIONS, Weights
from simple_dqn.types import Minibatch, QValues, States

Arrays: TypeAlias = dict[str, Any]  # of JAX, by name


class Jax(Framework):
    """XLA uses as many threads as the process has cores; the worker limits these."""

    def __init__(self, device: str, threads: int) -> None:
        super().__init__(device, threads)
        try:
            jax.config.update("jax_default_device", jax.devices(device)[0])
        except RuntimeError as error:
            raise UnsupportedError("this build of JAX finds no GPU") from error
        self.version = jax.__version__

    def q_network(self, weights: Weights, target: Weights, datatype: str) -> QNetwork:
        return JaxQNetwork(weights, target, jnp.dtype(datatype))


def on_device(weights: Weights) -> Arrays:
    return {name: jnp.array(values) for name, values in weights.items()}


def forward(weights: Arrays, states: Any, datatype: Any) -> Any:
    """Return the outputs [B, A] of `states` [B, 4, 84, 84], hidden layers in `datatype`."""
    hidden = {name: values.astype(datatype) for name, values in weights.items()}
    # On the CPU, XLA has a fast convolution for this order of axes only.
    features = states.astype(datatype).transpose(0, 2, 3, 1)
    for number, layer in enumerate(CONVOLUTIONS, 1):
        filters = hidden[f"conv{number}.weight"].transpose(2, 3, 1, 0)
        strides = (layer.stride, layer.stride)
        features = lax.conv_general_dilated(
            features, filters, strides, "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        features = jax.nn.relu(features + hidden[f"conv{number}.bias"])
    flat = features.transpose(0, 3, 1, 2).reshape(len(states), -1)
    dense = jax.nn.relu(flat @ hidden["dense.weight"].T + hidden["dense.bias"])
    return dense.astype(jnp.float32) @ weights["output.weight"].T + weights["output.bias"]


class JaxQNetwork:
    """The Q-network of `interface`."""

    def __init__(self, weights: Weights, target: Weights, datatype: Any) -> None:
        self.datatype, self.target = datatype, on_device(target)
        zeros = {name: np.zeros_like(values) for name, values in weights.items()}
        # All that an update changes: weights, means and mean squares of their gradients, number of updates.
        self.state = [on_device(weights), on_device(zeros), on_device(zeros), jnp.zeros(())]
        self._values = jax.jit(self._forward)
        self._step = jax.jit(self._update, donate_argnums=0)

    def predict(self, states: States) -> QValues:
        return np.asarray(self._values(self.state[0], states))

    def train(self, minibatch: Minibatch) -> Any:
        batch = {name: getattr(minibatch, name) for name in BATCH_FIELDS}
        self.state, loss = self._step(self.state, self.target, batch)
        return loss

    def _forward(self, weights: Arrays, states: Any) -> Any:
        return forward(weights, states.astype(jnp.float32) / 255, self.datatype)

    def _loss(self, weights: Arrays, target: Arrays, batch: Arrays) -> Any:
        postvalues = self._forward(target, batch["poststates"]).max(1)
        targets = batch["rewards"][:, 0].clip(-1, 1) + batch["discounts"] * postvalues * ~batch["terminals"]
        values = jnp.take_along_axis(self._forward(weights, batch["prestates"]), batch["actions"][:, None], 1)
        differences = values[:, 0] - targets
        clipped = differences.clip(-1, 1)
        return (clipped * (differences - clipped / 2)).mean()

    def _update(self, state: list[Any], target: Arrays, batch: Arrays) -> tuple[list[Any], Any]:
        """Make one step of Adam; return the new state and the loss."""
        (weights, means, squares, updates), (keep, keep_squares) = state, ADAM_DECAYS
        loss, gradients = jax.value_and_grad(self._loss)(weights, target, batch)
        updates = updates + 1
        means = jax.tree.map(lambda m, g: keep * m + (1 - keep) * g, means, gradients)
        squares = jax.tree.map(lambda s, g: keep_squares * s + (1 - keep_squares) * g * g, squares, gradients)
        # 1 - ρ^t; expm1 avoids float32's cancellation where ρ^t is near 1.
        mean_scale, square_scale = (-jnp.expm1(updates * math.log(decay)) for decay in ADAM_DECAYS)
        weights = jax.tree.map(
            lambda w, m, s: w - ADAM_RATE / mean_scale * m / (jnp.sqrt(s / square_scale) + ADAM_EPSILON),
            weights,
            means,
            squares,
        )
        return [weights, means, squares, updates], loss
