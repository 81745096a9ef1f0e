"""The report of a sweep, kept up to date: the runs on the screen, two CSVs, and figures."""

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from simple_dqn.files import replacing
from simple_dqn.human_scores import human_normalised
from simple_dqn.plot import title
from simple_dqn.plot.figure import View, make_plot
from simple_dqn.sweep.comparison import COLUMNS, compare, reached, score, scored_phase
from simple_dqn.sweep.plan import SweepFiles
from simple_dqn.sweep.scheduler import RunState, RunStatus

SHOWN = ("game", "setting", "seed", "state", "epoch", "steps", "score", "steps/s", "reason")
RUN_COLUMNS = (
    "game", "setting", "seed", "state", "epoch", "steps", "hours", "phase", "score", "score_human_normalised",
    "steps/s", "reason",
)  # fmt: skip


class Report:
    """Keeps the files of a sweep, and the runs on the screen, up to date."""

    def __init__(self, files: SweepFiles, stream: TextIO) -> None:
        """Set up a report with the paths `files`, which shows the runs on `stream`."""
        self._files, self._stream = files, stream

    def update(self, runs: Sequence[RunStatus], changed: Sequence[RunStatus]) -> None:
        """Show all `runs`, and renew the files if some have `changed`; the figures, if one has ended.

        Raises:
            UserError: A file cannot be written.
        """
        if not changed:
            return
        numbers = Counter(one.state for one in runs)
        counts = ", ".join(f"{numbers[state]} {state}" for state in RunState)
        header, *rows = table(runs)
        lines = [line for one, line in zip(runs, rows, strict=True) if one in changed]
        self._stream.write("\n".join([header, *lines, f"{len(runs)} runs: {counts}", ""]))
        self._stream.flush()
        self._write_summary(runs)
        ended = {one.run.game for one in changed if one.state is RunState.DONE}
        if ended and len(changed) < len(runs):  # At the start of a sweep all have changed.
            self._compare(runs, ended)

    def finish(self, runs: Sequence[RunStatus]) -> None:
        """Bring all files up to date, and print the comparison.

        Raises:
            UserError: A file cannot be written.
        """
        self._write_summary(runs)
        print(self._compare(runs, {one.run.game for one in runs}))
        print(f"Summary: {self._files.results / 'summary.csv'}")

    def _write_summary(self, runs: Sequence[RunStatus]) -> None:
        ordered = sorted(runs, key=lambda one: (one.run.game, one.run.setting, one.run.seed))
        write_csv(self._files.results / "summary.csv", RUN_COLUMNS, (row_of(one).values() for one in ordered))

    def _compare(self, runs: Sequence[RunStatus], games: Iterable[str]) -> str:
        """Draw a figure for each of `games`, write the comparison of the settings, and return it as text."""
        from simple_dqn.plot.figure import write  # Importing matplotlib takes a second.

        folder, comparison = self._files.results, compare(runs)
        for game in sorted(games):
            data = [one.data for one in runs if one.run.game == game and one.data]
            if data:
                names = list(dict.fromkeys(run.name for run in data))
                write(make_plot(data, names, View(title=title([game]))), folder / f"{game}.png")
        if not comparison.members:
            return str(comparison)
        write_csv(folder / "comparison.csv", COLUMNS, comparison.rows())
        write(comparison.plot(), folder / "comparison.png")
        return f"{comparison}\nFigure: {folder / 'comparison.png'}"


def table(runs: Sequence[RunStatus]) -> list[str]:
    """Return the runs as the lines of a table, the first of which has the names of the columns."""
    rows = [row_of(one) for one in runs]
    names = [name for name in SHOWN if name != "setting" or any(row["setting"] for row in rows)]
    lines = [names, *([_word(row[name]) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    cells = [zip(line, widths, strict=True) for line in lines]
    return ["  ".join(word.ljust(width) for word, width in line).rstrip() for line in cells]


def _word(value: Any) -> str:
    if isinstance(value, (int, float)):
        return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
    return value or ""


def row_of(status: RunStatus) -> dict[str, Any]:
    """Return the row of a run in the summary, by column; a number that does not exist yet is None.

    `score` is the mean average reward of the last tenth of the run's epochs so far, in raw game points.
    """
    run, data = status.run, status.data
    row: dict[str, Any] = dict.fromkeys(RUN_COLUMNS)
    row |= {"game": run.game, "setting": run.setting, "seed": run.seed, "state": status.state.value}
    row["reason"] = status.reason
    if data:
        last = {name: float(np.nan_to_num(column[-1])) for name, column in data.columns.items()}
        row["phase"] = phase = scored_phase([data])
        row["score"] = points = score(data, phase, reached(data, phase))
        row["score_human_normalised"] = None if points is None else human_normalised(run.game, points)
        row |= {"epoch": int(last["epoch"]), "steps": int(last["total_train_steps"])}
        row |= {"hours": round(last["total_time"] / 3600, 4), "steps/s": round(last["steps_per_second"])}
    return row


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write a CSV, whole or not at all.

    Raises:
        UserError: It cannot be written.
    """
    with replacing(path) as beside, beside.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *rows])
