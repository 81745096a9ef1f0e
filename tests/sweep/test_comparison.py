"""Measures and intervals against plain Python that follows the paper word for word, and the comparison."""

import csv
import io
import random
import statistics
from collections.abc import Callable
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from simple_dqn import main
from simple_dqn.evaluation import SCORES
from simple_dqn.sweep.comparison import ATARI5, Comparison, Estimate, Report, estimate, scored
from simple_dqn.sweep.pool import SweepRun

Games = list[list[float]]
Make = Callable[..., SweepRun]


def plain_interquartile_mean(games: Games) -> float:
    left = sorted(score for runs in games for score in runs)
    for _ in range(len(left) // 4):
        left.remove(min(left))
        left.remove(max(left))
    return statistics.fmean(left)


PLAIN: dict[str, Callable[[Games], float]] = {
    "interquartile mean": plain_interquartile_mean,
    "mean": lambda games: statistics.fmean(statistics.fmean(runs) for runs in games),
}


def arrays(games: Games) -> list[np.ndarray]:
    return [np.array(runs, np.float64) for runs in games]


@pytest.mark.parametrize("name", PLAIN)
def test_measures_and_intervals_are_the_plain_ones(name: str) -> None:
    """The interval is from the 2.5 to the 97.5 percent point of resamples drawn game by game."""
    rng, draw = random.Random(0), random.Random(1)
    games = [[rng.gauss(10 * game, 5 + game) for _ in range(4 + game % 3)] for game in range(5)]
    found = estimate(name, arrays(games), resamples=20_000)
    assert found.value == pytest.approx(PLAIN[name](games))
    values = sorted(PLAIN[name]([draw.choices(one, k=len(one)) for one in games]) for _ in range(20_000))
    low, high = values[500], values[19_500]
    assert high > low
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.04 * (high - low))
    assert found == estimate(name, arrays(games), resamples=20_000)
    # Runs that are alike within each game leave nothing to chance, however the games differ.
    same = estimate(name, arrays([[1.0] * 3, [50.0] * 2, [900.0] * 4]))
    assert same.low == same.value == same.high
    assert estimate("mean", arrays([[1.0], [2.0, 3.0]])) == Estimate(1.75)  # of one run there is no interval


def points(game: str, percent: float) -> float:
    """Return the raw points that are `percent` of a human's score."""
    one = SCORES[game]
    return one["random"] + (one["human"] - one["random"]) * percent / 100


def measured(comparison: Comparison) -> dict[tuple[str, str], float]:
    return {(setting, name): one.value for setting, name, one in comparison.estimates}


def test_runs_are_compared_at_the_latest_epoch_that_all_have_reached(make_run: Make) -> None:
    found = Comparison([
        make_run("pong", 1, test=[10, 20, 900]),
        make_run("pong", 2, state="running", train=[1, 1, 1], test=[30, 40]),
        make_run("pong", 3, state="waiting"),
        make_run("pong", 4, state="failed", test=[900]),
    ])  # fmt: skip
    assert (found.span, found.unit, len(found.members)) == ("test epoch 2", "game points", 2)
    assert (measured(found)["", "mean"], found.left_out) == ((20 + 40) / 2, 2)
    none = Comparison([make_run("pong", 5, state="waiting")])
    assert (none.members, none.left_out) == ([], 1)
    assert "No run can be compared" in str(none)


def test_several_games_are_compared_in_percent_of_a_human_s_score(make_run: Make) -> None:
    """A game without one, and a game that one setting lacks, is left out."""
    runs = [make_run("pong", test=[points("pong", 50)]), make_run("breakout", test=[points("breakout", 150)])]
    found = Comparison([*runs, make_run("catch", test=[1])])
    assert measured(found)["", "mean"] == pytest.approx(100)
    assert (found.games, found.left_out) == (["breakout", "pong"], 1)
    assert "in % of human (Wang et al. 2016)" in str(found)
    more = [make_run("pong", setting="b", test=[2]), make_run("catch", setting="b", test=[1])]
    lacking = Comparison([*runs, *more])
    assert (lacking.games, lacking.left_out) == (["pong"], 2)


def test_the_median_of_57_games_is_estimated_from_atari_5(make_run: Make) -> None:
    human = {game: SCORES[game]["human"] for game in ATARI5}  # 100 % in each
    runs = [make_run(game, setting="one", test=[score]) for game, score in human.items()]
    assert Comparison(runs).medians == {"one": pytest.approx(101**0.965 - 1)}
    assert "median of 57 games about 84.9" in str(Comparison(runs))
    assert not Comparison(runs[1:]).medians


def test_tests_and_training_are_never_compared_with_each_other(make_run: Make) -> None:
    untested = [make_run("pong", 2, train=[900]), make_run("pong", 3, train=[900], test=[None])]
    found = Comparison([make_run("pong", train=[5], test=[50]), *untested])
    assert (found.phase, measured(found)["", "mean"], found.left_out) == ("test", 50, 2)
    assert measured(Comparison(untested))["", "mean"] == 900


@pytest.mark.parametrize(("epochs", "first"), [(1, 1), (10, 10), (11, 10), (50, 46)])
def test_the_score_is_the_mean_of_the_last_tenth_of_the_epochs(
    make_run: Make, epochs: int, first: int
) -> None:
    curve = [float(epoch**2) for epoch in range(1, epochs + 1)]
    run = make_run("pong", test=curve)
    assert run.data is not None
    phase, span, (score,) = scored([run.data])
    assert (phase, span) == ("test", range(first, epochs + 1))
    assert score == pytest.approx(statistics.fmean(curve[first - 1 :]))


@pytest.fixture
def two(make_run: Make) -> list[SweepRun]:
    """Two settings of Pong with three seeds each, of which the second is always better."""
    return [
        make_run("pong", seed, setting, test=[base + seed, 2 * base + seed])
        for setting, base in (("plain", 0), ("double", 10))
        for seed in (1, 2, 3)
    ]


def test_csvs_that_exist_are_compared_with_intervals(
    two: list[SweepRun], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> list[str]:
        files = {
            name: ",".join(str(one.csv) for one in two if one.setting == name) for name in ("plain", "double")
        }
        return ["sweep", "compare", *(f"{name}={csvs}" for name, csvs in files.items())]

    png = tmp_path / "figure.png"
    assert main.run([*command(), "--png_file", str(png)]) == 0
    assert capsys.readouterr().out == f"{Comparison(two)}\n"
    assert matplotlib.image.imread(png).shape == (720, 1280, 4)
    for one in two:  # under names that tell no game
        one.csv = one.csv.rename(tmp_path / f"{one.setting}{one.seed}.csv")
    assert main.run(command()) == 0
    out = capsys.readouterr().out
    assert "6 runs of another game" in out
    assert "double: mean 22.0 (21." in out


def test_the_figure_has_the_curves_of_each_game_and_the_measures(two: list[SweepRun], make_run: Make) -> None:
    found = measured(Comparison(two))
    assert (found["plain", "mean"], found["double", "mean"]) == (2, 22)
    curves, measures = Comparison(two).plot().panels
    plain, double = curves.lines
    assert (curves.title, plain.x.tolist()) == ("Pong", [40, 80])
    assert (plain.values.tolist(), double.values.tolist()) == ([2, 2], [12, 22])
    assert double.low is not None
    assert double.low.tolist() == [11, 21]
    assert measures.rows == ("interquartile mean", "mean")
    assert [(line.label, len(line.x)) for line in measures.lines] == [("plain", 3)] * 2 + [("double", 3)] * 2
    other = [make_run("breakout", 1, setting, test=[20, 30]) for setting in ("plain", "double")]
    assert [panel.title for panel in Comparison([*two, *other]).plot().panels] == [
        "Breakout", "Pong", "Scores: test epoch 2",
    ]  # fmt: skip


def test_the_files_are_renewed_when_a_run_ends(two: list[SweepRun], make_run: Make, tmp_path: Path) -> None:
    stream, folder = io.StringIO(), tmp_path / "results"
    two[0].state = "running"
    report = Report([*two, make_run("breakout", 2, state="waiting")], folder, stream)
    report.update()
    assert len(stream.getvalue().splitlines()) == 8
    assert not (folder / "comparison.csv").exists()
    two[0].state = "done"
    report.update()
    report.update()  # nothing has changed
    assert stream.getvalue().splitlines()[8:] == [
        "pong_plain_seed1: done, epoch 2, score 1", "6 of 7 runs are done",
    ]  # fmt: skip
    with (folder / "comparison.csv").open(newline="") as file:
        comparison = list(csv.DictReader(file))
    assert ",".join(comparison[0]) == ("setting,measure,value,low,high,unit,runs,scored,left_out")
    assert [row["value"] for row in comparison if row["measure"] == "mean"] == ["2.0", "22.0"]
    assert matplotlib.image.imread(folder / "comparison.png").shape == (720, 1280, 4)
