"""What is compared, how it is scored, and what is shown and drawn."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest

import simple_dqn
from simple_dqn import main
from simple_dqn.dqn import max_targets
from simple_dqn.human_scores import SCORES
from simple_dqn.plot.figure import Line
from simple_dqn.samplers import Uniform
from simple_dqn.sweep.comparison import PROBABILITY, Comparison, compare, last_tenth
from simple_dqn.sweep.plan import SweepFiles
from simple_dqn.sweep.report import RUN_COLUMNS, Report, table
from simple_dqn.sweep.scheduler import RunState, RunStatus

Make = Callable[..., RunStatus]


def points(game: str, percent: float) -> float:
    """Return the raw points that are `percent` of a human's score."""
    one = SCORES[game]
    return one["random"] + (one["human"] - one["random"]) * percent / 100


def mean(comparison: Comparison, setting: str = "") -> float:
    return comparison.estimates()[setting]["mean"].value


def test_runs_are_compared_at_the_latest_epoch_that_all_have_reached(make_run: Make) -> None:
    found = compare([
        make_run("pong", 1, test=[10, 20, 900]),
        make_run("pong", 2, state=RunState.RUNNING, train=[1, 1, 1], test=[30, 40]),
        make_run("pong", 3, state=RunState.WAITING),
        make_run("pong", 4, state=RunState.FAILED, test=[900]),
    ])  # fmt: skip
    assert (found.phase, found.epoch, found.unit, len(found.members)) == ("test", 2, "game points", 2)
    assert mean(found) == pytest.approx((20 + 40) / 2)
    assert found.left_out == "1 failed, 1 waiting"
    assert str(found).endswith("Left out: 1 failed, 1 waiting.")


def test_several_games_are_compared_in_percent_of_a_human_s_score(make_run: Make) -> None:
    found = compare([
        make_run("pong", test=[points("pong", 50)]),
        make_run("breakout", test=[points("breakout", 150)]),
        make_run("catch", test=[1]),
    ])  # fmt: skip
    assert mean(found) == pytest.approx(100)
    assert found.games == ["breakout", "pong"]
    assert found.left_out == "1 without a human score"
    assert "in % of human (Wang et al. 2016)" in str(found)


def test_tests_and_training_are_never_compared_with_each_other(make_run: Make) -> None:
    untested = [make_run("pong", 2, train=[900]), make_run("pong", 3, train=[900], test=[None])]
    found = compare([make_run("pong", train=[5], test=[50]), *untested])
    assert (found.phase, mean(found)) == ("test", 50)
    assert found.left_out == "2 without a finished test game"
    assert (compare(untested).phase, mean(compare(untested))) == ("train", 900)


def test_a_game_that_one_setting_lacks_is_left_out(make_run: Make) -> None:
    found = compare([
        make_run("pong", setting="a", test=[1]), make_run("pong", setting="b", test=[2]),
        make_run("breakout", setting="b", test=[3]),
    ])  # fmt: skip
    assert (found.games, found.left_out) == (["pong"], "1 of a game that not every setting has")


def test_the_score_is_the_mean_of_the_last_tenth_of_the_epochs(make_run: Make) -> None:
    curve = [*range(100, 118), 80, 40]  # of 20 epochs the last two
    found = compare([make_run("pong", test=curve)])
    assert mean(found) == 60
    assert "the mean of test epochs 19 to 20" in str(found)
    assert mean(compare([make_run("pong", test=[*curve[:-1], None])])) == 80


@pytest.mark.parametrize(
    ("epoch", "first"), [(0, None), (1, 1), (9, 9), (10, 10), (11, 10), (20, 19), (50, 46), (200, 181)]
)
def test_the_last_tenth_is_rounded_up(epoch: int, first: int | None) -> None:
    epochs = last_tenth(epoch)
    assert list(epochs) == ([] if first is None else list(range(first, epoch + 1)))


def test_nothing_to_compare(make_run: Make) -> None:
    assert str(compare([make_run("pong", state=RunState.WAITING)])) == (
        "No run can be compared. Left out: 1 waiting."
    )


@pytest.fixture
def two(make_run: Make) -> list[RunStatus]:
    """Two settings of Pong with three seeds each, of which the second is always better."""
    return [
        make_run("pong", seed, setting, test=[base + seed, 2 * base + seed])
        for setting, base in (("plain", 0), ("double", 10))
        for seed in (1, 2, 3)
    ]


def test_settings_are_compared_in_pairs(two: list[RunStatus]) -> None:
    found = compare(two).estimates()
    assert list(found) == ["plain", "double", "double > plain"]
    assert (found["plain"]["mean"].value, found["double"]["mean"].value) == (2, 22)
    assert str(found["double > plain"][PROBABILITY]) == "1.00 (1.00 to 1.00)"


def test_csvs_that_exist_are_compared_with_intervals(
    two: list[RunStatus], files: SweepFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = {
        setting: ",".join(str(files.csv(one.run)) for one in two if one.run.setting == setting)
        for setting in ("plain", "double")
    }
    words = [f"{setting}={csvs}" for setting, csvs in paths.items()]
    png = tmp_path / "figure.png"
    assert main.run(["sweep", "compare", *words, "--png_file", str(png)]) == 0
    assert capsys.readouterr().out == f"{compare(two)}\n"
    assert matplotlib.image.imread(png).shape == (720, 1280, 4)
    for one in two:  # under names that tell no game
        files.csv(one.run).rename(tmp_path / f"{one.run.setting}{one.run.seed}.csv")
    words = [f"{name}=" + ",".join(str(tmp_path / f"{name}{n}.csv") for n in (1, 2, 3)) for name in paths]
    assert main.run(["sweep", "compare", *words]) == 0
    out = capsys.readouterr().out
    assert "6 runs of another game" in out
    assert "double > plain: probability of improvement 1.00 (1.00 to 1.00)" in out


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("setting", "name", "register", "entry"),
    [
        ("target_rule", "mine", simple_dqn.register_target_rule, max_targets),
        ("target_rule", "max", simple_dqn.register_target_rule, max_targets),
        ("sampler", "mine", simple_dqn.register_sampler, Uniform),
    ],
)
def test_what_the_runs_would_not_know_is_refused(
    setting: str, name: str, register: Any, entry: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    register(name, entry)
    preset = ["--preset", "simple_dqn"]
    assert main.run(["sweep", "pong", *preset, "--compare", "a=", f"b=--{setting} {name}"]) == 2
    assert f"--{setting} {name} is registered in this program alone" in capsys.readouterr().err
    if name == "mine":  # one that no run uses does no harm
        assert main.run(["sweep", "pong", *preset, "--print_config"]) == 0


def levels(lines: tuple[Line, ...]) -> dict[str, tuple[list[float], list[float]]]:
    return {line.label: (line.x.tolist(), line.values.tolist()) for line in lines}


def test_the_figure_has_curves_by_steps_and_minutes_the_measures_and_the_probabilities(
    two: list[RunStatus],
) -> None:
    plot = compare(two).plot()
    steps, minutes, measures, pairs = plot.panels
    assert plot.title == "Pong"
    assert levels(steps.lines) == {"plain": ([40, 80], [2, 2]), "double": ([40, 80], [12, 22])}
    assert levels(minutes.lines) == {"plain": ([4, 8], [2, 2]), "double": ([4, 8], [12, 22])}
    band = steps.lines[1]
    assert band.low is not None
    assert band.high is not None
    assert (band.low.tolist(), band.high.tolist()) == ([11, 21], [13, 23])
    assert measures.rows == ("interquartile mean", "median", "mean")
    assert len(measures.lines) == 6
    assert pairs.rows == ("double > plain",)
    assert pairs.lines[0].x.tolist() == [1, 1, 1]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_files_are_renewed_when_a_run_ends(
    two: list[RunStatus], files: SweepFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = io.StringIO()
    report = Report(files, stream)
    report.update(two, two)
    assert not (files.results / "comparison.csv").exists()
    report.update(two, two[:1])
    summary, comparison = rows(files.results / "summary.csv"), rows(files.results / "comparison.csv")
    assert tuple(summary[0]) == RUN_COLUMNS
    assert [(row["setting"], row["seed"], row["score"]) for row in summary[:4:3]] == [
        ("double", "1", "21.0"), ("plain", "1", "1.0"),
    ]  # fmt: skip
    assert [row["value"] for row in comparison if row["measure"] == "mean"] == ["2.0", "22.0"]
    for name in ("pong.png", "comparison.png"):
        assert matplotlib.image.imread(files.results / name).shape == (720, 1280, 4)
    assert stream.getvalue().splitlines()[-3:] == [
        "game  setting  seed  state  epoch  steps  score  steps/s  reason",
        "pong  plain    1     done   2      80     1.0    50",
        "6 runs: 0 waiting, 0 running, 6 done, 0 failed",
    ]
    report.finish(two)
    assert "double > plain: probability of improvement 1.00" in capsys.readouterr().out


def test_the_table_has_a_line_for_each_run(make_run: Make) -> None:
    failed = make_run("breakout", 2, state=RunState.FAILED)
    failed.reason = "killed by SIGKILL"
    running = make_run("pong", state=RunState.RUNNING, train=[-20, -3])
    assert table([running, failed]) == [
        "game      seed  state    epoch  steps  score  steps/s  reason",
        "pong      1     running  2      80     -3.0   50",
        "breakout  2     failed                                 killed by SIGKILL",
    ]
