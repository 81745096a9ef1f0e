"""The Q-network as PyTorch modules; `building.py` assembles it from the table in `networks.py`."""

from typing import cast

import torch
from torch import Tensor, nn

from simple_dqn.deepqnetwork.noisy import NoisyLinear, assign_noise
from simple_dqn.deepqnetwork.value_heads import ValueHead


class Layers(nn.Sequential):
    """A sequence of modules that passes the noise to the noisy ones."""

    def forward(self, values: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the last module's output; see `NoisyLinear.forward` for the noise."""
        for module in self:
            values = apply(module, values, noise)
        return values


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
        """Chain two convolutions, each with its normalisation."""
        super().__init__()
        # The first rectifier must not change x in place: x is added at the end.
        self.branch = nn.Sequential(nn.ReLU(), first, nn.ReLU(inplace=True), second)

    def forward(self, values: Tensor) -> Tensor:
        """Return x + branch(x) for `values` x [B, K, H, W]."""
        return values + cast(Tensor, self.branch(values))


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


def apply(module: nn.Module, values: Tensor, noise: Tensor | None) -> Tensor:
    """Return the output of `module` for `values`; `noise` goes to noisy modules only.

    A dense layer may be of a wider datatype than the layers before it.
    """
    if isinstance(module, nn.Linear):
        values = values.to(module.weight.dtype)
    takes_noise = isinstance(module, NoisyLinear | Dueling)
    return cast(Tensor, module(values, noise) if takes_noise else module(values))


class Network(nn.Module):
    """A Q-network Q(s, ·; θ): hidden layers, and an output layer that may be of a wider datatype."""

    noise_size: int  # K, random numbers per state

    def __init__(self, hidden: Layers, output: nn.Linear | Dueling, value_head: ValueHead) -> None:
        """Chain `hidden` and `output` [A · N]; `value_head` interprets the N numbers of an action."""
        super().__init__()
        self.hidden = hidden
        self.output = output
        self.value_head = value_head
        self.noise_size = assign_noise(self)

    def forward(self, states: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the Q-values `[B, A]` of `states`, floats in 0..1 `[B, S, H, W]`; see `outputs`."""
        return self.value_head.qvalues(self.outputs(states, noise))

    def outputs(self, states: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the N numbers that represent each action's return [B, A, N].

        Args:
            states: Floats in 0..1, `[B, S, H, W]`.
            noise: [B, K]; [1, K]: the same for every state; None: no noise.
        """
        features = self.hidden(states, noise)
        # `len` would make the size of the batch a constant of an exported network.
        return apply(self.output, features, noise).view(features.shape[0], -1, self.value_head.size)

    def narrow_hidden_layers(self, dtype: torch.dtype) -> None:
        """Convert the hidden layers to `dtype`, except batch normalisation, whose running means stay wide."""
        last: tuple[nn.Module, ...] = (self.output,)
        if isinstance(self.output, Dueling):
            last = self.output.value[-1], self.output.advantages[-1]
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear | nn.GroupNorm) and module not in last:
                module.to(dtype)
