"""Networks as data: which layers each has, first to last."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

# (random stream, shape, inputs to one unit) -> initial values in that shape
Initializer: TypeAlias = Callable[[np.random.Generator, tuple[int, ...], int], NDArray[np.float64]]


def uniform_by_inputs(rng: np.random.Generator, shape: tuple[int, ...], inputs: int) -> NDArray[np.float64]:
    """Return values in ±1/√inputs: what Torch7 drew for DeepMind, and PyTorch draws by default."""
    bound = inputs**-0.5
    return rng.uniform(-bound, bound, shape)


def narrow_gaussian(rng: np.random.Generator, shape: tuple[int, ...], _inputs: int) -> NDArray[np.float64]:
    """Return values of mean 0 and standard deviation 0.01, as simple_dqn drew them."""
    return rng.normal(0.0, 0.01, shape)


@dataclass(frozen=True, slots=True)
class Convolution:
    """A layer of square filters, each followed by a rectifier."""

    filters: int
    size: int  # pixels, height and width of a filter
    stride: int  # pixels

    def outputs_for(self, inputs: int) -> int:
        """Return how many rows of units it has over so many rows of `inputs`; the same for columns."""
        return (inputs - self.size) // self.stride + 1

    def inputs_for(self, outputs: int) -> int:
        """Return the fewest rows of inputs over which it has so many rows of `outputs`."""
        return (outputs - 1) * self.stride + self.size


@dataclass(frozen=True, slots=True)
class ResidualSection:
    """A section of IMPALA's network (Espeholt et al. 2018, figure 3).

    A convolution, the maximum of each 3 × 3 of its units at every second place, and residual blocks of two
    convolutions each. All filters are 3 × 3 and padded.
    """

    filters: int
    blocks: int = 2

    def outputs_for(self, inputs: int) -> int:
        """Return how many rows of units it has over so many rows of `inputs`; the same for columns."""
        return (inputs + 1) // 2

    def inputs_for(self, outputs: int) -> int:
        """Return the fewest rows of inputs over which it has so many rows of `outputs`."""
        return outputs * 2 - 1


@dataclass(frozen=True, slots=True)
class Dense:
    """A layer in which every unit sees all of the layer before, followed by a rectifier."""

    units: int


Layer: TypeAlias = Convolution | ResidualSection | Dense


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    """The hidden layers, first to last, which an output layer follows.

    Convolutions stand before dense layers.
    """

    layers: tuple[Layer, ...]
    biases: bool
    initializer: Initializer

    @property
    def seeing(self) -> tuple[Convolution | ResidualSection, ...]:
        """The layers whose units each see a part of the screen."""
        return tuple(layer for layer in self.layers if not isinstance(layer, Dense))

    @property
    def dense(self) -> tuple[Dense, ...]:
        """The layers behind those."""
        return tuple(layer for layer in self.layers if isinstance(layer, Dense))

    def smallest_screen(self) -> int:
        """Return the least height and width, in pixels, for which every convolution has an output."""
        side = 1
        for layer in reversed(self.seeing):
            side = layer.inputs_for(side)
        return side


# Mnih et al. 2015, Methods, "Model architecture", with DeepMind's biases and initial values. simple_dqn had
# no biases, because Neon's layers have none unless asked, and drew every weight with a deviation of 0.01:
# its four hidden layers fade a signal some 800 times, DeepMind's 36 times, so its first gradients are tiny.
NATURE = NetworkSpec(
    layers=(Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3, 1), Dense(512)),
    biases=True,
    initializer=uniform_by_inputs,
)

NETWORKS = {
    "nature": NATURE,
    "neon": replace(NATURE, biases=False, initializer=narrow_gaussian),
    # Mnih et al. 2013, section 4.1: a third of Nature's work.
    "small": replace(NATURE, layers=(Convolution(16, 8, 4), Convolution(32, 4, 2), Dense(256))),
    # Espeholt et al. 2018, figure 3, right, without the recurrent layer and the language.
    "impala": replace(
        NATURE, layers=(ResidualSection(16), ResidualSection(32), ResidualSection(32), Dense(256))
    ),
}
