"""Measures and intervals against plain Python that follows the paper word for word."""

import random
import statistics
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simple_dqn.sweep.results import BATCH, MEASURES, _resampled, estimate

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


PLAIN: dict[str, Callable[[Games], float]] = {
    "median": plain_median,
    "mean": plain_mean,
    "interquartile_mean": plain_interquartile_mean,
}


def plain_interval(games: Games, measure: Callable[[Games], float], resamples: int) -> tuple[float, float]:
    """Return the 2.5 and 97.5 per cent points of the measure over resamples drawn game by game."""
    draw = random.Random(1)
    values = sorted(measure([draw.choices(runs, k=len(runs)) for runs in games]) for _ in range(resamples))
    return values[int(0.025 * resamples)], values[int(0.975 * resamples)]


def arrays(games: Games) -> list[np.ndarray]:
    return [np.array(runs, np.float64) for runs in games]


scores = st.floats(-1000, 1000, allow_subnormal=False)


@given(games=st.lists(st.lists(scores, min_size=1, max_size=6), min_size=1, max_size=6))
def test_measures_are_the_plain_ones(games: Games) -> None:
    found = estimate(arrays(games), resamples=2)
    for name, plain in PLAIN.items():
        assert found[name].value == pytest.approx(plain(games), abs=1e-6)


def test_the_interquartile_mean_of_what_can_be_reckoned_in_the_head() -> None:
    games = [[100.0, 2.0], [3.0, 4.0], [5.0, -50.0], [6.0, 7.0]]  # in order: -50 2 | 3 4 5 6 | 7 100
    assert estimate(arrays(games))["interquartile_mean"].value == 4.5


@pytest.mark.parametrize("measure", MEASURES)
def test_intervals_are_the_plain_ones(measure: str) -> None:
    rng = random.Random(0)
    games = [[rng.gauss(10 * game, 5 + game) for _ in range(4 + game % 3)] for game in range(5)]
    found = estimate(arrays(games), resamples=20_000)[measure]
    low, high = plain_interval(games, PLAIN[measure], 20_000)
    assert found.low is not None
    assert found.high is not None
    width = high - low
    assert width > 1
    assert found.low < found.value < found.high
    assert found.low == pytest.approx(low, abs=0.04 * width)
    assert found.high == pytest.approx(high, abs=0.04 * width)


def test_games_are_drawn_from_apart() -> None:
    """Runs that are alike within each game leave nothing to chance, however the games differ."""
    for one in estimate(arrays([[1.0] * 3, [50.0] * 2, [900.0] * 4])).values():
        assert one.low == one.value == one.high


def test_one_run_of_a_game_says_nothing_of_how_others_vary() -> None:
    for one in estimate(arrays([[1.0], [2.0, 3.0]])).values():
        assert (one.low, one.high) == (None, None)


def test_the_same_scores_give_the_same_interval() -> None:
    games = arrays([[1.0, 2.0, 9.0], [4.0, 8.0]])
    assert estimate(games) == estimate(games)


def test_there_are_as_many_resamples_as_asked_for_each_of_a_game_s_own_runs() -> None:
    games = arrays([[1.0, 2.0, 9.0], [4.0, 8.0]])
    parts = list(_resampled(games, np.random.default_rng(0), BATCH + 1))
    for game, runs in enumerate(games):
        drawn = np.concatenate([part[game] for part in parts])
        assert drawn.shape == (BATCH + 1, len(runs))
        assert set(drawn.flat) == set(runs)
