"""Time until a game is solved: minutes, steps and updates until the latest training games reach a mean score.

    ./bench.sh learning results/pong_seed1.csv results/pong_seed2.csv [--reward 18 --last 40]

It reads the CSVs that `./train.sh` writes. A CSV has one mean per epoch, so the latest games are those of the
last epochs that together have at least --last games. The time reported may therefore be one epoch too long,
but never too short.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import common
import numpy as np
from common import machine, positive, print_table

from simple_dqn.statistics.csv_file import RunData, read_run

COLUMNS = ("nr_games", "average_reward", "total_time", "total_train_steps", "weight_updates")
HEADER = ["run", "minutes", "steps", "updates", "latest games"]


@dataclass(frozen=True)
class Progress:
    """The progress of a run at the end of an epoch."""

    minutes: float  # wall time, random play included
    steps: int
    updates: int
    mean: float  # score of the latest games
    games: int  # number of the latest games


def after_each_epoch(run: RunData, games: int) -> list[Progress]:
    """Return the progress after each epoch of `run`, once it has `games` training games."""
    finished: list[tuple[float, float]] = []  # for each epoch, the number of games and their mean
    progress = []
    columns = [np.nan_to_num(run.columns[name][run.phases == "train"]).tolist() for name in COLUMNS]
    for number, score, seconds, steps, updates in zip(*columns, strict=True):
        finished.append((number, score))
        count, points = 0.0, 0.0
        for played, mean in reversed(finished):
            if count >= games:
                break
            count += played
            points += played * mean
        if count >= games:
            progress.append(Progress(seconds / 60, int(steps), int(updates), points / count, int(count)))
    return progress


def first(progress: Sequence[Progress], reward: float) -> Progress | None:
    """Return the first progress with a mean score of `reward`, or None if there is none."""
    return next((epoch for epoch in progress if epoch.mean >= reward), None)


def report(path: Path, reward: float, games: int) -> list[object]:
    """Return the row of the table for the CSV `path`, or raise UserError if it is not that of a run.

    The game counts as solved when `games` games have a mean score of `reward`.
    """
    run = read_run(path, path.stem)
    run.check(COLUMNS, str(path))
    progress = after_each_epoch(run, games)
    solved = first(progress, reward)
    if solved is None:
        best = f"best {max(epoch.mean for epoch in progress):.1f}" if progress else f"under {games} games"
        return [path.stem, f"not in {run.columns['total_time'][-1] / 60:.1f} minutes: {best}"]
    return [
        path.stem, f"{solved.minutes:.1f}", f"{solved.steps:,}", f"{solved.updates:,}",
        f"{solved.mean:.1f} ({solved.games})",
    ]  # fmt: skip


def main(words: Sequence[str]) -> None:
    """Print the table for the command line, or raise UserError if a file is not the CSV of a run."""
    parser = common.parser("learning", __doc__)
    add = parser.add_argument
    add("runs", nargs="+", type=Path, metavar="CSV", help="the CSV of a run")
    add("--reward", type=float, default=18.0, help="mean score to reach (default: 18)")
    add("--last", type=positive(int), default=40, help="number of games in that mean (default: 40)")
    given = Namespace(**parser.parse(words))
    print(machine())
    rows = [report(path, given.reward, given.last) for path in given.runs]
    print_table(f"Time until the mean of the last {given.last} games is {given.reward:g}", HEADER, rows)


if __name__ == "__main__":
    sys.exit(common.console("learning", main))
