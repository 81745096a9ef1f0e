"""What a framework must offer to be timed. Everything passes as numpy arrays in the memory of the host.

Letters in shapes: `B` samples in a batch, `O` outputs of a network, which are classes or actions.
"""

from abc import ABC, abstractmethod
from typing import Protocol, SupportsFloat, TypeAlias

import numpy as np
from numpy.typing import NDArray

from networks.work import Labels, NetworkSpec, Scores, Weights
from simple_dqn.types import Minibatch, QValues, States

Images: TypeAlias = NDArray[np.float32]  # [B, 4, 84, 84]


class UnsupportedError(Exception):
    """The framework cannot do this, here or at all; the message says why in a few words."""


class Classifier(Protocol):
    """A network as rl-nn-benchmarks timed it, with float32 images in."""

    def scores(self, images: Images) -> Scores:
        """Return the score of each class, float32 [B, O]."""

    def classify(self, images: Images) -> Labels:
        """Return the class with the highest score, [B]."""

    def train(self, images: Images, labels: Labels) -> SupportsFloat:
        """Make one step of gradient descent down the mean cross-entropy, of size `CLASSIFIER_RATE`.

        Returns:
            The loss before the step. Its float() may wait until the step is done.
        """


class QNetwork(Protocol):
    """A deep Q-network, with bytes in; hidden layers in the datatype asked for, the rest in float32."""

    def predict(self, states: States) -> QValues:
        """Return the value of each action, float32 [B, O], of `states` divided by 255."""

    def train(self, minibatch: Minibatch) -> SupportsFloat:
        """Make one update of Algorithm 1 of Mnih et al. 2015, by Adam with step size `ADAM_RATE`.

        Rewards are clipped to ±1; the loss is Huber's with δ = 1, its mean over the batch. The target
        network stays as it is.

        Returns:
            The loss before the update. Its float() may wait until the update is done.
        """


class Framework(ABC):
    """One framework in a process of its own, on one device, with a given number of threads."""

    version: str  # of the framework, and of what it computes with where that matters

    def __init__(self, device: str, threads: int) -> None:
        """Set the framework up for `device`, "cpu" or "gpu", and `threads` CPU threads.

        Raises:
            UnsupportedError: It cannot run here; the message says why.
        """
        self.device, self.threads = device, threads

    @abstractmethod
    def classifier(self, spec: NetworkSpec, weights: Weights) -> Classifier:
        """Return a classifier that starts from `weights`."""

    @abstractmethod
    def q_network(self, spec: NetworkSpec, weights: Weights, target: Weights, datatype: str) -> QNetwork:
        """Return a Q-network that starts from `weights` and has the target network `target`.

        Raises:
            UnsupportedError: It does not compute in `datatype`.
        """
