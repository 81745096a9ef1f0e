"""Measures and intervals against plain Python that follows the paper word for word, and the comparison."""

import csv
import io
import random
import statistics
from collections.abc import Callable
from itertools import product
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simple_dqn import main
from simple_dqn.evaluation import SCORES
from simple_dqn.plot import Line
from simple_dqn.sweep import comparison as compared
from simple_dqn.sweep.comparison import MEASURES, Comparison, Estimate, compare, estimate, improvement
from simple_dqn.sweep.pool import SweepRun

Games = list[list[float]]
Make = Callable[..., SweepRun]


def plain_interquartile_mean(games: Games) -> float:
    left = sorted(score for runs in games for score in runs)
    for _ in range(len(left) // 4):
        left.remove(min(left))
        left.remove(max(left))
    return statistics.fmean(left)


def plain_improvement(first: Games, second: Games) -> float:
    games = [list(product(x, y)) for x, y in zip(first, second, strict=True)]
    return statistics.fmean(statistics.fmean((x > y) + (x == y) / 2 for x, y in pairs) for pairs in games)


PLAIN: dict[str, Callable[[Games], float]] = {
    "interquartile mean": plain_interquartile_mean,
    "median": lambda games: statistics.median(statistics.fmean(runs) for runs in games),
    "mean": lambda games: statistics.fmean(statistics.fmean(runs) for runs in games),
}


def plain_interval(measure: Callable[..., float], *settings: Games) -> tuple[float, float]:
    """Return the 2.5 and 97.5 percent points of the measure over 20,000 resamples drawn game by game."""
    draw = random.Random(1)
    values = sorted(
        measure(*([draw.choices(runs, k=len(runs)) for runs in games] for games in settings))
        for _ in range(20_000)
    )
    return values[500], values[19_500]


def arrays(games: Games) -> list[np.ndarray]:
    return [np.array(runs, np.float64) for runs in games]


def some_games(seed: int) -> Games:
    rng = random.Random(seed)
    return [[rng.gauss(10 * game, 5 + game) for _ in range(4 + game % 3)] for game in range(5)]


@given(
    games=st.lists(
        st.lists(st.floats(-1000, 1000, allow_subnormal=False), min_size=1, max_size=6),
        min_size=1,
        max_size=6,
    ),
    seed=st.integers(0, 99),
)
def test_measures_are_the_plain_ones(games: Games, seed: int) -> None:
    for name, plain in PLAIN.items():
        found = estimate(MEASURES[name], arrays(games), resamples=500).value
        assert found == pytest.approx(plain(games), abs=1e-6)
    rng = random.Random(seed)
    other = [[rng.choice([*runs, rng.gauss(0, 500)]) for _ in range(rng.randint(1, 4))] for runs in games]
    found = estimate(improvement, arrays(games), arrays(other), resamples=500).value
    assert found == pytest.approx(plain_improvement(games, other))


def within(found: Estimate, share: float, low: float, high: float) -> None:
    """Require the interval to be that from `low` to `high`, except for a `share` of its width."""
    assert found.low is not None
    assert found.high is not None
    assert high > low
    assert found.low == pytest.approx(low, abs=share * (high - low))
    assert found.high == pytest.approx(high, abs=share * (high - low))


def test_intervals_are_the_plain_ones() -> None:
    first, second = some_games(0), some_games(1)
    for name, measure in MEASURES.items():
        found = estimate(measure, arrays(first), resamples=20_000)
        within(found, 0.04, *plain_interval(PLAIN[name], first))
    found = estimate(improvement, arrays(first), arrays(second), resamples=20_000)
    within(found, 0.04, *plain_interval(plain_improvement, first, second))


def test_games_are_resampled_each_by_itself_and_always_alike() -> None:
    """Runs that are alike within each game leave nothing to chance, however the games differ."""
    same, games = arrays([[1.0] * 3, [50.0] * 2, [900.0] * 4]), arrays([[1.0, 2.0, 9.0], [4.0, 8.0]])
    for measure in MEASURES.values():
        one = estimate(measure, same)
        assert one.low == one.value == one.high
        assert estimate(measure, games) == estimate(measure, games)
    # One run of a game has no interval.
    assert estimate(MEASURES["mean"], arrays([[1.0], [2.0, 3.0]])) == Estimate(1.75)
    assert estimate(improvement, arrays([[1.0, 2.0]]), arrays([[1.5]])) == Estimate(0.5)


def points(game: str, percent: float) -> float:
    """Return the raw points that are `percent` of a human's score."""
    one = SCORES[game]
    return one["random"] + (one["human"] - one["random"]) * percent / 100


def mean(comparison: Comparison, setting: str = "") -> float:
    return comparison.estimates[setting]["mean"].value


def test_runs_are_compared_at_the_latest_epoch_that_all_have_reached(make_run: Make) -> None:
    found = compare([
        make_run("pong", 1, test=[10, 20, 900]),
        make_run("pong", 2, state="running", train=[1, 1, 1], test=[30, 40]),
        make_run("pong", 3, state="waiting"),
        make_run("pong", 4, state="failed", test=[900]),
    ])  # fmt: skip
    assert (found.span, found.unit, len(found.members)) == ("test epoch 2", "game points", 2)
    assert mean(found) == pytest.approx((20 + 40) / 2)
    assert str(found).endswith("Left out: 1 failed, 1 waiting.")
    assert str(compare([make_run("pong", 5, state="waiting")])) == (
        "No run can be compared. Left out: 1 waiting."
    )


def test_several_games_are_compared_in_percent_of_a_human_s_score(make_run: Make) -> None:
    found = compare([
        make_run("pong", test=[points("pong", 50)]),
        make_run("breakout", test=[points("breakout", 150)]),
        make_run("catch", test=[1]),
    ])  # fmt: skip
    assert mean(found) == pytest.approx(100)
    assert (found.games, found.left_out) == (["breakout", "pong"], "1 without a human score")
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


@pytest.mark.parametrize(("epochs", "first"), [(1, 1), (10, 10), (11, 10), (50, 46)])
def test_the_score_is_the_mean_of_the_last_tenth_of_the_epochs(
    make_run: Make, epochs: int, first: int
) -> None:
    curve = [float(epoch**2) for epoch in range(1, epochs + 1)]
    run = make_run("pong", test=curve)
    assert run.data is not None
    phase, span, (score,) = compared.scored([run.data])
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
    words = [
        f"{name}=" + ",".join(str(one.csv) for one in two if one.setting == name)
        for name in ("plain", "double")
    ]
    png = tmp_path / "figure.png"
    assert main.run(["sweep", "compare", *words, "--png_file", str(png)]) == 0
    assert capsys.readouterr().out == f"{compare(two)}\n"
    assert matplotlib.image.imread(png).shape == (720, 1280, 4)
    for one in two:  # under names that tell no game
        one.csv.rename(tmp_path / f"{one.setting}{one.seed}.csv")
    words = [
        f"{name}=" + ",".join(str(tmp_path / f"{name}{n}.csv") for n in (1, 2, 3))
        for name in ("plain", "double")
    ]
    assert main.run(["sweep", "compare", *words]) == 0
    out = capsys.readouterr().out
    assert "6 runs of another game" in out
    assert "double > plain: probability of improvement 1.00 (1.00 to 1.00)" in out


def test_the_figure_has_curves_by_steps_and_minutes_the_measures_and_the_probabilities(
    two: list[SweepRun],
) -> None:
    def levels(lines: tuple[Line, ...]) -> dict[str, tuple[list[float], list[float]]]:
        return {line.label: (line.x.tolist(), line.values.tolist()) for line in lines}

    found = compare(two).estimates
    assert list(found) == ["plain", "double", "double > plain"]
    assert (found["plain"]["mean"].value, found["double"]["mean"].value) == (2, 22)
    assert str(found["double > plain"][compared.PROBABILITY]) == "1.00 (1.00 to 1.00)"
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


def test_the_files_are_renewed_when_a_run_ends(two: list[SweepRun], make_run: Make, tmp_path: Path) -> None:
    stream, folder = io.StringIO(), tmp_path / "results"
    two[0].state = "running"
    report = compared.Report([*two, make_run("breakout", 2, state="waiting")], folder, stream)
    report.update()
    assert len(stream.getvalue().splitlines()) == 8
    assert not (folder / "comparison.csv").exists()
    two[0].state = "done"
    report.update()
    report.update()  # nothing has changed
    summary, comparison = rows(folder / "summary.csv"), rows(folder / "comparison.csv")
    assert ",".join(summary[0]) == (
        "game,setting,seed,state,epoch,steps,hours,phase,score,score_human_normalised,steps/s,reason"
    )
    assert ",".join(comparison[0]) == ("setting,measure,value,low,high,unit,runs,scored,left_out")
    assert [(row["game"], row["setting"], row["seed"], row["score"]) for row in summary[:5:2]] == [
        ("breakout", "", "2", ""), ("pong", "double", "2", "22.0"), ("pong", "plain", "1", "1.0"),
    ]  # fmt: skip
    assert [row["value"] for row in comparison if row["measure"] == "mean"] == ["2.0", "22.0"]
    for name in ("pong.png", "comparison.png"):
        assert matplotlib.image.imread(folder / name).shape == (720, 1280, 4)
    assert stream.getvalue().splitlines()[8:] == [
        "pong_plain_seed1: done, epoch 2, steps 80, score 1, steps/s 50",
        "7 runs: 1 waiting, 0 running, 6 done, 0 failed",
    ]
