"""The reference against PyTorch, and that the proof finds frameworks which do other work."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from networks.frameworks.pytorch import PyTorchEager
from networks.frameworks.simple_dqn import SimpleDqn
from networks.interface import Framework
from networks.layers import NumpyQNetwork
from networks.proof import (
    TARGET_SEED,
    WEIGHTS_SEED,
    Answers,
    classifier_answers,
    difference,
    q_answers,
    reference,
)
from networks.work import LARGE, NATURE, NETWORKS, Subject, Task, draw_target, draw_weights

from simple_dqn.types import Minibatch

pytestmark = pytest.mark.nightly

WEIGHTS, TARGET = draw_weights(NATURE, WEIGHTS_SEED), draw_target(NATURE, TARGET_SEED)


@pytest.fixture(scope="module")
def expected() -> Answers:
    return reference(Subject("nature"))


@pytest.mark.parametrize("datatype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", [PyTorchEager, SimpleDqn])
def test_q_networks_of_pytorch_are_the_reference(
    kind: type[Framework], datatype: str, expected: Answers
) -> None:
    given = q_answers(kind("cpu", torch.get_num_threads()).q_network(NATURE, WEIGHTS, TARGET, datatype))
    assert difference(given, expected, datatype, "cpu") == ""


def test_the_classifier_of_pytorch_is_the_reference() -> None:
    spec, wanted = NETWORKS["small"], reference(Subject("small"))
    framework = PyTorchEager("cpu", torch.get_num_threads())
    given = classifier_answers(framework.classifier(spec, draw_weights(spec, WEIGHTS_SEED)))
    assert difference(given, wanted, "float32", "cpu") == ""


class Forgetful(NumpyQNetwork):
    """Does not learn."""

    def train(self, minibatch: Minibatch) -> float:
        weights = {name: values.copy() for name, values in self.online.weights.items()}
        loss = super().train(minibatch)
        self.online.weights = weights
        return loss


def test_other_updates_and_outputs_are_wrong(expected: Answers) -> None:
    given = q_answers(Forgetful(NATURE, WEIGHTS, TARGET))
    assert difference(given, expected, "bfloat16", "cpu").startswith("wrong: the loss")
    wrong_target = q_answers(NumpyQNetwork(NATURE, WEIGHTS, WEIGHTS))
    assert "the loss" in difference(wrong_target, expected, "float32", "cpu")
    for outputs in (expected.outputs[:, ::-1], expected.outputs * np.nan):
        given = Answers(outputs, expected.loss)
        assert difference(given, expected, "bfloat16", "cpu").startswith("wrong: outputs are off")
    fewer = Answers(expected.outputs[:4], expected.loss)
    assert difference(fewer, expected, "bfloat16", "cpu").startswith("wrong: outputs have the shape")


def test_operations_are_counted_as_by_hand() -> None:
    layers = [20 * 20 * 32 * 256, 9 * 9 * 64 * 512, 7 * 7 * 64 * 576, 3136 * 512, 512 * 6]
    assert NATURE.layer_flops() == [2 * products for products in layers]
    forward = 2 * sum(layers)
    assert Task(Subject("nature"), False, 8).flops == 8 * forward
    assert Task(Subject("nature"), True, 32).flops == 32 * (4 * forward - 2 * layers[0])
    assert Task(Subject("large"), True, 1).flops == 3 * sum(LARGE.layer_flops()) - LARGE.layer_flops()[0]


def test_on_a_gpu_float32_is_convolved_in_tf32() -> None:
    expected = reference(Subject("small"))
    rounded = replace(expected, outputs=expected.outputs * 1.001)
    assert difference(rounded, expected, "float32", "gpu") == ""
    assert difference(rounded, expected, "float32", "cpu").startswith("wrong: outputs are off")
    assert difference(rounded, expected, "bfloat16", "gpu") == ""
