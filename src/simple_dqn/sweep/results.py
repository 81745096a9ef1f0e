"""Results: how well one run plays, from its CSV; and the scores of many games in one number.

The measures and their intervals are those of Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of
the Statistical Precipice", arXiv:2108.13264. The paper's own library, rliable, needs SciPy, pandas, seaborn
and an older arch, and ignores the seed that it is given.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from simple_dqn.errors import UserError
from simple_dqn.statistics import Run, read_run

PHASES = ("test", "train")  # that have scores, the preferred one first
RESAMPLES = 10_000
BATCH = 500  # resamples that are computed together
CONFIDENCE = 0.95
Array = NDArray[np.float64]
Rewards = Mapping[int, float | None]  # epoch -> average reward, raw game points; None: no game ended


@dataclass(frozen=True)
class RunResults:
    """The last row of a run's CSV, and the average rewards of all its epochs."""

    epoch: int
    steps: int  # of training
    rate: float  # steps per second in the last phase
    hours: float  # of wall time
    rewards: Mapping[str, Rewards] = field(default_factory=dict)  # by phase, test and train

    @property
    def phase(self) -> str:
        """The phase to score: test, or train where no test game has ended; empty: no game has ended."""
        return next((phase for phase in PHASES if self.games_ended(phase)), "")

    @property
    def last(self) -> float | None:
        """The average reward of the latest epoch in which a game ended, in the phase to score."""
        known = [reward for reward in self._rewards(self.phase).values() if reward is not None]
        return known[-1] if known else None

    def games_ended(self, phase: str) -> bool:
        """Return whether a game has ended in any epoch of `phase`."""
        return any(reward is not None for reward in self._rewards(phase).values())

    def reached(self, phase: str) -> int:
        """Return the latest epoch whose `phase` is over; 0: none is."""
        return max(self._rewards(phase), default=0)

    def score(self, phase: str, epoch: int) -> float | None:
        """Return the mean reward of the last tenth of the epochs up to `epoch`; None: no game ended then."""
        rewards = [self._rewards(phase).get(number) for number in last_tenth(epoch)]
        known = [reward for reward in rewards if reward is not None]
        return fmean(known) if known else None

    def best(self, phase: str, epoch: int) -> float | None:
        """Return the highest average reward of the epochs up to `epoch`, a maximum over noisy values."""
        rewards = self._rewards(phase).items()
        return max((one for number, one in rewards if number <= epoch and one is not None), default=None)

    def _rewards(self, phase: str) -> Rewards:
        return self.rewards.get(phase, {})


def last_tenth(epoch: int) -> range:
    """Return the last tenth of the epochs 1 to `epoch`, rounded up: 46 to 50 of 50, 5 of 5."""
    return range(epoch - -(-epoch // 10) + 1, epoch + 1)


def read_results(path: Path) -> RunResults | None:
    """Return the results in the CSV `path`; None: it has no row yet."""
    try:
        run = read_run(path, path.stem)
    except UserError:
        return None
    if not len(run.phases):
        return None
    epoch, steps, rate, seconds = (
        float(np.nan_to_num(run.columns[name][-1]))
        for name in ("epoch", "total_train_steps", "steps_per_second", "total_time")
    )
    return RunResults(
        epoch=int(epoch),
        steps=int(steps),
        rate=rate,
        hours=seconds / 3600,
        rewards={phase: _rewards(run, phase) for phase in PHASES},
    )


def _rewards(run: Run, phase: str) -> Rewards:
    rows = run.phases == phase
    epochs, values = run.columns["epoch"][rows].tolist(), run.columns["average_reward"][rows].tolist()
    return {
        int(epoch): value if np.isfinite(value) else None
        for epoch, value in zip(epochs, values, strict=True)
        if np.isfinite(epoch)
    }


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval; None: a game has only one run, so its spread is unknown."""

    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        """Return `75.0`, or `75.0 (70.1 to 80.2)` with an interval."""
        return f"{self.value:.1f}" + ("" if self.low is None else f" ({self.low:.1f} to {self.high:.1f})")


def median(games: Sequence[Array]) -> Array:
    """Return the median over games of each game's mean: from arrays [B, runs of that game] to [B]."""
    return np.asarray(np.median(_means(games), axis=1))


def mean(games: Sequence[Array]) -> Array:
    """Return the mean over games of each game's mean: from arrays [B, runs of that game] to [B]."""
    return np.asarray(np.mean(_means(games), axis=1))


def interquartile_mean(games: Sequence[Array]) -> Array:
    """Return the mean of the middle half of all runs: from arrays [B, runs of a game] to [B].

    Of n runs the lowest and the highest n // 4 are left out, as by `scipy.stats.trim_mean`.
    """
    runs = np.sort(np.concatenate(games, axis=1), axis=1)
    cut = runs.shape[1] // 4
    return np.asarray(np.mean(runs[:, cut : runs.shape[1] - cut], axis=1))


MEASURES: dict[str, Callable[[Sequence[Array]], Array]] = {
    "median": median,
    "mean": mean,
    "interquartile_mean": interquartile_mean,
}


def estimate(games: Sequence[Array], seed: int = 0, resamples: int = RESAMPLES) -> dict[str, Estimate]:
    """Return every measure of `games`, with the percentile interval of a stratified bootstrap.

    Each resample draws runs with replacement within each game, and keeps the games.

    Args:
        games: For each game the scores of its runs, float64 [runs], at least one; games may differ in number.
        seed: Of the random stream: the same scores give the same interval.
        resamples: How many resamples are drawn.
    """
    points = {
        name: float(measure([runs[np.newaxis] for runs in games])[0]) for name, measure in MEASURES.items()
    }
    if min(len(runs) for runs in games) < 2:
        return {name: Estimate(value, None, None) for name, value in points.items()}
    found: dict[str, list[Array]] = {name: [] for name in MEASURES}
    for drawn in _resampled(games, np.random.default_rng(seed), resamples):
        for name, measure in MEASURES.items():
            found[name].append(measure(drawn))
    tails = (1 - CONFIDENCE) / 2
    bounds = {name: np.quantile(np.concatenate(values), [tails, 1 - tails]) for name, values in found.items()}
    return {name: Estimate(points[name], *map(float, bounds[name])) for name in MEASURES}


def _resampled(games: Sequence[Array], rng: np.random.Generator, resamples: int) -> Iterator[list[Array]]:
    """Yield parts of the resamples: for each game an array [B, runs]."""
    for first in range(0, resamples, BATCH):
        count = min(BATCH, resamples - first)
        yield [runs[rng.integers(len(runs), size=(count, len(runs)))] for runs in games]


def _means(games: Sequence[Array]) -> Array:
    """Return each game's mean: from arrays [B, runs of that game] to [B, games]."""
    return np.stack([runs.mean(axis=1) for runs in games], axis=1)
