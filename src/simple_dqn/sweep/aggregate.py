"""Scores of many games in one number, and how sure it is: Agarwal et al. 2021.

"Deep Reinforcement Learning at the Edge of the Statistical Precipice", arXiv:2108.13264. The paper's own
library, rliable, asks for SciPy, pandas, seaborn and an older arch, and draws without the seed it is given.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]

RESAMPLES = 10_000
TOGETHER = 500  # resamples that are looked at together
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A number, and its 95 % interval; None: a game has one run, which cannot tell how others vary."""

    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        """Return `75.0`, or `75.0 (70.1 to 80.2)` with an interval."""
        return f"{self.value:.1f}" + ("" if self.low is None else f" ({self.low:.1f} to {self.high:.1f})")


def median(games: Sequence[Scores]) -> Scores:
    """Return the median over games of each game's mean: from arrays [B, runs of that game] to [B]."""
    return np.asarray(np.median(_means(games), axis=1))


def mean(games: Sequence[Scores]) -> Scores:
    """Return the mean over games of each game's mean: from arrays [B, runs of that game] to [B]."""
    return np.asarray(np.mean(_means(games), axis=1))


def interquartile_mean(games: Sequence[Scores]) -> Scores:
    """Return the mean of the middle half of all runs: from arrays [B, runs of a game] to [B].

    Of n runs the lowest and the highest n // 4 are left out, as by `scipy.stats.trim_mean`.
    """
    runs = np.sort(np.concatenate(games, axis=1), axis=1)
    cut = runs.shape[1] // 4
    return np.asarray(np.mean(runs[:, cut : runs.shape[1] - cut], axis=1))


MEASURES: dict[str, Callable[[Sequence[Scores]], Scores]] = {
    "median": median,
    "mean": mean,
    "interquartile_mean": interquartile_mean,
}


def estimate(games: Sequence[Scores], seed: int = 0, resamples: int = RESAMPLES) -> dict[str, Estimate]:
    """Return every measure of `games`, with a stratified bootstrap's percentile interval.

    Runs are drawn again with replacement within each game; the games stay those that they are.

    Args:
        games: For each game the scores of its runs, float64 [runs], at least one; games may differ in number.
        seed: Of what is drawn, so that the same scores give the same interval.
        resamples: How often they are drawn.
    """
    points = {
        name: float(measure([runs[np.newaxis] for runs in games])[0]) for name, measure in MEASURES.items()
    }
    if min(len(runs) for runs in games) < 2:
        return {name: Estimate(value, None, None) for name, value in points.items()}
    found: dict[str, list[Scores]] = {name: [] for name in MEASURES}
    for drawn in _resampled(games, np.random.default_rng(seed), resamples):
        for name, measure in MEASURES.items():
            found[name].append(measure(drawn))
    tails = (1 - CONFIDENCE) / 2
    bounds = {name: np.quantile(np.concatenate(values), [tails, 1 - tails]) for name, values in found.items()}
    return {name: Estimate(points[name], *map(float, bounds[name])) for name in MEASURES}


def _resampled(games: Sequence[Scores], rng: np.random.Generator, resamples: int) -> Iterator[list[Scores]]:
    """Yield parts of the resamples: for each game an array [B, runs]."""
    for first in range(0, resamples, TOGETHER):
        count = min(TOGETHER, resamples - first)
        yield [runs[rng.integers(len(runs), size=(count, len(runs)))] for runs in games]


def _means(games: Sequence[Scores]) -> Scores:
    """Return each game's mean: from arrays [B, runs of that game] to [B, games]."""
    return np.stack([runs.mean(axis=1) for runs in games], axis=1)
