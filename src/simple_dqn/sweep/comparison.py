"""All runs of a sweep in one number, in per cent of human scores: the same phase and epoch of each."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simple_dqn.human_scores import SCORES, SOURCE, human_normalised
from simple_dqn.sweep.aggregate import Estimate, estimate
from simple_dqn.sweep.schedule import Row, State
from simple_dqn.sweep.standing import PHASES, Standing, last_tenth
from simple_dqn.sweep.summary import write_csv

COLUMNS = (
    "score", "measure", "value", "low", "high", "games", "runs", "phase", "first_epoch", "last_epoch",
    "left_out",
)  # fmt: skip
MEAN, BEST = "mean_of_last_epochs", "best_epoch"  # of a run: its score, and its highest epoch


@dataclass(frozen=True)
class Comparison:
    """What the compared runs came to."""

    selection: str  # which runs were to be compared, in words
    phase: str  # of all of them, test or train; empty: there is no run to compare
    epoch: int  # the last that counts, of each of them
    games: int
    runs: int
    left_out: Counter[str]  # why -> runs
    estimates: dict[str, dict[str, Estimate]]  # MEAN or BEST -> measure -> per cent of a human's score

    @property
    def left_out_words(self) -> str:
        """How many runs were left out, and why, such as `2 failed, 1 running`; empty: none was."""
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


def compare(rows: Sequence[Row], common_epoch: bool = False) -> Comparison:
    """Return what the runs came to after the latest epoch that all of them have reached.

    Args:
        rows: Of the runs.
        common_epoch: Compare all runs, in whatever state; otherwise the finished ones.
    """
    left_out: Counter[str] = Counter()
    standings: list[tuple[str, Standing]] = []  # game, standing
    for row in rows:
        if not common_epoch and row.state is not State.DONE:
            left_out[row.state.value] += 1
        elif row.run.game not in SCORES:
            left_out["without a human score"] += 1
        elif row.standing is None:
            left_out["without statistics"] += 1
        else:
            standings.append((row.run.game, row.standing))
    ended = (phase for phase in PHASES if any(standing.games_ended(phase) for _, standing in standings))
    phase = next(ended, "")
    epoch = min((reached for _, standing in standings if (reached := standing.reached(phase))), default=0)
    games: dict[str, list[tuple[float, float]]] = {}  # game -> of each run the score and the best epoch
    for game, standing in standings:
        score, best = standing.score(phase, epoch), standing.best(phase, epoch)
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
    write_csv(path, COLUMNS, rows)


def _line(estimates: dict[str, Estimate]) -> str:
    return ", ".join(f"{measure.replace('_', ' ')} {one}" for measure, one in estimates.items())
