"""The optimizers."""

import warnings
from collections.abc import Callable, Sequence
from typing import cast, overload

import torch
from torch import Tensor
from torch.optim import Adadelta, Adagrad, Adam, Optimizer

from simple_dqn.config import NetworkConfig


class RMSProp(Adagrad):
    """RMSProp as Neon wrote it, and simple_dqn used it.

    v ← ρ v + (1 - ρ) g²;  w ← w - α g / (√(v + ε) + ε)

    with the decay rate ρ, the learning rate α and ε = 1e-6 both inside and outside of the root.
    `torch.optim.RMSprop` has it outside only, which gives the first small gradients far longer steps.

    With s = (v + ε) / (1 - ρ), α' = α / √(1 - ρ) and ε' = ε / √(1 - ρ) the same is

    s ← ρ s + (1 - ρ) s₀ + g²;  w ← w - α' g / (√s + ε')

    which is Adagrad, whose sum of squares s first decays towards its initial value s₀ = ε / (1 - ρ). On the
    CPU that takes two passes over the weights instead of six.
    """

    EPSILON = 1e-6
    LEAST_SHARE = 1e-20  # of the newest square, 1 - ρ: stands in for 0, which would have no s

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
        # Where a gradient overflows, loss scaling shall leave out the whole step, and not the kernel a part.
        self._step_supports_amp_scaling = False

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Move every weight by one step; all have gradients."""
        with torch.no_grad():
            for slots in self.state.values():
                slots["sum"].lerp_(self._least, self._share)
        return cast(float | None, super().step(closure))


def _rmsprop(weights: Sequence[Tensor], config: NetworkConfig) -> Optimizer:
    return RMSProp(weights, config.learning_rate, config.decay_rate)


def _adam(weights: Sequence[Tensor], config: NetworkConfig) -> Optimizer:
    # With PyTorch's 1e-8 the first steps are as long for the tiny gradients of dull screens as for any: in
    # Pong they drive all rectifiers of a layer below zero, for good. The default is Hessel et al. 2018's.
    return Adam(
        weights,
        lr=config.learning_rate,
        eps=config.adam_epsilon,
        fused=True,
        capturable=_capturable(weights),
    )


def _adadelta(weights: Sequence[Tensor], config: NetworkConfig) -> Optimizer:
    return Adadelta(weights, lr=config.learning_rate, rho=config.decay_rate, capturable=_capturable(weights))


def _capturable(weights: Sequence[Tensor]) -> bool:
    """Return whether an optimizer of `weights` has to say that a CUDA graph may be made of its steps.

    Only then it may, and it warns of each step that is not from a graph: the first few are not.
    """
    on_gpu = weights[0].device.type == "cuda"
    if on_gpu:
        warnings.filterwarnings("ignore", message="This instance was constructed with capturable=True")
    return on_gpu


OPTIMIZERS: dict[str, Callable[[Sequence[Tensor], NetworkConfig], Optimizer]] = {
    "rmsprop": _rmsprop,
    "adam": _adam,
    "adadelta": _adadelta,
}


def learning_rate_share(config: NetworkConfig, updates: float) -> float:
    """Return the learning rate after `updates`, as a share of the first: it falls linearly."""
    if not config.learning_rate_decay_updates:
        return 1.0
    progress = min(updates / config.learning_rate_decay_updates, 1.0)
    return 1.0 + progress * (config.learning_rate_end / config.learning_rate - 1.0)
