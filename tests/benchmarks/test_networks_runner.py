"""The processes, the installer, the reports and the command line of `./bench.sh networks`."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from networks import __main__ as command
from networks import report
from networks.contender import Contender, ContenderError
from networks.interface import UnsupportedError
from networks.measuring import Plan, Row, measure
from networks.work import Subject, Task
from networks.worker import order_of

pytestmark = pytest.mark.nightly

HOME = Path(__file__).parents[2]
PREDICT = Task(Subject("nature"), training=False, batch=1)


@pytest.fixture(autouse=True)
def paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(HOME / part) for part in ("src", "benchmarks")))
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))


@pytest.fixture
def numpy_contender() -> Iterator[Contender]:
    contender = Contender("numpy", "cpu", 1)
    yield contender
    contender.close()


def test_what_a_framework_cannot_do_does_not_end_it(numpy_contender: Contender) -> None:
    with pytest.raises(UnsupportedError, match="no bfloat16"):
        numpy_contender.ask({"do": "prove", "network": "nature", "datatype": "bfloat16"})
    with pytest.raises(UnsupportedError, match="failed: KeyError"):
        numpy_contender.ask({"do": "prove", "network": "no such", "datatype": "float32"})
    assert numpy_contender.ask({"do": "warm_up", "seconds": 0.0, **order_of(PREDICT)})["seconds"] > 0


def test_a_worker_that_dies_leaves_the_others_running(numpy_contender: Contender) -> None:
    dead = Contender("numpy", "cpu", 1)
    dead._process.kill()
    dead._process.wait()
    rows = {name: Row(name, "numpy", "cpu") for name in ("dead", "alive")}
    measure({"dead": dead, "alive": numpy_contender}, rows, Plan([PREDICT], 2, 0.0, 0.0))
    dead.close()
    assert rows["dead"].reason
    assert not rows["dead"].cells[PREDICT].seconds
    assert len(rows["alive"].cells[PREDICT].seconds) == 2


def test_a_framework_with_wrong_results_is_not_timed(
    numpy_contender: Contender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("networks.proof.WEIGHTS_SEED", 99)  # of the reference; the worker has its own
    rows = {"numpy": Row("numpy", "numpy", "cpu")}
    measure({"numpy": numpy_contender}, rows, Plan([PREDICT], 1, 0.0, 0.0))
    assert rows["numpy"].cells[PREDICT].reason.startswith("wrong")
    assert not rows["numpy"].cells[PREDICT].seconds


def test_the_reason_for_a_missing_framework_is_reported() -> None:
    with pytest.raises(ContenderError, match="CUDA graphs need a GPU"):
        Contender("pytorch_cuda_graphs", "cpu", 1)
    with pytest.raises(ContenderError, match=r"not installed: ./bench.sh networks jax --install"):
        Contender("jax", "cpu", 1)


def test_one_run_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = tmp_path / "networks.md"
    document.write_text(f"{report.BEGIN}\n{report.END}\n")
    monkeypatch.setattr(command, "QUICK_TASKS", [PREDICT])
    monkeypatch.setattr(command, "peaks", lambda _threads: {"cpu": {"float32": 1e9, "bfloat16": 1e9}})
    words = ["numpy", "pytorch_cuda_graphs", "--quick", "--rounds", "1", "--threads", "1"]
    command.main([*words, "--csv_file", str(tmp_path / "n.csv"), "--docs", str(document)])
    assert (tmp_path / "n.csv").exists()
    assert (tmp_path / "n.png").read_bytes().startswith(b"\x89PNG")
    assert "| plain numpy |" in document.read_text()
