"""What can show a game and hear a person: a window, or a terminal."""

import logging
import os
import sys
from collections.abc import Callable
from typing import NamedTuple, Protocol

from simple_dqn.environment.interface import Picture
from simple_dqn.errors import UserError
from simple_dqn.watch.keys import Command
from simple_dqn.watch.overlay import View

logger = logging.getLogger(__name__)


class Keys(NamedTuple):
    """What a person did with the keys since the last look."""

    commands: list[Command]  # in their order
    held: set[str]  # words of `keys.BUTTONS`, held now or pressed since


class Display(Protocol):
    """What can show a game and hear a person."""

    def keys(self) -> Keys:
        """Return what was done with the keys since the last call; nothing before the first picture."""

    def show(self, picture: Picture, view: View, panel: bool) -> None:
        """Show `picture`, uint8 [height, width, 3], and what `view` says, in full beside it if `panel`."""

    def close(self) -> None:
        """Leave everything as it was before."""


def open_display(kind: str | None, title: str) -> Display:
    """Open the display of `kind`; None: a window where there can be one, else the terminal.

    Raises:
        UserError: There is no such display here.
    """
    if kind:
        return OPENERS[kind](title)
    try:
        return _open_window(title)
    except UserError as error:
        logger.warning("No window: %s. Playing in the terminal", str(error).partition(":")[0])
        return _open_terminal(title)


def _open_window(title: str) -> Display:
    from simple_dqn.watch.window import Window

    shown_by = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in shown_by):
        raise UserError("there is no display (DISPLAY is not set): give --display terminal")
    return Window(title)


def _open_terminal(_title: str) -> Display:
    from simple_dqn.watch.terminal import TerminalScreen

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError("input or output is not a terminal: play in one, or where there is a display")
    return TerminalScreen()


OPENERS: dict[str, Callable[[str], Display]] = {"window": _open_window, "terminal": _open_terminal}
