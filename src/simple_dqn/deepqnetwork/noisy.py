"""Layers whose weights are noisy, by Fortunato et al. 2018, "Noisy Networks for Exploration".

The noise is no part of the layers but handed to them with every state, so that threads which share a
network cannot disturb each other, and so that whoever draws it decides for which states it is the same.
"""

from collections.abc import Iterator
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from simple_dqn.deepqnetwork.backend import tensor
from simple_dqn.types import State


class NoisyLinear(nn.Linear):
    """A dense layer y = (μʷ + σʷ ⊙ εʷ) x + μᵇ + σᵇ ⊙ εᵇ with factorised noise (equations 9 to 11).

    With p inputs and q outputs, εʷ = f(ε_out) f(ε_in)ᵀ and εᵇ = f(ε_out), where ε_in and ε_out are p and q
    standard normal numbers, and f(x) = sgn(x) √|x|. So the noisy part is f(ε_out) ⊙ (σʷ (f(ε_in) ⊙ x) + σᵇ),
    for which no noisy weights need be written down. `weight` and `bias` are μ.
    """

    def __init__(self, inputs: int, outputs: int, bias: bool, sigma: float) -> None:
        """Make a layer; σ starts as `sigma` / √p everywhere (section 3.2)."""
        super().__init__(inputs, outputs, bias)
        first = sigma / inputs**0.5
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), first))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), first)) if bias else None
        self.place = 0  # where this layer's noise begins in that of the whole network

    @property
    def noise_size(self) -> int:
        """Numbers of noise that it takes: p + q."""
        return self.in_features + self.out_features

    def forward(self, inputs: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the outputs [B, q] for `inputs` [B, p].

        Args:
            inputs: x.
            noise: f(ε) of the whole network [B, K], or [1, K]: for all states the same; None: as if 0.
        """
        means = super().forward(inputs)
        if noise is None:
            return means
        own = noise[:, self.place : self.place + self.noise_size].to(inputs.dtype)
        of_inputs, of_outputs = own[:, : self.in_features], own[:, self.in_features :]
        deviations = nn.functional.linear(of_inputs * inputs, self.weight_sigma, self.bias_sigma)
        return torch.addcmul(means, of_outputs, deviations)


def noisy_layers(network: nn.Module) -> Iterator[NoisyLinear]:
    """Yield the noisy layers of `network`, in their order."""
    for module in network.modules():
        if isinstance(module, NoisyLinear):
            yield module


def place_noise(network: nn.Module) -> int:
    """Tell each noisy layer of `network` where its noise lies; return how many numbers all take, K."""
    size = 0
    for layer in noisy_layers(network):
        layer.place = size
        size += layer.noise_size
    return size


# Whoever draws noise has a stream of its own, for in the concurrent schedule each is in another thread.
DRAWERS = ("acting", "targets", "updates")


class Noise:
    """Where the noise of a network comes from: independent random streams, one for each of `DRAWERS`."""

    def __init__(self, size: int, rng: np.random.Generator, device: torch.device) -> None:
        """Draw `size` numbers at a time, from streams that are children of `rng`, for a network on `device`.

        With a size of 0 nothing is drawn.
        """
        self._size = size
        self._streams = dict(zip(DRAWERS, rng.spawn(len(DRAWERS)), strict=True))
        self._device = device
        self._none = torch.empty((1, 0), device=device)

    def draw(self, drawer: str, count: int = 1) -> Tensor:
        """Return fresh noise f(ε), float32 [count, K], on the device."""
        if not self._size:
            return self._none
        normal = self._streams[drawer].standard_normal((count, self._size), np.float32)
        return tensor(np.copysign(np.sqrt(np.abs(normal)), normal), self._device)

    def get_state(self) -> State:
        """Return where each stream stands; nothing, where none is drawn from."""
        if not self._size:
            return {}
        return {drawer: dict(stream.bit_generator.state) for drawer, stream in self._streams.items()}

    def set_state(self, state: State) -> None:
        """Go on from what `get_state` returned."""
        for drawer, place in state.items():
            self._streams[drawer].bit_generator.state = cast(State, place)
