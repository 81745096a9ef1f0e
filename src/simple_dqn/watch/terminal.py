"""Shows a game in a text terminal, over SSH too: two pixels per cell, and a panel."""

import time
from contextlib import ExitStack
from functools import lru_cache

import blessed
import numpy as np
import pygame
from numpy.typing import NDArray

from simple_dqn.environment.interface import Picture
from simple_dqn.errors import UserError, printable
from simple_dqn.watch.controls import BUTTONS, COMMANDS, NO_BUTTON, OPPOSITES, Keys
from simple_dqn.watch.overlay import (
    BACKGROUND,
    BADGES,
    BRIGHT,
    FAINT,
    IDLE_BAR,
    TRACK,
    BarScale,
    Colour,
    Overlay,
    colour_of,
    facts,
)  # fmt: skip
from simple_dqn.watch.watched_player import HeatMap, View

UPPER_HALF = "▀"
ASPECT = 4 / 3  # of the picture, as on a television; each of a cell's two pixels is about square
LEAST_COLUMNS = 16  # for the game; if the panel leaves fewer, it is hidden
HELD_SECONDS = 0.25  # a terminal reports when a key is pressed, not when it is released
KEY_NAMES = {"KEY_ENTER": "return", "\n": "return", "\r": "return", " ": "space"}  # blessed's -> pygame's

NAME, BAR, VALUE = 14, 6, 7  # columns of each part of an action's line
PANEL_COLUMNS = NAME + BAR + VALUE
EIGHTHS = " ▏▎▍▌▋▊▉"  # of a cell, from the left

Cells = NDArray[np.uint8]  # [rows, columns, 6]: red, green, blue of the upper pixel, then of the lower


class GameTerminal:
    """A terminal, of which each picture redraws only the changed cells.

    A key counts as held for a quarter of a second after each press; a key that is held down repeats.
    """

    def __init__(self) -> None:
        """Prepare the terminal, which becomes full screen with the first picture.

        Raises:
            UserError: The terminal has no colours.
        """
        self._terminal = blessed.Terminal()
        if self._terminal.number_of_colors < 8:
            raise UserError("this terminal shows no colours: set another TERM, such as xterm-256color")
        self._panel = TerminalPanel(self._terminal)
        self._overlay = Overlay(scale=1)
        self._held: dict[str, float] = {}  # for each button the time at which it is released
        self._started = False
        self._layout: tuple[int, ...] = ()  # rows, columns, panel: a change redraws everything
        self._cells: Cells = np.zeros((0, 0, 6), np.uint8)  # now on the terminal
        self._lines: dict[int, str] = {}  # of the panel, now on the terminal
        self._cell = lru_cache(maxsize=1 << 16)(self._draw_cell)
        self._restore = ExitStack()

    def keys(self) -> Keys:
        """Return the keys pressed since the last call."""
        commands = []
        now = time.monotonic()
        while self._started and (key := self._terminal.inkey(timeout=0)):
            name = KEY_NAMES.get(key.name or key) or (key.name or key).removeprefix("KEY_").lower()
            if name in COMMANDS:
                commands.append(name)
            elif name in BUTTONS:
                self._press(BUTTONS[name], now + HELD_SECONDS)
        return Keys(commands, {button for button, until in self._held.items() if until > now})

    def _press(self, button: str, until: float) -> None:
        """Hold `button`, and release the opposite direction; NO_BUTTON releases all."""
        for pair in OPPOSITES:
            if button in pair:
                self._held = {held: end for held, end in self._held.items() if held not in pair}
        if button == NO_BUTTON:
            self._held.clear()
        self._held[button] = until

    def show(self, picture: Picture, view: View, panel: bool) -> None:
        """Show `picture` and `view`, with the `panel` if the terminal is wide enough."""
        if not self._started:  # even where no cell has room: keys are read in these modes
            self._started = True
            for mode in (self._terminal.fullscreen, self._terminal.cbreak, self._terminal.hidden_cursor):
                self._restore.enter_context(mode())
        rows, columns = self._terminal.height, self._terminal.width
        panel = panel and columns > PANEL_COLUMNS + LEAST_COLUMNS
        game_rows = rows if panel else rows - 1
        room = columns - PANEL_COLUMNS - 1 if panel else columns
        game_columns = min(room, round(2 * game_rows * ASPECT))
        game_rows = min(game_rows, max(1, round(game_columns / ASPECT / 2)))
        if game_rows < 1 or game_columns < 1:
            return
        output = ""
        if self._layout != (rows, columns, panel):
            self._layout = (rows, columns, panel)
            self._cells, self._lines = np.zeros((0, 0, 6), np.uint8), {}
            # Our own background: the texts are light, and the terminal may be, too.
            output = self._terminal.normal + self._terminal.on_color_rgb(*BACKGROUND) + self._terminal.clear
        output += self._draw_game(self._cells_of(picture, view.heat_map, game_rows, game_columns))
        lines = self._panel.lines(view, rows) if panel else {rows - 1: self._panel.status_line(view, columns)}
        output += self._draw_lines(lines, game_columns + 1 if panel else 0)
        print(output, end="", file=self._terminal.stream, flush=True)

    def close(self) -> None:
        """Restore the terminal."""
        self._restore.close()

    def _cells_of(self, picture: Picture, heat_map: HeatMap | None, rows: int, columns: int) -> Cells:
        """Return `picture`, scaled down to `rows` and `columns` of cells."""
        game = self._overlay.paint_game(picture, heat_map)
        small = pygame.surfarray.pixels3d(pygame.transform.smoothscale(game, (columns, 2 * rows)))
        pixels = small.swapaxes(0, 1).reshape(rows, 2, columns, 3)
        return np.ascontiguousarray(pixels.swapaxes(1, 2)).reshape(rows, columns, 6)

    def _draw_game(self, cells: Cells) -> str:
        """Return the output that changes the cells on the terminal to `cells`."""
        if self._cells.shape == cells.shape:
            changed = (cells != self._cells).any(axis=2)
        else:
            changed = np.ones(cells.shape[:2], np.bool_)
        self._cells = cells
        parts, cursor = [], (-1, -1)
        for row, column in np.argwhere(changed).tolist():
            if (row, column) != cursor:
                parts.append(self._terminal.move_yx(row, column))
            parts.append(self._cell(*cells[row, column].tolist()))
            cursor = (row, column + 1)
        return "".join(parts)

    def _draw_cell(self, *colours: int) -> str:
        """Return the output for a cell, given red, green, blue of its upper pixel, then of its lower."""
        upper, lower = colours[:3], colours[3:]
        return f"{self._terminal.color_rgb(*upper)}{self._terminal.on_color_rgb(*lower)}{UPPER_HALF}"

    def _draw_lines(self, lines: dict[int, str], column: int) -> str:
        """Return the output that draws the changed ones of `lines`, by row."""
        changed = {row: line for row, line in lines.items() if self._lines.get(row) != line}
        self._lines = lines
        return "".join(
            f"{self._terminal.move_yx(row, column)}{self._terminal.normal}{line}{self._terminal.normal}"
            for row, line in changed.items()
        )


class TerminalPanel:
    """Writes the lines of the panel, each of `PANEL_COLUMNS` columns."""

    def __init__(self, terminal: blessed.Terminal) -> None:
        self._terminal = terminal
        self._bars = BarScale()

    def lines(self, view: View, rows: int) -> dict[int, str]:
        """Return the lines of the panel by row, as many as fit into `rows`."""
        message = self._paint(f"{view.message:<{PANEL_COLUMNS}}"[:PANEL_COLUMNS], BRIGHT)
        told = [self._fact(*fact) for fact in facts(view).items()]
        lines = [self._badge(view, PANEL_COLUMNS), message, told[0] + told[1], told[2] + told[3]]
        blank = self._paint(" " * PANEL_COLUMNS, BRIGHT)
        lines += [blank, *self._actions(view)]
        return dict(enumerate([*lines, *[blank] * (rows - len(lines))][:rows]))

    def status_line(self, view: View, columns: int) -> str:
        """Return the line of `columns` columns that is shown instead of the panel."""
        badge = min(columns, NAME)
        message = f" {view.message:<{columns}}"[: columns - badge]
        return self._badge(view, badge) + self._paint(message, BRIGHT)

    def _badge(self, view: View, columns: int) -> str:
        words, colour = BADGES[view.human]
        return self._paint(f"{words:^{columns}}"[:columns], BACKGROUND, colour)

    def _fact(self, name: str, value: str) -> str:
        width = PANEL_COLUMNS // 2 - len(name) - 1
        return self._paint(f"{name} ", FAINT) + self._paint(f"{value:<{width}}"[:width], BRIGHT)

    def _actions(self, view: View) -> list[str]:
        """Return a line for each action: its name, a bar, its value."""
        lengths = (
            np.zeros(len(view.action_names)) if view.qvalues is None else self._bars.lengths(view.qvalues)
        )
        lines = []
        for number, (name, length) in enumerate(
            zip(map(printable, view.action_names), lengths.tolist(), strict=True)
        ):
            colour = colour_of(number, view)
            value = "" if view.qvalues is None else f"{view.qvalues[number]:.3f}"
            text = BRIGHT if colour else FAINT
            lines.append(
                self._paint(f"{name[: NAME - 1]:<{NAME}}", colour or text)
                + self._paint(_bar(length), colour or IDLE_BAR, TRACK if value else None)
                + self._paint(f"{value:>{VALUE}}"[:VALUE], text)
            )
        return lines

    def _paint(self, words: str, colour: Colour, behind: Colour | None = None) -> str:
        background = self._terminal.on_color_rgb(*(behind or BACKGROUND))
        return f"{self._terminal.normal}{self._terminal.color_rgb(*colour)}{background}{words}"


def _bar(length: float) -> str:
    """Return a bar of `length`, from 0 to 1, in BAR cells."""
    cells, eighths = divmod(round(length * BAR * 8), 8)
    return f"{'█' * cells + EIGHTHS[eighths]:<{BAR}}"[:BAR]
