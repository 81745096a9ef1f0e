"""What networks are made of, as modules, and the network itself."""

from typing import cast

import torch
from torch import Tensor, nn

from simple_dqn.deepqnetwork.noisy import NoisyLinear, place_noise
from simple_dqn.deepqnetwork.returns import Returns


class Layers(nn.Sequential):
    """Modules one after the other, of which those that are noisy are handed the noise."""

    def forward(self, values: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return what the last module answers; see `NoisyLinear.forward` for the noise."""
        for module in self:
            values = answer(module, values, noise)
        return values


class Section(nn.Module):
    """The module of a `ResidualSection`; its sums are not rectified."""

    def __init__(self, convolution: nn.Module, blocks: list[nn.Module]) -> None:
        """Put `convolution` and residual `blocks`, all of them padded, one behind the other."""
        super().__init__()
        self.convolution = convolution
        self.maximum = nn.MaxPool2d(3, stride=2, padding=1)
        self.blocks = nn.Sequential(*blocks)

    def forward(self, values: Tensor) -> Tensor:
        """Return the sums [B, K, ⌈H/2⌉, ⌈W/2⌉] for `values` [B, C, H, W]."""
        return cast(Tensor, self.blocks(self.maximum(self.convolution(values))))


class ResidualBlock(nn.Module):
    """x + c₂(r(c₁(r(x)))) with rectifiers r and convolutions c (He et al. 2016, "Identity Mappings")."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        """Take the two convolutions, with whatever normalises their sums."""
        super().__init__()
        # The first rectifier must leave x alone: it is added in the end.
        self.branch = nn.Sequential(nn.ReLU(), first, nn.ReLU(inplace=True), second)

    def forward(self, values: Tensor) -> Tensor:
        """Return x + branch(x) for `values` x [B, K, H, W]."""
        return values + cast(Tensor, self.branch(values))


class Dueling(nn.Module):
    """Two streams of layers that share what stands before them (Wang et al. 2016).

    Outputs are V(s) + A(s, a) - 1/|A| Σ_a' A(s, a') (equation 9), for each of the N numbers that stand for
    an action's return on its own, as in Hessel et al. 2018.
    """

    def __init__(self, value: Layers, advantages: Layers, size: int) -> None:
        """Add the outputs [B, N] of `value` and [B, A · N] of `advantages`, with N = `size`."""
        super().__init__()
        self.value = value
        self.advantages = advantages
        self._size = size

    def forward(self, features: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return [B, A · N] for what the shared layers answered."""
        value: Tensor = self.value(features, noise).unsqueeze(1)
        advantages: Tensor = self.advantages(features, noise).view(len(features), -1, self._size)
        return (value + advantages - advantages.mean(1, keepdim=True)).flatten(1)

    @property
    def last_layers(self) -> tuple[nn.Module, ...]:
        """The output layers of both."""
        return self.value[-1], self.advantages[-1]


def answer(module: nn.Module, values: Tensor, noise: Tensor | None) -> Tensor:
    """Return what `module` answers, which is handed the noise if it knows what to do with it.

    Dense layers may be of a wider datatype than what stands before them.
    """
    if isinstance(module, nn.Linear):
        values = values.to(module.weight.dtype)
    takes_noise = isinstance(module, NoisyLinear | Dueling)
    return cast(Tensor, module(values, noise) if takes_noise else module(values))


class Network(nn.Module):
    """A Q-network Q(s, ·; θ): hidden layers, and an output layer that may be of a wider datatype."""

    noise_size: int  # K, numbers of noise for one state

    def __init__(self, hidden: Layers, output: nn.Linear | Dueling, returns: Returns) -> None:
        """Put `output` [A · N] behind `hidden`; `returns` says what its numbers stand for."""
        super().__init__()
        self.hidden = hidden
        self.output = output
        self.returns = returns
        self.noise_size = place_noise(self)

    def forward(self, states: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the Q-values `[B, A]` of `states`, floats in 0..1 `[B, S, H, W]`; see `outputs`."""
        return self.returns.values(self.outputs(states, noise))

    def outputs(self, states: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the N numbers that stand for each action's return [B, A, N].

        Args:
            states: Floats in 0..1, `[B, S, H, W]`.
            noise: [B, K], or [1, K]: the same for every state; None: noisy layers are still.
        """
        features = self.hidden(states, noise)
        return answer(self.output, features, noise).view(len(features), -1, self.returns.size)

    def narrow_hidden_layers(self, dtype: torch.dtype) -> None:
        """Let the hidden layers compute in `dtype`, but for batch normalisation, whose means stay wide."""
        last = self.output.last_layers if isinstance(self.output, Dueling) else (self.output,)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear | nn.GroupNorm) and module not in last:
                module.to(dtype)
