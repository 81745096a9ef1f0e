"""TensorBoard's event files, and experiment trackers against a package of the same interface."""

import importlib.util
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from simple_dqn import main, statistics
from simple_dqn.config import REGISTERED
from simple_dqn.errors import EXTRAS, UserError, require_extra
from simple_dqn.statistics import COLUMNS, PhaseSummary, Point, writers
from simple_dqn.statistics.writers import TensorboardWriter
from tests.command_line import read

CATCH = [
    "catch", "--environment", "catch", "--screen_width", "36",
    "--screen_height", "36", "--random_steps", "60", "--train_steps", "40", "--test_steps", "40",
    "--replay_size", "100", "--batch_size", "4", "--target_steps", "8", "--backend", "cpu", "--threads", "1",
]  # fmt: skip
TRAIN = ["train", *CATCH, "--preset", "simple_dqn", "--epochs", "1"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(statistics, "POINT_STEPS", 20)
    return tmp_path


def events(folder: Path) -> EventAccumulator:
    reader = EventAccumulator(str(folder))
    reader.Reload()
    return reader


def scalars(folder: Path, name: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in events(folder).Scalars(name)]


def test_scalars_are_read_back(tmp_path: Path, summary: PhaseSummary) -> None:
    folder = tmp_path / "results" / "pong"
    writer = TensorboardWriter(folder)
    assert not folder.exists()
    writer.open()
    for epoch in (1, 2):
        writer.on_phase_end(replace(summary, epoch=epoch, meanq=None))  # while the file is still open
    names = {name for name in COLUMNS if name not in ("phase", "meanq")}  # what does not exist is left out
    assert set(events(folder).Tags()["scalars"]) == {f"train/{name}" for name in names}
    assert scalars(folder, "train/epoch") == [(250, 1), (250, 2)]
    writer.close()


@pytest.mark.parametrize("histograms", [True, False])
def test_points_and_histograms_are_read_back(tmp_path: Path, histograms: bool) -> None:
    writer = TensorboardWriter(tmp_path, histograms=histograms)
    writer.open()
    qvalues = np.random.default_rng(0).normal(size=(256, 4)).astype(np.float32)
    writer.on_point(Point(1000, {"progress/loss": 0.5}, qvalues))
    writer.on_point(Point(2000, {}, None))
    writer.close()
    assert scalars(tmp_path, "progress/loss") == [(1000, 0.5)]
    reader = events(tmp_path)
    assert reader.Tags()["histograms"] == (["progress/q_values"] if histograms else [])
    if histograms:
        value = reader.Histograms("progress/q_values")[0].histogram_value
        assert value.num == sum(value.bucket) == qvalues.size
        assert (value.min, value.max) == (qvalues.min(), qvalues.max())
        assert value.sum == pytest.approx(qvalues.sum(), rel=1e-4)


def test_a_resumed_run_goes_on_where_its_checkpoint_was(tmp_path: Path, summary: PhaseSummary) -> None:
    for resumed, rows in (
        (False, [("train", 100, 1), ("test", 100, 2), ("train", 200, 3), ("test", 200, 4)]),
        (True, [("train", 200, 5), ("test", 200, 6)]),
        (True, [("test", 200, 7)]),
    ):
        writer = TensorboardWriter(tmp_path / "pong", resumed)
        writer.open()
        for phase, steps, meanq in rows:
            writer.on_phase_end(replace(summary, phase=phase, total_train_steps=steps, meanq=meanq))
        writer.close()
        time.sleep(1.1)  # the name of an event file has its second
    assert scalars(tmp_path / "pong", "train/meanq") == [(100, 1), (200, 5)]
    assert scalars(tmp_path / "pong", "test/meanq")[-1] == (200, 7)


def test_a_new_run_leaves_the_events_of_another_alone(tmp_path: Path, summary: PhaseSummary) -> None:
    for meanq in (1, 2, 3):
        writer = TensorboardWriter(tmp_path / "pong")
        writer.open()
        writer.on_phase_end(replace(summary, meanq=meanq))
        writer.close()
    for name, meanq in (("pong", 3), ("pong.1", 1), ("pong.2", 2)):
        assert scalars(tmp_path / name, "train/meanq") == [(250, meanq)]
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="leave out --tensorboard"):
        TensorboardWriter(tmp_path / "file" / "pong").open()


def run_all(home: Path, tracker: str) -> None:
    """Train an epoch, another one after a resume, and film the agent."""
    assert main.run([*TRAIN, "--track", tracker]) == 0
    assert main.run(["resume", "snapshots/catch_1.pkl", "--epochs", "2", "--track", tracker]) == 0
    assert main.run(["record", "snapshots/catch_2.pkl", "--track", tracker]) == 0
    assert (home / "videos" / "catch_2.mov").exists()


@dataclass
class FakePackage:
    """A module with the interface that W&B and trackio share; it has the runs that were begun."""

    runs: list["FakeRun"] = field(default_factory=list)
    Settings = dict
    away: bool = False

    def init(self, **given: Any) -> "FakeRun":
        if self.away:
            raise ConnectionError("no\nserver")
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


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakePackage:
    """Return the package that every tracker imports."""
    package = FakePackage()
    monkeypatch.setattr(writers, "require_extra", lambda *_: None)
    monkeypatch.setattr(writers, "import_module", lambda _: package)
    return package


@pytest.mark.parametrize("package", ["wandb", "trackio"])
def test_a_run_is_tracked_and_resumed_under_its_id(
    package: str, home: Path, fake: FakePackage, capfd: pytest.CaptureFixture[str]
) -> None:
    run_all(home, package)
    assert main.run([*TRAIN, "--track", package]) == 0
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


def test_names_with_dots_are_runs_of_their_own(tmp_path: Path, fake: FakePackage) -> None:
    for name in ("catch_lr0.5", "catch_lr0.1"):
        writers.TRACKERS["wandb"](tmp_path / name, {}, False).open()
    assert [(tmp_path / f"catch_lr0.{digit}.wandb").read_text() for digit in "51"] == ["id0", "id1"]


@pytest.mark.parametrize("package", ["wandb", "trackio"])
def test_a_package_or_a_server_that_is_missing_ends_the_run_in_one_line(
    package: str, home: Path, fake: FakePackage, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    fake.away = True
    assert main.run([*TRAIN, "--track", package]) == 2
    assert f"--track {package}: no server: " in capsys.readouterr().err.splitlines()[-1]
    monkeypatch.setattr(writers, "require_extra", require_extra)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(home / "other"))
    assert main.run([*TRAIN, "--track", package]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert f".venv/bin/python -m pip install {EXTRAS[package][0]}," in line
    assert not list(home.glob("other/results/*"))


def test_mlflow_names_its_replacement(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    (home / "old.yaml").write_text("settings:\n  track: mlflow\n")
    for given in (["--track", "mlflow"], ["--config", "old.yaml"]):
        assert main.run(["train", *CATCH, *given]) == 2
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


def test_a_plain_training_imports_no_writer_of_others() -> None:
    code = (
        "import sys; from simple_dqn import main; assert main.run(sys.argv[1:]) == 0;"
        "tools = {'wandb', 'trackio', 'tensorboard', 'onnx', 'simple_dqn.api'};"
        "assert not (tools | {'simple_dqn.statistics.writers'}) & set(sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code, *TRAIN], env=environment, check=False).returncode == 0
