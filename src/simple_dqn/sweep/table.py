"""What a person sees of a sweep: one table that stays in its place on a terminal, plain lines elsewhere."""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Protocol, TextIO

from blessed import Terminal

from simple_dqn.sweep.schedule import Row, State

HEADER = ("game", "seed", "state", "epoch", "steps", "reward", "steps/s", "")
LEFT = (0, 2, 7)  # columns whose words begin at the left
# Where a terminal has too few lines, those rows are shown that one looks for first.
FIRST = (State.RUNNING, State.FAILED, State.WAITING, State.DONE)


class Shown(Protocol):
    """What shows the rows of a sweep."""

    def show(self, rows: Sequence[Row], changed: Sequence[Row]) -> None:
        """Show all rows, of which those in `changed` have changed."""


def make_table(stream: TextIO | None = None) -> Shown:
    """Return what fits `stream`; None: standard error."""
    stream = stream or sys.stderr
    return Table(stream) if stream.isatty() else Lines(stream)


class Lines:
    """A line for each change."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._begun = False

    def show(self, rows: Sequence[Row], changed: Sequence[Row]) -> None:
        """Write a line for each row that has changed; at first only where there is something to tell."""
        for row in changed:
            if self._begun or row.standing or row.state is not State.WAITING:
                self._stream.write(f"{_sentence(row)}\n")
        if not self._begun:
            self._stream.write(f"{_counts(rows)}\n")
        self._begun = True
        self._stream.flush()


class Table:
    """A table that is drawn again over itself, with as many rows as fit."""

    def __init__(self, stream: TextIO, terminal: Terminal | None = None) -> None:
        """Draw on `stream`, a terminal, which blessed is to know as `terminal`."""
        self._stream = stream
        self._terminal = terminal or Terminal(stream=stream)
        self._drawn = 0  # lines

    def show(self, rows: Sequence[Row], changed: Sequence[Row]) -> None:
        """Draw all rows, if one has changed."""
        if not changed and self._drawn:
            return
        terminal = self._terminal
        lines = [line[: terminal.width - 1] for line in table(rows, terminal.height - 1)]
        up = terminal.move_up(self._drawn) if self._drawn else ""
        self._stream.write(f"{up}\r{terminal.clear_eos}" + "".join(f"{line}\n" for line in lines))
        self._stream.flush()
        self._drawn = len(lines)


def table(rows: Sequence[Row], height: int) -> list[str]:
    """Return the table as lines, of which there are at most `height` (and at least three)."""
    room = max(height - 2, 1)
    shown = list(rows)
    if len(rows) > room:
        shown = sorted(rows, key=lambda row: FIRST.index(row.state))[:room]
    cells = [HEADER, *(_cells(row) for row in shown)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            word.ljust(width) if place in LEFT else word.rjust(width)
            for place, (word, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    hidden = len(rows) - len(shown)
    return [*lines, _counts(rows) + (f"; {hidden} not shown" if hidden else "")]


def _cells(row: Row) -> tuple[str, ...]:
    standing, begin = row.standing, (row.run.game, str(row.run.seed), row.state.value)
    if standing is None:
        return (*begin, "", "", "", "", row.reason)
    reward = "" if standing.last is None else f"{standing.last:,.1f}"
    return (*begin, str(standing.epoch), f"{standing.steps:,}", reward, f"{standing.rate:,.0f}", row.reason)


def _sentence(row: Row) -> str:
    words = f"{row.run.game} seed {row.run.seed}: {row.state}"
    if row.standing:
        words += f", epoch {row.standing.epoch}, {row.standing.steps} steps, {row.standing.rate:.0f} steps/s"
        if row.standing.last is not None:
            words += f", average reward {row.standing.last:.1f}"
    return f"{words} ({row.reason})" if row.reason else words


def _counts(rows: Sequence[Row]) -> str:
    numbers = Counter(row.state for row in rows)
    return f"{len(rows)} runs: " + ", ".join(f"{numbers[state]} {state}" for state in State)
