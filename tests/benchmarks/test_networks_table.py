"""`./bench.sh networks`: the reference, the proof that finds other work than asked, and the runner."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from networks import __main__ as command
from networks import report
from networks.contender import Contender, ContenderError
from networks.frameworks.pytorch import PyTorchEager
from networks.frameworks.simple_dqn import SimpleDqn
from networks.interface import Framework, UnsupportedError
from networks.layers import NumpyQNetwork
from networks.measuring import Plan, Row, measure
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
from networks.worker import order_of

from simple_dqn.types import Minibatch
from tests.command_line import Patch

pytestmark = pytest.mark.nightly

WEIGHTS, TARGET = draw_weights(NATURE, WEIGHTS_SEED), draw_target(NATURE, TARGET_SEED)
PREDICT = Task(Subject("nature"), training=False, batch=1)


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
    forgetful = q_answers(Forgetful(NATURE, WEIGHTS, TARGET))
    wrong_target = q_answers(NumpyQNetwork(NATURE, WEIGHTS, WEIGHTS))
    mirrored, rounded = (
        replace(expected, outputs=outputs)
        for outputs in (expected.outputs[:, ::-1], expected.outputs * 1.001)
    )
    for given, datatype, backend, words in (
        (forgetful, "bfloat16", "cpu", "wrong: the loss"),
        (wrong_target, "float32", "cpu", "the loss"),
        (mirrored, "bfloat16", "cpu", "wrong: outputs are off"),
        (replace(expected, outputs=expected.outputs * np.nan), "bfloat16", "cpu", "wrong: outputs are off"),
        (replace(expected, outputs=expected.outputs[:4]), "bfloat16", "cpu", "wrong: outputs have the shape"),
        (rounded, "float32", "cpu", "wrong: outputs are off"),
    ):
        assert words in difference(given, expected, datatype, backend)
    for datatype in ("float32", "bfloat16"):  # a GPU convolves float32 in TF32
        assert difference(rounded, expected, datatype, "gpu") == ""


def test_operations_are_counted_as_by_hand() -> None:
    layers = [20 * 20 * 32 * 256, 9 * 9 * 64 * 512, 7 * 7 * 64 * 576, 3136 * 512, 512 * 6]
    assert NATURE.layer_flops() == [2 * products for products in layers]
    forward = 2 * sum(layers)
    assert Task(Subject("nature"), False, 8).flops == 8 * forward
    assert Task(Subject("nature"), True, 32).flops == 32 * (4 * forward - 2 * layers[0])
    assert Task(Subject("large"), True, 1).flops == 3 * sum(LARGE.layer_flops()) - LARGE.layer_flops()[0]


@pytest.fixture
def numpy_contender() -> Iterator[Contender]:
    contender = Contender("numpy", "cpu", 1)
    yield contender
    contender.close()


def test_a_failure_or_a_death_leaves_the_others_running(numpy_contender: Contender) -> None:
    for network, datatype, words in (("nature", "bfloat16", "no bfloat16"), ("x", "float32", "failed: Key")):
        with pytest.raises(UnsupportedError, match=words):
            numpy_contender.ask({"do": "prove", "network": network, "datatype": datatype})
    assert numpy_contender.ask({"do": "warm_up", "seconds": 0.0, **order_of(PREDICT)})["seconds"] > 0
    dead = Contender("numpy", "cpu", 1)
    dead._process.kill()
    dead._process.wait()
    rows = {name: Row(name, "numpy", "cpu") for name in ("dead", "alive")}
    measure({"dead": dead, "alive": numpy_contender}, rows, Plan([PREDICT], 2, 0.0, 0.0))
    dead.close()
    assert rows["dead"].reason
    assert [len(rows[name].cells[PREDICT].seconds) for name in ("dead", "alive")] == [0, 2]


def test_a_framework_with_wrong_results_is_not_timed(numpy_contender: Contender, monkeypatch: Patch) -> None:
    monkeypatch.setattr("networks.proof.WEIGHTS_SEED", 99)  # of the reference; the worker has its own
    rows = {"numpy": Row("numpy", "numpy", "cpu")}
    measure({"numpy": numpy_contender}, rows, Plan([PREDICT], 1, 0.0, 0.0))
    assert rows["numpy"].cells[PREDICT].reason.startswith("wrong")
    assert not rows["numpy"].cells[PREDICT].seconds


def test_the_reason_for_a_missing_framework_is_reported() -> None:
    for name, reason in (("pytorch_cuda_graphs", "need a GPU"), ("jax", "bench.sh networks jax --install")):
        with pytest.raises(ContenderError, match=reason):
            Contender(name, "cpu", 1)


def test_one_run_of_the_command(tmp_path: Path, monkeypatch: Patch) -> None:
    document = tmp_path / "networks.md"
    document.write_text(f"{report.BEGIN}\n{report.END}\n")
    monkeypatch.setattr(command, "QUICK_TASKS", [PREDICT])
    monkeypatch.setattr(command, "peaks", lambda _threads: {"cpu": {"float32": 1e9, "bfloat16": 1e9}})
    words = ["numpy", "pytorch_cuda_graphs", "--quick", "--rounds", "1", "--threads", "1"]
    command.main([*words, "--csv_file", str(tmp_path / "n.csv"), "--docs", str(document)])
    assert (tmp_path / "n.csv").exists()
    assert (tmp_path / "n.png").read_bytes().startswith(b"\x89PNG")
    assert "| plain numpy |" in document.read_text()
