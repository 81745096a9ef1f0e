"""What the machine offers to the program."""

import os
import sys

from simple_dqn.errors import UserError

DISPLAY_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")


def require_display(advice: str) -> None:
    """Refuse to open a window where there is no display; SDL would draw nowhere, and say nothing.

    Raises:
        UserError: There is no display. The message ends with `advice`.
    """
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in DISPLAY_VARIABLES):
        raise UserError(f"there is no display (DISPLAY is not set): {advice}")
