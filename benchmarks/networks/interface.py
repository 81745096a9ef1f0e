"""The interface of a framework. All inputs and outputs are numpy arrays in the memory of the host.

In shapes, `B` is the batch size and `A` the number of actions.
"""

from abc import ABC, abstractmethod
from typing import Protocol, SupportsFloat

from networks.work import Weights
from simple_dqn.types import Minibatch, QValues, States


class UnsupportedError(Exception):
    """The framework cannot do this on this machine or at all; the message gives the reason in a few words."""


class QNetwork(Protocol):
    """Nature's deep Q-network; hidden layers in the requested datatype, the rest in float32."""

    def predict(self, states: States) -> QValues:
        """Return the Q-values, float32 [B, A], of `states`, uint8 [B, 4, 84, 84], divided by 255."""

    def train(self, minibatch: Minibatch) -> SupportsFloat:
        """Make one update of Algorithm 1 of Mnih et al. 2015, by Adam with learning rate `ADAM_RATE`.

        Rewards are clipped to ±1. The loss is the mean Huber loss over the batch, δ = 1. The target network
        does not change.

        Returns:
            The loss before the update. Its float() may block until the update is done.

        Raises:
            UnsupportedError: The framework only predicts.
        """


class Framework(ABC):
    """A framework on one device, with a given number of threads."""

    version: str  # of the framework, and of its backend where that matters

    def __init__(self, device: str, threads: int) -> None:
        """Set up the framework for `device`, "cpu" or "gpu", and `threads` CPU threads.

        Raises:
            UnsupportedError: The framework cannot run on this machine; the message gives the reason.
        """
        self.device, self.threads = device, threads

    @abstractmethod
    def q_network(self, weights: Weights, target: Weights, datatype: str) -> QNetwork:
        """Return a Q-network with the initial weights `weights` and the target network `target`.

        Raises:
            UnsupportedError: The framework does not compute in `datatype`.
        """
