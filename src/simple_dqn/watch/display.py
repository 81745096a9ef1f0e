"""A display shows a game and reads the keys: a window, or the terminal of `terminal.py`."""

import logging
import sys
from collections.abc import Callable
from typing import TypeAlias

import pygame

from simple_dqn.environment.interface import Picture
from simple_dqn.errors import UserError
from simple_dqn.machine import require_display
from simple_dqn.watch.controls import BUTTONS, COMMANDS, Keys
from simple_dqn.watch.overlay import BACKGROUND, Overlay
from simple_dqn.watch.terminal import GameTerminal
from simple_dqn.watch.watched_player import View

logger = logging.getLogger(__name__)

SHARE_OF_DESKTOP = 0.8  # of the desktop's height and width, at most, for a new window
LARGEST_SCALE = 8


class GameWindow:
    """A window that shows the game at the largest whole-number scale that fits."""

    def __init__(self, title: str) -> None:
        """Prepare a window, which opens with the first picture, whose size it needs.

        Raises:
            UserError: The display cannot be used.
        """
        try:
            pygame.display.init()
            self._desktop = pygame.display.get_desktop_sizes()[0]
        except pygame.error as error:
            raise UserError(f"no window can be opened ({error})") from None
        pygame.display.set_caption(title)
        pygame.key.stop_text_input()
        self._overlay = Overlay(scale=1)

    def keys(self) -> Keys:
        """Return the keys pressed since the last call."""
        commands, tapped = [], set()
        for event in pygame.event.get():
            if event.type == pygame.QUIT:
                commands.append("q")
            elif event.type == pygame.KEYDOWN:
                # The key's label, then its character: on some keyboards brackets need AltGr.
                for name in (pygame.key.name(event.key), event.unicode):
                    if name in COMMANDS:
                        commands.append(name)
                        break
                    if name in BUTTONS:
                        tapped.add(BUTTONS[name])
                        break
        pressed = pygame.key.get_pressed()
        held = {button for name, button in BUTTONS.items() if pressed[pygame.key.key_code(name)]}
        return Keys(commands, held | tapped)

    def show(self, picture: Picture, view: View, panel: bool) -> None:
        """Show `picture` and `view`; switching the panel on or off resizes the window."""
        screen = pygame.display.get_surface()
        if screen is None or panel != self._overlay.panel:
            self._overlay.panel = panel
            if screen is None:
                width, height = self._desktop
                self._fit_scale(picture, (SHARE_OF_DESKTOP * width, SHARE_OF_DESKTOP * height))
            screen = pygame.display.set_mode(self._overlay.size(picture), pygame.RESIZABLE)
        self._fit_scale(picture, screen.get_size())
        canvas = self._overlay.paint(picture, view)
        screen.fill(BACKGROUND)
        screen.blit(canvas, canvas.get_rect(center=screen.get_rect().center))
        pygame.display.flip()

    def close(self) -> None:
        """Close the window."""
        pygame.display.quit()

    def _fit_scale(self, picture: Picture, room: tuple[float, float]) -> None:
        """Choose the largest scale at which the drawing of `picture` fits into `room`, in pixels."""
        for scale in range(LARGEST_SCALE, 0, -1):
            self._overlay.scale = scale
            width, height = self._overlay.size(picture)
            if width <= room[0] and height <= room[1]:
                return


Display: TypeAlias = GameWindow | GameTerminal


def open_display(kind: str | None, title: str) -> Display:
    """Open the display of `kind`, one of `OPENERS`; None: a window if possible, else the terminal.

    Raises:
        UserError: The display cannot be opened.
    """
    if kind:
        return OPENERS[kind](title)
    try:
        return _open_window(title)
    except UserError as error:
        logger.warning("No window: %s. Playing in the terminal", str(error).partition(":")[0])
        return _open_terminal(title)


def _open_window(title: str) -> Display:
    require_display("give --display terminal")
    return GameWindow(title)


def _open_terminal(_title: str) -> Display:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError("input or output is not a terminal: use one, or a machine with a display")
    return GameTerminal()


OPENERS: dict[str, Callable[[str], Display]] = {"window": _open_window, "terminal": _open_terminal}
