"""Q-networks: the layers of each as a table, and the PyTorch modules that `build` makes from it."""

import itertools
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from simple_dqn.config import NetworkConfig
from simple_dqn.errors import UserError
from simple_dqn.types import CheckpointState
from simple_dqn.value_heads import VALUE_HEADS, ValueHead

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

    With layer normalization the scale of the weights changes no output, but the smaller they are, the more a
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

    def outputs_for(self, inputs: int) -> int:
        """Return the output rows of the last convolution for screens of `inputs` rows; below 1: too few."""
        for layer in self.convolutional:
            inputs = layer.outputs_for(inputs)
        return inputs

    def smallest_screen(self) -> int:
        """Return the smallest height and width, in pixels, for which every convolution has an output."""
        return next(side for side in itertools.count(1) if self.outputs_for(side) > 0)


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


class NoisyLinear(nn.Linear):
    """A dense layer y = (μʷ + σʷ ⊙ εʷ) x + μᵇ + σᵇ ⊙ εᵇ with factorised noise (Fortunato et al. 2018).

    With p inputs and q outputs, εʷ = f(ε_out) f(ε_in)ᵀ and εᵇ = f(ε_out), where ε_in and ε_out are p and q
    standard normal numbers, and f(x) = sgn(x) √|x| (equations 9 to 11). The noisy part is
    f(ε_out) ⊙ (σʷ (f(ε_in) ⊙ x) + σᵇ), which needs no noisy weights in memory. `weight` and `bias` are μ.

    The noise is an argument of each forward pass, not a part of the layer: threads that share a network
    cannot disturb each other, and the caller decides which states share the same noise.
    """

    def __init__(self, inputs: int, outputs: int, bias: bool, sigma: float) -> None:
        """Make a layer whose σ are initially `sigma` / √p (section 3.2)."""
        super().__init__(inputs, outputs, bias)
        first = sigma / inputs**0.5
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), first))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), first)) if bias else None
        self.noise_start = 0  # index of this layer's first number in the noise of the whole network
        self.noise_size = inputs + outputs  # random numbers that the layer uses, p + q

    def forward(self, inputs: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the outputs [B, q] for `inputs` [B, p].

        Args:
            inputs: x.
            noise: f(ε) of the whole network [B, K]; [1, K]: the same for all states; None: 0.
        """
        means = super().forward(inputs)
        if noise is None:
            return means
        own = noise[:, self.noise_start : self.noise_start + self.noise_size].to(inputs.dtype)
        in_noise, out_noise = own[:, : self.in_features], own[:, self.in_features :]
        deviations = nn.functional.linear(in_noise * inputs, self.weight_sigma, self.bias_sigma)
        return torch.addcmul(means, out_noise, deviations)


class Layers(nn.Sequential):
    """A sequence of modules that passes the noise to the noisy ones."""

    def forward(self, values: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the last module's output; see `NoisyLinear.forward` for the noise."""
        return _run(self, values, noise)


class Dueling(nn.Module):
    """A value stream and an advantage stream on shared features (Wang et al. 2016).

    Outputs are V(s) + A(s, a) - 1/|A| Σ_a' A(s, a') (equation 9), separately for each of the N numbers that
    represent an action's return, as in Hessel et al. 2018.
    """

    def __init__(self, value: Layers, advantages: Layers, size: int) -> None:
        """Combine the outputs [B, N] of `value` and [B, A · N] of `advantages`, with N = `size`."""
        super().__init__()
        self.value = value
        self.advantages = advantages
        self._size = size

    def forward(self, features: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the outputs [B, A · N] for `features` from the shared layers."""
        value: Tensor = self.value(features, noise).unsqueeze(1)
        advantages: Tensor = self.advantages(features, noise).view(features.shape[0], -1, self._size)
        return (value + advantages - advantages.mean(1, keepdim=True)).flatten(1)


class Section(nn.Module):
    """The module of a `ResidualSection`, without the rectifier after its last sum."""

    def __init__(self, convolution: nn.Module, blocks: list[nn.Module]) -> None:
        """Chain `convolution`, max-pooling and the residual `blocks`, all of them padded."""
        super().__init__()
        self.convolution = convolution
        self.maximum = nn.MaxPool2d(3, stride=2, padding=1)
        self.blocks = nn.Sequential(*blocks)

    def forward(self, values: Tensor) -> Tensor:
        """Return the sums [B, K, ⌈H/2⌉, ⌈W/2⌉] of K filters for `values` [B, C, H, W] of C channels."""
        return cast(Tensor, self.blocks(self.maximum(self.convolution(values))))


class ResidualBlock(nn.Module):
    """x + c₂(r(c₁(r(x)))) with rectifiers r and convolutions c (He et al. 2016, "Identity Mappings")."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        """Chain two convolutions, each with its normalization."""
        super().__init__()
        # The first rectifier must not change x in place: x is added at the end.
        self.branch = nn.Sequential(nn.ReLU(), first, nn.ReLU(inplace=True), second)

    def forward(self, values: Tensor) -> Tensor:
        """Return x + branch(x) for `values` x [B, K, H, W]."""
        return values + cast(Tensor, self.branch(values))


def _run(modules: Iterable[nn.Module], values: Tensor, noise: Tensor | None) -> Tensor:
    """Return the output of `modules`, one after the other; `noise` goes to the noisy ones only.

    A dense layer may be of a wider datatype than the layers before it.
    """
    for module in modules:
        if isinstance(module, nn.Linear):
            values = values.to(module.weight.dtype)
        values = module(values, noise) if isinstance(module, NoisyLinear | Dueling) else module(values)
    return values


class Network(nn.Module):
    """A Q-network Q(s, ·; θ): hidden layers, and an output layer that may be of a wider datatype."""

    noise_size: int  # K, random numbers per state; 0 without noisy layers

    def __init__(self, hidden: Layers, output: nn.Linear | Dueling, value_head: ValueHead) -> None:
        """Chain `hidden` and `output` [A · N]; `value_head` interprets the N numbers of an action."""
        super().__init__()
        self.hidden = hidden
        self.output = output
        self.value_head = value_head
        self.noise_size = 0
        for layer in self.modules():
            if isinstance(layer, NoisyLinear):
                layer.noise_start = self.noise_size
                self.noise_size += layer.noise_size

    def forward(self, states: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the Q-values `[B, A]` of `states`, floats in 0..1 `[B, S, H, W]`; see `outputs`."""
        return self.value_head.qvalues(self.outputs(states, noise))

    def outputs(self, states: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the N numbers that represent each action's return [B, A, N].

        Args:
            states: Floats in 0..1, `[B, S, H, W]`.
            noise: [B, K]; [1, K]: the same for every state; None: no noise.
        """
        values = _run((*self.hidden, self.output), states, noise)
        # `len` would make the size of the batch a constant of an exported network.
        return values.view(values.shape[0], -1, self.value_head.size)

    def narrow_hidden_layers(self, dtype: torch.dtype) -> None:
        """Convert the hidden layers to `dtype`, except batch normalization, whose running means stay wide."""
        last: tuple[nn.Module, ...] = (self.output,)
        if isinstance(self.output, Dueling):
            last = self.output.value[-1], self.output.advantages[-1]
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear | nn.GroupNorm) and module not in last:
                module.to(dtype)


def build(
    spec: NetworkSpec,
    actions: int,
    history_length: int,
    screen_shape: tuple[int, int],
    config: NetworkConfig,
    rng: np.random.Generator,
    dtype: torch.dtype = torch.float32,
) -> Network:
    """Return the network of `spec` on the CPU, of the datatype `dtype`; its weights come from `rng` alone.

    Its input is states of S = `history_length` screens (H, W) in pixels, and it has A = `actions` outputs.
    `config` chooses the normalization, the value head, the noise and the dueling streams.

    Raises:
        UserError: The screens are too small, or batch normalization is used with batches of one.
    """
    smallest = spec.smallest_screen()
    if min(screen_shape) < smallest:
        height, width = screen_shape
        raise UserError(
            f"screens of {width}x{height} pixels are too small for this network: give --screen_width and "
            f"--screen_height of at least {smallest}"
        )
    if config.normalization == "batch" and config.batch_size < 2:
        raise UserError("--normalization batch cannot normalize over one transition: raise --batch_size")
    builder, value_head = _Builder(spec, config), VALUE_HEADS[config.distributional](config)
    hidden = builder.convolutional(history_length)
    channels = spec.convolutional[-1].filters if spec.convolutional else history_length
    features, units = channels * math.prod(map(spec.outputs_for, screen_shape)), actions * value_head.size
    output: nn.Module
    if config.dueling:
        value, advantages = (builder.stream(features, size) for size in (value_head.size, units))
        output = Dueling(Layers(OrderedDict(value)), Layers(OrderedDict(advantages)), value_head.size)
    else:
        hidden |= builder.stream(features, units)
        output = hidden.pop("output")
    network = Network(Layers(OrderedDict(hidden)), cast(nn.Linear | Dueling, output), value_head).to(dtype)
    _initialize(network, INITIALIZERS.get(config.initializer, spec.initializer), rng)
    return network


class _Builder:
    """Makes the modules of a network, under the names that its weights have in a snapshot."""

    def __init__(self, spec: NetworkSpec, config: NetworkConfig) -> None:
        self._spec = spec
        self._config = config
        # A normalization has an offset, which takes the place of the layer's biases.
        self._hidden_biases = spec.biases and config.normalization == "none"

    def convolutional(self, channels: int) -> dict[str, nn.Module]:
        """Return the convolutional layers, for an input of `channels` screens."""
        modules: dict[str, nn.Module] = {}
        number = 0
        for number, layer in enumerate(self._spec.convolutional, 1):
            if isinstance(layer, Convolution):
                shape = channels, layer.filters, layer.size, layer.stride
                modules |= self._convolution(f"conv{number}", *shape)
                modules[f"conv{number}_relu"] = nn.ReLU(inplace=True)
            else:
                modules[f"section{number}"] = self._section(channels, layer)
            channels = layer.filters
        if f"section{number}" in modules:
            modules[f"section{number}_relu"] = nn.ReLU(inplace=True)
        modules["flatten"] = nn.Flatten()
        return modules

    def stream(self, features: int, outputs: int) -> dict[str, nn.Module]:
        """Return the dense layers, the first with `features` inputs, and an output layer."""
        modules: dict[str, nn.Module] = {}
        for number, layer in enumerate(self._spec.dense, 1):
            name = f"dense{number}"
            modules[name] = self._linear(features, layer.units, self._hidden_biases)
            modules |= self._norm(name, layer.units, nn.BatchNorm1d)
            modules[f"{name}_relu"] = nn.ReLU(inplace=True)
            features = layer.units
        modules["output"] = self._linear(features, outputs, self._spec.biases)
        return modules

    def _linear(self, inputs: int, outputs: int, biases: bool) -> nn.Linear:
        if self._config.noisy:
            return NoisyLinear(inputs, outputs, biases, self._config.noisy_sigma)
        return nn.Linear(inputs, outputs, biases)

    def _convolution(
        self, name: str, channels: int, filters: int, size: int, stride: int, padding: int = 0
    ) -> dict[str, nn.Module]:
        """Return a convolution and its normalization, if there is one."""
        convolution = nn.Conv2d(channels, filters, size, stride, padding, bias=self._hidden_biases)
        return {name: convolution, **self._norm(name, filters, nn.BatchNorm2d)}

    def _section(self, channels: int, layer: ResidualSection) -> Section:
        def sums(channels: int) -> nn.Module:
            return Layers(OrderedDict(self._convolution("sums", channels, layer.filters, 3, 1, padding=1)))

        blocks = [ResidualBlock(sums(layer.filters), sums(layer.filters)) for _ in range(layer.blocks)]
        return Section(sums(channels), cast(list[nn.Module], blocks))

    def _norm(self, name: str, channels: int, batch_norm: type[nn.Module]) -> dict[str, nn.Module]:
        """Return the normalization of the layer called `name`, if there is one."""
        if self._config.normalization == "batch":
            return {f"{name}_norm": batch_norm(channels)}
        if self._config.normalization == "layer":
            # Over all units of a layer in one state (Ba et al. 2016), with one gain and offset per filter.
            return {f"{name}_norm": nn.GroupNorm(1, channels)}
        return {}


@torch.no_grad()
def _initialize(network: Network, initializer: Initializer, rng: np.random.Generator) -> None:
    """Draw every weight and bias, layer by layer; the σ of noisy layers keep their initial values."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            inputs = module.weight[0].numel()
            for values in (module.weight, module.bias):
                if values is not None:
                    values.copy_(torch.from_numpy(initializer(rng, tuple(values.shape), inputs)))


class Noise:
    """The noise of a network, from independent random streams.

    In the concurrent schedule each of them is used in a thread of its own.
    """

    STREAMS = ("acting", "targets", "updates")

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        """Spawn the streams from `rng`, each to draw `size` numbers K at a time."""
        self.size = size
        self._streams = dict(zip(self.STREAMS, rng.spawn(len(self.STREAMS)), strict=True))

    def draw(self, stream: str, count: int = 1) -> NDArray[np.float32]:
        """Return fresh noise f(ε), float32 [count, K]."""
        normal = self._streams[stream].standard_normal((count, self.size), np.float32)
        return np.copysign(np.sqrt(np.abs(normal)), normal)

    def get_state(self) -> CheckpointState:
        """Return the states of the streams; an empty dict if the network has no noisy layers."""
        if not self.size:
            return {}
        return {name: dict(stream.bit_generator.state) for name, stream in self._streams.items()}

    def set_state(self, state: CheckpointState) -> None:
        """Continue from what `get_state` returned."""
        for name, position in state.items():
            self._streams[name].bit_generator.state = cast(CheckpointState, position)
