"""The report of a sweep, kept up to date: a table on the screen, two CSVs, and a picture of each game."""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from blessed import Terminal

from simple_dqn.errors import UserError
from simple_dqn.plot import Request
from simple_dqn.statistics import Run
from simple_dqn.sweep.plan import SweepFiles
from simple_dqn.sweep.scheduler import RunState, RunStatus
from simple_dqn.sweep.summary import compare, write_comparison, write_summary

HEADER = ("game", "seed", "state", "epoch", "steps", "reward", "steps/s", "")
LEFT_ALIGNED = (0, 2, 7)  # columns
# Rows that come first where the terminal has too few lines for all.
PRIORITY = (RunState.RUNNING, RunState.FAILED, RunState.WAITING, RunState.DONE)

Show = Callable[[Sequence[RunStatus], Sequence[RunStatus]], None]  # all runs, and those that have changed


class Report:
    """Keeps the files of a sweep, and the table on the screen, up to date."""

    def __init__(self, files: SweepFiles, show: Show | None = None, common_epoch: bool = False) -> None:
        """Set up a report of which nothing is written yet.

        Args:
            files: The paths of its files.
            show: Shows the runs; None: a table or lines on standard error.
            common_epoch: Compare all runs at the latest epoch that all have reached, not the finished ones.
        """
        self._files, self._show, self._common_epoch = files, show or choose_show(sys.stderr), common_epoch

    def update(self, runs: Sequence[RunStatus], changed: Sequence[RunStatus]) -> None:
        """Show all `runs`, and write the summary if some have `changed`.

        The comparison and the pictures take seconds, and are renewed when a run has ended.

        Raises:
            UserError: A file cannot be written.
        """
        self._show(runs, changed)
        if changed:
            write_summary(runs, self._files.summary)
        ended = {one.run.game for one in changed if one.state is RunState.DONE}
        if ended and len(changed) < len(runs):  # At the start of a sweep all have changed.
            self._compare(runs)
            for game in sorted(ended):
                self._draw(game, runs)

    def finish(self, runs: Sequence[RunStatus]) -> None:
        """Bring all files up to date, and print the comparison with human scores.

        Raises:
            UserError: A file cannot be written.
        """
        write_summary(runs, self._files.summary)
        for game in sorted({one.run.game for one in runs}):
            self._draw(game, runs)
        print(self._compare(runs))
        print(f"Summary: {self._files.summary}")

    def _draw(self, game: str, runs: Sequence[RunStatus]) -> None:
        csv_files = [self._files.csv(one.run) for one in runs if one.run.game == game]
        draw_game(game, csv_files, self._files.results / f"{game}.png")

    def _compare(self, runs: Sequence[RunStatus]) -> str:
        comparison = compare(runs, self._common_epoch)
        if comparison.runs:
            write_comparison(comparison, self._files.scores)
        return str(comparison)


def draw_game(game: str, csv_files: Sequence[Path], picture: Path) -> None:
    """Draw the curves of one game over its seeds; nothing, if no CSV has a row yet.

    Raises:
        UserError: The picture cannot be written.
    """
    request = Request(dict.fromkeys(csv_files, game), picture)
    runs = list[Run]()
    for path in csv_files:
        try:
            runs.append(request.read(path))
        except UserError:  # It does not exist yet, or has no row.
            continue
    if runs:
        request.draw(runs)


def choose_show(stream: TextIO) -> Show:
    """Return a table on `stream` if that is a terminal, else plain lines."""
    return Table(stream).show if stream.isatty() else Lines(stream).show


class Lines:
    """A line for each change."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._begun = False

    def show(self, runs: Sequence[RunStatus], changed: Sequence[RunStatus]) -> None:
        """Write a line for each changed run; the first time, only for those that have started."""
        for one in changed:
            if self._begun or one.results or one.state is not RunState.WAITING:
                self._stream.write(f"{_sentence(one)}\n")
        if not self._begun:
            self._stream.write(f"{_counts(runs)}\n")
        self._begun = True
        self._stream.flush()


class Table:
    """A table that stays in its place on a terminal, with as many rows as fit."""

    def __init__(self, stream: TextIO, terminal: Terminal | None = None) -> None:
        """Draw on `stream`, a terminal; `terminal` controls it, None: a new one."""
        self._stream = stream
        self._terminal = terminal or Terminal(stream=stream)
        self._drawn = 0  # lines

    def show(self, runs: Sequence[RunStatus], changed: Sequence[RunStatus]) -> None:
        """Draw all runs again, if one has changed."""
        if not changed and self._drawn:
            return
        terminal = self._terminal
        lines = [line[: terminal.width - 1] for line in table(runs, terminal.height - 1)]
        up = terminal.move_up(self._drawn) if self._drawn else ""
        self._stream.write(f"{up}\r{terminal.clear_eos}" + "".join(f"{line}\n" for line in lines))
        self._stream.flush()
        self._drawn = len(lines)


def table(runs: Sequence[RunStatus], height: int) -> list[str]:
    """Return the table as lines, at most `height` of them (and at least three)."""
    room = max(height - 2, 1)
    shown = list(runs)
    if len(runs) > room:
        shown = sorted(runs, key=lambda one: PRIORITY.index(one.state))[:room]
    cells = [HEADER, *map(_cells, shown)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            word.ljust(width) if column in LEFT_ALIGNED else word.rjust(width)
            for column, (word, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    hidden = len(runs) - len(shown)
    return [*lines, _counts(runs) + (f"; {hidden} not shown" if hidden else "")]


def _cells(status: RunStatus) -> tuple[str, ...]:
    results, begin = status.results, (status.run.game, str(status.run.seed), status.state.value)
    if results is None:
        return (*begin, "", "", "", "", status.reason)
    reward = "" if results.last is None else f"{results.last:,.1f}"
    return (*begin, str(results.epoch), f"{results.steps:,}", reward, f"{results.rate:,.0f}", status.reason)


def _sentence(status: RunStatus) -> str:
    words, results = f"{status.run.game} seed {status.run.seed}: {status.state}", status.results
    if results:
        words += f", epoch {results.epoch}, {results.steps} steps, {results.rate:.0f} steps/s"
        if results.last is not None:
            words += f", average reward {results.last:.1f}"
    return f"{words} ({status.reason})" if status.reason else words


def _counts(runs: Sequence[RunStatus]) -> str:
    numbers = Counter(one.state for one in runs)
    return f"{len(runs)} runs: " + ", ".join(f"{numbers[state]} {state}" for state in RunState)
