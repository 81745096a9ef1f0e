"""Training in narrow datatypes: the optimizer's wide copy of the weights, and the scale of the loss."""

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor

from simple_dqn.config import NetworkConfig
from simple_dqn.deepqnetwork.backend import Precision
from simple_dqn.deepqnetwork.layers import Network
from simple_dqn.deepqnetwork.optimizers import OPTIMIZERS
from simple_dqn.deepqnetwork.tensors import copy_arrays, floating_tensors, read_tensors, write_tensors
from simple_dqn.errors import UserError
from simple_dqn.types import State


class MasterWeights:
    """The weights that the optimizer changes, and from which a network takes those it computes with.

    An update is often smaller than the distance between two numbers of a narrow datatype, so it is added
    to a float32 copy (Micikevicius et al. 2018). Where the network computes in float32 or float64, both
    are the same memory.
    """

    def __init__(self, network: Network, precision: Precision, config: NetworkConfig) -> None:
        """Take over `network`, whose weights are in `precision.master`, and narrow its hidden layers."""
        self._network = network
        self.weights = {name: weight.detach() for name, weight in network.named_parameters()}
        network.narrow_hidden_layers(precision.hidden)
        self._computing = dict(network.named_parameters())
        self._narrow = [name for name, weight in self._computing.items() if weight.dtype != precision.master]
        for name in self._narrow:
            self.weights[name].grad = torch.empty_like(self.weights[name])
        self._kind = config.optimizer
        self._optimizer = OPTIMIZERS[config.optimizer](list(self.weights.values()), config)
        self._first_rates: list[float] = [group["lr"] for group in self._optimizer.param_groups]
        self._share = 1.0  # of those, which the optimizer has now
        device = next(iter(self.weights.values())).device.type
        self._scaler = torch.amp.GradScaler(device, enabled=precision.loss_scaling)

    def descend(self, loss: Tensor) -> None:
        """Move the weights one step of the optimizer down the gradient of `loss` (a scalar).

        With loss scaling a step whose gradient overflows is left out, and the scale is halved.
        """
        for weight in self._computing.values():
            weight.grad = None
        torch.autograd.backward(self._scaler.scale(loss))
        self._hand_over_gradients()
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self.publish()

    def scale_learning_rate(self, share: float) -> bool:
        """Make the learning rates this share of the first ones, and return whether that changes them."""
        changes, self._share = share != self._share, share
        for group, rate in zip(self._optimizer.param_groups, self._first_rates, strict=True):
            group["lr"] = rate * share
        return changes

    def _hand_over_gradients(self) -> None:
        """Give the optimizer the gradients, each in its weight's datatype."""
        gradients = {name: cast(Tensor, weight.grad) for name, weight in self._computing.items()}
        if self._narrow:
            torch._foreach_copy_(
                [cast(Tensor, self.weights[name].grad) for name in self._narrow],
                [gradients.pop(name) for name in self._narrow],
            )
        for name, gradient in gradients.items():
            self.weights[name].grad = gradient

    @torch.no_grad()
    def publish(self) -> None:
        """Give the weights to the network that computes with a narrower copy of them."""
        if self._narrow:
            torch._foreach_copy_(
                [self._computing[name] for name in self._narrow],
                [self.weights[name] for name in self._narrow],
            )

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights by name, and the network's running means; they share the memory of both."""
        return {**floating_tensors(self._network), **self.weights}

    def load(self, arrays: Mapping[str, object]) -> None:
        """Copy `arrays`, which have been checked to fit, into the memory of `tensors`, and publish them."""
        copy_arrays(arrays, self.tensors())
        self.publish()

    def get_state(self) -> State:
        """Return the optimizer's memory of each weight, and the scale of the loss."""
        slots: State = {
            name: write_tensors(self._optimizer.state[weight]) for name, weight in self.weights.items()
        }
        return {"optimizer": self._kind, "slots": slots, "scaler": dict(self._scaler.state_dict())}

    def check_state(self, state: State) -> None:
        """Refuse the state of another optimizer.

        Raises:
            UserError: Which one, and what to do.
        """
        if state["optimizer"] != self._kind:
            raise UserError(
                f"the snapshot was trained with --optimizer {state['optimizer']}, not {self._kind}: "
                "resume it with that one, or start anew from its weights with --load_weights"
            )

    def set_state(self, state: State) -> None:
        """Go on from what `get_state` returned; the weights themselves are the caller's to set."""
        groups = self._optimizer.state_dict()["param_groups"]
        restored = {
            index: read_tensors(state["slots"][name], like=weight)
            for index, (name, weight) in enumerate(self.weights.items())
        }
        self._optimizer.load_state_dict({"state": restored, "param_groups": groups})
        if self._scaler.is_enabled() and state["scaler"]:
            self._scaler.load_state_dict(state["scaler"])
