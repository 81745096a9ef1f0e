"""Q-networks: the layers of each as a table, and the modules that `build` makes from it."""

import copy
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from simple_dqn.config import SETTINGS, NetworkConfig
from simple_dqn.errors import UserError, call_foreign
from simple_dqn.types import CheckpointState
from simple_dqn.value_heads import VALUE_HEADS, ImplicitHead, ValueHead

MOST_WEIGHTS = 1 << 25  # of a layer: a snapshot has at most 128 MiB
MOST_LAYERS = 50  # and blocks, with up to 12 arrays each: a snapshot has room for the names of some 600
COSINES = 64  # n of the embedding of fractions (Dabney et al. 2018b, equation 4)

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


@dataclass(frozen=True, slots=True)
class ResidualSection:
    """A section of IMPALA's network: convolution, max-pooling with a stride of 2, blocks of two convolutions.

    All filters are 3 × 3 and padded (Espeholt et al. 2018, figure 3).
    """

    filters: int
    blocks: int = 2


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
    "impala": replace(NATURE, layers=(*map(ResidualSection, (16, 32, 32)), Dense(256))),
    "mlp": replace(NATURE, layers=(Dense(128), Dense(128))),
    # Young & Tian 2019, "MinAtar", section 3.
    "minatar": replace(NATURE, layers=(Convolution(16, 3, 1), Dense(128))),
}


class ScreenConvolution(nn.Conv2d):
    """The first convolution, of stride s, which also takes screens in blocks of s × s pixels.

    Over blocks it computes the same function with a stride of 1 and s² times as many channels, which fill the
    tiles of matrices that a CPU with AMX multiplies. `Device.floats` makes the blocks. Their pixels are still
    from 0 to 255, which bfloat16 holds exactly: the weights are divided by 255 instead.
    """

    def forward(self, screens: Tensor) -> Tensor:
        """Return the outputs for `screens` [B, S, H, W], or [B, S · s², H / s, W / s] in blocks."""
        filters, count = self.weight.shape[:2]
        if screens.shape[1] == count:
            return super().forward(screens)
        stride = self.stride[0]
        size = self.kernel_size[0] // stride
        weight = self.weight.view(filters, count, size, stride, size, stride).permute(0, 2, 4, 1, 3, 5)
        weight = weight.reshape(filters, size, size, -1).permute(0, 3, 1, 2) / 255
        return functional.conv2d(screens, weight, self.bias)


class NoisyLinear(nn.Linear):
    """A dense layer y = (μʷ + σʷ ⊙ εʷ) x + μᵇ + σᵇ ⊙ εᵇ with factorized noise (Fortunato et al. 2018).

    With p inputs and q outputs, εʷ = f(ε_out) f(ε_in)ᵀ and εᵇ = f(ε_out), where ε_in and ε_out are p and q
    standard normal numbers, and f(x) = sgn(x) √|x| (equations 9 to 11). The noisy part is
    f(ε_out) ⊙ (σʷ (f(ε_in) ⊙ x) + σᵇ), which needs no noisy weights in memory. `weight` and `bias` are μ.
    The noise is an argument of each forward pass: threads that share a network cannot disturb each other.
    """

    def __init__(self, inputs: int, outputs: int, bias: bool, sigma: float) -> None:
        super().__init__(inputs, outputs, bias)
        first = sigma / inputs**0.5  # section 3.2
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), first))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), first)) if bias else None
        self.noise_start = 0  # index of this layer's first number in the noise of the whole network
        self.noise_size = inputs + outputs  # random numbers that the layer uses, p + q

    def forward(self, inputs: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the outputs [B, q] for `inputs` x [B, p] and the whole network's f(ε), [B, K] or [1, K]."""
        means = super().forward(inputs)
        if noise is None:
            return means
        own = noise[:, self.noise_start : self.noise_start + self.noise_size].to(inputs.dtype)
        in_noise, out_noise = own[:, : self.in_features], own[:, self.in_features :]
        deviations = functional.linear(in_noise * inputs, self.weight_sigma, self.bias_sigma)
        return torch.addcmul(means, out_noise, deviations)


class ImplicitLinear(nn.Linear):
    """An output layer that gives an action's return at each of N fractions τ: W (ψ ⊙ φ(τ)) + b.

    ψ are the features of a state, and φ_j(τ) = ReLU(Σ_i cos(π i τ) w_ij + b_j) for i from 0 to 63 embeds a
    fraction (Dabney et al. 2018b, "Implicit Quantile Networks", equation 4). They multiply the last hidden
    layer; the paper multiplies the convolutions' outputs, of which there are six times as many.
    """

    def __init__(self, inputs: int, outputs: int, bias: bool, head: ImplicitHead) -> None:
        super().__init__(inputs, outputs, bias)
        self.embedding = nn.Linear(COSINES, inputs)
        self._head = [head]  # in a list: it is the network's module, not this layer's

    def forward(self, features: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the outputs [B, q · N] for `features` ψ [B, p] at the fractions that `noise` gives."""
        multiples = torch.pi * torch.arange(COSINES, dtype=features.dtype, device=features.device)
        fractions = self._head[0].fractions_of(noise).to(features.dtype).unsqueeze(2)
        cosines = torch.cos(fractions * multiples).to(self.embedding.weight.dtype)  # [B or 1, N, 64]
        embedded = functional.relu(self.embedding(cosines))  # [B or 1, N, p]
        return super().forward(features.unsqueeze(1) * embedded).mT.flatten(1)


class Dueling(nn.Module):
    """A value stream and an advantage stream on shared features (Wang et al. 2016).

    Outputs are V(s) + A(s, a) - 1/|A| Σ_a' A(s, a') (equation 9), separately for each of the N numbers that
    represent an action's return, as in Hessel et al. 2018.
    """

    def __init__(self, value: nn.Sequential, advantages: nn.Sequential, size: int) -> None:
        super().__init__()
        self.value, self.advantages, self._size = value, advantages, size

    def forward(self, features: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the outputs [B, A · N] for `features` from the shared layers."""
        value = _run(self.value, features, noise).unsqueeze(1)
        advantages = _run(self.advantages, features, noise).view(features.shape[0], -1, self._size)
        return (value + advantages - advantages.mean(1, keepdim=True)).flatten(1)


class ResidualBlock(nn.Module):
    """x + c₂(r(c₁(r(x)))) with rectifiers r and convolutions c (He et al. 2016, "Identity Mappings")."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()  # The first rectifier must not change x in place: x is added at the end.
        self.branch = nn.Sequential(nn.ReLU(), first, nn.ReLU(inplace=True), second)

    def forward(self, values: Tensor) -> Tensor:
        """Return x + branch(x) for `values` x [B, K, H, W]."""
        return values + cast(Tensor, self.branch(values))


TAKE_NOISE = (NoisyLinear, ImplicitLinear, Dueling)


def _run(modules: Iterable[nn.Module], values: Tensor, noise: Tensor | None) -> Tensor:
    """Return the output of `modules`, one after the other; `noise` goes to the noisy ones only."""
    for module in modules:
        if isinstance(module, nn.Linear):  # which may be of a wider datatype than the layers before it
            values = values.to(module.weight.dtype)
        values = module(values, noise) if isinstance(module, TAKE_NOISE) else module(values)
    return values


class Network(nn.Module):
    """A Q-network Q(s, ·; θ) of hidden layers and an output layer; `noise_size` is K, numbers per state."""

    def __init__(self, hidden: nn.Sequential, output: nn.Linear | Dueling, value_head: ValueHead) -> None:
        super().__init__()
        self.hidden, self.output, self.value_head = hidden, output, value_head
        first = next(iter(hidden), None)
        self.block = first.stride[0] if isinstance(first, ScreenConvolution) else 1  # pixels
        self.noise_size, self._batch_norm = 0, False
        for layer in self.modules():
            self._batch_norm |= isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d)
            if isinstance(layer, NoisyLinear):
                layer.noise_start = self.noise_size
                self.noise_size += layer.noise_size
        self._noisy = self.noise_size
        if isinstance(value_head, ImplicitHead):
            value_head.noise_start = self.noise_size
            self.noise_size += value_head.size

    def forward(self, states: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the Q-values [B, A] of `states`, floats in 0..1 [B, S, H, W]; see `outputs`."""
        noise = None if noise is None else noise[:, : self._noisy]  # not IQN's: it acts by the midpoints
        return self.value_head.qvalues(self.outputs(states, noise))

    def outputs(self, states: Tensor, noise: Tensor | None = None, learning: bool = False) -> Tensor:
        """Return the N numbers that represent each action's return [B, A, N].

        The `noise` is [B, K], or [1, K] for all states; None: there is none. With `learning`, batch
        normalization is over this batch and moves its running means.
        """
        if learning and self._batch_norm:  # the only layer that behaves differently
            self.train()
        values = _run((*self.hidden, self.output), states, noise)
        if learning and self._batch_norm:
            self.eval()
        # `len` would make the size of the batch a constant of an exported network.
        return values.view(values.shape[0], -1, self.value_head.size)

    def narrow_hidden_layers(self, dtype: torch.dtype) -> None:
        """Convert the hidden layers to `dtype`, except batch normalization, whose running means stay wide."""
        for name, module in self.named_modules():
            last = name.split(".")[-1] in ("output", "embedding")
            if isinstance(module, nn.Conv2d | nn.Linear | nn.GroupNorm) and not last:
                module.to(dtype)

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights and the running means, by name; they share the network's memory.

        Batch normalization's integer counter is left out, since nothing uses it.
        """
        return {name: values for name, values in self.state_dict().items() if values.is_floating_point()}


def build(
    spec: NetworkSpec, actions: int, history_length: int, screen_shape: tuple[int, ...],
    config: NetworkConfig, rng: np.random.Generator | None, dtype: torch.dtype = torch.float32,
) -> Network:  # fmt: skip
    """Return the network of `spec` on the CPU, of the datatype `dtype`; its weights come from `rng` alone.

    Its inputs are states of S = `history_length` screens (H, W) in pixels, or of observations (D,), or of
    small images (K, H, W) with K channels. It has A = `actions` outputs. `config` chooses the normalization,
    the value head, the noise and the dueling streams. Without `rng` the weights are arbitrary: those of a
    snapshot replace them.

    Raises:
        UserError: The screens are too small, or the layers cannot take the observations or would be too
            large.
    """
    head = VALUE_HEADS[config.distributional](config)
    hidden = _convolutional(spec, config, history_length * math.prod(screen_shape[:-2]))
    if len(screen_shape) == 3:
        hidden = Modules(channels=nn.Flatten(1, 2), **hidden)  # [B, S · K, H, W]
    fits = len(screen_shape) > 1 or all(isinstance(layer, Dense) for layer in spec.layers)
    shapes = nn.Sequential(copy.deepcopy(hidden)).eval().to("meta")  # which computes shapes alone
    features = _features(shapes, history_length, *screen_shape) if fits else 0
    if not features and len(screen_shape) != 2:
        raise UserError(f"--network {config.network} cannot take observations {screen_shape}: leave it out")
    if not features:
        height, width = screen_shape
        most = SETTINGS["screen_width"]["maximum"]
        enough = next((n for n in range(1, most + 1) if _features(shapes, history_length, n, n)), 0)
        remedy = f"--screen_width and --screen_height of at least {enough}" if enough else "another --network"
        raise UserError(f"screens of {width}x{height} pixels are too small for this network: give {remedy}")
    output: nn.Module
    if config.dueling:
        value, advantages = (_dense(spec, config, features, units, head) for units in (1, actions))
        output = Dueling(nn.Sequential(value), nn.Sequential(advantages), head.size)
    else:
        hidden.update(_dense(spec, config, features, actions, head))
        output = hidden.pop("output")
    network = Network(nn.Sequential(hidden), cast(nn.Linear | Dueling, output), head).to(dtype)
    if rng:
        _initialize(network, INITIALIZERS.get(config.initializer, spec.initializer), rng)
    return network


# The modules have the names that their weights have in a snapshot.
Modules: TypeAlias = OrderedDict[str, nn.Module]


def _convolutional(spec: NetworkSpec, config: NetworkConfig, channels: int) -> Modules:
    """Return the layers before the dense ones for `channels` screens."""

    def convolution(name: str, channels: int, filters: int, size: int, stride: int, pad: int = 0) -> Modules:
        _check_weights(channels * filters * size**2)
        biases = spec.biases and config.normalization == "none"
        kind = ScreenConvolution if name == "conv1" and size % stride == 0 else nn.Conv2d
        sums = kind(channels, filters, size, stride, pad, bias=biases)
        return Modules({name: sums, **_norm(config, name, filters, nn.BatchNorm2d)})

    def padded(channels: int, filters: int) -> nn.Module:
        return nn.Sequential(convolution("sums", channels, filters, 3, 1, 1))

    modules, name = Modules(), ""
    layers = [layer for layer in spec.layers if not isinstance(layer, Dense)]
    for number, layer in enumerate(layers, 1):
        filters = layer.filters
        if isinstance(layer, Convolution):
            name = f"conv{number}"
            modules.update(convolution(name, channels, filters, layer.size, layer.stride))
            modules[f"{name}_relu"] = nn.ReLU(inplace=True)
        else:
            name, pool = f"section{number}", nn.MaxPool2d(3, stride=2, padding=1)
            first, pairs = padded(channels, filters), [(filters, filters)] * layer.blocks
            blocks = nn.Sequential(*(ResidualBlock(padded(*pair), padded(*pair)) for pair in pairs))
            modules[name] = nn.Sequential(Modules(convolution=first, maximum=pool, blocks=blocks))
        channels = filters
    if name.startswith("section"):  # a section ends with a sum
        modules[f"{name}_relu"] = nn.ReLU(inplace=True)
    modules["flatten"] = nn.Flatten()
    return modules


def _features(layers: nn.Module, *state_shape: int) -> int:
    """Return the outputs of `layers` for a state (S, H, W); 0: a filter is larger than its input."""
    try:
        return int(layers(torch.zeros(1, *state_shape, device="meta")).numel())
    except RuntimeError:
        return 0


def _dense(spec: NetworkSpec, config: NetworkConfig, features: int, actions: int, head: ValueHead) -> Modules:
    """Return the dense layers, the first with `features` inputs, and an output layer for `head`."""
    linear = partial(NoisyLinear, sigma=config.noisy_sigma) if config.noisy else nn.Linear
    modules = Modules()
    layers = [layer for layer in spec.layers if isinstance(layer, Dense)]
    for number, layer in enumerate(layers, 1):
        name = f"dense{number}"
        _check_weights(features * layer.units, ", or lower --screen_width and --screen_height of screens")
        modules[name] = linear(features, layer.units, bias=spec.biases and config.normalization == "none")
        modules.update(_norm(config, name, layer.units, nn.BatchNorm1d))
        modules[f"{name}_relu"] = nn.ReLU(inplace=True)
        features = layer.units
    if isinstance(head, ImplicitHead):
        modules["output"] = ImplicitLinear(features, actions, spec.biases, head)
    else:
        modules["output"] = linear(features, actions * head.size, bias=spec.biases)
    return modules


def _check_weights(count: int, remedy: str = "") -> None:
    """Raise UserError, with another `remedy` if there is one, if `count` is too many for a layer."""
    if count > MOST_WEIGHTS:
        raise UserError(f"a layer would have {count:,} weights, too many: choose a smaller --network{remedy}")


def _norm(config: NetworkConfig, name: str, channels: int, batch_norm: type[nn.Module]) -> Modules:
    """Return the normalization of the layer called `name`, whose offset replaces biases; or nothing."""
    if config.normalization == "none":
        return Modules()
    # Layer normalization is over all units of a state (Ba et al. 2016), with a gain and an offset per filter.
    norm = batch_norm(channels) if config.normalization == "batch" else nn.GroupNorm(1, channels)
    return Modules({f"{name}_norm": norm})


def check_spec(spec: Any) -> None:
    """Raise UserError if `spec`, perhaps a user's, is no NetworkSpec of layers that can be built."""
    listed = isinstance(spec, NetworkSpec) and isinstance(spec.layers, tuple | list)
    layers = spec.layers if listed else [None]
    sizes = [size for one in layers for size in (astuple(one) if isinstance(one, Layer) else [0])]
    whole = all(isinstance(n, int | np.integer) and n > 0 for n in sizes)
    if not whole or sum(getattr(one, "blocks", 1) for one in layers) > MOST_LAYERS:
        contract = f"a NetworkSpec of layers with sizes above 0, at most {MOST_LAYERS} layers and blocks"
        raise UserError(f"{spec!r} is not a network: give {contract}")
    draw(spec.initializer, np.random.default_rng(0), (3, 2), 2)


@torch.no_grad()
def _initialize(network: Network, initializer: Initializer, rng: np.random.Generator) -> None:
    """Draw every weight and bias, layer by layer; the σ of noisy layers keep their initial values."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            inputs = module.weight[0].numel()
            for values in (module.weight, module.bias):
                if values is not None:
                    values.copy_(torch.from_numpy(draw(initializer, rng, tuple(values.shape), inputs)))


def draw(drawing: Initializer, rng: np.random.Generator, shape: tuple[int, ...], inputs: int) -> NDArray[Any]:
    """Return the values that an initializer draws; UserError: it fails, or returns no array of `shape`."""
    drawn = call_foreign("an initializer", drawing, rng, shape, inputs)
    if not isinstance(drawn, np.ndarray) or drawn.shape != shape or drawn.dtype.kind not in "fi":
        found = f"{type(drawn).__name__} {getattr(drawn, 'shape', '')}"
        raise UserError(f"an initializer must return an array of the shape {shape}, not {found}: fix it")
    return drawn


def write_tensors(tensors: Mapping[str, Tensor]) -> CheckpointState:
    """Return fresh arrays of the values of `tensors`; bfloat16 and float16 become float32, which is exact."""
    wide = {name: v.float() if v.dtype.itemsize == 2 else v for name, v in tensors.items()}
    return {name: values.cpu().numpy().copy(order="C") for name, values in wide.items()}


@torch.no_grad()
def copy_arrays(arrays: Mapping[str, object], tensors: Mapping[str, Tensor]) -> None:
    """Copy `arrays`, which `check_fit` has accepted, into the memory of `tensors`."""
    for name, values in tensors.items():
        values.copy_(torch.as_tensor(np.array(arrays[name])))
