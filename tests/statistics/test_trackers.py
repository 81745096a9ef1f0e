"""Experiment trackers, offline: each package itself reads back what was written."""

import importlib.util
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from simple_dqn import main
from simple_dqn.config import REGISTERED
from simple_dqn.errors import EXTRAS
from simple_dqn.statistics import statistics, trackers
from tests.command_line import read

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


@dataclass
class FakePackage:
    """A module with the interface that W&B and trackio share; it has the runs that were begun."""

    runs: list["FakeRun"] = field(default_factory=list)
    Settings = dict

    def init(self, **given: Any) -> "FakeRun":
        self.runs.append(FakeRun(given, f"id{len(self.runs)}"))
        return self.runs[-1]


@dataclass
class FakeRun:
    given: dict[str, Any]
    id: str
    rows: list[tuple[dict[str, float], int | None]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    ended: bool = False

    def define_metric(self, name: str, step_metric: str) -> None:
        assert (name, step_metric) == ("*", "train_steps")

    def log(self, row: dict[str, float], step: int | None = None) -> None:
        self.rows.append((row, step))
        if "test/average_reward" in row:
            raise ConnectionError("the server\nis away")  # costs a line of the log, not the run

    def log_artifact(self, path: str, name: str, type: str) -> None:  # noqa: A002 - the packages' own name
        assert Path(path).is_file()
        self.files.append(f"{type} {name}")

    def finish(self) -> None:
        self.ended = True


@pytest.mark.parametrize("package", ["wandb", "trackio"])
def test_a_run_is_tracked_and_resumed_under_its_id(
    package: str, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fake = FakePackage()
    monkeypatch.setattr(trackers, "require_extra", lambda *_: None)
    monkeypatch.setattr(trackers, "import_module", lambda name: {package: fake}[name])
    run_all(home, package)
    assert main.run(["train", *CATCH, "--epochs", "1", "--track", package]) == 0
    # A resumed run and a film continue the run of the file; a new training of the same name is another run.
    assert [run.given["resume"] for run in fake.runs] == ["never", "allow", "allow", "never"]
    assert {(run.given["project"], run.given["name"], run.ended) for run in fake.runs} == {
        ("simple-dqn", "catch", True)
    }
    if package == "wandb":
        assert [run.given["id"] for run in fake.runs] == [None, "id0", "id1", None]
        assert fake.runs[0].given["dir"] == home / "results"
    assert (home / "results" / f"catch.{package}").read_text() == "id3"
    first, second, film, _ = fake.runs
    assert first.given["config"]["batch_size"] == 4
    for run, steps in ((first, [20, 40]), (second, [60, 80])):
        assert [row["train_steps"] for row, _ in run.rows if "progress/mean_q" in row] == steps
        at = [row["train_steps"] if package == "trackio" else None for row, _ in run.rows]
        assert [step for _, step in run.rows] == at
    files = [first.files, second.files, film.files]
    assert files == [["snapshot catch_1.snapshot"], ["snapshot catch_2.snapshot"], ["film catch_2.film"]]
    assert f"--track {package} failed: the server is away" in capfd.readouterr().err


def test_a_server_that_is_away_at_the_start_ends_the_run_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_server(_name: str) -> None:
        raise ConnectionError("no\nserver")

    monkeypatch.setattr(trackers, "require_extra", lambda *_: None)
    monkeypatch.setattr(trackers, "import_module", no_server)
    assert main.run(["train", *CATCH, "--epochs", "1", "--track", "wandb"]) == 2
    assert "--track wandb: no server: " in capsys.readouterr().err.splitlines()[-1]


def test_mlflow_names_its_replacement(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    (home / "old.yaml").write_text("settings:\n  track: mlflow\n")
    for given in (["--track", "mlflow"], ["--config", "old.yaml"]):
        catch = [word for word in CATCH if word not in ("--preset", "simple_dqn")]
        assert main.run(["train", *catch, *given]) == 2
        assert "mlflow is gone: give wandb or trackio" in capsys.readouterr().err
    REGISTERED["track"].append("mlflow")  # a writer of one's own may have the name
    try:
        assert read("train", [*CATCH, "--track", "mlflow"]).given["track"] == "mlflow"
    finally:
        REGISTERED["track"].remove("mlflow")


def test_trackio_has_the_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(home / "trackio"))
    trackio = pytest.importorskip("trackio")
    from trackio.sqlite_storage import SQLiteStorage

    run_all(home, "trackio")
    (run,) = trackio.Api().runs("simple-dqn")
    assert (run.name, run.id) == ("catch", (home / "results" / "catch.trackio").read_text())
    rows = SQLiteStorage.get_logs("simple-dqn", "catch")
    for name, steps in (("progress/mean_q", [20, 40, 60, 80]), ("test/average_reward", [40, 80])):
        assert [row["step"] for row in rows if name in row] == steps


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


def test_names_with_dots_are_runs_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakePackage()
    monkeypatch.setattr(trackers, "require_extra", lambda *_: None)
    monkeypatch.setattr(trackers, "import_module", lambda _: fake)
    for name in ("catch_lr0.5", "catch_lr0.1"):
        trackers.TRACKERS["wandb"](tmp_path / name, {}, False).open()
    assert [(tmp_path / f"catch_lr0.{digit}.wandb").read_text() for digit in "51"] == ["id0", "id1"]


@pytest.mark.parametrize("package", ["wandb", "trackio"])
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
        "tools = {'wandb', 'trackio', 'tensorboard', 'onnx', 'simple_dqn.api'};"
        "assert not (tools | {'simple_dqn.statistics.trackers'}) & set(sys.modules)"
    )
    command = [sys.executable, "-c", code, "train", *CATCH, "--epochs", "1"]
    environment = {"PYTHONPATH": ":".join(sys.path), "SIMPLE_DQN_HOME": str(home), "PATH": "/usr/bin:/bin"}
    assert subprocess.run(command, env=environment, check=False).returncode == 0
