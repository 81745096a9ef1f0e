"""The processes, the installer, the reports and the command line of `./bench.sh networks`."""

import csv
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from networks import __main__ as command
from networks import catalogue, report
from networks.contender import Contender, ContenderError
from networks.interface import UnsupportedError
from networks.measuring import Cell, Plan, Row, measure
from networks.work import Subject, Task
from networks.worker import order_of

from simple_dqn.errors import UserError

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


def test_a_worker_stands_still_between_orders(numpy_contender: Contender) -> None:
    stat = Path(f"/proc/{numpy_contender._process.pid}/stat")
    if stat.exists():
        deadline = time.monotonic() + 30
        while stat.read_text().rsplit(")", 1)[1].split()[0] != "T":
            assert time.monotonic() < deadline
            time.sleep(0.01)
    answer = numpy_contender.ask({"do": "measure", "seconds": 0.0, **order_of(PREDICT)})
    assert answer["seconds"] > 0


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


def test_a_failed_installation_is_told_and_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = {name: tmp_path / f"{name}.txt" for name in ("jax", "openvino")}
    files["jax"].write_text("nothing @ file:///nowhere/at/all.whl\n")
    files["openvino"].write_text("# nothing to install\n")
    monkeypatch.setattr(catalogue, "requirements", files.__getitem__)
    failures = catalogue.install(["jax", "openvino", "numpy"])
    assert list(failures) == ["jax"]
    assert failures["jax"].startswith("could not be installed: ERROR")
    assert not catalogue.is_installed("jax")
    assert catalogue.is_installed("openvino")
    files["openvino"].write_text("# another version\n")
    assert not catalogue.is_installed("openvino")


def test_every_framework_has_what_it_needs() -> None:
    for name, entry in catalogue.FRAMEWORKS.items():
        module = catalogue.HERE / "frameworks" / f"{entry.place.split(':')[0]}.py"
        assert f"class {entry.place.split(':')[1]}(" in module.read_text()
        if entry.own_packages:
            for line in catalogue.requirements(name).read_text().splitlines():
                assert line.startswith("#") or "==" in line


@pytest.fixture
def rows() -> list[Row]:
    slow = Row(
        "Slow", "slow", "cpu", "1.0", cells={PREDICT: Cell([0.002, 0.004, 0.003], [1.0, 2.0, 1.5], 0.5)}
    )
    wrong = Row("Wrong", "wrong", "cpu", "2.0", cells={PREDICT: Cell(reason="wrong: outputs")})
    return [slow, wrong, Row("Absent", "absent", "cpu", reason="not installed")]


def test_tables_have_a_row_for_everyone(rows: list[Row]) -> None:
    (table,) = report.dqn_tables(rows, {})
    assert table.header == ["framework", "predict 1"]
    assert table.rows == [["Slow", "3,000 ±33%"], ["Wrong", "wrong"], ["Absent", "–"]]
    assert table.notes == ["Wrong: wrong: outputs", "Absent: not installed"]


def test_the_csv_has_a_line_for_everyone(rows: list[Row], tmp_path: Path) -> None:
    report.write_csv(tmp_path / "n.csv", rows, {"cpu": {"float32": PREDICT.flops / 0.0015}})
    with (tmp_path / "n.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["framework"] for line in lines] == ["slow", "wrong", "absent"]
    assert [lines[0][name] for name in ("median_us", "least_us", "most_us")] == ["3000.0", "2000.0", "4000.0"]
    assert (lines[0]["peak_share"], lines[0]["cores_busy"]) == ("0.5000", "1.50")
    assert lines[2]["reason"] == "not installed"


def test_a_document_is_filled_again_and_again(tmp_path: Path) -> None:
    document = tmp_path / "networks.md"
    document.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    for text in ("new\n", "newer\n"):
        report.fill(document, text)
    assert document.read_text() == f"before\n{report.BEGIN}\n\nnewer\n\n{report.END}\nafter\n"
    document.write_text("no place")
    with pytest.raises(UserError, match="lacks the markers"):
        report.fill(document, "new")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["caffe"], "unknown framework 'caffe': choose from simple_dqn, pytorch,"),
        (["numpy", "--threads", "0"], "0 is too small: give more than 0"),
        (["numpy", "--threads", "999"], "--threads 999 is not possible"),
        (["--docs", "/nowhere.md"], "cannot read /nowhere.md"),
        (["--quik"], "did you mean --quick?"),
    ],
)
def test_bad_input_is_one_line(words: list[str], complaint: str) -> None:
    done = subprocess.run([sys.executable, "-P", "-m", "networks", *words], capture_output=True, text=True)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert complaint in done.stderr


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


def test_the_script_lists_its_tables() -> None:
    script = HOME / "bench.sh"
    done = subprocess.run([script], capture_output=True, text=True)
    assert done.returncode == 0
    assert all(name in done.stdout for name in ("environments", "replay", "networks", "training"))
    done = subprocess.run([script, "nothing"], capture_output=True, text=True)
    assert (done.returncode, "unknown table nothing" in done.stderr) == (2, True)
