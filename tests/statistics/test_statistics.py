"""Statistics against lists of rewards; the bar and the log, event files, and trackers."""

import fcntl
import io
import itertools
import logging
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import simple_dqn
from simple_dqn import main, statistics
from simple_dqn.errors import UserError
from simple_dqn.statistics import COLUMNS, GameScores, PhaseSummary, Point, Statistics, Writer, writers
from simple_dqn.statistics.csv_file import CsvWriter
from simple_dqn.statistics.writers import Console, ConsoleHandler, TensorboardWriter
from simple_dqn.types import Step
from tests.command_line import CATCH, Capsys, Clock, Logs, Patch, Told, catch
from tests.replay_memory.test_replay import first_step
from tests.statistics.test_csv_file import HEADER, ROW, SUMMARY

Wanted = tuple[int, bool, bool]  # a reward, whether the game ends, whether a life is lost
Phase = tuple[str, list[list[Wanted]], list[float]]  # its name, steps [steps][E] and losses
COUNTED = {"total_train_steps": 9, "replay_memory_count": 5, "meanq": 0.5, "weight_updates": 2}


@dataclass
class Listener(Writer):
    points = True
    summaries: list[PhaseSummary] = field(default_factory=list)
    heard: list[Any] = field(default_factory=list)  # in order: the other events

    def open(self) -> None:
        self.heard.append("open")

    def on_phase_start(self, phase: str, epoch: int, total_steps: int) -> None:
        self.heard.append((phase, epoch, total_steps))

    def on_progress(self, progress: PhaseSummary) -> None:
        self.heard.append(progress.steps)

    def on_point(self, point: Point) -> None:
        self.heard.append(point)

    def on_phase_end(self, summary: PhaseSummary) -> None:
        self.summaries.append(summary)

    def close(self) -> None:
        self.heard.append("close")


def make_step(rewards: Sequence[float], **flags: Sequence[bool]) -> Step:
    step = first_step(np.zeros((len(rewards), 8, 8), np.uint8))
    step.rewards[:], step.starts[:] = rewards, False
    for name, values in flags.items():
        getattr(step, name)[:] = values
    return step


class Games:
    """E games that keep to the rules of `Step`, and remember each game's rewards."""

    def __init__(self, games: int) -> None:
        self.rewards: list[list[float]] = [[] for _ in range(games)]
        self.over = [False] * games
        self.ended: list[float] = []

    def play(self, wanted: list[Wanted]) -> Step:
        starts, columns = self.over, []
        for game, (reward, reset, lost_life) in enumerate(wanted):
            if starts[game]:
                self.rewards[game], reward, reset = [], 0, False
            self.rewards[game].append(reward)
            if reset:
                self.ended.append(sum(self.rewards[game]))
            columns.append((reward, reset, reset or lost_life))
        rewards, resets, terminals = (list(column) for column in zip(*columns, strict=True))
        self.over = [bool(reset) for reset in resets]
        return make_step(rewards, resets=self.over, starts=starts, terminals=terminals)


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, list[Phase]]:
    games = draw(st.integers(1, 3))
    one = st.tuples(st.integers(-5, 5), st.booleans(), st.booleans())
    steps = st.lists(st.lists(one, min_size=games, max_size=games), max_size=8)
    losses = st.lists(st.floats(0, 10), max_size=4)
    phases = st.tuples(st.sampled_from(["random", "train", "test"]), steps, losses)
    return games, draw(st.lists(phases, min_size=1, max_size=6))


@settings(max_examples=50)
@given(runs(), st.integers(0, 6))
def test_phases_are_summed_up_like_lists(run: tuple[int, list[Phase]], resume_after: int) -> None:
    games, phases = run
    listener = Listener()
    statistics = Statistics([listener])
    training = Games(games)
    for number, (phase, steps, losses) in enumerate(phases):
        if number == resume_after:
            state = statistics.get_state()
            statistics = Statistics([listener])
            statistics.set_state(state)
        played = Games(games) if phase == "test" else training
        played.ended = []
        statistics.on_phase_start(phase, number, len(steps) * games)
        scores = GameScores(np.zeros(games))
        for index, wanted in enumerate(steps):
            step, rate = played.play(wanted), 1 / (index + 1)
            if phase == "test":
                statistics.on_steps(games, scores.add(step), rate)
            else:
                statistics.on_step(step, rate)
        for loss in losses:
            statistics.on_train(loss)
        statistics.on_phase_end(**COUNTED)
        ended = played.ended
        expected = {
            "epoch": number, "phase": phase, "steps": len(steps) * games, "nr_games": len(ended), **COUNTED,
            "average_reward": sum(ended) / len(ended) if ended else None,
            "min_game_reward": min(ended, default=None), "max_game_reward": max(ended, default=None),
            "last_exploration_rate": 1 / len(steps) if steps else None,
            "meancost": pytest.approx(np.mean(losses)) if losses else None,
        }  # fmt: skip
        assert {name: getattr(listener.summaries[-1], name) for name in expected} == expected


def test_writers_get_every_event_in_order_and_times_continue_after_a_resume() -> None:
    clock, listener = Clock(1000.0), Listener()
    statistics = Statistics([listener], clock)
    assert listener.heard == []
    clock.now += 10
    statistics.on_phase_start("train", 1, 60)
    for _ in range(6):
        clock.now += 0.15
        statistics.on_step(make_step([1, 1], resets=[False, True]), 0.3)
    statistics.on_games_start()  # which forgets the scores of those that had begun
    statistics.on_step(make_step([5, 1], resets=[True, True]), 0.3)
    clock.now += 4.1
    statistics.on_phase_end()
    assert listener.summaries[0].max_game_reward == 5
    clock.now += 1
    state = statistics.get_state()
    clock.now = 7.0
    resumed = Statistics([listener], clock)
    resumed.set_state(state)
    resumed.on_phase_start("test", 1, 30)
    clock.now += 2
    resumed.on_phase_end()
    resumed.close()
    times = [(one.total_time, one.epoch_time, one.steps_per_second) for one in listener.summaries]
    assert times == [pytest.approx((15, 5, 14 / 5)), pytest.approx((18, 2, 0))]
    # Progress is due every 0.2 s, and steps take 0.15 s.
    assert listener.heard == ["open", ("train", 1, 60), 4, 8, 12, "open", ("test", 1, 30), "close"]


@pytest.mark.parametrize(("before", "total"), [("12.5", 14.5), ("inf", 2), ("nan", 2), ("-1", 2), ("x", 2)])
def test_a_run_from_a_snapshot_has_the_time_before(tmp_path: Path, before: str, total: float) -> None:
    path, clock = tmp_path / "pong.csv", Clock(1000.0)
    path.write_text(HEADER + ROW.replace("12.5", before))
    statistics = Statistics([Writer(), CsvWriter(path, "1,"), listener := Listener()], clock)
    statistics.begin()
    clock.now += 2
    statistics.on_phase_end()
    assert listener.summaries[0].total_time == pytest.approx(total)


def test_points_have_the_numbers_since_the_last() -> None:
    clock, curves = Clock(1000.0), Listener()
    statistics = Statistics([Writer(), curves], clock)
    statistics.on_phase_start("train", 1, 4000)
    assert statistics.point_steps == 1000
    assert Statistics([Writer()], clock).point_steps == 0
    for loss, reward in ((0.5, 1), (1.5, 3)):
        statistics.on_train(loss)
        statistics.on_step(make_step([reward, 0], resets=[True, False]), 0.3)
    clock.now += 2
    statistics.on_point(1000, np.array([[1, 2], [5, 0]], np.float32))
    statistics.on_step(make_step([0, 0]), 0.2)
    state = statistics.get_state()
    statistics.on_point(2000, None)
    resumed = Statistics([curves], clock)
    resumed.set_state(state)
    resumed.on_phase_resume(4000)
    resumed.on_train(7)
    clock.now += 1
    resumed.on_point(3000, None)
    first = {"reward": 2, "loss": 1, "mean_q": 3.5, "exploration_rate": 0.3, "steps_per_second": 2}
    rate = {"progress/exploration_rate": 0.2}
    points = [point for point in curves.heard if isinstance(point, Point)]
    assert [(point.step, point.scalars) for point in points] == [
        (1000, {f"progress/{name}": value for name, value in first.items()}),
        (2000, rate),  # no time has passed
        (3000, {**rate, "progress/loss": 7, "progress/steps_per_second": 0}),
    ]


TRAIN = ["train", *catch(test_steps=40)]


@pytest.fixture
def often(monkeypatch: Patch) -> None:
    monkeypatch.setattr(statistics, "POINT_STEPS", 20)


def progress(steps: int, **others: Any) -> PhaseSummary:
    return PhaseSummary(12, "train", steps, **{"nr_games": 0, "last_exploration_rate": 0.05, **others})


def terminal(patch: Patch) -> io.StringIO:
    stream = io.StringIO()
    patch.setattr(stream, "isatty", lambda: True)
    patch.setattr(sys, "stderr", stream)
    return stream


def test_the_bar_has_80_columns_and_without_an_end_counts_steps(monkeypatch: Patch) -> None:
    monkeypatch.setattr("tqdm.std._screen_shape_wrapper", lambda: lambda _stream: (80, 24))
    console, stream = Console(), terminal(monkeypatch)
    whole = progress(100_000, nr_games=120, average_reward=-20.25, loss=0.00117, last_exploration_rate=0.88)
    full = r"test 3 40%\|.+\| \d\d:\d\d left \S+/s ε 0\.88 120 games reward -20\.2 loss 0\.0012"
    for total, steps, drawn in (
        (250_000, [progress(50_000), whole], [r"test 3 20%\|.*", full]),
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


def test_the_bar_of_a_resumed_phase_has_the_speed_since_the_resume(monkeypatch: Patch) -> None:
    console, stream, clock = Console(), terminal(monkeypatch), Clock(1000.0)
    monkeypatch.setattr("tqdm.std.time", clock)
    console.on_phase_start("train", 3, 250_000)
    for steps in range(200_000, 200_500, 100):  # 100 a second
        clock.now += 1
        console.on_progress(progress(steps))
    last = stream.getvalue().split("\r")[-1]
    console.close()
    assert re.search(r"train 3 80%\|.* 08:16 left 100/s ε", last)


@pytest.mark.parametrize("columns", [0, 120])
def test_the_bar_fits_the_terminal_and_one_of_size_0_has_80_columns(columns: int, monkeypatch: Patch) -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", columns // 3, columns, 0, 0))
    with os.fdopen(slave, "w") as stream, os.fdopen(master, "rb", buffering=0) as shown:
        monkeypatch.setattr(sys, "stderr", stream)
        with closing(Console()) as console:
            console.on_phase_start("test", 3, 250_000)
            console.on_progress(progress(100_000))
            text = b""  # the kernel passes it on when it has time, in pieces that may split a character
            while select.select([master], [], [], 0.1 if b"40%" in text else 5)[0]:
                text += shown.read(1 << 16)
        last = text.decode().split("\r")[-1]
        assert len(last) == (columns or 80) - 1
        assert last.startswith("test 3 40%|")


def test_the_lines_of_simple_dqn_and_no_bar_in_a_file(caplog: Logs, capsys: Capsys) -> None:
    console = Console(epochs=3, test_steps=100)
    with caplog.at_level(logging.INFO):
        for summary in (replace(SUMMARY, steps=100), replace(SUMMARY, epoch=3)):  # interrupted, and the last
            console.on_phase_start("train", 1, 250)
            console.on_phase_end(summary)
        assert "left" not in caplog.text
        console.on_phase_end(SUMMARY)
        # Two epochs of 10 seconds, and three tests whose 100 steps take as long as in training: 4 seconds.
        assert caplog.messages[-1] == "  about 0:00:32 left, for 2 epochs"
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


def test_log_lines_go_above_the_bar_and_outlive_the_terminal(monkeypatch: Patch) -> None:
    console, stream = Console(), terminal(monkeypatch)
    console.on_phase_start("train", 1, 250)
    ConsoleHandler(stream).handle(logging.makeLogRecord({"msg": "saved %s", "args": ("a\x1b[2J\nb",)}))
    lines = [line.split("\r")[-1] for line in stream.getvalue().split("\n")]
    assert lines[0] == "saved a\\x1b[2J\\nb"
    assert lines[-1].startswith("train 1 0%|")
    console.close()
    with Path("/dev/full").open("w") as full:
        handler = ConsoleHandler(full)
        for _ in range(2):
            handler.handle(logging.makeLogRecord({"msg": "training goes on"}))
        full.flush()
    assert "Traceback" not in stream.getvalue()


def events(folder: Path) -> EventAccumulator:
    return EventAccumulator(str(folder)).Reload()


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
    writer = TensorboardWriter(folder, resumed)
    writer.open()
    for phase, steps, meanq in rows:
        writer.on_phase_end(replace(SUMMARY, phase=phase, total_train_steps=steps, meanq=meanq))
    writer.close()


def test_a_resumed_run_goes_on_where_its_checkpoint_was(tmp_path: Path, monkeypatch: Patch) -> None:
    now, folder = time.time(), tmp_path / "pong_lr0.5"
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
    assert scalars(tmp_path / "pong_lr0.5.1", "train/meanq") == [(100, 1), (200, 5)]
    assert scalars(tmp_path / "pong_lr0.5.2", "train/meanq") == [(250, 8)]
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="leave out --tensorboard"):
        TensorboardWriter(tmp_path / "file" / "pong").open()


def run_all(home: Path, tracker: str) -> None:
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
        raise ConnectionError("the server is away for good")  # as above


@pytest.fixture
def begun(monkeypatch: Patch) -> list[FakeRun]:
    """Return the runs that were begun by the package that every tracker imports."""
    runs: list[FakeRun] = []

    def init(**given: Any) -> FakeRun:
        runs.append(FakeRun(given, f"id{len(runs)}"))
        return runs[-1]

    monkeypatch.setattr(writers, "require_extra", lambda *_: None)
    monkeypatch.setattr(writers, "import_module", lambda _: SimpleNamespace(init=init, Settings=dict))
    return runs


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("package", ["wandb", "trackio"])
def test_a_run_is_tracked_by_its_id(package: str, home: Path, begun: list[FakeRun], capfd: Capsys) -> None:
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
    log = capfd.readouterr().err
    assert f"--track {package} failed: the server is away\n" in log
    assert f"--track {package} failed: the server is away for good\n" in log
    for name in ("catch_lr0.5", "catch_lr0.1"):  # names with dots are runs of their own
        writers.TRACKERS[package](home / name, {}, False).open()
        assert (home / f"{name}.{package}").read_text() == begun[-1].id


def test_a_stopped_phase_is_no_point(home: Path, begun: list[FakeRun], monkeypatch: Patch) -> None:
    flags: dict[str, Any] = {**CATCH, "test_steps": 40, "tensorboard": True, "track": "trackio"}
    monkeypatch.setattr(time, "time", itertools.count(time.time()).__next__)  # names of event files have it
    while simple_dqn.train("catch", **flags, on_step=lambda row: True, every=24, resume=True).stopped:
        pass
    assert len(begun) == 5  # stopped twice in random play, once in training and once in the test
    for name in ("train/steps", "test/steps"):
        assert scalars(home / "results" / "catch", name) == [(40, 40)]
        assert [row[name] for run in begun for row, _ in run.rows if name in row] == [40]


@pytest.mark.usefixtures("home", "begun")
def test_a_tracker_that_cannot_begin_is_a_line(monkeypatch: Patch, told: Told) -> None:
    monkeypatch.setattr(writers, "import_module", lambda _: SimpleNamespace(Settings=dict))  # it has no init
    assert "leave out --track" in told(*TRAIN, "--track", "wandb", code=2).splitlines()[-1]


@pytest.mark.usefixtures("often")
def test_trackio_has_the_run(home: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(home / "trackio"))
    trackio = pytest.importorskip("trackio")
    from trackio.sqlite_storage import SQLiteStorage

    run_all(home, "trackio")
    (run,) = trackio.Api().runs("simple-dqn")
    assert (run.name, run.id) == ("catch", (home / "results" / "catch.trackio").read_text())
    rows = SQLiteStorage.get_logs("simple-dqn", "catch")
    for name, steps in (("progress/mean_q", [20, 40, 60, 80]), ("test/average_reward", [40, 80])):
        assert [row["step"] for row in rows if name in row] == steps
