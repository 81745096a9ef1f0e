"""What a sweep came to, as two small CSVs: a row for each run, and all together compared with people."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simple_dqn.files import replacing
from simple_dqn.human_scores import human_normalised
from simple_dqn.sweep.aggregate import Estimate, estimate
from simple_dqn.sweep.plan import Places, Plan
from simple_dqn.sweep.schedule import Row, State

COLUMNS = (
    "game", "seed", "state", "epoch", "steps", "hours", "phase", "best_average_reward", "last_average_reward",
    "best_human_normalised", "last_human_normalised", "reason",
)  # fmt: skip
SCORES = ("last", "best")  # of a run: its last average reward, its highest


@dataclass(frozen=True)
class Comparison:
    """One measure of all runs that have a score, of games in which a person's score is known, in per cent."""

    score: str  # last or best
    measure: str
    estimate: Estimate
    games: int
    runs: int

    def __str__(self) -> str:
        """Return it as a line."""
        estimate, words = self.estimate, self.measure.replace("_", " ")
        between = "" if estimate.low is None else f" ({estimate.low:.1f} to {estimate.high:.1f})"
        return f"{self.score} average reward, {words}: {estimate.value:.1f} %{between}"


def fresh_rows(plan: Plan, places: Places) -> list[Row]:
    """Return a row for each run: done if the summary says so and its statistics are there, else waiting."""
    done = {(row["game"], row["seed"]) for row in _read(places.summary) if row["state"] == State.DONE}
    rows = []
    for run in plan.runs:
        is_done = (run.game, str(run.seed)) in done and places.csv(run).exists()
        rows.append(Row(run, places, State.DONE if is_done else State.WAITING))
    return rows


def write_summary(rows: Sequence[Row], path: Path) -> None:
    """Write how each run stands, by game and seed.

    Raises:
        UserError: It cannot be written.
    """
    ordered = sorted(rows, key=lambda row: (row.run.game, row.run.seed))
    _write(path, COLUMNS, (_cells(row) for row in ordered))


def compare(rows: Sequence[Row]) -> list[Comparison]:
    """Return every measure of both scores; none without a run that can be compared."""
    comparisons = []
    for score in SCORES:
        games: dict[str, list[float]] = {}
        for row in rows:
            normalised = _normalised(row, score)
            if normalised is not None:
                games.setdefault(row.run.game, []).append(normalised)
        if games:
            runs = sum(map(len, games.values()))
            found = estimate([np.array(scores) for scores in games.values()])
            comparisons += [Comparison(score, name, one, len(games), runs) for name, one in found.items()]
    return comparisons


def write_comparisons(comparisons: Sequence[Comparison], path: Path) -> None:
    """Write the measures, in per cent of the way from random play to a person's.

    Raises:
        UserError: They cannot be written.
    """
    columns = ("score", "measure", "value", "low", "high", "games", "runs")
    rows = (
        (one.score, one.measure, one.estimate.value, one.estimate.low, one.estimate.high, one.games, one.runs)
        for one in comparisons
    )
    _write(path, columns, rows)


def _cells(row: Row) -> list[Any]:
    begin: list[Any] = [row.run.game, row.run.seed, row.state.value]
    standing = row.standing
    if standing is None:
        return [*begin, *[None] * 8, row.reason]
    return [
        *begin, standing.epoch, standing.steps, round(standing.hours, 4), standing.phase, standing.best,
        standing.last, _normalised(row, "best"), _normalised(row, "last"), row.reason,
    ]  # fmt: skip


def _normalised(row: Row, score: str) -> float | None:
    """Return a score of a run in per cent of a person's; None: there is none."""
    if row.standing is None:
        return None
    value: float | None = getattr(row.standing, score)
    return None if value is None else human_normalised(row.run.game, value)


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with replacing(path) as beside, beside.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def _read(path: Path) -> list[dict[str, str]]:
    """Return the rows of a summary; none if there is none that can be read."""
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            return list(reader) if tuple(reader.fieldnames or ()) == COLUMNS else []
    except (OSError, UnicodeDecodeError, csv.Error):
        return []
