"""All runs in one number: which of them, which phase, which epochs."""

import csv
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from simple_dqn.human_scores import SCORES
from simple_dqn.sweep.plan import Plan, SweepFiles
from simple_dqn.sweep.results import RunResults, last_tenth
from simple_dqn.sweep.scheduler import RunState, RunStatus
from simple_dqn.sweep.summary import BEST, MEAN, Comparison, compare, write_comparison, write_summary
from simple_dqn.verbs import sweep as verb

Write = Callable[..., None]


def points(game: str, percent: float) -> float:
    """Return the raw points that are `percent` of a human's score."""
    random, human = SCORES[game]
    return random + (human - random) * percent / 100


@pytest.fixture
def make_rows(files: SweepFiles, write_rows: Write) -> Callable[..., list[RunStatus]]:
    """Return a function that makes runs, one seed each of `games`, from (state, phase, per cent by epoch)."""

    def make(games: list[str], *runs: tuple[RunState, dict[str, list[float | None]]]) -> list[RunStatus]:
        plan = Plan(dict.fromkeys(games, ""), len(runs) // len(games), 1, 0.0, {})
        rows = []
        for run, (state, phases) in zip(plan.runs, runs, strict=True):
            lines = [
                (epoch, phase, 40 * epoch, "" if percent is None else points(run.game, percent))
                for phase, percents in phases.items()
                for epoch, percent in enumerate(percents, 1)
            ]
            if lines:
                write_rows(files.csv(run), *sorted(lines, key=lambda line: line[0]))
            rows.append(RunStatus(run, files, state))
            rows[-1].update_results()
        return rows

    return make


def mean(comparison: Comparison, score: str = MEAN) -> float:
    return comparison.estimates[score]["mean"].value


def test_finished_runs_alone_are_compared(make_rows: Callable[..., list[RunStatus]]) -> None:
    rows = make_rows(
        ["pong", "breakout"],
        (RunState.DONE, {"train": [500], "test": [50]}),
        (RunState.DONE, {"test": [100]}),
        (RunState.RUNNING, {"test": [900]}),
        (RunState.FAILED, {"test": [900]}),
        (RunState.WAITING, {}),
        (RunState.FAILED, {}),
    )
    found = compare(rows)
    assert mean(found) == pytest.approx(75)
    assert (found.phase, found.epoch, found.games, found.runs) == ("test", 1, 2, 2)
    assert found.left_out == {"failed": 2, "running": 1, "waiting": 1}
    assert str(found).endswith("Left out: 2 failed, 1 running, 1 waiting.")


def test_all_runs_are_compared_at_their_latest_common_epoch_on_request(
    make_rows: Callable[..., list[RunStatus]],
) -> None:
    rows = make_rows(
        ["pong"],
        (RunState.DONE, {"test": [10, 20, 900]}),
        (RunState.RUNNING, {"train": [1, 1, 1], "test": [30, 40]}),
        (RunState.WAITING, {}),
    )
    found = compare(rows, common_epoch=True)
    assert (found.epoch, found.runs) == (2, 2)
    assert mean(found) == pytest.approx((20 + 40) / 2)
    assert mean(found, BEST) == pytest.approx((20 + 40) / 2)  # 900 came later
    assert found.left_out == {"without statistics": 1}
    assert "2 runs of 1 game (all at epoch 2, the latest common one)" in str(found)
    assert compare(rows).epoch == 3


def test_tests_and_training_are_never_compared_with_each_other(
    make_rows: Callable[..., list[RunStatus]],
) -> None:
    tested = (RunState.DONE, {"train": [5], "test": [50]})
    without_test = (RunState.DONE, {"train": [900]})
    no_test_game = (RunState.DONE, {"train": [900], "test": [None]})
    found = compare(make_rows(["pong"], tested, without_test, no_test_game))
    assert (found.phase, found.runs) == ("test", 1)
    assert mean(found) == pytest.approx(50)
    assert found.left_out == {"without a finished test game": 2}
    found = compare(make_rows(["pong"], without_test, no_test_game))
    assert (found.phase, found.runs, found.left_out) == ("train", 2, {})
    assert "the mean of train epoch 1" in str(found)


def test_the_score_is_the_mean_of_the_last_tenth_of_the_epochs(
    make_rows: Callable[..., list[RunStatus]],
) -> None:
    curve = [*range(100, 118), 80, 40]  # of 20 epochs the last two; the best is the eighteenth
    found = compare(make_rows(["pong"], (RunState.DONE, {"test": curve})))
    assert mean(found) == pytest.approx(60)
    assert mean(found, BEST) == pytest.approx(117)
    words = str(found).splitlines()
    assert "without intervals" in words[0]
    assert "(Wang et al. 2016)" in words[0]
    assert words[1] == (
        "  score, the mean of test epochs 19 to 20: median 60.0, mean 60.0, interquartile mean 60.0"
    )
    assert words[2].startswith("  best test epoch (optimistic: a maximum over noisy epochs): median 117.0, ")
    assert words[3] == "No run was left out."


@pytest.mark.parametrize(
    ("epoch", "first"), [(0, None), (1, 1), (9, 9), (10, 10), (11, 10), (20, 19), (50, 46), (200, 181)]
)
def test_the_last_tenth_is_rounded_up(epoch: int, first: int | None) -> None:
    epochs = last_tenth(epoch)
    assert list(epochs) == ([] if first is None else list(range(first, epoch + 1)))


def test_epochs_in_which_no_game_ended_do_not_count() -> None:
    rewards = {"test": {**dict.fromkeys(range(1, 19), 1.0), 19: None, 20: 4.0}}
    results = RunResults(20, 40, 50, 1, rewards)
    assert (results.score("test", 20), results.score("test", 19)) == (4, 1)
    assert results.score("train", 20) is None
    assert RunResults(2, 40, 50, 1, {"test": {1: 3.0, 2: None}}).score("test", 2) is None


def test_intervals_are_there_where_each_game_has_two_runs(make_rows: Callable[..., list[RunStatus]]) -> None:
    found = compare(make_rows(["pong"], *[(RunState.DONE, {"test": [percent]}) for percent in (40, 60)]))
    assert "with 95 % intervals" in str(found)
    assert "mean 50.0 (40.0 to 60.0)" in str(found)


def test_a_game_without_a_human_score_is_left_out(files: SweepFiles, write_rows: Write) -> None:
    (row,) = (RunStatus(run, files, RunState.DONE) for run in Plan({"catch": "catch"}, 1, 1, 0.0, {}).runs)
    write_rows(files.csv(row.run), (1, "test", 40, 1))
    row.update_results()
    found = compare([row])
    assert (found.runs, found.estimates) == (0, {})
    assert str(found) == ("No run can be compared with human scores. Left out: 1 without a human score.")


def test_the_file_says_which_epochs_count_and_what_was_left_out(
    make_rows: Callable[..., list[RunStatus]], tmp_path: Path
) -> None:
    rows = make_rows(["pong"], (RunState.DONE, {"test": [*[10] * 10, 50]}), (RunState.RUNNING, {"test": [1]}))
    write_comparison(compare(rows), tmp_path / "scores.csv")
    with (tmp_path / "scores.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert len(written) == 6
    assert [(row["score"], row["phase"], row["first_epoch"], row["last_epoch"]) for row in written[2:4]] == [
        (MEAN, "test", "10", "11"), (BEST, "test", "1", "11"),
    ]  # fmt: skip
    assert float(written[0]["value"]) == pytest.approx(30)
    assert {row["left_out"] for row in written} == {"1 running"}


class NoCluster:
    """A cluster for a sweep that has nothing left to run."""

    def __init__(self, cpus: int, gpus: float) -> None:
        del cpus, gpus

    def start(self, job: object) -> None:
        pytest.fail(f"{job} was started")

    def wait(self, seconds: float) -> list[object]:
        del seconds
        return []


def test_the_flag_of_the_verb_changes_the_comparison_and_not_the_sweep(
    tmp_path: Path, write_rows: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    monkeypatch.setattr(verb, "Session", lambda _cluster: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(verb, "JobRunner", NoCluster)
    files, rows = SweepFiles.of(tmp_path, "pong"), []
    for run in Plan({"pong": "pong"}, 2, 1, 0.0, {}).runs:
        write_rows(files.csv(run), (1, "test", 40, points("pong", 10 * run.seed)))
        rows.append(RunStatus(run, files, RunState.DONE))
    write_summary(rows, files.summary)
    command = ["pong", "--seeds", "2"]
    verb.main(command, "./sweep.sh")
    assert "2 runs of 1 game (the finished ones)" in capsys.readouterr().out
    verb.main([*command, "--common_epoch", "true"], "./sweep.sh")
    out = capsys.readouterr().out
    assert "2 runs of 1 game (all at epoch 1, the latest common one)" in out
    assert "mean 15.0 (10.0 to 20.0)" in out
