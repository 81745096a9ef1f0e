"""Networks as data: the layers of each, first to last."""

import math
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


def orthogonal(rng: np.random.Generator, shape: tuple[int, ...], _inputs: int) -> NDArray[np.float64]:
    """Return a matrix with orthonormal rows or columns, times √2; zeros for biases (Saxe et al. 2014).

    With layer normalisation the scale of the weights changes no output, but the smaller they are, the more a
    step changes the layer. These weights are 2.4 times those of `uniform_by_inputs`.
    """
    if len(shape) == 1:
        return np.zeros(shape)
    rows, columns = shape[0], math.prod(shape[1:])
    q, r = np.linalg.qr(rng.normal(size=(max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))  # so that the matrix is uniformly distributed
    return 2**0.5 * (q if rows >= columns else q.T).reshape(shape)


# Initial weights, by --initializer; auto: those of the network.
INITIALIZERS = {"uniform": uniform_by_inputs, "gaussian": narrow_gaussian, "orthogonal": orthogonal}


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolutional layer with square filters and a rectifier."""

    filters: int
    size: int  # pixels, height and width of a filter
    stride: int  # pixels

    def outputs_for(self, inputs: int) -> int:
        """Return the number of output rows for `inputs` input rows; the same holds for columns."""
        return (inputs - self.size) // self.stride + 1

    def inputs_for(self, outputs: int) -> int:
        """Return the smallest number of input rows that gives `outputs` output rows."""
        return (outputs - 1) * self.stride + self.size


@dataclass(frozen=True, slots=True)
class ResidualSection:
    """A section of IMPALA's network (Espeholt et al. 2018, figure 3).

    A convolution, 3 × 3 max-pooling with a stride of 2, and residual blocks of two convolutions each. All
    filters are 3 × 3 and padded.
    """

    filters: int
    blocks: int = 2

    def outputs_for(self, inputs: int) -> int:
        """Return the number of output rows for `inputs` input rows; the same holds for columns."""
        return (inputs + 1) // 2

    def inputs_for(self, outputs: int) -> int:
        """Return the smallest number of input rows that gives `outputs` output rows."""
        return outputs * 2 - 1


@dataclass(frozen=True, slots=True)
class Dense:
    """A fully connected layer with a rectifier."""

    units: int


Layer: TypeAlias = Convolution | ResidualSection | Dense


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    """The hidden layers of a network, first to last: the convolutions, then the dense layers."""

    layers: tuple[Layer, ...]
    biases: bool
    initializer: Initializer

    @property
    def convolutional(self) -> tuple[Convolution | ResidualSection, ...]:
        """The layers before the dense ones, whose units each see a part of the screen."""
        return tuple(layer for layer in self.layers if not isinstance(layer, Dense))

    @property
    def dense(self) -> tuple[Dense, ...]:
        """The dense layers."""
        return tuple(layer for layer in self.layers if isinstance(layer, Dense))

    def smallest_screen(self) -> int:
        """Return the smallest height and width, in pixels, for which every convolution has an output."""
        side = 1
        for layer in reversed(self.convolutional):
            side = layer.inputs_for(side)
        return side


# Mnih et al. 2015, Methods, "Model architecture", with DeepMind's biases and initial values. simple_dqn had
# no biases, because Neon's layers have none by default, and drew every weight with a deviation of 0.01: its
# four hidden layers attenuate a signal about 800 times, DeepMind's 36 times, so its first gradients are tiny.
NATURE = NetworkSpec(
    layers=(Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3, 1), Dense(512)),
    biases=True,
    initializer=uniform_by_inputs,
)

NETWORKS = {
    "nature": NATURE,
    "neon": replace(NATURE, biases=False, initializer=narrow_gaussian),
    # Mnih et al. 2013, section 4.1: a third of Nature's arithmetic.
    "small": replace(NATURE, layers=(Convolution(16, 8, 4), Convolution(32, 4, 2), Dense(256))),
    # Espeholt et al. 2018, figure 3, right, without the recurrent layer and the language input.
    "impala": replace(
        NATURE, layers=(ResidualSection(16), ResidualSection(32), ResidualSection(32), Dense(256))
    ),
}
