"""The summary, the comparison with people, the table, and the curves of all seeds."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import matplotlib.image
import pytest

from simple_dqn.human_scores import SCORES
from simple_dqn.sweep.plan import Plan, SweepFiles
from simple_dqn.sweep.report import Lines, Report, Table, table
from simple_dqn.sweep.scheduler import RunState, RunStatus
from simple_dqn.sweep.summary import new_statuses, write_summary


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def rows(plan: Plan, files: SweepFiles, write_rows: Callable[..., None]) -> list[RunStatus]:
    """Return pong done with seed 1, running with seed 2; breakout done with seed 1, failed with seed 2."""
    random, human = SCORES["pong"]
    half = (random + human) / 2
    runs = plan.runs
    write_rows(files.csv(runs[0]), (1, "train", 40, 0), (1, "test", 40, human), (2, "test", 80, half))
    write_rows(files.csv(runs[1]), (1, "train", 40, SCORES["breakout"][1]))
    write_rows(files.csv(runs[2]), (1, "test", 40, half))
    states = (RunState.DONE, RunState.DONE, RunState.RUNNING, RunState.FAILED)
    rows = [RunStatus(run, files, state) for run, state in zip(runs, states, strict=True)]
    rows[3].reason = "killed by SIGKILL"
    for row in rows:
        row.update_results()
    return rows


def test_the_summary_has_a_row_for_each_run(rows: list[RunStatus], files: SweepFiles) -> None:
    write_summary(rows, files.summary)
    written = read(files.summary)
    assert [(row["game"], row["seed"], row["state"]) for row in written] == [
        ("breakout", "1", "done"),
        ("breakout", "2", "failed"),
        ("pong", "1", "done"),
        ("pong", "2", "running"),
    ]
    pong, breakout, failed = written[2], written[0], written[1]
    assert (pong["phase"], pong["steps"], pong["hours"]) == ("test", "80", "0.5")
    assert float(pong["best_epoch_human_normalised"]) == pytest.approx(100)
    assert float(pong["score_human_normalised"]) == pytest.approx(50)
    assert breakout["phase"] == "train"
    assert float(breakout["score_human_normalised"]) == pytest.approx(100)
    assert (failed["reason"], failed["best_epoch"]) == ("killed by SIGKILL", "")


def test_what_the_summary_says_is_done_stays_done_where_its_csv_is(
    rows: list[RunStatus], plan: Plan, files: SweepFiles
) -> None:
    assert {row.state for row in new_statuses(plan, files)} == {RunState.WAITING}
    write_summary(rows, files.summary)
    assert [row.state.value for row in new_statuses(plan, files)] == ["done", "done", "waiting", "waiting"]
    files.csv(rows[0].run).unlink()
    assert [row.state.value for row in new_statuses(plan, files)] == ["waiting", "done", "waiting", "waiting"]
    files.summary.write_text("something,else\n1,2\n")
    assert {row.state for row in new_statuses(plan, files)} == {RunState.WAITING}


def test_the_files_are_there_at_the_end(
    rows: list[RunStatus], files: SweepFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Report(files, Lines(io.StringIO()).show)
    report.update(rows, rows)
    assert [path.name for path in files.results.glob("*y.csv")] == ["summary.csv"]
    assert not files.scores.exists()  # it is the start of a sweep
    report.update(rows, rows[:1])
    assert (files.results / "pong.png").exists()
    assert not (files.results / "breakout.png").exists()
    report.finish(rows)
    assert matplotlib.image.imread(files.results / "breakout.png").shape == (720, 1280, 4)
    written = read(files.scores)
    assert [row["score"] for row in written] == ["mean_of_last_epochs"] * 3 + ["best_epoch"] * 3
    assert {row["left_out"] for row in written} == {"1 failed, 1 running, 1 without a finished test game"}
    out = capsys.readouterr().out
    assert "1 run of 1 game (the finished ones)" in out
    assert "Left out: 1 failed, 1 running, 1 without a finished test game.\n" in out


def test_lines_tell_what_has_changed(rows: list[RunStatus]) -> None:
    stream = io.StringIO()
    lines = Lines(stream)
    lines.show(rows, rows)
    lines.show(rows, [])
    lines.show(rows, rows[2:])
    assert stream.getvalue().splitlines() == [
        "pong seed 1: done, epoch 2, 80 steps, 50 steps/s, average reward -3.0",
        "breakout seed 1: done, epoch 1, 40 steps, 50 steps/s, average reward 30.5",
        "pong seed 2: running, epoch 1, 40 steps, 50 steps/s, average reward -3.0",
        "breakout seed 2: failed (killed by SIGKILL)",
        "4 runs: 0 waiting, 1 running, 2 done, 1 failed",
        "pong seed 2: running, epoch 1, 40 steps, 50 steps/s, average reward -3.0",
        "breakout seed 2: failed (killed by SIGKILL)",
    ]


def test_the_table_has_a_line_for_each_run(rows: list[RunStatus]) -> None:
    assert table(rows, 10) == [
        "game      seed  state    epoch  steps  reward  steps/s",
        "pong         1  done         2     80    -3.0       50",
        "breakout     1  done         1     40    30.5       50",
        "pong         2  running      1     40    -3.0       50",
        "breakout     2  failed                                  killed by SIGKILL",
        "4 runs: 0 waiting, 1 running, 2 done, 1 failed",
    ]


def test_a_low_table_shows_what_one_looks_for_first(rows: list[RunStatus]) -> None:
    lines = table(rows, 4)
    assert len(lines) == 4
    assert [line.split()[:3] for line in lines[1:3]] == [
        ["pong", "2", "running"],
        ["breakout", "2", "failed"],
    ]
    assert lines[3].endswith("1 failed; 2 not shown")


def test_the_table_is_drawn_over_itself(rows: list[RunStatus]) -> None:
    stream = io.StringIO()
    terminal = SimpleNamespace(width=30, height=24, move_up="<up {}>".format, clear_eos="<clear>")
    drawn = Table(stream, terminal)  # type: ignore[arg-type]
    drawn.show(rows, rows)
    first = stream.getvalue()
    assert first.startswith("\r<clear>game ")
    assert max(map(len, first.removeprefix("\r<clear>").splitlines())) == 29
    drawn.show(rows, [])
    assert stream.getvalue() == first
    drawn.show(rows, rows[:1])
    assert stream.getvalue().removeprefix(first).startswith("<up 6>\r<clear>game ")
