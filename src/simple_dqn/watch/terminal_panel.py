"""What stands beside the game in a text terminal: the same as in a window."""

import blessed
import numpy as np

from simple_dqn.watch.bars import BarScale
from simple_dqn.watch.overlay import (
    BACKGROUND,
    BRIGHT,
    FAINT,
    IDLE_BAR,
    PLAYERS,
    TRACK,
    Colour,
    View,
    colour_of,
    facts,
)  # fmt: skip

NAME, BAR, VALUE = 13, 6, 7  # columns of each part of an action's line
COLUMNS = NAME + BAR + VALUE
EIGHTHS = " ▏▎▍▌▋▊▉"  # of a cell, from the left


class TerminalPanel:
    """Writes the lines of the panel, each of `COLUMNS` columns."""

    def __init__(self, terminal: blessed.Terminal) -> None:
        self._terminal = terminal
        self._bars = BarScale()

    def lines(self, view: View, rows: int) -> dict[int, str]:
        """Return the lines by their row, as many as `rows` have room for."""
        lines = [self._badge(view, COLUMNS), self._paint(f"{view.message:<{COLUMNS}}"[:COLUMNS], BRIGHT)]
        told = [self._fact(*fact) for fact in facts(view).items()]
        lines += [told[0] + told[1], told[2] + told[3], " " * COLUMNS]
        return dict(enumerate((lines + self._actions(view))[:rows]))

    def status_line(self, view: View, columns: int) -> str:
        """Return the one line that stays when the panel is not shown, of `columns` columns."""
        badge = min(columns, NAME)
        message = f" {view.message:<{columns}}"[: columns - badge]
        return self._badge(view, badge) + self._paint(message, BRIGHT)

    def _badge(self, view: View, columns: int) -> str:
        words, colour = PLAYERS[view.human]
        return self._paint(f"{words:^{columns}}"[:columns], BACKGROUND, colour)

    def _fact(self, name: str, value: str) -> str:
        width = COLUMNS // 2 - len(name) - 1
        return self._paint(f"{name} ", FAINT) + self._paint(f"{value:<{width}}"[:width], BRIGHT)

    def _actions(self, view: View) -> list[str]:
        """Return a line for each action: its name, a bar, its value."""
        lengths = (
            np.zeros(len(view.action_names)) if view.qvalues is None else self._bars.lengths(view.qvalues)
        )
        lines = []
        for number, (name, length) in enumerate(zip(view.action_names, lengths.tolist(), strict=True)):
            colour = colour_of(number, view)
            value = "" if view.qvalues is None else f"{view.qvalues[number]:.3f}"
            text = BRIGHT if colour else FAINT
            lines.append(
                self._paint(f"{name:<{NAME}}"[:NAME], colour or text)
                + self._paint(_bar(length), colour or IDLE_BAR, TRACK if value else None)
                + self._paint(f"{value:>{VALUE}}"[:VALUE], text)
            )
        return lines

    def _paint(self, words: str, colour: Colour, behind: Colour | None = None) -> str:
        background = self._terminal.on_color_rgb(*behind) if behind else ""
        return f"{self._terminal.normal}{self._terminal.color_rgb(*colour)}{background}{words}"


def _bar(length: float) -> str:
    """Return a bar of `length`, from 0 to 1, in BAR cells."""
    cells, eighths = divmod(round(length * BAR * 8), 8)
    return f"{'█' * cells + EIGHTHS[eighths]:<{BAR}}"[:BAR]
