"""Mixed-precision training: the optimizer's master copy of the weights, and loss scaling."""

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor

from simple_dqn.config import NetworkConfig
from simple_dqn.deepqnetwork.compute.device import Precision
from simple_dqn.deepqnetwork.layers import Network
from simple_dqn.deepqnetwork.optimizers import OPTIMIZERS
from simple_dqn.deepqnetwork.weights import copy_arrays, floating_tensors, read_tensors, write_tensors
from simple_dqn.errors import UserError
from simple_dqn.types import CheckpointState


class MasterWeights:
    """The weights that the optimizer updates; the network computes with a copy in its own datatype.

    An update is often smaller than the distance between two neighbouring numbers of a narrow datatype, so it
    is added to a float32 copy (Micikevicius et al. 2018). If the network computes in float32 or float64, the
    two share their memory.
    """

    def __init__(self, network: Network, precision: Precision, config: NetworkConfig) -> None:
        """Set up training of `network`, in `precision.master`, and convert its hidden layers."""
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
        self._share = 1.0  # the current rates as a share of the first
        device = next(iter(self.weights.values())).device.type
        self._scaler = torch.amp.GradScaler(device, enabled=precision.loss_scaling)

    def step(self, loss: Tensor) -> None:
        """Make one optimizer step down the gradient of `loss` (a scalar).

        With loss scaling, a step whose gradient overflows is skipped and the scale is halved.
        """
        for weight in self._computing.values():
            weight.grad = None
        torch.autograd.backward(self._scaler.scale(loss))
        self._pass_gradients()
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self.publish()

    def scale_learning_rate(self, share: float) -> bool:
        """Set the learning rates to `share` of the first ones, and return whether they changed."""
        changes, self._share = share != self._share, share
        for group, rate in zip(self._optimizer.param_groups, self._first_rates, strict=True):
            group["lr"] = rate * share
        return changes

    def _pass_gradients(self) -> None:
        """Give the optimizer the gradients, each in the datatype of its weight."""
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
        """Copy the weights to the network if it computes in a narrower datatype."""
        if self._narrow:
            torch._foreach_copy_(
                [self._computing[name] for name in self._narrow],
                [self.weights[name] for name in self._narrow],
            )

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights and the network's running means by name, sharing their memory."""
        return {**floating_tensors(self._network), **self.weights}

    def load(self, arrays: Mapping[str, object]) -> None:
        """Copy `arrays`, checked by `check_fit`, into `tensors`, and publish them."""
        copy_arrays(arrays, self.tensors())
        self.publish()

    def get_state(self) -> CheckpointState:
        """Return the optimizer's state for each weight, and the scale of the loss."""
        slots: CheckpointState = {
            name: write_tensors(self._optimizer.state[weight]) for name, weight in self.weights.items()
        }
        return {"optimizer": self._kind, "slots": slots, "scaler": dict(self._scaler.state_dict())}

    def check_state(self, state: CheckpointState) -> None:
        """Check that `state` is that of the same optimizer.

        Raises:
            UserError: It is the state of another optimizer.
        """
        if state["optimizer"] != self._kind:
            raise UserError(
                f"the snapshot was trained with --optimizer {state['optimizer']}, not {self._kind}: "
                "resume it with that one, or start a new run from its weights with --load_weights"
            )

    def set_state(self, state: CheckpointState) -> None:
        """Continue from what `get_state` returned, which leaves out the weights."""
        groups = self._optimizer.state_dict()["param_groups"]
        restored = {
            index: read_tensors(state["slots"][name], like=weight)
            for index, (name, weight) in enumerate(self.weights.items())
        }
        self._optimizer.load_state_dict({"state": restored, "param_groups": groups})
        if self._scaler.is_enabled() and state["scaler"]:
            self._scaler.load_state_dict(state["scaler"])
