"""Bias of the mean score in a test that is limited by steps, for three rules on unfinished games; simulated.

    ./bench.sh step_limit --trials 4000

Each worker plays one game after the other; length and score of a game are correlated. The rules differ in the
games in progress at the limit: drop them all, count them all, or drop only the last worker's, as
`ScoreBoard` does (its docstring has the derivation).
"""

import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

import common
import numpy as np
from common import positive, print_table
from numpy.typing import NDArray

Games: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64]]  # lengths in steps, and scores
Kind: TypeAlias = Callable[[np.random.Generator, tuple[int, ...]], Games]  # draws games of a shape
Mask: TypeAlias = NDArray[np.bool_]  # [E, games of a worker]
RULES = ("drop all", "count all", "drop one")


def longer_is_better(rng: np.random.Generator, shape: tuple[int, ...]) -> Games:
    """Return games of 2,000 steps on average whose score is a tenth of the steps, ± 30 %."""
    lengths = np.ceil(rng.gamma(4, 500, shape))
    return lengths, lengths / 10 * rng.lognormal(-(0.3**2) / 2, 0.3, shape)


def shorter_is_better(rng: np.random.Generator, shape: tuple[int, ...]) -> Games:
    """Return games of 1,800 steps on average, like those of a winning Pong agent: good games are short."""
    lengths = np.ceil(rng.gamma(9, 200, shape))
    return lengths, 21 - lengths / 200


def some_get_stuck(rng: np.random.Generator, shape: tuple[int, ...]) -> Games:
    """Return games of 1,000 steps on average, and a fifth that run to the cap of 27,000 for few points."""
    stuck = rng.random(shape) < 0.2
    lengths = np.where(stuck, 27_000, np.ceil(rng.gamma(4, 250, shape)))
    return lengths, np.where(stuck, 5, lengths / 100)


KINDS: tuple[Kind, ...] = (longer_is_better, shorter_is_better, some_get_stuck)


def counted(lengths: NDArray[np.float64], limit: float) -> list[Mask]:
    """Return the games that each of `RULES` counts, for `lengths` [E, games of a worker].

    `limit` is in steps of each worker.
    """
    ends = lengths.cumsum(axis=1)
    ended, begun = ends <= limit, ends - lengths < limit
    drop_one = begun.copy()
    drop_one[-1] = ended[-1]
    return [ended, begun, drop_one]


def measure(kind: Kind, workers: int, steps: int, trials: int) -> list[str]:
    """Return a row of the table: bias of each rule's mean in percent, and relative length of a test."""
    rng = np.random.default_rng(0)
    expected = kind(rng, (4_000_000,))[1].mean()
    limit = steps / workers
    means: list[list[float]] = [[] for _ in RULES]
    last_ends = []  # steps of each worker in a test that drops one game
    for _ in range(trials):
        lengths, scores = kind(rng, (workers, 8 + int(limit / 100)))
        rules = counted(lengths, limit)
        for rule, mask in zip(means, rules, strict=True):
            rule += [scores[mask].mean()] if mask.any() else []
        last_ends.append(max(limit, (lengths.cumsum(axis=1) * rules[-1]).max()))
    off = [f"{100 * (np.mean(rule) / expected - 1):+.1f}" for rule in means]
    error = 100 * np.std(means[-1]) / trials**0.5 / expected
    length = np.mean(last_ends) / limit
    return [kind.__name__, str(workers), f"{steps:,}", *off, f"{error:.1f}", f"{length:.2f}"]


def main(words: Sequence[str]) -> None:
    """Print the table."""
    parser = common.parser("step_limit", str(__doc__))
    parser.add_argument("--trials", type=positive(int), default=4000, help="simulated tests per row")
    trials = int(parser.parse(words)["trials"])
    print_table(
        f"Bias of the mean score of a test, {trials} simulated tests per row",
        ["games", "workers", "steps", *(f"{rule}, %" for rule in RULES), "± %", "relative length"],
        [
            measure(kind, workers, steps, trials)
            for kind in KINDS
            for workers, steps in ((1, 125_000), (8, 125_000), (16, 125_000), (8, 20_000))
        ],
    )


if __name__ == "__main__":
    sys.exit(common.console("step_limit", main))
