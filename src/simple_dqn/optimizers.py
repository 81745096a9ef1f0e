"""The optimizers, and the wide weights that they update while the network computes with narrow ones."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.optim import Adadelta, Adagrad, Adam, Optimizer, RAdam

from simple_dqn.config import NetworkConfig
from simple_dqn.networks import Network
from simple_dqn.types import CheckpointState
from simple_dqn.weights import copy_arrays, floating_tensors, read_tensors, write_tensors


class RMSProp(Adagrad):
    """RMSProp as Neon implemented it: v ← ρ v + (1 - ρ) g²;  w ← w - α g / (√(v + ε) + ε).

    ρ is the decay rate, α the learning rate, and ε = 1e-6 both inside and outside the root.
    `torch.optim.RMSprop` has it outside only, which makes the steps of the first small gradients far longer.

    With s = (v + ε) / (1 - ρ), α' = α / √(1 - ρ) and ε' = ε / √(1 - ρ) this is equivalent to
    s ← ρ s + (1 - ρ) s₀ + g²;  w ← w - α' g / (√s + ε'), which is Adagrad whose sum of squares s first decays
    toward its initial value s₀ = ε / (1 - ρ). On the CPU this takes two passes over the weights, not six.
    """

    EPSILON = 1e-6
    LEAST_SHARE = 1e-20  # lower limit of 1 - ρ: with 0, s would be infinite

    def __init__(self, weights: Sequence[Tensor], learning_rate: float, decay_rate: float) -> None:
        self._share = max(1 - decay_rate, self.LEAST_SHARE)
        least = self.EPSILON / self._share
        self._least = weights[0].new_full((), least)
        super().__init__(
            weights,
            lr=learning_rate / self._share**0.5,
            eps=self.EPSILON / self._share**0.5,
            initial_accumulator_value=least,
            fused=True if weights[0].device.type == "cpu" else None,
        )
        # After an overflow, loss scaling skips the whole step; the kernel would skip only its own part.
        self._step_supports_amp_scaling = False

    def step(self, closure: Any = None) -> Any:
        """Make one step; every weight must have a gradient."""
        with torch.no_grad():
            for slots in self.state.values():
                slots["sum"].lerp_(self._least, self._share)
        return super().step(closure)


class FusedRAdam(Adam):
    """RAdam (Liu et al. 2020, algorithm 2) by Adam's fused kernel, which PyTorch's RAdam does not have.

    A step of RAdam is one of Adam with the learning rate times r_t. Its first steps, as long as ρ_t ≤ 5, are
    those of momentum alone: Adam with an ε beside which √v is nothing, and a learning rate larger by as much.
    """

    LARGE = 1e10

    def step(self, closure: Any = None) -> Any:
        """Make one step; every weight must have a gradient."""
        (group,) = self.param_groups
        rate, epsilon, decay = group["lr"], group["eps"], group["betas"][1]
        steps = 1 + int(self.state[group["params"][0]].get("step", 0))
        correction = 1 - decay**steps
        longest = 2 / (1 - decay) - 1  # ρ_∞
        length = longest - 2 * steps * (1 - correction) / correction  # ρ_t
        if length > 5:
            rectification = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            group["lr"], group["eps"] = rate * rectification**0.5, epsilon / correction**0.5
        else:
            group["lr"], group["eps"] = rate * self.LARGE, self.LARGE
        try:
            return super().step(closure)
        finally:
            group["lr"], group["eps"] = rate, epsilon


def make_optimizer(weights: Sequence[Tensor], config: NetworkConfig) -> Optimizer:
    """Return the optimizer of `weights` that `config` chooses.

    With PyTorch's ε of 1e-8 in Adam, even the tiny gradients of nearly constant screens make full first
    steps: in Pong these drive all rectifiers of a layer below zero for good. The default is Hessel et al.
    2018's.
    """
    rate, epsilon, on_gpu = config.learning_rate, config.adam_epsilon, weights[0].device.type == "cuda"
    if on_gpu:  # CUDA graphs need `capturable`; PyTorch then warns of the first steps, outside of a graph
        warnings.filterwarnings("ignore", message="This instance was constructed with capturable=True")
    match config.optimizer:
        case "rmsprop":
            return RMSProp(weights, rate, config.decay_rate)
        case "adadelta":
            return Adadelta(weights, rate, config.decay_rate, capturable=on_gpu)
        case "radam" if weights[0].device.type == "cpu":
            return FusedRAdam(weights, lr=rate, eps=epsilon, fused=True)
        case "radam":
            return RAdam(weights, lr=rate, eps=epsilon, capturable=on_gpu)
    return Adam(weights, rate, eps=epsilon, fused=True, capturable=on_gpu)


def learning_rate_share(config: NetworkConfig, updates: float) -> float:
    """Return the learning rate after `updates`, as a share of the first; it decreases linearly."""
    if not config.learning_rate_decay_updates:
        return 1.0
    progress = min(updates / config.learning_rate_decay_updates, 1.0)
    return 1.0 + progress * (config.learning_rate_end / config.learning_rate - 1.0)


class MasterWeights:
    """The weights that the optimizer updates; the network computes with a copy in its own datatype.

    An update is often smaller than the distance between two neighboring numbers of a narrow datatype, so it
    is added to a float32 copy (Micikevicius et al. 2018). If the network computes in float32 or float64, the
    two share their memory.

    Attributes:
        weights: The wide weights, by name. scale: Multiplies a loss, lest float16 gradients underflow.
    """

    def __init__(
        self, network: Network, hidden: torch.dtype, config: NetworkConfig, loss_scaling: bool = False
    ) -> None:
        """Set up training of `network`, whose weights are wide, and convert its hidden layers to `hidden`."""
        self._network, self._kind = network, config.optimizer
        self.weights = {name: weight.detach() for name, weight in network.named_parameters()}
        network.narrow_hidden_layers(hidden)
        pairs = [(self.weights[name], weight) for name, weight in network.named_parameters()]
        self._shared = [(wide, own) for wide, own in pairs if wide.dtype == own.dtype]
        self._wide = [wide for wide, own in pairs if wide.dtype != own.dtype]
        self._narrow = [cast(Tensor, own) for wide, own in pairs if wide.dtype != own.dtype]
        for wide in self._wide:
            wide.grad = torch.empty_like(wide)
        self._optimizer = make_optimizer(list(self.weights.values()), config)
        self._first_rates: list[float] = [group["lr"] for group in self._optimizer.param_groups]
        device = next(iter(self.weights.values())).device.type
        self._scaler = torch.amp.GradScaler(device, enabled=loss_scaling)
        self.scale: Callable[[Tensor], Tensor] = self._scaler.scale

    def step(self) -> None:
        """Make one optimizer step by the network's gradients, which are those of a loss times `scale`.

        With loss scaling, a step whose gradient overflows is skipped and the scale is halved.
        """
        for wide, own in self._shared:
            wide.grad = own.grad
        if self._narrow:
            gradients = [cast(Tensor, own.grad) for own in self._narrow]
            torch._foreach_copy_([cast(Tensor, wide.grad) for wide in self._wide], gradients)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        if self._narrow:
            self._publish()

    def set_learning_rate(self, share: float) -> bool:
        """Set the learning rates to `share` of the first ones, and return whether they changed."""
        rates = [rate * share for rate in self._first_rates]
        changes = rates != [group["lr"] for group in self._optimizer.param_groups]
        for group, rate in zip(self._optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        return changes

    @torch.no_grad()
    def _publish(self) -> None:
        """Copy the weights to those parts of the network that compute in a narrower datatype."""
        torch._foreach_copy_(self._narrow, self._wide)

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights and the network's running means by name, sharing their memory."""
        return {**floating_tensors(self._network), **self.weights}

    def load(self, arrays: Mapping[str, object]) -> None:
        """Copy `arrays`, checked by `check_fit`, into `tensors` and the network."""
        copy_arrays(arrays, self.tensors())
        if self._narrow:
            self._publish()

    def get_state(self) -> CheckpointState:
        """Return the optimizer's state for each weight, and the scale of the loss."""
        slots = {name: write_tensors(self._optimizer.state[w]) for name, w in self.weights.items()}
        return {"optimizer": self._kind, "slots": slots, "scaler": dict(self._scaler.state_dict())}

    def set_state(self, state: CheckpointState) -> None:
        """Continue from what `get_state` returned, which leaves out the weights.

        Raises:
            ValueError: It is that of other weights.
        """
        slots = state["slots"]
        for name, weight in self.weights.items():
            shapes = {values.shape for values in slots[name].values() if isinstance(values, np.ndarray)}
            if len({*map(frozenset, slots.values())}) > 1 or shapes - {(), (1,), tuple(weight.shape)}:
                raise ValueError(f"the optimizer's state of {name} is not that of these weights")
        restored = {
            index: read_tensors(slots[name], like=weight)
            for index, (name, weight) in enumerate(self.weights.items())
        }
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": restored, "param_groups": groups})
        if self._scaler.is_enabled() and state["scaler"]:
            self._scaler.load_state_dict(state["scaler"])
