"""How soon a game is learnt: minutes, steps and updates until the latest training games are good enough.

    ./bench.sh learning pong --seeds 5 [--reward 18 --last 40 --minutes 25] [flags of train]
    ./bench.sh learning results/pong_seed1.csv results/pong_seed2.csv

Trains the game from one seed after the other, as `./train.sh` does, each until it is good enough or its
minutes are over; or reads what such runs wrote. The CSV tells of games by epoch, so the latest games are
those of the latest epochs that together have as many: an epoch late at worst, never early. Run it on an
idle machine.
"""

import csv
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import command
from command import positive
from table import machine, print_table

from simple_dqn.errors import UserError
from simple_dqn.files import home

POLL = 1.0  # seconds between two looks at the CSV
COLUMNS = {"phase", "nr_games", "average_reward", "total_time", "total_train_steps", "weight_updates"}
HEADER = ["run", "minutes", "steps", "updates", "latest games"]

Row = dict[str, str]


@dataclass(frozen=True)
class Goal:
    """What counts as learnt."""

    reward: float  # game points
    games: int


@dataclass(frozen=True)
class Learnt:
    """Where a run stood at the end of an epoch."""

    minutes: float  # wall time, random play included
    steps: int
    updates: int
    mean: float  # of the latest games
    games: int  # how many these were


def after_each_epoch(rows: Sequence[Row], games: int) -> list[Learnt]:
    """Return where the run of `rows` stood after each epoch by whose end it had played `games` to learn."""
    finished: list[tuple[int, float]] = []  # by epoch: games, and their mean
    stood = []
    for row in rows:
        if row["phase"] != "train":
            continue
        finished.append((int(row["nr_games"]), float(row["average_reward"] or 0)))
        count, points = 0, 0.0
        for played, mean in reversed(finished):
            if count >= games:
                break
            count += played
            points += played * mean
        if count >= games:
            minutes, steps = float(row["total_time"]) / 60, int(row["total_train_steps"])
            stood.append(Learnt(minutes, steps, int(row["weight_updates"]), points / count, count))
    return stood


def first(rows: Sequence[Row], goal: Goal) -> Learnt | None:
    """Return where the run of `rows` first reached `goal`; None: it has not."""
    stood = after_each_epoch(rows, goal.games)
    return next((learnt for learnt in stood if learnt.mean >= goal.reward), None)


def read(path: Path) -> list[Row]:
    """Return the rows of a CSV, none if it is not there yet."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def train(game: str, seed: int, goal: Goal, minutes: float, flags: Sequence[str]) -> Path:
    """Train `game` until `goal` is reached or `minutes` are over; return the CSV.

    Raises:
        UserError: Training failed.
    """
    label = f"learning{seed}"
    path = home() / "results" / f"{Path(game).stem}_{label}.csv"
    path.unlink(missing_ok=True)
    program = [sys.executable, "-P", "-m", "simple_dqn.main"]
    words = ["train", game, label, "--random_seed", str(seed), *flags]
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        training = subprocess.Popen([*program, *words], stdout=said, stderr=said)
        while training.poll() is None:
            time.sleep(POLL)
            if time.monotonic() - start > 60 * minutes or first(read(path), goal):
                training.send_signal(signal.SIGINT)
                training.wait()
        said.seek(0)
        if not path.exists():
            raise UserError(said.read().strip().rpartition("\n")[2].partition(": ")[2])
    return path


def report(path: Path, goal: Goal) -> list[object]:
    """Return the row of the table for the run that wrote `path`.

    Raises:
        UserError: It is no CSV of a run.
    """
    rows = read(path)
    if not rows or not rows[0].keys() >= COLUMNS:
        raise UserError(f"{path} has no row of a training: give a CSV that train.sh wrote")
    learnt = first(rows, goal)
    if learnt is None:
        stood = after_each_epoch(rows, goal.games)
        best = f"best {max(one.mean for one in stood):.1f}" if stood else f"fewer than {goal.games} games"
        return [path.stem, f"not in {float(rows[-1]['total_time']) / 60:.1f} minutes: {best}"]
    return [
        path.stem, f"{learnt.minutes:.1f}", f"{learnt.steps:,}", f"{learnt.updates:,}",
        f"{learnt.mean:.1f} ({learnt.games})",
    ]  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    """Print the table that `arguments` ask for.

    Raises:
        UserError: A training could not begin.
    """
    parser = command.parser("learning", __doc__)
    add = parser.add_argument
    add("games", nargs="+", metavar="GAME|CSV", help="a game to train, or CSVs to read")
    add("--seeds", type=positive(int), default=5, help="trainings, of seeds 1, 2, ... (default: 5)")
    add("--reward", type=float, default=18.0, help="what is enough (default: 18)")
    add("--last", type=positive(int), default=40, help="games whose mean it must be (default: 40)")
    add("--minutes", type=positive(float), default=25.0, help="time for each seed (default: 25)")
    given, flags = parser.parse_known_args(arguments)
    goal = Goal(given.reward, given.last)
    paths = [Path(word) for word in given.games if word.endswith(".csv")]
    print(machine())
    rows = [report(path, goal) for path in paths]
    for game in given.games:
        if not game.endswith(".csv"):
            runs = (train(game, seed, goal, given.minutes, flags) for seed in range(1, given.seeds + 1))
            rows.extend(report(path, goal) for path in runs)
    print_table(f"Until the mean of the last {goal.games} games is {goal.reward:g}", HEADER, rows)


if __name__ == "__main__":
    sys.exit(command.console("learning", main))
