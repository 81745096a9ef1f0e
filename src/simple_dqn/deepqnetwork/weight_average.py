"""A running mean of the weights, which tests and snapshots use in place of the latest weights."""

import copy

import torch
from torch import Tensor

from simple_dqn.deepqnetwork.layers import Network
from simple_dqn.deepqnetwork.weights import check_fit, copy_arrays, floating_tensors, write_tensors
from simple_dqn.types import CheckpointState

EVERY = 16  # updates between two additions: one addition takes a tenth of the time of an update


class WeightAverage:
    """The exponential mean of an online network's weights (Polyak and Juditsky 1992; Izmailov et al. 2018).

    θ̄ ← θ̄ + s (θ - θ̄) after every `EVERY` updates, where s is the larger of `EVERY` / N and 1 / k at the
    k-th addition: the plain mean of all weights at first, then an exponential one over about N updates. The
    policy of a single θ changes from update to update; that of the mean plays more evenly.

    Attributes:
        mean: The mean, by name.
    """

    def __init__(self, online: Network, weights: dict[str, Tensor], updates: int) -> None:
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
    def network(self) -> Network:
        """A network with the mean's weights, in the online network's datatype."""
        if not self._network_is_current:
            tensors = floating_tensors(self._network)
            torch._foreach_copy_(list(tensors.values()), [self.mean[name] for name in tensors])
            self._network_is_current = True
        return self._network

    def after_update(self, updates: int) -> None:
        """Add the weights to the mean if `updates`, the number made so far, is a multiple of `EVERY`."""
        if updates % EVERY == 0:
            self._count += 1
            self._add(max(self._least, 1 / self._count))

    @torch.no_grad()
    def _add(self, share: float) -> None:
        torch._foreach_lerp_(list(self.mean.values()), list(self._weights.values()), share)
        self._network_is_current = False

    def restart(self) -> None:
        """Start the mean again from the current weights."""
        self._count = 0
        self._add(1.0)

    def get_state(self) -> CheckpointState:
        """Return the mean and its number of additions."""
        return {"count": self._count, "mean": write_tensors(self.mean)}

    def set_state(self, state: CheckpointState | None) -> None:
        """Continue from what `get_state` returned; None: no mean was kept, and it begins now.

        Raises:
            UserError: It is the mean of another network.
        """
        if state is None:
            self.restart()
            return
        check_fit(state["mean"], self.mean)
        copy_arrays(state["mean"], self.mean)
        self._count = state["count"]
        self._network_is_current = False
