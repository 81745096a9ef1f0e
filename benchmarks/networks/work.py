"""The tasks that are timed: the networks, their weights and their inputs.

Everything is sampled with fixed seeds, so every framework gets the same data, bit for bit.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from simple_dqn.types import Minibatch

Weights: TypeAlias = dict[str, NDArray[np.float32]]  # "conv1.weight", ..., in PyTorch's order of axes
Labels: TypeAlias = NDArray[np.int64]  # [B]
Scores: TypeAlias = NDArray[np.float32]  # [B, O]

STATE_SHAPE = (4, 84, 84)  # screens in a state, height and width in pixels
CLASSES = 10
ACTIONS = 6
CLASSIFIER_RATE = 1e-3  # step size of gradient descent
ADAM_RATE = 2.5e-4
ADAM_DECAYS = (0.9, 0.999)
ADAM_EPSILON = 1e-8


@dataclass(frozen=True, slots=True)
class Convolution:
    """A layer of square filters without padding, followed by a rectifier."""

    filters: int
    size: int  # pixels
    stride: int  # pixels


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    """Convolutions, a dense layer with a rectifier, and a linear output layer, all with biases."""

    convolutions: tuple[Convolution, ...]
    units: int
    outputs: int

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each weight by name, in the order of the layers."""
        result: dict[str, tuple[int, ...]] = {}
        channels, side = STATE_SHAPE[:2]
        for number, layer in enumerate(self.convolutions, 1):
            result[f"conv{number}.weight"] = (layer.filters, channels, layer.size, layer.size)
            result[f"conv{number}.bias"] = (layer.filters,)
            channels, side = layer.filters, (side - layer.size) // layer.stride + 1
        result |= {"dense.weight": (self.units, channels * side**2), "dense.bias": (self.units,)}
        result |= {"output.weight": (self.outputs, self.units), "output.bias": (self.outputs,)}
        return result

    def layer_flops(self) -> list[int]:
        """Return the floating-point operations of each layer for one state, additions included."""
        side, result = STATE_SHAPE[1], []
        for name, shape in self.shapes().items():
            if name.startswith("conv") and name.endswith("weight"):
                layer = self.convolutions[int(name[4]) - 1]
                side = (side - layer.size) // layer.stride + 1
                result.append(2 * side**2 * int(np.prod(shape)))
            elif name.endswith("weight"):
                result.append(2 * int(np.prod(shape)))
        return result


SMALL = NetworkSpec((Convolution(16, 8, 4), Convolution(32, 4, 2)), 512, CLASSES)
LARGE = NetworkSpec((Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3, 1)), 512, CLASSES)
NATURE = replace(LARGE, outputs=ACTIONS)
NETWORKS = {"small": SMALL, "large": LARGE, "nature": NATURE}


@dataclass(frozen=True, slots=True)
class Subject:
    """A network in a datatype."""

    network: str  # a key of NETWORKS; "nature" is the Q-network, the others are classifiers
    datatype: str = "float32"

    @property
    def is_q_network(self) -> bool:
        """Return whether the outputs are Q-values and not classes."""
        return self.network == "nature"


@dataclass(frozen=True, slots=True)
class Task:
    """A cell of the table that each framework fills."""

    subject: Subject
    training: bool  # False: prediction
    batch: int

    @property
    def name(self) -> str:
        """Return the name of the task for messages."""
        what = ("update" if self.subject.is_q_network else "training") if self.training else "predict"
        return f"{self.subject.network} {what} {self.batch} {self.subject.datatype}"

    @property
    def flops(self) -> int:
        """Return the floating-point operations of one call.

        Training has a forward and a backward pass. In the backward pass every layer but the first has two
        products. The update of a Q-network also has a forward pass of the target network.
        """
        layers = NETWORKS[self.subject.network].layer_flops()
        once = sum(layers)
        if self.training:
            once += 2 * sum(layers) - layers[0] + (sum(layers) if self.subject.is_q_network else 0)
        return once * self.batch


@dataclass(frozen=True, slots=True)
class OriginalCount:
    """The numbers of batches in rl-nn-benchmarks."""

    inference: int = 4000  # of 16
    training: int = 500  # of 128


ORIGINAL = OriginalCount()
CLASSIFY_BATCH, CLASSIFIER_TRAIN_BATCH = 16, 128
DATATYPES = ("float32", "bfloat16")
PREDICT_BATCHES = (1, 8, 16, 64)
UPDATE_BATCHES = (32, 128)

CLASSIFIER_TASKS = [
    Task(Subject(network), training, CLASSIFIER_TRAIN_BATCH if training else CLASSIFY_BATCH)
    for network in ("small", "large")
    for training in (False, True)
]
DQN_TASKS = [
    Task(Subject("nature", datatype), training, batch)
    for training, batches in ((False, PREDICT_BATCHES), (True, UPDATE_BATCHES))
    for batch in batches
    for datatype in DATATYPES
]
TASKS = [*CLASSIFIER_TASKS, *DQN_TASKS]
QUICK_TASKS = [
    task
    for task in TASKS
    if task.subject.network == "large" or (task.subject.is_q_network and task.batch in (1, 16, 32))
]


def draw_weights(spec: NetworkSpec, seed: int) -> Weights:
    """Return random weights in ±1/√inputs, like DeepMind's."""
    rng = np.random.default_rng(seed)
    weights, bound = {}, 0.0
    for name, shape in spec.shapes().items():
        if name.endswith("weight"):
            bound = float(np.prod(shape[1:])) ** -0.5
        weights[name] = rng.uniform(-bound, bound, shape).astype(np.float32)
    return weights


def draw_target(spec: NetworkSpec, seed: int) -> Weights:
    """Return weights of a target network with Q-values near 1, which makes wrong targets visible."""
    weights = draw_weights(spec, seed)
    weights["output.bias"] += 1
    return weights


def draw_images(batch: int, seed: int) -> tuple[NDArray[np.float32], Labels]:
    """Return float32 images [B, 4, 84, 84] in [0, 1), and their classes [B]."""
    rng = np.random.default_rng(seed)
    return rng.random((batch, *STATE_SHAPE), np.float32), rng.integers(0, CLASSES, batch)


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
