"""Measures and intervals against plain Python that follows the paper word for word, and against rliable."""

import random
import statistics
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simple_dqn.sweep.measures import MEASURES, Estimate, estimate, improvement

Games = list[list[float]]


def plain_median(games: Games) -> float:
    return statistics.median(statistics.fmean(runs) for runs in games)


def plain_mean(games: Games) -> float:
    return statistics.fmean(statistics.fmean(runs) for runs in games)


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
    "median": plain_median,
    "mean": plain_mean,
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


scores = st.floats(-1000, 1000, allow_subnormal=False)
games_of = st.lists(st.lists(scores, min_size=1, max_size=6), min_size=1, max_size=6)


@given(games=games_of)
def test_measures_are_the_plain_ones(games: Games) -> None:
    for name, plain in PLAIN.items():
        assert estimate(MEASURES[name], arrays(games), 2).value == pytest.approx(plain(games), abs=1e-6)


@given(games=games_of, seed=st.integers(0, 99))
def test_the_probability_of_improvement_is_the_plain_one(games: Games, seed: int) -> None:
    rng = random.Random(seed)
    other = [[rng.choice([*runs, rng.gauss(0, 500)]) for _ in range(rng.randint(1, 4))] for runs in games]
    found = estimate(improvement, arrays(games), 2, second=arrays(other)).value
    assert found == pytest.approx(plain_improvement(games, other))


def test_the_interquartile_mean_of_numbers_worked_out_by_hand() -> None:
    games = [[100.0, 2.0], [3.0, 4.0], [5.0, -50.0], [6.0, 7.0]]  # in order: -50 2 | 3 4 5 6 | 7 100
    assert estimate(MEASURES["interquartile mean"], arrays(games)).value == 4.5


def within(found: Estimate, share: float, low: float, high: float) -> None:
    """Require the interval to be that from `low` to `high`, except for a `share` of its width."""
    assert found.low is not None
    assert found.high is not None
    assert high > low
    assert found.low == pytest.approx(low, abs=share * (high - low))
    assert found.high == pytest.approx(high, abs=share * (high - low))


@pytest.mark.parametrize("measure", MEASURES)
def test_intervals_are_the_plain_ones(measure: str) -> None:
    games = some_games(0)
    found = estimate(MEASURES[measure], arrays(games), 20_000)
    within(found, 0.04, *plain_interval(PLAIN[measure], games))


def test_both_settings_are_resampled() -> None:
    first, second = some_games(0), some_games(1)
    found = estimate(improvement, arrays(first), 20_000, second=arrays(second))
    within(found, 0.04, *plain_interval(plain_improvement, first, second))


def test_rliable_has_the_same_values_and_intervals() -> None:
    library = pytest.importorskip("rliable.library", reason="rliable is not installed")
    metrics = pytest.importorskip("rliable.metrics")
    theirs = {
        "interquartile mean": metrics.aggregate_iqm,
        "median": metrics.aggregate_median,
        "mean": metrics.aggregate_mean,
    }
    rng = np.random.default_rng(0)
    first, second = (
        rng.normal(shift, 1 + np.arange(6), (5, 6)).round(1) for shift in (0.4, 0)
    )  # [runs, games]
    for name, metric in theirs.items():
        found = estimate(MEASURES[name], list(first.T), 50_000)
        points, intervals = library.get_interval_estimates({"a": first}, metric, reps=50_000)
        assert found.value == pytest.approx(float(points["a"]), rel=1e-12)
        within(found, 0.03, *intervals["a"].ravel())
    found = estimate(improvement, list(first.T), 50_000, second=list(second.T))
    points, intervals = library.get_interval_estimates(
        {"a": (first, second)}, metrics.probability_of_improvement, reps=2_000
    )
    assert found.value == pytest.approx(float(points["a"]), rel=1e-12)
    within(found, 0.1, *intervals["a"].ravel())


def test_games_are_resampled_each_by_itself() -> None:
    """Runs that are alike within each game leave nothing to chance, however the games differ."""
    for measure in MEASURES.values():
        one = estimate(measure, arrays([[1.0] * 3, [50.0] * 2, [900.0] * 4]))
        assert one.low == one.value == one.high


def test_one_run_of_a_game_has_no_interval() -> None:
    assert estimate(MEASURES["mean"], arrays([[1.0], [2.0, 3.0]])) == Estimate(1.75, None, None)
    assert estimate(improvement, arrays([[1.0, 2.0]]), second=arrays([[1.5]])) == Estimate(0.5, None, None)


def test_the_same_scores_give_the_same_interval() -> None:
    games = arrays([[1.0, 2.0, 9.0], [4.0, 8.0]])
    assert estimate(MEASURES["mean"], games) == estimate(MEASURES["mean"], games)
