"""Equal work first: what every framework must answer before it is timed.

The reference is the same network in numpy in float64. A framework gives its outputs for a batch; then it
trains on one batch six times, and the loss that it returns at the sixth is the one after five updates.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import SupportsFloat

import numpy as np
from numpy.typing import NDArray

from networks.interface import Classifier, QNetwork, UnsupportedError
from networks.layers import NumpyClassifier, NumpyQNetwork
from networks.work import (
    CLASSIFIER_TRAIN_BATCH,
    NETWORKS,
    Subject,
    draw_images,
    draw_minibatch,
    draw_target,
    draw_weights,
)

UPDATES = 5
SEED, WEIGHTS_SEED, TARGET_SEED = 5, 1, 2
Q_BATCH = 32
PREDICTED = 16  # states, and images, whose outputs are compared
# How far outputs may be off, in shares of the reference's largest, and losses, in shares of the reference's.
# bfloat16 has 8 bits of precision, so one rounding alone is 0.004.
OUTPUT_BOUNDS = {"float32": 1e-5, "bfloat16": 2e-2}
LOSS_BOUNDS = {"float32": 1e-5, "bfloat16": 1e-2}


@dataclass(frozen=True)
class Answers:
    """What a framework answered."""

    outputs: NDArray[np.float64]  # [B, O]
    loss: float | None  # after five updates; None where it does not learn


def q_answers(network: QNetwork) -> Answers:
    """Let `network` answer; its weights are others after that."""
    minibatch = draw_minibatch(Q_BATCH, SEED)
    outputs = np.array(network.predict(minibatch.prestates[:PREDICTED]), np.float64)
    return Answers(outputs, _loss_after_updates(lambda: network.train(minibatch)))


def classifier_answers(classifier: Classifier) -> Answers:
    """Do the same with a classifier."""
    images, labels = draw_images(CLASSIFIER_TRAIN_BATCH, SEED)
    outputs = np.array(classifier.scores(images[:PREDICTED]), np.float64)
    return Answers(outputs, _loss_after_updates(lambda: classifier.train(images, labels)))


def _loss_after_updates(train: Callable[[], SupportsFloat]) -> float | None:
    """Return the loss of a network after `UPDATES` updates, or nothing where it does not learn."""
    try:
        for _ in range(UPDATES):
            float(train())
        return float(train())
    except UnsupportedError:
        return None


def reference(subject: Subject) -> Answers:
    """Return what every framework must answer."""
    spec = NETWORKS[subject.network]
    weights = draw_weights(spec, WEIGHTS_SEED)
    if subject.is_q_network:
        return q_answers(NumpyQNetwork(spec, weights, draw_target(spec, TARGET_SEED), np.float64))
    return classifier_answers(NumpyClassifier(spec, weights, np.float64))


def difference(given: Answers, expected: Answers, datatype: str) -> str:
    """Return what is wrong with `given`, or nothing where it is within the bounds."""
    if given.outputs.shape != expected.outputs.shape:
        return f"wrong: outputs of the shape {given.outputs.shape}"
    far = float(np.abs(given.outputs - expected.outputs).max() / np.abs(expected.outputs).max())
    if not far <= OUTPUT_BOUNDS[datatype]:
        return f"wrong: outputs are {far:.1g} off, and {OUTPUT_BOUNDS[datatype]:g} is allowed"
    if given.loss is not None and expected.loss is not None:
        far = abs(given.loss / expected.loss - 1)
        if not far <= LOSS_BOUNDS[datatype]:
            return f"wrong: the loss is {far:.1g} off, and {LOSS_BOUNDS[datatype]:g} is allowed"
    return ""
