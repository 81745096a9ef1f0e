"""The optimizers, the weights that they update, and the running mean of these weights."""

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.optim import Adadelta, Adagrad, Adam, Optimizer, RAdam

from simple_dqn.config import NetworkConfig
from simple_dqn.errors import UserError
from simple_dqn.networks import Network, copy_arrays, write_tensors
from simple_dqn.rules import NETWORK_SHAPE
from simple_dqn.types import CheckpointState

# The arrays that an optimizer keeps for each weight, in its shape; the number of steps is not among them.
SLOTS = {
    "rmsprop": ("sum",), "adadelta": ("square_avg", "acc_delta"),
    "adam": ("exp_avg", "exp_avg_sq"), "radam": ("exp_avg", "exp_avg_sq"),
}  # fmt: skip
AVERAGE_EVERY = 16  # updates between two additions to the mean; each takes a tenth of an update's time


class RMSProp(Adagrad):
    """RMSProp as Neon implemented it: v ← ρ v + (1 - ρ) g²;  w ← w - α g / (√(v + ε) + ε).

    ρ is the decay rate, α the learning rate, and ε = 1e-6 both inside and outside the root.
    `torch.optim.RMSprop` has it outside only, which makes the steps of the first small gradients far longer.

    With s = (v + ε) / (1 - ρ), α' = α / √(1 - ρ) and ε' = ε / √(1 - ρ) this is equivalent to
    s ← ρ s + (1 - ρ) s₀ + g²;  w ← w - α' g / (√s + ε'), which is Adagrad whose sum of squares s first decays
    toward its initial value s₀ = ε / (1 - ρ). On the CPU this takes two passes over the weights, not six.
    """

    EPSILON = 1e-6

    def __init__(self, weights: Sequence[Tensor], learning_rate: float, decay_rate: float) -> None:
        self._share = max(1 - decay_rate, 1e-20)  # with 0, s would be infinite
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
    those of momentum alone: Adam with an ε so large that √v does not count, and a learning rate times this ε.
    """

    def step(self, closure: Any = None) -> Any:
        """Make one step; every weight must have a gradient."""
        (group,) = self.param_groups
        rate, epsilon, decay, large = group["lr"], group["eps"], group["betas"][1], 1e10
        steps = 1 + int(self.state[group["params"][0]].get("step", 0))
        correction = 1 - decay**steps
        longest = 2 / (1 - decay) - 1  # ρ_∞
        length = longest - 2 * steps * (1 - correction) / correction  # ρ_t
        if length > 5:
            rectification = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            group["lr"], group["eps"] = rate * rectification**0.5, epsilon / correction**0.5
        else:
            group["lr"], group["eps"] = rate * large, large
        try:
            return super().step(closure)
        finally:
            group["lr"], group["eps"] = rate, epsilon


def make_optimizer(weights: Sequence[Tensor], config: NetworkConfig) -> Optimizer:
    """Return the optimizer of `weights` that `config` chooses.

    With PyTorch's ε of 1e-8 in Adam, even the tiny gradients of nearly constant screens make full first
    steps: in Pong these drive all rectifiers of a layer below zero for good.
    """
    rate, epsilon, on_gpu = config.learning_rate, config.adam_epsilon, weights[0].device.type == "cuda"
    if on_gpu:  # CUDA graphs need `capturable`; PyTorch then warns of the first steps, outside of a graph
        warnings.filterwarnings("ignore", message="This instance was constructed with capturable=True")
    match config.optimizer:
        case "rmsprop":
            return RMSProp(weights, rate, config.decay_rate)
        case "adadelta":
            # Zeiler (2012) and Neon have no learning rate; PyTorch multiplies each step by one.
            return Adadelta(weights, 1.0, config.decay_rate, capturable=on_gpu)
        case "radam" if weights[0].device.type != "cpu":
            return RAdam(weights, rate, eps=epsilon, capturable=on_gpu)
    kind = FusedRAdam if config.optimizer == "radam" else Adam
    return kind(weights, rate, eps=epsilon, fused=True, capturable=on_gpu)


def learning_rate_share(config: NetworkConfig, updates: float) -> float:
    """Return the learning rate after `updates`, as a share of the first; it decreases linearly."""
    progress = min(updates / config.learning_rate_decay_updates, 1.0)
    return 1.0 + progress * (config.learning_rate_end / config.learning_rate - 1.0)


class MasterWeights:
    """The `weights` that the optimizer updates, by name; the network may compute with a narrower copy.

    An update is often smaller than the distance between two neighboring numbers of a narrow datatype, so it
    is added to a float32 copy (Micikevicius et al. 2018). If the network computes in float32 or float64, the
    two share their memory. `scale` multiplies a loss so that float16 gradients do not underflow.
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
        (self._group,) = self._optimizer.param_groups
        self._first_rate: float = self._group["lr"]
        self._scaler = torch.amp.GradScaler(pairs[0][0].device.type, enabled=loss_scaling)
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
        self._copy_to_network()

    def set_learning_rate(self, share: float) -> bool:
        """Set the learning rate to `share` of the first one, and return whether it changed."""
        before, self._group["lr"] = self._group["lr"], self._first_rate * share
        return bool(self._group["lr"] != before)

    @torch.no_grad()
    def _copy_to_network(self) -> None:
        """Copy the weights to those parts of the network that compute in a narrower datatype."""
        if self._narrow:
            torch._foreach_copy_(self._narrow, self._wide)

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights and the network's running means by name, sharing their memory."""
        return {**self._network.tensors(), **self.weights}

    def load(self, arrays: Mapping[str, object]) -> None:
        """Copy `arrays`, checked by `check_fit`, into `tensors` and the network."""
        copy_arrays(arrays, self.tensors())
        self._copy_to_network()

    def get_state(self) -> CheckpointState:
        """Return the optimizer's state for each weight, and the scale of the loss."""
        slots = {name: write_tensors(self._optimizer.state[w]) for name, w in self.weights.items()}
        return {"optimizer": self._kind, "slots": slots, "scaler": dict(self._scaler.state_dict())}

    def set_state(self, state: CheckpointState) -> None:
        """Continue from what `get_state` returned, which leaves out the weights.

        Raises:
            ValueError: It is that of other weights.
        """
        slots, restored = state["slots"], []
        begun = any(slots.values())  # before its first update an optimizer may have no state
        for name, weight in self.weights.items():
            shapes = {slot: np.shape(values) for slot, values in slots[name].items()}
            step = shapes.pop("step", None)
            right = dict.fromkeys(SLOTS[self._kind], tuple(weight.shape)) if begun else {}
            counted = not begun or (step in ((), (1,)) and np.min(slots[name]["step"]) >= 0)
            if shapes != right or not counted:  # PyTorch's kernels do not check it
                raise ValueError(f"the optimizer's state of {name} is not that of these weights")
            restored.append({slot: _tensor_like(weight, values) for slot, values in slots[name].items()})
        self._optimizer.load_state_dict(self._optimizer.state_dict() | {"state": dict(enumerate(restored))})
        (self._group,) = self._optimizer.param_groups
        if self._scaler.is_enabled() and state["scaler"]:
            self._scaler.load_state_dict(state["scaler"])


class WeightAverage:
    """The exponential `mean` of an online network's weights (Polyak and Juditsky 1992; Izmailov et al. 2018).

    θ̄ ← θ̄ + s (θ - θ̄) after every n = `AVERAGE_EVERY` updates, where s is the larger of n / N and 1 / k at the
    k-th addition: the plain mean of all weights at first, then an exponential one over about N updates. The
    policy of a single θ changes from update to update; that of the mean plays more evenly.
    """

    def __init__(self, online: Network, weights: dict[str, Tensor], updates: int) -> None:
        """Set up a mean over N = `updates`, equal to `weights` now; `online` may have a narrower datatype."""
        self._weights = weights
        self._least = min(1.0, AVERAGE_EVERY / updates)
        self._network = copy.deepcopy(online).requires_grad_(False)
        self._network_is_current = True
        self.mean = {name: values.detach().clone() for name, values in weights.items()}
        self._count = 0  # additions

    @property
    def network(self) -> Network:
        """A network with the mean's weights, in the online network's datatype."""
        if not self._network_is_current:
            tensors = self._network.tensors()
            torch._foreach_copy_(list(tensors.values()), [self.mean[name] for name in tensors])
            self._network_is_current = True
        return self._network

    def add(self) -> None:
        """Add the weights to the mean; for every `AVERAGE_EVERY`-th update."""
        self._count += 1
        self._move(max(self._least, 1 / self._count))

    def restart(self) -> None:
        """Start the mean again from the current weights."""
        self._count = 0
        self._move(1.0)

    @torch.no_grad()
    def _move(self, share: float) -> None:
        torch._foreach_lerp_(list(self.mean.values()), list(self._weights.values()), share)
        self._network_is_current = False

    def get_state(self) -> CheckpointState:
        """Return the mean and its number of additions."""
        return {"count": self._count, "mean": write_tensors(self.mean)}

    def set_state(self, state: CheckpointState | None) -> None:
        """Continue from what `get_state` returned, checked by `check_fit`; None: the mean begins now."""
        self.restart()
        if state:
            copy_arrays(state["mean"], self.mean)
            self._count = state["count"]


def _tensor_like(like: Tensor, values: object) -> Tensor:
    """Return `values` as a new tensor, with the memory layout of `like` if it has its shape."""
    source = torch.as_tensor(np.array(values))
    return torch.empty_like(like).copy_(source) if source.shape == like.shape else source


def check_fit(arrays: Mapping[str, object], tensors: Mapping[str, Tensor]) -> None:
    """Check that `arrays` have the names and shapes of a network's `tensors`.

    Raises:
        UserError: They differ; the message names the flags to give.
    """
    theirs = {name: np.shape(cast(Any, values)) for name, values in arrays.items()}
    ours = {name: tuple(values.shape) for name, values in tensors.items()}
    for name in theirs | ours:
        if theirs.get(name) != ours.get(name):
            raise UserError(
                f"the snapshot is of a network with other layers than this one ({name}): give the game and "
                f"{', '.join(f'--{flag}' for flag in (*NETWORK_SHAPE, 'atoms', 'quantiles'))} as in training"
            )
