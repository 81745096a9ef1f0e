"""The two CSVs of a sweep: a row for each run, and all runs in one number, in per cent of human scores."""

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simple_dqn.files import replacing
from simple_dqn.human_scores import SCORES, SOURCE, human_normalised
from simple_dqn.sweep.plan import Plan, SweepFiles
from simple_dqn.sweep.results import PHASES, Estimate, RunResults, estimate, last_tenth
from simple_dqn.sweep.scheduler import RunState, RunStatus

RUN_COLUMNS = (
    "game", "seed", "state", "epoch", "steps", "hours", "phase", "score", "best_epoch",
    "score_human_normalised", "best_epoch_human_normalised", "reason",
)  # fmt: skip
COMPARISON_COLUMNS = (
    "score", "measure", "value", "low", "high", "games", "runs", "phase", "first_epoch", "last_epoch",
    "left_out",
)  # fmt: skip
MEAN, BEST = "mean_of_last_epochs", "best_epoch"  # of a run: its score, and its highest epoch


def new_statuses(plan: Plan, files: SweepFiles) -> list[RunStatus]:
    """Return each run: done if the summary says so and its CSV is there, else waiting."""
    done = {(row["game"], row["seed"]) for row in _read(files.summary) if row["state"] == RunState.DONE}
    statuses = []
    for run in plan.runs:
        is_done = (run.game, str(run.seed)) in done and files.csv(run).exists()
        statuses.append(RunStatus(run, files, RunState.DONE if is_done else RunState.WAITING))
    return statuses


def write_summary(runs: Sequence[RunStatus], path: Path) -> None:
    """Write a row for each run, in the order of games and seeds.

    `score` is the mean average reward of the last tenth of the run's epochs so far, `best_epoch` the highest
    average reward of any; both in raw game points, and in per cent of a human's.

    Raises:
        UserError: It cannot be written.
    """
    ordered = sorted(runs, key=lambda one: (one.run.game, one.run.seed))
    write_csv(path, RUN_COLUMNS, map(_cells, ordered))


def _cells(status: RunStatus) -> list[Any]:
    begin: list[Any] = [status.run.game, status.run.seed, status.state.value]
    results = status.results
    if results is None:
        return [*begin, *[None] * 8, status.reason]
    phase = results.phase
    epoch = results.reached(phase)
    points = [results.score(phase, epoch), results.best(phase, epoch)]
    normalised = [None if one is None else human_normalised(status.run.game, one) for one in points]
    return [
        *begin, results.epoch, results.steps, round(results.hours, 4), phase, *points, *normalised,
        status.reason,
    ]  # fmt: skip


def _read(path: Path) -> list[dict[str, str]]:
    """Return the rows of a summary; none if there is none that can be read."""
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            return list(reader) if tuple(reader.fieldnames or ()) == RUN_COLUMNS else []
    except (OSError, UnicodeDecodeError, csv.Error):
        return []


@dataclass(frozen=True)
class Comparison:
    """The scores of the runs that can be compared."""

    selection: str  # in words, which runs were to be compared
    phase: str  # of all of them, test or train; empty: there is no run to compare
    epoch: int  # the last that counts, of each of them
    games: int
    runs: int
    left_out: Counter[str]  # why -> runs
    estimates: dict[str, dict[str, Estimate]]  # MEAN or BEST -> measure -> per cent of a human's score

    @property
    def left_out_words(self) -> str:
        """The numbers of runs left out, with reasons, such as `2 failed, 1 running`; empty: none was."""
        return ", ".join(f"{count} {why}" for why, count in sorted(self.left_out.items()))

    def __str__(self) -> str:
        """Return the report that a user reads."""
        left_out = f"Left out: {self.left_out_words}." if self.left_out else "No run was left out."
        if not self.runs:
            return f"No run can be compared with human scores. {left_out}"
        epochs = last_tenth(self.epoch)
        first = f"epochs {epochs[0]} to {self.epoch}" if len(epochs) > 1 else f"epoch {self.epoch}"
        alone = any(one.low is None for one in self.estimates[MEAN].values())
        return "\n".join((
            f"{self.runs} {'run' if self.runs == 1 else 'runs'} of "
            f"{self.games} {'game' if self.games == 1 else 'games'} ({self.selection}), "
            f"in per cent of a human's score ({SOURCE}), "
            + ("without intervals, since a game has one run:" if alone else "with 95 % intervals:"),
            f"  score, the mean of {self.phase} {first}: {_line(self.estimates[MEAN])}",
            f"  best {self.phase} epoch (optimistic: a maximum over noisy epochs): "
            f"{_line(self.estimates[BEST])}",
            left_out,
        ))  # fmt: skip


def compare(runs: Sequence[RunStatus], common_epoch: bool = False) -> Comparison:
    """Return the scores of the runs at the latest epoch that all of them have reached.

    Args:
        runs: All runs of the sweep.
        common_epoch: Compare all runs, in whatever state; otherwise the finished ones.
    """
    left_out: Counter[str] = Counter()
    compared: list[tuple[str, RunResults]] = []  # game, results
    for status in runs:
        if not common_epoch and status.state is not RunState.DONE:
            left_out[status.state.value] += 1
        elif status.run.game not in SCORES:
            left_out["without a human score"] += 1
        elif status.results is None:
            left_out["without statistics"] += 1
        else:
            compared.append((status.run.game, status.results))
    ended = (phase for phase in PHASES if any(results.games_ended(phase) for _, results in compared))
    phase = next(ended, "")
    epoch = min((reached for _, results in compared if (reached := results.reached(phase))), default=0)
    games: dict[str, list[tuple[float, float]]] = {}  # game -> of each run the score and the best epoch
    for game, results in compared:
        score, best = results.score(phase, epoch), results.best(phase, epoch)
        if score is None or best is None:
            left_out[f"without a finished {phase} game" if phase else "without a finished game"] += 1
        else:
            games.setdefault(game, []).append((score, best))
    return Comparison(
        selection=f"all at epoch {epoch}, the latest common one" if common_epoch else "the finished ones",
        phase=phase,
        epoch=epoch,
        games=len(games),
        runs=sum(map(len, games.values())),
        left_out=left_out,
        estimates=_estimates(games),
    )


def _estimates(games: dict[str, list[tuple[float, float]]]) -> dict[str, dict[str, Estimate]]:
    """Return every measure of the scores and of the best epochs, in per cent of a human's score."""
    if not games:
        return {}
    return {
        name: estimate([
            np.array([human_normalised(game, points[place]) for points in runs], np.float64)
            for game, runs in games.items()
        ])
        for place, name in enumerate((MEAN, BEST))
    }  # fmt: skip


def write_comparison(comparison: Comparison, path: Path) -> None:
    """Write the measures, in per cent of the way from random play to a human's score.

    Raises:
        UserError: They cannot be written.
    """
    epochs = last_tenth(comparison.epoch)
    rows = (
        (
            score, measure, one.value, one.low, one.high, comparison.games, comparison.runs, comparison.phase,
            epochs[0] if score == MEAN else 1, comparison.epoch, comparison.left_out_words,
        )
        for score, measures in comparison.estimates.items()
        for measure, one in measures.items()
    )  # fmt: skip
    write_csv(path, COMPARISON_COLUMNS, rows)


def _line(estimates: dict[str, Estimate]) -> str:
    return ", ".join(f"{measure.replace('_', ' ')} {one}" for measure, one in estimates.items())


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV, whole or not at all.

    Raises:
        UserError: It cannot be written.
    """
    with replacing(path) as beside, beside.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
