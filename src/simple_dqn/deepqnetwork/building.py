"""Builds a network from a row of the table in `networks.py`."""

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from torch import nn

from simple_dqn.config import NetworkConfig
from simple_dqn.deepqnetwork.layers import Dueling, Layers, Network, ResidualBlock, Section
from simple_dqn.deepqnetwork.networks import (
    INITIALIZERS,
    Convolution,
    Initializer,
    NetworkSpec,
    ResidualSection,
)
from simple_dqn.deepqnetwork.noisy import NoisyLinear
from simple_dqn.deepqnetwork.value_heads import VALUE_HEADS
from simple_dqn.errors import UserError


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
    `config` chooses the normalisation, the value head, the noise and the dueling streams.

    Raises:
        UserError: The screens are too small, or batch normalisation is used with batches of one.
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
    features = _features(spec, history_length, screen_shape)
    units = actions * value_head.size
    output: nn.Linear | Dueling
    if config.dueling:
        value, advantages = (Layers(builder.stream(features, size)) for size in (value_head.size, units))
        output = Dueling(value, advantages, value_head.size)
    else:
        stream = builder.stream(features, units)
        output = cast(nn.Linear, stream.pop("output"))
        hidden |= stream
    network = Network(Layers(hidden), output, value_head).to(dtype)
    _initialize(network, INITIALIZERS.get(config.initializer, spec.initializer), rng)
    return network


def _features(spec: NetworkSpec, history_length: int, screen_shape: Sequence[int]) -> int:
    """Return the number of inputs of the first dense layer."""
    channels, sides = history_length, list(screen_shape)
    for layer in spec.convolutional:
        channels, sides = layer.filters, [layer.outputs_for(side) for side in sides]
    return channels * math.prod(sides)


class _Builder:
    """Makes the modules of a network, under the names that its weights have in a snapshot."""

    def __init__(self, spec: NetworkSpec, config: NetworkConfig) -> None:
        self._spec = spec
        self._config = config
        # A normalisation has an offset, which takes the place of the layer's biases.
        self._hidden_biases = spec.biases and config.normalization == "none"

    def convolutional(self, channels: int) -> "OrderedDict[str, nn.Module]":
        """Return the convolutional layers, for an input of `channels` screens."""
        modules: OrderedDict[str, nn.Module] = OrderedDict()
        number = 0
        for number, layer in enumerate(self._spec.convolutional, 1):
            if isinstance(layer, Convolution):
                name = f"conv{number}"
                modules[name] = self._convolution(channels, layer.filters, layer.size, layer.stride)
                modules |= self._normalised(name, layer.filters, of_screens=True)
                modules[f"{name}_relu"] = nn.ReLU(inplace=True)
            else:
                modules[f"section{number}"] = self._section(channels, layer)
            channels = layer.filters
        if f"section{number}" in modules:
            modules[f"section{number}_relu"] = nn.ReLU(inplace=True)
        modules["flatten"] = nn.Flatten()
        return modules

    def stream(self, features: int, outputs: int) -> "OrderedDict[str, nn.Module]":
        """Return the dense layers, the first with `features` inputs, and an output layer."""
        modules: OrderedDict[str, nn.Module] = OrderedDict()
        for number, layer in enumerate(self._spec.dense, 1):
            name = f"dense{number}"
            modules[name] = self._linear(features, layer.units, self._hidden_biases)
            modules |= self._normalised(name, layer.units, of_screens=False)
            modules[f"{name}_relu"] = nn.ReLU(inplace=True)
            features = layer.units
        modules["output"] = self._linear(features, outputs, self._spec.biases)
        return modules

    def _linear(self, inputs: int, outputs: int, biases: bool) -> nn.Linear:
        if self._config.noisy:
            return NoisyLinear(inputs, outputs, biases, self._config.noisy_sigma)
        return nn.Linear(inputs, outputs, biases)

    def _convolution(
        self, channels: int, filters: int, size: int, stride: int, padding: int = 0
    ) -> nn.Conv2d:
        return nn.Conv2d(channels, filters, size, stride, padding, bias=self._hidden_biases)

    def _section(self, channels: int, layer: ResidualSection) -> Section:
        def sums(channels: int) -> nn.Module:
            """Return a convolution with its normalisation, if there is one."""
            convolution = self._convolution(channels, layer.filters, 3, 1, padding=1)
            modules: OrderedDict[str, nn.Module] = OrderedDict(sums=convolution)
            return Layers(modules | self._normalised("sums", layer.filters, of_screens=True))

        blocks = [ResidualBlock(sums(layer.filters), sums(layer.filters)) for _ in range(layer.blocks)]
        return Section(sums(channels), cast(list[nn.Module], blocks))

    def _normalised(self, name: str, channels: int, of_screens: bool) -> dict[str, nn.Module]:
        """Return the normalisation of the layer called `name`, if there is one."""
        if self._config.normalization == "batch":
            kind = nn.BatchNorm2d if of_screens else nn.BatchNorm1d
            return {f"{name}_norm": kind(channels)}
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
