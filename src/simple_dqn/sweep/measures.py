"""Scores of many runs in one number, with its interval, as rliable defines them.

Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice", arXiv:2108.13264.
The paper's own library, rliable, needs SciPy, pandas and seaborn, and the same number of runs for every game.

A measure maps one or two settings to float64 [B]; a setting has an array [B, runs] for each game.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
BATCH = 500  # resamples that are computed together
CONFIDENCE = 0.95
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval; None: a game has only one run, so its spread is unknown."""

    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        """Return `75.0`, or `75.0 (70.1 to 80.2)` with an interval."""
        digits = 1 if abs(self.value) > 1 else 2
        interval = "" if self.low is None else f" ({self.low:.{digits}f} to {self.high:.{digits}f})"
        return f"{self.value:.{digits}f}{interval}"


def median(games: Sequence[Array]) -> Array:
    """Return the median over games of each game's mean."""
    return np.asarray(np.median([runs.mean(axis=1) for runs in games], axis=0))


def mean(games: Sequence[Array]) -> Array:
    """Return the mean over games of each game's mean."""
    return np.asarray(np.mean([runs.mean(axis=1) for runs in games], axis=0))


def interquartile_mean(games: Sequence[Array]) -> Array:
    """Return the mean of the middle half of all runs.

    Of n runs the lowest and the highest n // 4 are left out, as by `scipy.stats.trim_mean`.
    """
    runs = np.sort(np.concatenate(games, axis=1), axis=1)
    cut = runs.shape[1] // 4
    return np.asarray(np.mean(runs[:, cut : runs.shape[1] - cut], axis=1))


def improvement(first: Sequence[Array], second: Sequence[Array]) -> Array:
    """Return P(X > Y) + P(X = Y) / 2 for a run X of `first` and Y of `second`, the mean over games."""
    signs = [np.sign(x[:, :, None] - y[:, None]) for x, y in zip(first, second, strict=True)]
    return np.asarray(np.mean([sign.mean(axis=(1, 2)) for sign in signs], axis=0) / 2 + 0.5)


MEASURES: dict[str, Callable[[Sequence[Array]], Array]] = {
    "interquartile mean": interquartile_mean,
    "median": median,
    "mean": mean,
}


def estimate(
    measure: Callable[..., Array],
    games: Sequence[Array],
    resamples: int = RESAMPLES,
    second: Sequence[Array] | None = None,
) -> Estimate:
    """Return `measure` of one setting or two, with the percentile interval of a stratified bootstrap.

    Each resample draws runs with replacement within each game of each setting, and keeps the games. The same
    scores give the same interval.

    Args:
        measure: One of those above.
        games: For each game the scores of its runs, float64 [runs], at least one.
        resamples: How many resamples are drawn.
        second: The same for the second setting of the measure, if it compares two.
    """
    settings = [games] if second is None else [games, second]
    value = float(measure(*([runs[np.newaxis] for runs in one] for one in settings))[0])
    if min(len(runs) for one in settings for runs in one) < 2:
        return Estimate(value, None, None)
    rng, found = np.random.default_rng(0), []
    for first in range(0, resamples, BATCH):
        size = min(BATCH, resamples - first)
        found.append(
            measure(
                *([runs[rng.integers(len(runs), size=(size, len(runs)))] for runs in one] for one in settings)
            )
        )
    tails = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.concatenate(found), [tails, 1 - tails])
    return Estimate(value, float(low), float(high))
