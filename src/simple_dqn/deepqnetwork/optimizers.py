"""The optimizers."""

import warnings
from collections.abc import Callable, Sequence
from typing import cast, overload

import torch
from torch import Tensor
from torch.optim import Adadelta, Adagrad, Adam, Optimizer, RAdam

from simple_dqn.config import NetworkConfig


class RMSProp(Adagrad):
    """RMSProp as Neon implemented it and simple_dqn used it.

    v ← ρ v + (1 - ρ) g²;  w ← w - α g / (√(v + ε) + ε)

    with the decay rate ρ, the learning rate α and ε = 1e-6 both inside and outside the root.
    `torch.optim.RMSprop` has it outside only, which makes the steps of the first small gradients far longer.

    With s = (v + ε) / (1 - ρ), α' = α / √(1 - ρ) and ε' = ε / √(1 - ρ) this is equivalent to

    s ← ρ s + (1 - ρ) s₀ + g²;  w ← w - α' g / (√s + ε')

    which is Adagrad whose sum of squares s first decays towards its initial value s₀ = ε / (1 - ρ). On the
    CPU this takes two passes over the weights instead of six.
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

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Make one step; every weight must have a gradient."""
        with torch.no_grad():
            for slots in self.state.values():
                slots["sum"].lerp_(self._least, self._share)
        return cast(float | None, super().step(closure))


class FusedRAdam(Adam):
    """RAdam (Liu et al. 2020, algorithm 2) by Adam's fused kernel, which PyTorch's RAdam does not have.

    A step of RAdam is one of Adam with the learning rate times r_t. Its first steps, as long as ρ_t ≤ 5, are
    those of momentum alone: Adam with an ε beside which √v is nothing, and a learning rate larger by as much.
    """

    LARGE = 1e10

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
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
            return cast(float | None, super().step(closure))
        finally:
            group["lr"], group["eps"] = rate, epsilon


def _rmsprop(weights: Sequence[Tensor], config: NetworkConfig) -> Optimizer:
    return RMSProp(weights, config.learning_rate, config.decay_rate)


def _adam(weights: Sequence[Tensor], config: NetworkConfig) -> Optimizer:
    # With PyTorch's ε of 1e-8, even the tiny gradients of nearly constant screens make full first steps: in
    # Pong these drive all rectifiers of a layer below zero for good. The default is Hessel et al. 2018's.
    return Adam(
        weights,
        lr=config.learning_rate,
        eps=config.adam_epsilon,
        fused=True,
        capturable=_capturable(weights),
    )


def _adadelta(weights: Sequence[Tensor], config: NetworkConfig) -> Optimizer:
    return Adadelta(weights, lr=config.learning_rate, rho=config.decay_rate, capturable=_capturable(weights))


def _radam(weights: Sequence[Tensor], config: NetworkConfig) -> Optimizer:
    rate, epsilon = config.learning_rate, config.adam_epsilon
    if weights[0].device.type == "cpu":
        return FusedRAdam(weights, lr=rate, eps=epsilon, fused=True)
    return RAdam(weights, lr=rate, eps=epsilon, capturable=_capturable(weights))


def _capturable(weights: Sequence[Tensor]) -> bool:
    """Return whether an optimizer of `weights` needs `capturable`, as it does on a GPU.

    CUDA graphs require it. PyTorch then warns of steps outside of a graph, as the first few are.
    """
    on_gpu = weights[0].device.type == "cuda"
    if on_gpu:
        warnings.filterwarnings("ignore", message="This instance was constructed with capturable=True")
    return on_gpu


OPTIMIZERS: dict[str, Callable[[Sequence[Tensor], NetworkConfig], Optimizer]] = {
    "rmsprop": _rmsprop,
    "adam": _adam,
    "radam": _radam,
    "adadelta": _adadelta,
}


def learning_rate_share(config: NetworkConfig, updates: float) -> float:
    """Return the learning rate after `updates`, as a share of the first; it decreases linearly."""
    if not config.learning_rate_decay_updates:
        return 1.0
    progress = min(updates / config.learning_rate_decay_updates, 1.0)
    return 1.0 + progress * (config.learning_rate_end / config.learning_rate - 1.0)
