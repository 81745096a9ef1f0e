"""Noisy layers (Fortunato et al. 2018, "Noisy Networks for Exploration").

The noise is an argument of each forward pass, not a part of the layers: threads that share a network cannot
disturb each other, and the caller decides which states share the same noise.
"""

from collections.abc import Iterator
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from simple_dqn.types import CheckpointState


class NoisyLinear(nn.Linear):
    """A dense layer y = (μʷ + σʷ ⊙ εʷ) x + μᵇ + σᵇ ⊙ εᵇ with factorised noise (equations 9 to 11).

    With p inputs and q outputs, εʷ = f(ε_out) f(ε_in)ᵀ and εᵇ = f(ε_out), where ε_in and ε_out are p and q
    standard normal numbers, and f(x) = sgn(x) √|x|. The noisy part is f(ε_out) ⊙ (σʷ (f(ε_in) ⊙ x) + σᵇ),
    which needs no noisy weights in memory. `weight` and `bias` are μ.
    """

    def __init__(self, inputs: int, outputs: int, bias: bool, sigma: float) -> None:
        """Make a layer whose σ are initially `sigma` / √p (section 3.2)."""
        super().__init__(inputs, outputs, bias)
        first = sigma / inputs**0.5
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), first))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), first)) if bias else None
        self.noise_start = 0  # index of this layer's first number in the noise of the whole network

    @property
    def noise_size(self) -> int:
        """The random numbers that the layer uses: p + q."""
        return self.in_features + self.out_features

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
        of_inputs, of_outputs = own[:, : self.in_features], own[:, self.in_features :]
        deviations = nn.functional.linear(of_inputs * inputs, self.weight_sigma, self.bias_sigma)
        return torch.addcmul(means, of_outputs, deviations)


def noisy_layers(network: nn.Module) -> Iterator[NoisyLinear]:
    """Yield the noisy layers of `network`, in order."""
    for module in network.modules():
        if isinstance(module, NoisyLinear):
            yield module


def assign_noise(network: nn.Module) -> int:
    """Assign each noisy layer of `network` its slice of the noise, and return the total size K."""
    size = 0
    for layer in noisy_layers(network):
        layer.noise_start = size
        size += layer.noise_size
    return size


# One stream for each use: in the concurrent schedule each is used in a thread of its own.
STREAMS = ("acting", "targets", "updates")


class Noise:
    """The noise of a network, from independent random streams, one for each of `STREAMS`."""

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        """Spawn the streams from `rng`, each to draw `size` numbers K at a time."""
        self.size = size
        self._streams = dict(zip(STREAMS, rng.spawn(len(STREAMS)), strict=True))

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
