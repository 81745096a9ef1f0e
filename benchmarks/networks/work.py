"""The network that is timed, its tasks, weights and inputs.

Everything is sampled with fixed seeds, so every framework gets the same data, bit for bit.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from simple_dqn.types import Minibatch

Weights: TypeAlias = dict[str, NDArray[np.float32]]  # "conv1.weight", ..., in PyTorch's order of axes

STATE_SHAPE = (4, 84, 84)  # screens in a state, height and width in pixels
ACTIONS = 6
ADAM_RATE = 2.5e-4
ADAM_DECAYS = (0.9, 0.999)
ADAM_EPSILON = 1e-8


@dataclass(frozen=True, slots=True)
class Convolution:
    """A layer of square filters without padding, followed by a rectifier."""

    filters: int
    size: int  # pixels
    stride: int  # pixels


# Nature's network: convolutions, a dense layer with a rectifier, and a linear output layer, all with biases.
CONVOLUTIONS = (Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3, 1))
UNITS = 512
BATCH_FIELDS = ("prestates", "actions", "rewards", "poststates", "terminals", "discounts")  # of an update


def shapes_and_flops() -> tuple[dict[str, tuple[int, ...]], list[int]]:
    """Return the shape of each weight by name, and the floating-point operations of each layer for a state.

    Both are in the order of the layers; additions count as operations.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    flops: list[int] = []
    channels, side = STATE_SHAPE[:2]
    for number, layer in enumerate(CONVOLUTIONS, 1):
        shapes[f"conv{number}.weight"] = (layer.filters, channels, layer.size, layer.size)
        shapes[f"conv{number}.bias"] = (layer.filters,)
        side = (side - layer.size) // layer.stride + 1
        flops.append(2 * side**2 * layer.filters * channels * layer.size**2)
        channels = layer.filters
    for name, inputs, units in (("dense", channels * side**2, UNITS), ("output", UNITS, ACTIONS)):
        shapes |= {f"{name}.weight": (units, inputs), f"{name}.bias": (units,)}
        flops.append(2 * inputs * units)
    return shapes, flops


SHAPES, LAYER_FLOPS = shapes_and_flops()


@dataclass(frozen=True, slots=True)
class Task:
    """A cell of the table that each framework fills."""

    training: bool  # an update; False: a prediction
    batch: int
    datatype: str = "float32"  # of the hidden layers

    @property
    def name(self) -> str:
        """Return the name of the task in tables."""
        return "update" if self.training else "predict"

    @property
    def flops(self) -> int:
        """Return the floating-point operations of one call.

        An update has a forward pass of both networks and a backward pass, in which every layer but the first
        has two products.
        """
        forward = sum(LAYER_FLOPS)
        return self.batch * (4 * forward - LAYER_FLOPS[0] if self.training else forward)


DATATYPES = ("float32", "bfloat16")
TASKS = [
    Task(training, batch, datatype)
    for training, batches in ((False, (1, 8, 16, 64)), (True, (32, 128)))
    for batch in batches
    for datatype in DATATYPES
]
QUICK_TASKS = [task for task in TASKS if task.batch in (1, 16, 32)]


def draw_weights(seed: int) -> Weights:
    """Return random weights in ±1/√inputs, like DeepMind's."""
    rng = np.random.default_rng(seed)
    weights, bound = {}, 0.0
    for name, shape in SHAPES.items():
        if name.endswith("weight"):
            bound = float(np.prod(shape[1:])) ** -0.5
        weights[name] = rng.uniform(-bound, bound, shape).astype(np.float32)
    return weights


def draw_target(seed: int) -> Weights:
    """Return weights of a target network with Q-values near 1, which makes wrong targets visible."""
    weights = draw_weights(seed)
    weights["output.bias"] += 1
    return weights


def draw_minibatch(batch: int, seed: int) -> Minibatch:
    """Return B transitions, some of them terminal, some with rewards that must be clipped."""
    rng = np.random.default_rng(seed)
    return Minibatch(
        prestates=rng.integers(0, 256, (batch, *STATE_SHAPE), np.uint8),
        actions=rng.integers(0, ACTIONS, batch),
        rewards=rng.integers(-3, 4, (batch, 1)).astype(np.float32),
        poststates=rng.integers(0, 256, (batch, *STATE_SHAPE), np.uint8),
        terminals=rng.random(batch) < 0.2,
        discounts=np.full(batch, 0.99, np.float32),
        weights=np.ones(batch, np.float32),
        numbers=np.arange(batch),
    )
