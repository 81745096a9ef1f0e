"""Weights as arrays, for files, and the running mean of weights that tests and snapshots use."""

import copy
from collections.abc import Mapping
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from simple_dqn.errors import UserError
from simple_dqn.rules import NETWORK_SHAPE
from simple_dqn.types import CheckpointState


def floating_tensors(network: nn.Module) -> dict[str, Tensor]:
    """Return the weights of `network` and its running means, by name; they share its memory.

    Batch normalization's integer counter is left out, since nothing uses it.
    """
    return {name: values for name, values in network.state_dict().items() if values.is_floating_point()}


def write_tensors(tensors: Mapping[str, Tensor]) -> CheckpointState:
    """Return fresh arrays of the values of `tensors`; bfloat16 and float16 become float32, which is exact."""
    wide = {name: v.float() if v.dtype.itemsize == 2 else v for name, v in tensors.items()}
    return {name: values.cpu().numpy().copy(order="C") for name, values in wide.items()}


def read_tensors(arrays: CheckpointState, like: Tensor) -> dict[str, Tensor]:
    """Return `arrays` as new tensors; those with the shape of `like` get its memory layout."""
    result = {}
    for name, values in arrays.items():
        source = torch.as_tensor(np.array(values))
        result[name] = torch.empty_like(like).copy_(source) if source.shape == like.shape else source
    return result


def check_fit(arrays: Mapping[str, object], tensors: Mapping[str, Tensor]) -> None:
    """Check that `arrays` have the names and shapes of a network's `tensors`.

    Raises:
        UserError: They differ; the message names the flags to give.
    """
    theirs = {name: np.shape(cast(NDArray[np.generic], values)) for name, values in arrays.items()}
    for name, shape in {**theirs, **{name: tuple(values.shape) for name, values in tensors.items()}}.items():
        if name not in tensors or theirs.get(name) != shape:
            raise UserError(
                f"the snapshot is of a network with other layers than this one ({name}): give the game and "
                f"{', '.join(f'--{flag}' for flag in (*NETWORK_SHAPE, 'atoms', 'quantiles'))} as in training"
            )


@torch.no_grad()
def copy_arrays(arrays: Mapping[str, object], tensors: Mapping[str, Tensor]) -> None:
    """Copy `arrays`, which `check_fit` has accepted, into the memory of `tensors`."""
    for name, values in tensors.items():
        values.copy_(torch.as_tensor(np.array(arrays[name])))


EVERY = 16  # updates between two additions: one addition takes a tenth of the time of an update


class WeightAverage:
    """The exponential mean of an online network's weights (Polyak and Juditsky 1992; Izmailov et al. 2018).

    θ̄ ← θ̄ + s (θ - θ̄) after every `EVERY` updates, where s is the larger of `EVERY` / N and 1 / k at the
    k-th addition: the plain mean of all weights at first, then an exponential one over about N updates. The
    policy of a single θ changes from update to update; that of the mean plays more evenly.

    Attributes:
        mean: The mean, by name.
    """

    def __init__(self, online: nn.Module, weights: dict[str, Tensor], updates: int) -> None:
        """Set up a mean over N = `updates`, equal to `weights` now.

        Args:
            online: The network whose architecture and datatype `network` has.
            weights: The tensors that the optimizer updates, by name; they may have a wider datatype.
            updates: N.
        """
        self._weights = weights
        self._least = min(1.0, EVERY / updates)
        self._network = copy.deepcopy(online).requires_grad_(False)
        self._network_is_current = True
        self.mean = {name: values.detach().clone() for name, values in weights.items()}
        self._count = 0  # additions

    @property
    def network(self) -> nn.Module:
        """A network with the mean's weights, in the online network's datatype."""
        if not self._network_is_current:
            tensors = floating_tensors(self._network)
            torch._foreach_copy_(list(tensors.values()), [self.mean[name] for name in tensors])
            self._network_is_current = True
        return self._network

    def add(self) -> None:
        """Add the weights to the mean; for every `EVERY`-th update."""
        self._count += 1
        self._move(max(self._least, 1 / self._count))

    @torch.no_grad()
    def _move(self, share: float) -> None:
        torch._foreach_lerp_(list(self.mean.values()), list(self._weights.values()), share)
        self._network_is_current = False

    def restart(self) -> None:
        """Start the mean again from the current weights."""
        self._count = 0
        self._move(1.0)

    def get_state(self) -> CheckpointState:
        """Return the mean and its number of additions."""
        return {"count": self._count, "mean": write_tensors(self.mean)}

    def set_state(self, state: CheckpointState | None) -> None:
        """Continue from what `get_state` returned, checked by `check_fit`; None: the mean begins now."""
        if state is None:
            self.restart()
            return
        copy_arrays(state["mean"], self.mean)
        self._count = state["count"]
        self._network_is_current = False
