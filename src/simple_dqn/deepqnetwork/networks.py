"""Networks as data: a table of layers, and the one function that builds a module from a row of it."""

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from simple_dqn.errors import UserError

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


@dataclass(frozen=True, slots=True)
class Dense:
    """A layer in which every unit sees all of the layer before, followed by a rectifier."""

    units: int


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    """The hidden layers, first to last; a linear output layer with one unit an action follows them.

    Convolutions stand before dense layers.
    """

    layers: tuple[Convolution | Dense, ...]
    biases: bool
    initializer: Initializer

    def smallest_screen(self) -> int:
        """Return the least height and width, in pixels, for which every convolution has an output."""
        side = 1
        for layer in reversed(self.layers):
            if isinstance(layer, Convolution):
                side = (side - 1) * layer.stride + layer.size
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
}


class Network(nn.Module):
    """A Q-network Q(s, ·; θ): hidden layers, and a linear output layer that may be of a wider datatype."""

    def __init__(self, hidden: nn.Sequential, output: nn.Linear) -> None:
        super().__init__()
        self.hidden = hidden
        self.output = output

    def forward(self, states: Tensor) -> Tensor:
        """Return the Q-values [B, A] of `states`, floats in [0, 1] [B, S, H, W]."""
        features: Tensor = self.hidden(states)
        qvalues: Tensor = self.output(features.to(self.output.weight.dtype))
        return qvalues


def build(
    spec: NetworkSpec,
    actions: int,
    history_length: int,
    screen_shape: tuple[int, int],
    batch_norm: bool,
    rng: np.random.Generator,
    dtype: torch.dtype = torch.float32,
) -> Network:
    """Return the network of `spec` on the CPU, its weights drawn from `rng` alone.

    Args:
        spec: The hidden layers.
        actions: Units of the output layer.
        history_length: Screens in a state, S.
        screen_shape: Height and width of a screen, in pixels.
        batch_norm: Normalise over the batch between each hidden layer and its rectifier
            (Ioffe & Szegedy 2015); its offset then stands in for the layer's biases.
        rng: Where the weights come from.
        dtype: Datatype of all weights.

    Raises:
        UserError: The screens are too small for the convolutions.
    """
    smallest = spec.smallest_screen()
    if min(screen_shape) < smallest:
        height, width = screen_shape
        raise UserError(
            f"screens of {width}x{height} pixels are too small for this network: give --screen_width and "
            f"--screen_height of at least {smallest}"
        )
    hidden: OrderedDict[str, nn.Module] = OrderedDict()
    kinds: Counter[str] = Counter()
    shape: tuple[int, ...] = (history_length, *screen_shape)
    for layer in spec.layers:
        kind = "conv" if isinstance(layer, Convolution) else "dense"
        kinds[kind] += 1
        name = f"{kind}{kinds[kind]}"
        if isinstance(layer, Dense) and len(shape) > 1:
            hidden["flatten"] = nn.Flatten()
            shape = (int(np.prod(shape)),)
        hidden[name], shape = _weighted(layer, shape, biases=spec.biases and not batch_norm)
        if batch_norm:
            hidden[f"{name}_norm"] = _normalisation(layer)
        hidden[f"{name}_relu"] = nn.ReLU(inplace=True)
    network = Network(nn.Sequential(hidden), nn.Linear(shape[0], actions, bias=spec.biases)).to(dtype)
    _initialize(network, spec.initializer, rng)
    return network


def _weighted(
    layer: Convolution | Dense, shape: tuple[int, ...], biases: bool
) -> tuple[nn.Module, tuple[int, ...]]:
    """Return the module of one layer and the shape of its output for one state."""
    if isinstance(layer, Dense):
        return nn.Linear(shape[0], layer.units, bias=biases), (layer.units,)
    channels, height, width = shape
    module = nn.Conv2d(channels, layer.filters, layer.size, layer.stride, bias=biases)
    rows, columns = ((side - layer.size) // layer.stride + 1 for side in (height, width))
    return module, (layer.filters, rows, columns)


def _normalisation(layer: Convolution | Dense) -> nn.Module:
    if isinstance(layer, Dense):
        return nn.BatchNorm1d(layer.units)
    return nn.BatchNorm2d(layer.filters)


@torch.no_grad()
def _initialize(network: Network, initializer: Initializer, rng: np.random.Generator) -> None:
    """Draw every weight and bias, in the order of the layers."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            inputs = module.weight[0].numel()
            for values in module.parameters():
                values.copy_(torch.from_numpy(initializer(rng, tuple(values.shape), inputs)))
