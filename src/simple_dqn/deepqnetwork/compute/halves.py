"""One update computed by two threads, each with half of the minibatch."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeAlias

import torch
from torch import Tensor

from simple_dqn.deepqnetwork.compute.mixed_precision import MasterWeights

Submit: TypeAlias = Callable[..., "Future[Tensor]"]  # (function, *arguments)
Loss: TypeAlias = Callable[..., tuple[Tensor, Tensor]]  # of a part of a minibatch: its loss, and its errors


def descend_in_halves(loss: Loss, master: MasterWeights, tensors: Sequence[Tensor], submit: Submit) -> Tensor:
    """Update the weights as `Update.descend` does, and return the loss followed by the errors [1 + B].

    The second half is submitted to another thread. This thread computes the first half, and then also the
    second if the other thread has not started it. A sum of two gradients does not depend on their order, so
    the result is the same whichever thread computes a half.

    Args:
        loss: The loss of a part of the minibatch.
        master: The weights.
        tensors: The arguments of `loss` that have one row for each transition, [B, ...] with B ≥ 2.
        submit: Starts a function in another thread, after what it has to do already.
    """

    def add_gradient(*part: Tensor) -> Tensor:
        value, errors = loss(*part)
        master.add_gradient(value)
        return torch.cat((value.detach().unsqueeze(0), errors))

    first, second = zip(*(tensor.chunk(2) for tensor in tensors), strict=True)
    master.clear_gradients()
    elsewhere = submit(add_gradient, *second)
    one = add_gradient(*first)
    two = add_gradient(*second) if elsewhere.cancel() else elsewhere.result()
    master.step()
    return torch.cat(((one[0] + two[0]).unsqueeze(0), one[1:], two[1:]))
