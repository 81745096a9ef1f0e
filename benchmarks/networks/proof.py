"""Checks that a framework computes the right results before it is timed.

The reference is the same network in numpy in float64. Compared are the outputs for one batch, and the loss
after five updates on another: the framework trains six times, and returns the loss before each update.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from networks.frameworks.plain_numpy import NumpyQNetwork
from networks.interface import QNetwork, UnsupportedError
from networks.work import draw_minibatch, draw_target, draw_weights

UPDATES = 5
SEED, WEIGHTS_SEED, TARGET_SEED = 5, 1, 2
Q_BATCH = 32
PREDICTED = 16  # states whose outputs are compared
# Allowed errors: of outputs, relative to the largest of the reference; of losses, relative to the reference.
# bfloat16 has 8 bits of precision, so a single rounding is up to 0.004. On a GPU the frameworks convolve
# float32 in TF32, with 11 bits.
OUTPUT_BOUNDS = {"float32": 1e-5, "tf32": 2e-3, "bfloat16": 2e-2}
LOSS_BOUNDS = {"float32": 1e-5, "tf32": 5e-3, "bfloat16": 1e-2}


@dataclass(frozen=True)
class Answers:
    """The results of a framework."""

    outputs: NDArray[np.float64]  # [B, A]
    loss: float | None  # after five updates; None if it does not support training


def q_answers(network: QNetwork) -> Answers:
    """Return the results of `network`; this changes its weights."""
    minibatch = draw_minibatch(Q_BATCH, SEED)
    outputs = np.array(network.predict(minibatch.prestates[:PREDICTED]), np.float64)
    try:
        for _ in range(UPDATES):
            float(network.train(minibatch))
        return Answers(outputs, float(network.train(minibatch)))
    except UnsupportedError:
        return Answers(outputs, None)


def reference() -> Answers:
    """Return the results that every framework must have."""
    return q_answers(NumpyQNetwork(draw_weights(WEIGHTS_SEED), draw_target(TARGET_SEED), np.float64))


def difference(given: Answers, expected: Answers, datatype: str, device: str) -> str:
    """Return what is wrong with `given`, or "" if it is within the bounds."""
    datatype = "tf32" if (datatype, device) == ("float32", "gpu") else datatype
    if given.outputs.shape != expected.outputs.shape:
        return f"wrong: outputs have the shape {given.outputs.shape}"
    far = float(np.abs(given.outputs - expected.outputs).max() / np.abs(expected.outputs).max())
    if not far <= OUTPUT_BOUNDS[datatype]:
        return f"wrong: outputs are off by {far:.1g}, allowed is {OUTPUT_BOUNDS[datatype]:g}"
    if given.loss is not None and expected.loss is not None:
        far = abs(given.loss / expected.loss - 1)
        if not far <= LOSS_BOUNDS[datatype]:
            return f"wrong: the loss is off by {far:.1g}, allowed is {LOSS_BOUNDS[datatype]:g}"
    return ""
