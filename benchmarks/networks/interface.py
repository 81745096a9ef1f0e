"""The interface of a framework. All inputs and outputs are numpy arrays in the memory of the host.

In shapes, `B` is the batch size and `O` the number of outputs of a network, which are classes or actions.
"""

from abc import ABC, abstractmethod
from typing import Protocol, SupportsFloat, TypeAlias

import numpy as np
from numpy.typing import NDArray

from networks.work import Labels, NetworkSpec, Scores, Weights
from simple_dqn.types import Minibatch, QValues, States

Images: TypeAlias = NDArray[np.float32]  # [B, 4, 84, 84]


class UnsupportedError(Exception):
    """The framework cannot do this on this machine or at all; the message gives the reason in a few words."""


class Classifier(Protocol):
    """A classifier of float32 images, as in rl-nn-benchmarks."""

    def scores(self, images: Images) -> Scores:
        """Return the score of each class, float32 [B, O]."""

    def classify(self, images: Images) -> Labels:
        """Return the class with the highest score, [B]."""

    def train(self, images: Images, labels: Labels) -> SupportsFloat:
        """Make one step of gradient descent on the mean cross-entropy, with learning rate `CLASSIFIER_RATE`.

        Returns:
            The loss before the step. Its float() may block until the step is done.
        """


class QNetwork(Protocol):
    """A deep Q-network with uint8 inputs; hidden layers in the requested datatype, the rest in float32."""

    def predict(self, states: States) -> QValues:
        """Return the Q-values, float32 [B, O], of `states` divided by 255."""

    def train(self, minibatch: Minibatch) -> SupportsFloat:
        """Make one update of Algorithm 1 of Mnih et al. 2015, by Adam with learning rate `ADAM_RATE`.

        Rewards are clipped to ±1. The loss is the mean Huber loss over the batch, δ = 1. The target network
        does not change.

        Returns:
            The loss before the update. Its float() may block until the update is done.
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
    def classifier(self, spec: NetworkSpec, weights: Weights) -> Classifier:
        """Return a classifier with the initial weights `weights`."""

    @abstractmethod
    def q_network(self, spec: NetworkSpec, weights: Weights, target: Weights, datatype: str) -> QNetwork:
        """Return a Q-network with the initial weights `weights` and the target network `target`.

        Raises:
            UnsupportedError: The framework does not compute in `datatype`.
        """
