"""Which pixels the network responds to: the guided backpropagation of Springenberg et al. 2015.

"Striving for Simplicity: The All Convolutional Net", section 3.4.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from simple_dqn.networks import Network
from simple_dqn.types import Actions, States


@dataclass(frozen=True, slots=True)
class ConvolutionalLayer:
    """The units of one convolution, or of a residual section, and their receptive fields on a screen.

    That of the unit at (row, column) is the square of `field_size` pixels whose top left corner is the pixel
    (`field_start` + row * `field_stride`, `field_start` + column * `field_stride`), maybe off the screen.
    """

    name: str  # such as conv1 or section1
    filters: int  # K
    rows: int  # of units
    columns: int
    field_size: int  # pixels, height and width
    field_stride: int  # pixels between neighbors
    field_start: int  # pixel, 0 without padding and less with it


class GuidedBackpropagation:
    """A float32 copy of the online network, for guided backpropagation.

    In guided backpropagation a rectifier passes a gradient only where both its input and the gradient are
    positive. The gradient at the screens shows which pixels raised the value of a unit, and whether by being
    bright or dark, per change of a pixel from black (0) to white (255). The skip connection of a residual
    block passes gradients unchanged, and noisy layers have no noise. The mean and the deviation by which
    `--normalization layer` normalizes count as constants, or every pixel would influence every unit.
    """

    layers: tuple[ConvolutionalLayer, ...]  # first to last

    def __init__(self, network: Network, screen_shape: tuple[int, int], device: torch.device) -> None:
        """Copy `network`, which is on `device` and sees screens of `screen_shape` (H, W) in pixels."""
        self._device = device
        self._network = deepcopy(network).float().eval().requires_grad_(False)
        for name, module in list(self._network.named_modules()):
            if isinstance(module, nn.ReLU):
                self._network.set_submodule(name, _guided_rectifier())
            elif isinstance(module, nn.GroupNorm):
                self._network.set_submodule(name, DetachedNorm(module))
        hidden = self._network.hidden
        self.layers = _convolutional_layers(hidden, screen_shape)
        # The sums of a residual section are shown after a rectifier, whether one follows them or not.
        places = {name: place for place, (name, _) in enumerate(hidden.named_children(), 1)}
        ends = {layer.name: places.get(f"{layer.name}_norm", places[layer.name]) for layer in self.layers}
        self._up_to = {name: nn.Sequential(hidden[:end], _guided_rectifier()) for name, end in ends.items()}

    @torch.no_grad()
    def activations(self, states: States, layer: str) -> NDArray[np.float32]:
        """Return the activations of `layer` after the rectifier, a new array [B, K, rows, columns]."""
        return _array(self._up_to[layer](self._floats(states)))

    def guided_gradients(
        self, states: States, layer: str, filters: Actions, rows: Actions, columns: Actions
    ) -> NDArray[np.float32]:
        """Return the guided gradient of one unit for each of `states`, a new array float32 [B, S, H, W].

        The unit of each state is at (filter, row, column) of the layer named `layer`, int64 [B] each. The
        gradient is 0 where its activation is 0.
        """
        units = tuple(map(self._tensor, (np.arange(len(states)), filters, rows, columns)))
        return self._guided_gradients(lambda screens: self._up_to[layer](screens)[units], states)

    def saliency(self, states: States, actions: Actions | None = None) -> NDArray[np.float32]:
        """Return the guided gradients of the Q-values of `actions` int64 [B], a new array [B, S, H, W].

        None: of the highest Q-value of each state.
        """
        if actions is None:
            return self._guided_gradients(lambda screens: self._network(screens).amax(1), states)
        taken = self._tensor(np.arange(len(states))), self._tensor(actions)
        return self._guided_gradients(lambda screens: self._network(screens)[taken], states)

    def _guided_gradients(self, value: Callable[[Tensor], Tensor], states: States) -> NDArray[np.float32]:
        """Return the guided gradients of `value`, which gives one number [B] for each of `states`."""
        with torch.enable_grad():
            screens = self._floats(states).requires_grad_()
            # A state's value depends on no other state, so the gradient of the sum is that of each.
            (gradients,) = torch.autograd.grad(value(screens).sum(), screens)
        return _array(gradients)

    def _floats(self, states: States) -> Tensor:
        return self._tensor(states).float().div_(255)

    def _tensor(self, array: States | Actions) -> Tensor:
        return torch.from_numpy(np.array(array, order="C")).to(self._device)


class DetachedNorm(nn.Module):
    """Layer normalization whose mean and deviation count as constants when gradients are taken."""

    def __init__(self, norm: nn.GroupNorm) -> None:
        super().__init__()
        self._norm = norm

    def forward(self, values: Tensor) -> Tensor:
        """Return the normalized `values` [B, K, ...]."""
        units = tuple(range(1, values.dim()))
        variance, mean = torch.var_mean(values.detach(), units, correction=0, keepdim=True)
        normal = (values - mean) / (variance + self._norm.eps).sqrt()
        of_filters = (-1,) + (1,) * (values.dim() - 2)
        return normal * self._norm.weight.view(of_filters) + self._norm.bias.view(of_filters)


def _guided_rectifier() -> nn.ReLU:
    """Return a rectifier that also stops negative gradients."""

    def positive(_module: nn.Module, gradients: Any) -> tuple[Tensor, ...]:
        return tuple(gradient.relu() for gradient in gradients)

    rectifier = nn.ReLU()  # not in place, as the network's are: such a module can have no hook
    rectifier.register_full_backward_pre_hook(positive)
    return rectifier


def _convolutional_layers(hidden: nn.Module, screen_shape: tuple[int, int]) -> tuple[ConvolutionalLayer, ...]:
    """Return the layers of `hidden` whose units see a part of a screen (H, W)."""
    layers = []
    (rows, columns), filters, field_size, field_stride, field_start = screen_shape, 0, 1, 1, 0
    for name, layer in hidden.named_children():
        # A residual section counts as one layer; every module in it widens the receptive field.
        sliding = [module for module in layer.modules() if isinstance(module, nn.Conv2d | nn.MaxPool2d)]
        for module in sliding:
            sizes = module.kernel_size, module.stride, module.padding  # of a square: a number or a pair
            size, stride, padding = (int(np.ravel(cast(Any, shape))[0]) for shape in sizes)
            rows, columns = ((side + 2 * padding - size) // stride + 1 for side in (rows, columns))
            # Neighbors in this layer's input are field_stride pixels apart on the screen.
            field_start -= padding * field_stride
            field_size += (size - 1) * field_stride
            field_stride *= stride
            filters = module.out_channels if isinstance(module, nn.Conv2d) else filters
        if sliding:
            field = (field_size, field_stride, field_start)
            layers.append(ConvolutionalLayer(name, filters, rows, columns, *field))
    return tuple(layers)


def _array(values: Tensor) -> NDArray[np.float32]:
    return cast(NDArray[np.float32], values.contiguous().cpu().numpy())
