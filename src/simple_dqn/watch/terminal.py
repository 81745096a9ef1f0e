"""A text terminal to watch and play in: two pixels in each cell, over SSH too."""

import time
from contextlib import ExitStack
from functools import lru_cache

import blessed
import numpy as np
import pygame
from numpy.typing import NDArray

from simple_dqn.environment.interface import Picture
from simple_dqn.errors import UserError
from simple_dqn.watch.display import Keys
from simple_dqn.watch.keys import BUTTONS, COMMANDS, NO_BUTTON, OPPOSITES, Command
from simple_dqn.watch.mind import HeatMap
from simple_dqn.watch.overlay import Overlay, View
from simple_dqn.watch.terminal_panel import COLUMNS as PANEL_COLUMNS
from simple_dqn.watch.terminal_panel import TerminalPanel

UPPER_HALF = "▀"
ASPECT = 4 / 3  # of the picture, as on a television; a cell's two pixels are about square
LEAST_COLUMNS = 16  # for the game; where there are fewer beside the panel, the panel is left out
HELD_SECONDS = 0.25  # a terminal tells of presses, not of releases
KEY_NAMES = {"KEY_ENTER": "return", "\n": "return", "\r": "return", " ": "space"}  # blessed's, and ours

Cells = NDArray[np.uint8]  # [rows, columns, 6]: red, green, blue of the upper pixel and of the lower


class TerminalScreen:
    """Draws into the terminal what has changed, in as many colours as it has.

    A key counts as held for a quarter of a second after each press; one that stays down repeats.
    """

    def __init__(self) -> None:
        """Get ready; the terminal is taken over with the first picture.

        Raises:
            UserError: It shows no colours.
        """
        self._terminal = blessed.Terminal()
        if self._terminal.number_of_colors < 8:
            raise UserError("this terminal shows no colours: give it another TERM, such as xterm-256color")
        self._panel = TerminalPanel(self._terminal)
        self._overlay = Overlay(scale=1)
        self._held: dict[str, float] = {}  # buttons, and until when they count as held
        self._layout: tuple[int, ...] = ()  # all that a whole redraw depends on
        self._cells: Cells = np.zeros((0, 0, 6), np.uint8)  # as they are on the terminal
        self._lines: dict[int, str] = {}  # the panel's, as they are on the terminal
        self._cell = lru_cache(maxsize=1 << 16)(self._draw_cell)
        self._restore = ExitStack()

    def keys(self) -> Keys:
        """Return what was done with the keys since the last call."""
        commands: list[Command] = []
        now = time.monotonic()
        while self._layout and (key := self._terminal.inkey(timeout=0)):
            name = KEY_NAMES.get(key.name or key) or (key.name or key).removeprefix("KEY_").lower()
            if name in COMMANDS:
                commands.append(COMMANDS[name])
            elif name in BUTTONS:
                self._press(BUTTONS[name], now + HELD_SECONDS)
        return Keys(commands, {button for button, until in self._held.items() if until > now})

    def _press(self, button: str, until: float) -> None:
        """Let a direction go when its opposite is pressed, and all buttons when none is asked for."""
        for pair in OPPOSITES:
            if button in pair:
                self._held = {held: end for held, end in self._held.items() if held not in pair}
        if button == NO_BUTTON:
            self._held.clear()
        self._held[button] = until

    def show(self, picture: Picture, view: View, panel: bool) -> None:
        """Show `picture` and `view`, in full where the terminal is wide enough."""
        rows, columns = self._terminal.height, self._terminal.width
        panel = panel and columns > PANEL_COLUMNS + LEAST_COLUMNS
        game_rows = rows if panel else rows - 1
        room = columns - PANEL_COLUMNS - 1 if panel else columns
        game_columns = min(room, round(2 * game_rows * ASPECT))
        game_rows = min(game_rows, max(1, round(game_columns / ASPECT / 2)))
        if game_rows < 1 or game_columns < 1:
            return
        output = ""
        if not self._layout:
            self._take_over()
        if self._layout != (rows, columns, panel):
            self._layout = (rows, columns, panel)
            self._cells, self._lines = np.zeros((0, 0, 6), np.uint8), {}
            output = self._terminal.normal + self._terminal.clear
        output += self._draw_game(self._cells_of(picture, view.heat_map, game_rows, game_columns))
        lines = self._panel.lines(view, rows) if panel else {rows - 1: self._panel.status_line(view, columns)}
        output += self._draw_lines(lines, game_columns + 1 if panel else 0)
        print(output, end="", file=self._terminal.stream, flush=True)

    def close(self) -> None:
        """Leave the terminal as it was before."""
        self._restore.close()

    def _take_over(self) -> None:
        for mode in (self._terminal.fullscreen, self._terminal.cbreak, self._terminal.hidden_cursor):
            self._restore.enter_context(mode())

    def _cells_of(self, picture: Picture, heat_map: HeatMap | None, rows: int, columns: int) -> Cells:
        """Return the picture, made smaller, in cells."""
        game = self._overlay.paint_game(picture, heat_map)
        small = pygame.surfarray.pixels3d(pygame.transform.smoothscale(game, (columns, 2 * rows)))
        pixels = small.swapaxes(0, 1).reshape(rows, 2, columns, 3)
        return np.ascontiguousarray(pixels.swapaxes(1, 2)).reshape(rows, columns, 6)

    def _draw_game(self, cells: Cells) -> str:
        """Return what makes `cells` of what is on the terminal."""
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
        """Return a cell with an upper and a lower pixel of these `colours`, red, green, blue each."""
        upper, lower = colours[:3], colours[3:]
        return f"{self._terminal.color_rgb(*upper)}{self._terminal.on_color_rgb(*lower)}{UPPER_HALF}"

    def _draw_lines(self, lines: dict[int, str], column: int) -> str:
        """Return what writes those of `lines`, by their row, that are not on the terminal yet."""
        changed = {row: line for row, line in lines.items() if self._lines.get(row) != line}
        self._lines = lines
        return "".join(
            f"{self._terminal.move_yx(row, column)}{self._terminal.normal}{line}{self._terminal.normal}"
            for row, line in changed.items()
        )
