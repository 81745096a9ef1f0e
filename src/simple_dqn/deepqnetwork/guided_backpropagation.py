"""What the network looks at, by the guided backpropagation of Springenberg et al. 2015.

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

from simple_dqn.deepqnetwork.layers import Network
from simple_dqn.types import Actions, States


@dataclass(frozen=True, slots=True)
class ConvolutionalLayer:
    """The units of one convolution, or of a residual section, and what each sees of a screen.

    The unit at (row, column) sees the square of `field_size` pixels whose top left corner is the pixel
    (`field_start` + row * `field_stride`, `field_start` + column * `field_stride`). Where a layer is padded
    this can begin before the screen's first pixel, or end after its last.
    """

    name: str  # such as conv1 or section1
    filters: int  # K
    rows: int  # of units
    columns: int
    field_size: int  # pixels, height and width of a unit's receptive field
    field_stride: int  # pixels between the receptive fields of neighbours
    field_start: int  # pixel, 0 without padding and less with it


class Insight:
    """The online network as it was when this was made, to be looked into; it computes in float32.

    Guided backpropagation is backpropagation in which a rectifier passes a gradient only where its input
    was positive and the gradient is positive too. What arrives at the screens shows which pixels, and in
    which way, raised the value of a unit. The unit of a gradient is that of the value it is of, for a
    pixel going from black (0) to white (255).

    What goes past the rectifiers of a residual block passes whole. The mean and the deviation by which
    `--layer_norm` normalises count as constants: else every pixel would have a part in every unit. Noisy
    layers are still.

    Letters in shapes are those of `simple_dqn.types`.
    """

    layers: tuple[ConvolutionalLayer, ...]  # first to last

    def __init__(self, network: Network, screen_shape: tuple[int, int], device: torch.device) -> None:
        """Copy `network`, which is on `device` and sees screens of `screen_shape` (H, W) in pixels."""
        self._device = device
        self._network = deepcopy(network).float().eval().requires_grad_(False)
        for name, module in list(self._network.named_modules()):
            for kind, stand_in in STAND_INS.items():
                if isinstance(module, kind):
                    self._network.set_submodule(name, stand_in(module))
        hidden = self._network.hidden
        self.layers = _convolutional_layers(hidden, screen_shape)
        # The sums of a residual section are looked at through a rectifier, whether one follows or not.
        places = {name: place for place, (name, _) in enumerate(hidden.named_children(), 1)}
        self._up_to = {
            layer.name: nn.Sequential(
                hidden[: places.get(f"{layer.name}_norm", places[layer.name])], _guided_rectifier()
            )
            for layer in self.layers
        }

    @torch.no_grad()
    def activations(self, states: States, layer: str) -> NDArray[np.float32]:
        """Return what the units of the layer named `layer` answer to `states`, after the rectifier.

        Returns:
            float32 [B, K, rows, columns], the caller's.
        """
        return _array(self._up_to[layer](self._floats(states)))

    def guided_gradients(
        self,
        states: States,
        layer: str,
        filters: NDArray[np.int64],
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
    ) -> NDArray[np.float32]:
        """Return the guided gradient of one unit for each of `states`; 0 where the unit does not answer.

        The unit of each state is at (filter, row, column) of the layer named `layer`, int64 [B] each.

        Returns:
            float32 [B, S, H, W], the caller's.
        """

        def units(screens: Tensor) -> Tensor:
            answers: Tensor = self._up_to[layer](screens)
            place = [torch.from_numpy(index).to(self._device) for index in (filters, rows, columns)]
            return answers[torch.arange(len(answers), device=self._device), *place]

        return self._guided_gradients(units, states)

    def saliency(self, states: States, actions: Actions | None = None) -> NDArray[np.float32]:
        """Return the guided gradient of a Q-value of each state: of `actions` int64 [B], or the highest.

        Returns:
            float32 [B, S, H, W], the caller's.
        """

        def chosen(screens: Tensor) -> Tensor:
            qvalues: Tensor = self._network(screens)
            if actions is None:
                return qvalues.amax(1)
            return qvalues.gather(1, self._tensor(actions).unsqueeze(1)).squeeze(1)

        return self._guided_gradients(chosen, states)

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
        return torch.from_numpy(np.require(array, requirements=["C", "W"])).to(self._device)


class SteadyNorm(nn.Module):
    """Layer normalisation whose mean and deviation count as constants when gradients are taken."""

    def __init__(self, norm: nn.GroupNorm) -> None:
        """Do what `norm` does, which has one group."""
        super().__init__()
        self._norm = norm

    def forward(self, values: Tensor) -> Tensor:
        """Return the normalised `values` [B, K, ...]."""
        variance, mean = torch.var_mean(values.detach().flatten(1), 1, correction=0)
        steady = (-1,) + (1,) * (values.dim() - 1)
        of_filters = (1, -1) + (1,) * (values.dim() - 2)
        deviation = (variance + self._norm.eps).sqrt()
        normal = (values - mean.view(steady)) / deviation.view(steady)
        return normal * self._norm.weight.view(of_filters) + self._norm.bias.view(of_filters)


def _guided_rectifier(_rectifier: nn.Module | None = None) -> nn.ReLU:
    """Return a rectifier that holds negative gradients back, besides those of inputs that are not positive.

    It leaves its input as it is: the hook cannot be on a module that works in place, as the network's do.
    """
    rectifier = nn.ReLU()
    rectifier.register_full_backward_pre_hook(lambda _module, gradients: _positive(gradients))
    return rectifier


def _positive(gradients: tuple[Tensor, ...] | Tensor) -> tuple[Tensor, ...]:
    return tuple(gradient.relu() for gradient in gradients)


# What stands in for a module when gradients are taken.
STAND_INS: dict[type[nn.Module], Callable[[Any], nn.Module]] = {
    nn.ReLU: _guided_rectifier,
    nn.GroupNorm: SteadyNorm,
}


def _convolutional_layers(hidden: nn.Module, screen_shape: tuple[int, int]) -> tuple[ConvolutionalLayer, ...]:
    """Return those of the layers of `hidden` whose units see a part of a screen (H, W)."""
    layers = []
    (rows, columns), filters, field_size, field_stride, field_start = screen_shape, 0, 1, 1, 0
    for name, layer in hidden.named_children():
        # A residual section is one layer to look at. What its units see, they see through all in it.
        sliding = [module for module in layer.modules() if isinstance(module, nn.Conv2d | nn.MaxPool2d)]
        for module in sliding:
            size, stride, padding = (
                _side(shape) for shape in (module.kernel_size, module.stride, module.padding)
            )
            rows, columns = ((side + 2 * padding - size) // stride + 1 for side in (rows, columns))
            # One step further on in this layer's input is field_stride pixels further on in the screen.
            field_start -= padding * field_stride
            field_size += (size - 1) * field_stride
            field_stride *= stride
            filters = module.out_channels if isinstance(module, nn.Conv2d) else filters
        if sliding:
            layers.append(
                ConvolutionalLayer(name, filters, rows, columns, field_size, field_stride, field_start)
            )
    return tuple(layers)


def _side(shape: Any) -> int:
    """Return the height of a square, however the module has it written down."""
    return int(shape[0] if isinstance(shape, tuple) else shape)


def _array(values: Tensor) -> NDArray[np.float32]:
    return cast(NDArray[np.float32], values.contiguous().cpu().numpy())
