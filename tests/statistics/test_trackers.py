"""Experiment trackers, offline: each package itself reads back what was written."""

import importlib.util
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from simple_dqn import main
from simple_dqn.errors import EXTRAS
from simple_dqn.statistics import statistics
from simple_dqn.statistics.trackers import MlflowWriter

BLOCK = 32 * 1024  # bytes of a block in a log of LevelDB's
CATCH = [
    "catch", "--preset", "simple_dqn", "--environment", "catch", "--screen_width", "36",
    "--screen_height", "36", "--random_steps", "60", "--train_steps", "40", "--test_steps", "40",
    "--replay_size", "100", "--batch_size", "4", "--target_steps", "8", "--backend", "cpu", "--threads", "1",
]  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(statistics, "POINT_STEPS", 20)
    return tmp_path


def run_all(home: Path, tracker: str) -> None:
    """Train an epoch, another one after a resume, and film the agent."""
    assert main.run(["train", *CATCH, "--epochs", "1", "--track", tracker]) == 0
    time.sleep(1.1)  # W&B's folder has the second of its start
    assert main.run(["resume", "snapshots/catch_1.pkl", "--epochs", "2", "--track", tracker]) == 0
    time.sleep(1.1)
    assert main.run(["record", "snapshots/catch_2.pkl", "--track", tracker]) == 0
    assert (home / "videos" / "catch_2.mov").exists()


def test_mlflow_has_the_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    run_all(home, "mlflow")
    client = mlflow.MlflowClient(f"sqlite:///{home}/results/mlflow.db")
    experiment = client.get_experiment_by_name("simple-dqn")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("catch", "FINISHED")
    assert run.data.params["batch_size"] == "4"
    for name, steps in (("progress/mean_q", [20, 40, 60, 80]), ("test/average_reward", [40, 80])):
        assert [metric.step for metric in client.get_metric_history(run.info.run_id, name)] == steps
    files = {
        file.path for kind in ("snapshots", "films") for file in client.list_artifacts(run.info.run_id, kind)
    }
    assert files == {"snapshots/catch_1.pkl", "snapshots/catch_2.pkl", "films/catch_2.mov"}
    # A new training of the same name is another run.
    assert main.run(["train", *CATCH, "--epochs", "1", "--track", "mlflow"]) == 0
    assert len(client.search_runs([experiment.experiment_id])) == 2


def test_mlflow_without_its_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "pigeon://post")
    assert main.run(["train", *CATCH, "--epochs", "1", "--track", "mlflow"]) == 2
    assert "--track mlflow: " in capsys.readouterr().err.splitlines()[-1]


def entries(log: bytes) -> Iterator[bytes]:
    """Yield the entries of an offline run of W&B: a log of LevelDB's, after a header of 7 bytes."""
    place, entry = 7, b""
    while place + 7 <= len(log):
        if BLOCK - place % BLOCK < 7:  # no header fits into the rest of the block
            place += BLOCK - place % BLOCK
        _, length, kind = struct.unpack_from("<IHB", log, place)
        entry += log[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # a whole entry, or the last part of one
            yield entry
            entry = b""


def test_wandb_has_the_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    monkeypatch.setenv("WANDB_MODE", "offline")
    run_all(home, "wandb")
    wandb.teardown()  # its service writes the last records after the run
    records = []
    for file in sorted(home.glob("results/wandb/offline-run-*/*.wandb")):
        records += [Record.FromString(data) for data in entries(file.read_bytes())]
    names = {record.run.run_id for record in records if record.HasField("run")}
    assert names == {(home / "results" / "catch.wandb").read_text()}
    rows = [
        {item.nested_key[0] if item.nested_key else item.key: item.value_json for item in record.history.item}
        for record in records
        if record.HasField("history")
    ]
    steps = [int(row["train_steps"]) for row in rows if "progress/mean_q" in row]
    assert steps == [20, 40, 60, 80]
    assert [int(row["train_steps"]) for row in rows if "test/average_reward" in row] == [40, 80]
    files = [record.artifact.name for record in records if record.HasField("artifact")]
    files += [
        record.request.log_artifact.artifact.name
        for record in records
        if record.HasField("request") and record.request.HasField("log_artifact")
    ]
    assert files == ["catch_1.snapshot", "catch_2.snapshot", "catch_2.film"]


def test_names_with_dots_are_runs_of_their_own(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    for name in ("catch_lr0.5", "catch_lr0.1"):
        tracker = MlflowWriter(tmp_path / name, {}, False)
        tracker.open()
        tracker.close()
    first, second = ((tmp_path / f"catch_lr0.{digit}.mlflow").read_text() for digit in "51")
    assert first != second


@pytest.mark.parametrize("package", ["wandb", "mlflow"])
def test_a_missing_package_is_told_with_the_command_that_installs_it(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main.run(["train", *CATCH, "--track", package]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert f".venv/bin/python -m pip install {EXTRAS[package][0]}," in line
    assert not list(home.glob("results/*"))


def test_a_plain_training_imports_no_tracker(home: Path) -> None:
    code = (
        "import sys; from simple_dqn import main; assert main.run(sys.argv[1:]) == 0;"
        "tools = {'wandb', 'mlflow', 'tensorboard', 'onnx', 'simple_dqn.api'};"
        "assert not (tools | {'simple_dqn.statistics.trackers'}) & set(sys.modules)"
    )
    command = [sys.executable, "-c", code, "train", *CATCH, "--epochs", "1"]
    environment = {"PYTHONPATH": ":".join(sys.path), "SIMPLE_DQN_HOME": str(home), "PATH": "/usr/bin:/bin"}
    assert subprocess.run(command, env=environment, check=False).returncode == 0
