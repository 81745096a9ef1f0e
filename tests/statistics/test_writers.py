"""The bar and the log, TensorBoard's event files, and trackers against a package of the same interface."""

import importlib.util
import io
import logging
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from simple_dqn import main, statistics
from simple_dqn.errors import EXTRAS, UserError, require_extra
from simple_dqn.statistics import COLUMNS, PhaseSummary, Point, writers
from simple_dqn.statistics.writers import Console, ConsoleHandler, TensorboardWriter
from tests.statistics.test_csv_file import SUMMARY

CATCH = [
    "catch", "--environment", "catch", "--network", "small", "--screen_width", "36",
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


def progress(
    steps: int, games: int = 0, reward: float | None = None, loss: float | None = None
) -> PhaseSummary:
    rate = 0.88 if loss else 0.05
    return PhaseSummary(12, "train", steps, games, reward, loss=loss, last_exploration_rate=rate)


def terminal(patch: pytest.MonkeyPatch) -> io.StringIO:
    """Let standard error be a terminal, and return its output."""
    stream = io.StringIO()
    patch.setattr(stream, "isatty", lambda: True)
    patch.setattr(sys, "stderr", stream)
    return stream


def test_the_bar_has_80_columns_and_without_an_end_counts_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tqdm.std._screen_shape_wrapper", lambda: lambda _stream: (80, 24))
    console, stream = Console(), terminal(monkeypatch)
    full = r"test 3 40%\|.+\| \d\d:\d\d left \S+/s ε 0\.88 120 games reward -20\.2 loss 0\.0012"
    for total, steps, drawn in (
        (250_000, [progress(100_000, 120, -20.25, 0.00117)], [full]),
        (0, [progress(100)], [r"test 3 100 steps .*ε 0\.05 0 games"]),  # of unknown length
        (60, [progress(60), progress(66)], [r"test 3 100%\|.*", "test 3 66.0 steps .*"]),  # games end later
    ):
        console.on_phase_start("test", 3, total)
        for step, words in zip(steps, drawn, strict=True):
            console.on_progress(step)
            last = stream.getvalue().split("\r")[-1].rstrip()
            assert re.fullmatch(words, last)
            assert len(last) <= 80
        console.close()
        assert stream.getvalue().split("\r")[-1].strip() == ""


def test_the_lines_of_simple_dqn_follow_the_phase_and_no_bar_is_in_a_file(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    console = Console(epochs=3)
    with caplog.at_level(logging.INFO):
        for summary in (replace(SUMMARY, steps=100), replace(SUMMARY, epoch=3)):  # interrupted, and the last
            console.on_phase_start("train", 1, 250)
            console.on_phase_end(summary)
        assert "left" not in caplog.text
        console.on_phase_end(replace(SUMMARY, phase="test", epoch_time=2.0))
        caplog.clear()
        console.on_phase_start("train", 1, 250)
        console.on_progress(progress(100))
        console.on_phase_end(SUMMARY)
    assert caplog.messages == [
        "Epoch #1: train ended after 250 steps",
        "  num_games: 3, average_reward: -20.500000, min_game_reward: -21, max_game_reward: -19",
        "  last_exploration_rate: 0.100000, epoch_time: 10s, steps_per_second: 25",
        "  about 0:00:26 left, for 2 epochs",  # two of 12 seconds, and the test that follows
    ]
    assert capsys.readouterr().err == ""


def test_log_lines_go_above_the_bar_without_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    console, stream = Console(), terminal(monkeypatch)
    console.on_phase_start("train", 1, 250)
    ConsoleHandler(stream).handle(logging.makeLogRecord({"msg": "saved %s", "args": ("a\x1b[2J\nb",)}))
    lines = [line.split("\r")[-1] for line in stream.getvalue().split("\n")]
    assert lines[0] == "saved a\\x1b[2J\\nb"
    assert lines[-1].startswith("train 1 0%|")
    console.close()


def test_the_log_outlives_its_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with Path("/dev/full").open("w") as full:
        handler = ConsoleHandler(full)
        for _ in range(2):
            handler.handle(logging.makeLogRecord({"msg": "training goes on"}))
        full.flush()
    assert capfd.readouterr().err == ""


def events(folder: Path) -> EventAccumulator:
    reader = EventAccumulator(str(folder))
    reader.Reload()
    return reader


def scalars(folder: Path, name: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in events(folder).Scalars(name)]


@pytest.mark.parametrize("histograms", [True, False])
def test_scalars_points_and_histograms_are_read_back(tmp_path: Path, histograms: bool) -> None:
    folder = tmp_path / "results" / "pong"
    writer = TensorboardWriter(folder, histograms=histograms)
    assert not folder.exists()
    writer.open()
    qvalues = np.random.default_rng(0).normal(size=(256, 4)).astype(np.float32)
    writer.on_point(Point(1000, {"progress/loss": 0.5}, qvalues))
    writer.on_point(Point(2000, {}, None))
    for epoch in (1, 2):
        writer.on_phase_end(replace(SUMMARY, epoch=epoch, meanq=None))  # while the file is still open
    reader = events(folder)
    names = {name for name in COLUMNS if name not in ("phase", "meanq")}  # which the row lacks
    assert set(reader.Tags()["scalars"]) == {"progress/loss", *(f"train/{name}" for name in names)}
    assert scalars(folder, "train/epoch") == [(250, 1), (250, 2)]
    assert scalars(folder, "progress/loss") == [(1000, 0.5)]
    assert reader.Tags()["histograms"] == (["progress/q_values"] if histograms else [])
    if histograms:
        value = reader.Histograms("progress/q_values")[0].histogram_value
        assert value.num == sum(value.bucket) == qvalues.size
        assert (value.min, value.max) == (qvalues.min(), qvalues.max())
        assert value.sum == pytest.approx(qvalues.sum(), rel=1e-4)
    writer.close()


def write(folder: Path, *rows: tuple[str, int, float], resumed: bool = False) -> None:
    """Write rows of a phase, the steps and the mean Q-value."""
    writer = TensorboardWriter(folder, resumed)
    writer.open()
    for phase, steps, meanq in rows:
        writer.on_phase_end(replace(SUMMARY, phase=phase, total_train_steps=steps, meanq=meanq))
    writer.close()


def test_a_resumed_run_goes_on_where_its_checkpoint_was_and_a_new_one_leaves_its_events_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, folder = time.time(), tmp_path / "pong"
    monkeypatch.setattr(time, "time", lambda: now)  # the name of an event file has its second
    write(folder, ("train", 100, 1), ("test", 100, 2), ("train", 200, 3), ("test", 200, 4))
    for rows in ([("train", 200, 5), ("test", 200, 6)], [("test", 200, 7)]):
        now += 1
        write(folder, *rows, resumed=True)
    assert scalars(folder, "train/meanq") == [(100, 1), (200, 5)]
    assert scalars(folder, "test/meanq")[-1] == (200, 7)
    for meanq in (8, 9):
        write(folder, ("train", 250, meanq))
    assert scalars(folder, "train/meanq") == [(250, 9)]
    assert scalars(tmp_path / "pong.1", "train/meanq") == [(100, 1), (200, 5)]
    assert scalars(tmp_path / "pong.2", "train/meanq") == [(250, 8)]
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
class FakeRun:
    """A run of a package with the interface that W&B and trackio share."""

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
def begun(monkeypatch: pytest.MonkeyPatch) -> list[FakeRun]:
    """Return the runs that were begun by the package that every tracker imports."""
    runs: list[FakeRun] = []

    def init(**given: Any) -> FakeRun:
        runs.append(FakeRun(given, f"id{len(runs)}"))
        return runs[-1]

    monkeypatch.setattr(writers, "require_extra", lambda *_: None)
    monkeypatch.setattr(writers, "import_module", lambda _: SimpleNamespace(init=init, Settings=dict))
    return runs


@pytest.mark.parametrize("package", ["wandb", "trackio"])
def test_a_run_is_tracked_and_resumed_under_its_id(
    package: str, home: Path, begun: list[FakeRun], capfd: pytest.CaptureFixture[str]
) -> None:
    run_all(home, package)
    first, second, film = begun
    writers.TRACKERS[package](home / "results" / "catch", {}, False).open()
    # A resumed run and a film continue the run of the file; a new training of the same name is another run.
    assert [run.given["resume"] for run in begun] == ["never", "allow", "allow", "never"]
    assert {(run.given["project"], run.given["name"]) for run in begun} == {("simple-dqn", "catch")}
    assert [run.ended for run in begun] == [True] * 3 + [False]
    own = {"id", "dir", "settings"} if package == "wandb" else set()
    assert {*first.given} == {"project", "name", "config", "resume"} | own
    if package == "wandb":
        assert [run.given["id"] for run in begun] == [None, "id0", "id1", None]
        assert first.given["dir"] == home / "results"
    assert (home / "results" / f"catch.{package}").read_text() == "id3"
    assert first.given["config"]["batch_size"] == 4
    for run, steps in ((first, [20, 40]), (second, [60, 80])):
        assert [row["train_steps"] for row, _ in run.rows if "progress/mean_q" in row] == steps
        at = [row["train_steps"] if package == "trackio" else None for row, _ in run.rows]
        assert [step for _, step in run.rows] == at
    files = [first.files, second.files, film.files]
    assert files == [["snapshot catch_1.snapshot"], ["snapshot catch_2.snapshot"], ["film catch_2.film"]]
    assert f"--track {package} failed: the server is away" in capfd.readouterr().err
    for name in ("catch_lr0.5", "catch_lr0.1"):  # names with dots are runs of their own
        writers.TRACKERS[package](home / name, {}, False).open()
        assert (home / f"{name}.{package}").read_text() == begun[-1].id


def test_a_package_or_a_server_that_is_missing_ends_the_run_in_one_line(
    home: Path, begun: list[FakeRun], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(writers, "import_module", lambda _: SimpleNamespace(Settings=dict))  # it has no init
    assert main.run([*TRAIN, "--track", "wandb"]) == 2
    assert "leave out --track" in capsys.readouterr().err.splitlines()[-1]
    monkeypatch.setattr(writers, "require_extra", require_extra)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(home / "other"))
    assert main.run([*TRAIN, "--track", "wandb"]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert f".venv/bin/python -m pip install {EXTRAS['wandb'][0]}," in line
    assert not list(home.glob("other/results/*"))


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


def test_a_plain_run_imports_no_package_of_the_other_writers() -> None:
    code = (
        "import sys; import simple_dqn.verbs.train; from simple_dqn import config, run;"
        "run.make_statistics(config.Config.from_flags({'game': 'pong', 'csv_file': 'pong.csv'}));"
        "assert not {'wandb', 'trackio', 'tensorboard', 'torch', 'simple_dqn.api'} & set(sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
