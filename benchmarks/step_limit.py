"""How far off the mean score of a test of a number of steps is, by the games that it counts; simulated.

PYTHONPATH=src:benchmarks .venv/bin/python benchmarks/step_limit.py --trials 4000

Games follow each other in each place, with a length and a score that go together. Compared are the rules of
`ScoreBoard`'s docstring for the games in progress at the limit: to drop them all, to count them all, and to
drop that of the last place alone, which is `ScoreBoard`'s.
"""

import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

import command
import numpy as np
from command import positive
from numpy.typing import NDArray
from table import print_table

Games: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64]]  # lengths in steps, and scores
Mask: TypeAlias = NDArray[np.bool_]  # [E, games of a place]
RULES = ("drop all", "count all", "drop one")


def longer_is_better(rng: np.random.Generator, shape: tuple[int, ...]) -> Games:
    """Return games of 2,000 steps on average; the score is a tenth of the steps, give or take 30 %."""
    lengths = np.ceil(rng.gamma(4, 500, shape))
    return lengths, lengths / 10 * rng.lognormal(-(0.3**2) / 2, 0.3, shape)


def shorter_is_better(rng: np.random.Generator, shape: tuple[int, ...]) -> Games:
    """Return games of 1,800 steps on average, like those of an agent of Pong that wins: quickly or not."""
    lengths = np.ceil(rng.gamma(9, 200, shape))
    return lengths, 21 - lengths / 200


def some_get_stuck(rng: np.random.Generator, shape: tuple[int, ...]) -> Games:
    """Return games of 1,000 steps on average, of which a fifth go on to the cap of 27,000 for few points."""
    stuck = rng.random(shape) < 0.2
    lengths = np.where(stuck, 27_000, np.ceil(rng.gamma(4, 250, shape)))
    return lengths, np.where(stuck, 5, lengths / 100)


KINDS: tuple[Callable[[np.random.Generator, tuple[int, ...]], Games], ...] = (
    longer_is_better,
    shorter_is_better,
    some_get_stuck,
)


def counted(lengths: NDArray[np.float64], rounds: float) -> list[Mask]:
    """Return which games each of `RULES` counts, given `lengths` [E, games of a place] and the limit."""
    ends = lengths.cumsum(axis=1)
    ended, begun = ends <= rounds, ends - lengths < rounds
    one = begun.copy()
    one[-1] = ended[-1]
    return [ended, begun, one]


def measure(
    kind: Callable[[np.random.Generator, tuple[int, ...]], Games], places: int, steps: int, trials: int
) -> list[str]:
    """Return the row of a table: per cent by which each rule's mean is off, and how much longer a test is."""
    rng = np.random.default_rng(0)
    expected = kind(rng, (4_000_000,))[1].mean()
    rounds = steps / places
    means: list[list[float]] = [[] for _ in RULES]
    last_ends = []  # rounds of a test that drops one game
    for _ in range(trials):
        lengths, scores = kind(rng, (places, 8 + int(rounds / 100)))
        rules = counted(lengths, rounds)
        for rule, mask in zip(means, rules, strict=True):
            rule += [scores[mask].mean()] if mask.any() else []
        last_ends.append(max(rounds, (lengths.cumsum(axis=1) * rules[-1]).max()))
    off = [f"{100 * (np.mean(rule) / expected - 1):+.1f}" for rule in means]
    error = 100 * np.std(means[-1]) / trials**0.5 / expected
    length = np.mean(last_ends) / rounds
    return [kind.__name__, str(places), f"{steps:,}", *off, f"{error:.1f}", f"{length:.2f}"]


def main(words: Sequence[str]) -> None:
    """Print the table."""
    parser = command.parser("step_limit", str(__doc__))
    parser.add_argument("--trials", type=positive(int), default=4000, help="simulated tests for each row")
    trials = int(parser.parse(words)["trials"])
    print_table(
        f"The mean score of a test of a number of steps, against the mean of all games; {trials} tests a row",
        ["games", "places", "steps", *(f"{rule}, %" for rule in RULES), "± %", "times as long"],
        [
            measure(kind, places, steps, trials)
            for kind in KINDS
            for places, steps in ((1, 125_000), (8, 125_000), (16, 125_000), (8, 20_000))
        ],
    )


if __name__ == "__main__":
    sys.exit(command.console("step_limit", main))
