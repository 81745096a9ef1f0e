"""The rules by which a gradient changes the weights."""

from collections.abc import Callable, Iterable, Sequence
from typing import overload

import torch
from torch import Tensor
from torch.optim import Adadelta, Adam, Optimizer

from simple_dqn.config import NetworkConfig


class RMSProp(Optimizer):
    """RMSProp as Neon wrote it, and simple_dqn used it.

    v ← ρ v + (1 - ρ) g²;  w ← w - α g / (√(v + ε) + ε)

    with the decay rate ρ, the learning rate α and ε = 1e-6 both inside and outside of the root.
    `torch.optim.RMSprop` has it outside only, which gives the first small gradients far longer steps.
    """

    EPSILON = 1e-6

    def __init__(self, weights: Iterable[Tensor], learning_rate: float, decay_rate: float) -> None:
        super().__init__(weights, {"lr": learning_rate, "decay_rate": decay_rate})

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Move every weight that has a gradient by one step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            gradients = [weight.grad for weight in weights]
            mean_squares = [self._mean_square(weight) for weight in weights]
            torch._foreach_mul_(mean_squares, group["decay_rate"])
            torch._foreach_addcmul_(mean_squares, gradients, gradients, 1 - group["decay_rate"])
            sizes = torch._foreach_add(mean_squares, self.EPSILON)
            torch._foreach_sqrt_(sizes)
            torch._foreach_add_(sizes, self.EPSILON)
            torch._foreach_addcdiv_(weights, gradients, sizes, -group["lr"])
        return loss

    def _mean_square(self, weight: Tensor) -> Tensor:
        """Return the running mean of `weight`'s squared gradient, 0 at first."""
        state = self.state[weight]
        if not state:
            state["mean_square"] = torch.zeros_like(weight)
        mean_square: Tensor = state["mean_square"]
        return mean_square


def _rmsprop(weights: Sequence[Tensor], config: NetworkConfig) -> Optimizer:
    return RMSProp(weights, config.learning_rate, config.decay_rate)


def _adam(weights: Sequence[Tensor], config: NetworkConfig) -> Optimizer:
    return Adam(weights, lr=config.learning_rate, fused=True)


def _adadelta(weights: Sequence[Tensor], config: NetworkConfig) -> Optimizer:
    return Adadelta(weights, lr=config.learning_rate, rho=config.decay_rate)


OPTIMIZERS: dict[str, Callable[[Sequence[Tensor], NetworkConfig], Optimizer]] = {
    "rmsprop": _rmsprop,
    "adam": _adam,
    "adadelta": _adadelta,
}
