"""A window to watch and play in."""

import pygame

from simple_dqn.environment.interface import Picture
from simple_dqn.errors import UserError
from simple_dqn.watch.display import Keys
from simple_dqn.watch.keys import BUTTONS, COMMANDS, Command
from simple_dqn.watch.overlay import BACKGROUND, Overlay, View

SHARE_OF_DESKTOP = 0.8  # how much of the desktop's height or width a new window takes at most
LARGEST_SCALE = 8


class Window:
    """Shows the game at the largest whole-number scale that fits the window."""

    def __init__(self, title: str) -> None:
        """Get ready; the window itself opens with the first picture, whose size it takes.

        Raises:
            UserError: There is no display that can be used.
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
        """Return what was done with the keys since the last call."""
        commands, tapped = [], set()
        for event in pygame.event.get():
            if event.type == pygame.QUIT:
                commands.append(Command.QUIT)
            elif event.type == pygame.KEYDOWN:
                # What is written on the key counts, or else what it types: brackets need AltGr on some.
                for name in (pygame.key.name(event.key), event.unicode):
                    if name in COMMANDS:
                        commands.append(COMMANDS[name])
                        break
                    if name in BUTTONS:
                        tapped.add(BUTTONS[name])
                        break
        pressed = pygame.key.get_pressed()
        held = {word for name, word in BUTTONS.items() if pressed[pygame.key.key_code(name)]}
        return Keys(commands, held | tapped)

    def show(self, picture: Picture, view: View, panel: bool) -> None:
        """Show `picture` and `view`; the window takes another size when the panel comes or goes."""
        screen = pygame.display.get_surface()
        if screen is None or panel != self._overlay.panel:
            self._overlay.panel = panel
            if screen is None:
                self._fit_scale(
                    picture, (SHARE_OF_DESKTOP * self._desktop[0], SHARE_OF_DESKTOP * self._desktop[1])
                )
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
        """Take the largest scale at which `picture` and what is beside it fit into `room`, in pixels."""
        for scale in range(LARGEST_SCALE, 0, -1):
            self._overlay.scale = scale
            width, height = self._overlay.size(picture)
            if width <= room[0] and height <= room[1]:
                return
