"""What each run of a sweep came to, as a CSV with a row for each."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from simple_dqn.files import replacing
from simple_dqn.human_scores import human_normalised
from simple_dqn.sweep.plan import Places, Plan
from simple_dqn.sweep.schedule import Row, State

COLUMNS = (
    "game", "seed", "state", "epoch", "steps", "hours", "phase", "score", "best_epoch",
    "score_human_normalised", "best_epoch_human_normalised", "reason",
)  # fmt: skip


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

    `score` is the mean average reward of the last tenth of the run's epochs so far, `best_epoch` the highest
    average reward of any; both in raw game points, and in per cent of a human's.

    Raises:
        UserError: It cannot be written.
    """
    ordered = sorted(rows, key=lambda row: (row.run.game, row.run.seed))
    write_csv(path, COLUMNS, (_cells(row) for row in ordered))


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV, whole or not at all.

    Raises:
        UserError: It cannot be written.
    """
    with replacing(path) as beside, beside.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def _cells(row: Row) -> list[Any]:
    begin: list[Any] = [row.run.game, row.run.seed, row.state.value]
    standing = row.standing
    if standing is None:
        return [*begin, *[None] * 8, row.reason]
    phase = standing.phase
    epoch = standing.reached(phase)
    points = [standing.score(phase, epoch), standing.best(phase, epoch)]
    normalised = [None if one is None else human_normalised(row.run.game, one) for one in points]
    return [
        *begin, standing.epoch, standing.steps, round(standing.hours, 4), phase, *points, *normalised,
        row.reason,
    ]  # fmt: skip


def _read(path: Path) -> list[dict[str, str]]:
    """Return the rows of a summary; none if there is none that can be read."""
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            return list(reader) if tuple(reader.fieldnames or ()) == COLUMNS else []
    except (OSError, UnicodeDecodeError, csv.Error):
        return []
