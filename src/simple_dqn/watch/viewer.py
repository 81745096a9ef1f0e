"""Shows games to a person, in a window or a text terminal, at the right speed and with sound."""

import logging
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

import blessed
import numpy as np
import pygame
from numpy.typing import NDArray

from simple_dqn.environment.interface import FRAMES_PER_SECOND, Frame, Picture
from simple_dqn.errors import UserError
from simple_dqn.machine import require_display
from simple_dqn.watch.overlay import BACKGROUND, PANEL_COLUMNS, Overlay, panel_lines
from simple_dqn.watch.player import BUTTONS, COMMANDS, NO_BUTTON, OPPOSITES, Controls, FrameFollower, View

logger = logging.getLogger(__name__)

Keys: TypeAlias = tuple[list[str], set[str]]  # of `COMMANDS`, and values of `BUTTONS`

FRAME = 1 / FRAMES_PER_SECOND  # seconds
LONGEST_DELAY = 0.1  # seconds; a longer delay is not caught up
SAMPLES = 512  # per frame
RATE = FRAMES_PER_SECOND * SAMPLES  # samples per second
CHUNK_SAMPLES = 3 * SAMPLES  # samples given to the mixer at a time; it holds at most two pieces, 0.1 s

TELEVISION = 4 / 3  # the shape of an Atari picture there; each of a cell's two pixels is about square
LEAST_COLUMNS = 16  # for the game; if the panel leaves fewer, it is hidden
HELD_SECONDS = 0.25  # a terminal reports when a key is pressed, not when it is released
KEY_NAMES = {"KEY_ENTER": "return", "\n": "return", "\r": "return", " ": "space"}  # blessed's -> pygame's


class FrameClock:
    """Waits until each frame is due, and decides which frames are drawn."""

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._due = self._drawn = -float("inf")  # when the next frame is due, and the last was drawn

    def wait(self, speed: float | None) -> bool:
        """Wait until the next frame is due, at `speed` times 60 frames a second; None: do not wait.

        Return whether to draw it: about 1/60 s after the last one drawn, unless it is late; but at least one
        frame is drawn every 0.1 s.
        """
        now = self._clock()
        if speed is None or now - self._due > LONGEST_DELAY:
            self._due = now
        elif self._due > now:
            self._sleep(self._due - now)
        self._due += FRAME / speed if speed else 0.0
        now = self._clock()
        since = now - self._drawn
        draw = since > LONGEST_DELAY or (since > 0.75 * FRAME and now < self._due)
        self._drawn = now if draw else self._drawn
        return draw


class Speaker:
    """Plays a game's sound, if there is a sound device; else it is silent, with a warning."""

    def __init__(self) -> None:
        self._waiting = np.zeros(0, np.uint8)  # samples not yet passed to the mixer
        try:
            pygame.mixer.init(RATE, size=8, channels=1, buffer=SAMPLES, allowedchanges=0)
        except pygame.error as error:
            logger.warning("There is no sound device (%s): playing without sound", error)

    def play(self, sound: NDArray[np.uint8], speed: float | None, volume: float) -> None:
        """Play a frame's `sound`, unsigned 8-bit samples; `speed` changes its pitch, None is silent."""
        if not pygame.mixer.get_init() or not len(sound) or speed is None:
            return
        self._waiting = np.append(self._waiting, sound[np.arange(0, len(sound), speed).astype(np.int64)])
        if len(self._waiting) < CHUNK_SAMPLES:
            return
        channel = pygame.mixer.Channel(0)
        piece = pygame.mixer.Sound(buffer=self._waiting.tobytes())
        piece.set_volume(volume)
        if channel.get_queue() is None:
            channel.queue(piece)  # which plays it at once if nothing plays
        elif len(self._waiting) < 2 * CHUNK_SAMPLES:
            return  # the queue may have room soon; otherwise the sound is late, and is dropped
        self._waiting = self._waiting[:0]

    def close(self) -> None:
        """Close the sound device."""
        pygame.mixer.quit()


class Viewer(FrameFollower):
    """Shows each frame of a player's games, whose environment has `watch` as watcher, and applies keys."""

    def __init__(
        self, controls: Controls, display: "Display", speaker: Speaker, clock: FrameClock, rate: float
    ) -> None:
        """Set up the viewer of an agent with the exploration `rate`."""
        super().__init__(rate)
        self._controls, self._display, self._speaker, self._clock = controls, display, speaker, clock

    def show(self, frame: Frame) -> None:
        """Show the frame when it is due, unless the display is late, with its sound."""
        controls = self._controls
        controls.apply(*self._display.keys())
        self._speaker.play(frame.sound, controls.speed, controls.volume)
        rate = self.player.environment.frames_per_second / FRAMES_PER_SECOND
        if self._clock.wait(controls.speed and controls.speed * rate):
            speed = "max" if controls.speed is None else f"{controls.speed:g}×"
            view = replace(self.view(frame, controls.saliency), human=controls.human, speed=speed)
            self._display.show(frame.picture, view, controls.overlay)


class GameWindow:
    """A window that shows the game at the largest whole-number scale that fits."""

    def __init__(self, title: str) -> None:
        """Prepare a window, which opens with the first picture, or raise UserError."""
        try:
            pygame.display.init()
            self._room = [side * 0.8 for side in pygame.display.get_desktop_sizes()[0]]
        except pygame.error as error:
            raise UserError(f"no window can be opened ({error})") from None
        pygame.display.set_caption(title)
        pygame.key.stop_text_input()
        self._overlay = Overlay(scale=1, hints=True)

    def keys(self) -> Keys:
        """Return the commands pressed since the last call, in order, and the buttons held since then."""
        commands, tapped = [], set()
        for event in pygame.event.get():
            if event.type == pygame.QUIT:
                commands.append("q")
            elif event.type == pygame.KEYDOWN:
                # The key's label, then its character: on some keyboards brackets need AltGr.
                names = (pygame.key.name(event.key), event.unicode)
                name = next((name for name in names if name in COMMANDS or name in BUTTONS), "")
                commands += [name] if name in COMMANDS else []
                tapped |= {BUTTONS[name]} if name in BUTTONS else set()
        pressed = pygame.key.get_pressed()
        held = {button for name, button in BUTTONS.items() if pressed[pygame.key.key_code(name)]}
        return commands, held | tapped

    def show(self, picture: Picture, view: View, panel: bool) -> None:
        """Show `picture` and `view`; switching the panel on or off resizes the window."""
        screen, overlay = pygame.display.get_surface(), self._overlay
        if screen is None:
            overlay.fit(picture, *self._room)
        if screen is None or panel != overlay.panel:
            overlay.panel = panel
            screen = pygame.display.set_mode(overlay.size(picture), pygame.RESIZABLE)
        overlay.fit(picture, *screen.get_size())
        canvas = overlay.paint(picture, view)
        screen.fill(BACKGROUND)
        screen.blit(canvas, canvas.get_rect(center=screen.get_rect().center))
        pygame.display.flip()

    def close(self) -> None:
        """Close the window."""
        pygame.display.quit()


class GameTerminal:
    """A text terminal, over SSH too: two pixels per cell, and a panel; only what changed is written.

    A key counts as held for a quarter of a second after each press; a key that is held down repeats.
    """

    def __init__(self, atari: bool) -> None:
        """Prepare the terminal, full screen from the first picture on, or raise UserError."""
        self._atari, self._terminal = atari, (terminal := blessed.Terminal())
        if terminal.number_of_colors < 8:
            raise UserError("this terminal shows no colors: set another TERM, such as xterm-256color")
        self._overlay = Overlay(scale=1)
        self._held: dict[str, float] = {}  # for each button the time at which it is released
        self._layout: tuple[int, ...] = ()  # rows, columns, panel: a change redraws everything
        self._shown: dict[tuple[int, int], str] = {}  # by row and column, now on the terminal
        self._line = lru_cache(1 << 10)(self._draw_line)
        self._cell: Callable[[bytes], str] = lru_cache(1 << 16)(
            lambda cell: str(terminal.color_rgb(*cell[:3]) + terminal.on_color_rgb(*cell[3:]))
        )
        self._restore = ExitStack()

    def keys(self) -> Keys:
        """Return the commands pressed since the last call, in order, and the buttons held since then."""
        commands, now = [], time.monotonic()
        while self._layout and (key := self._terminal.inkey(timeout=0)):
            name = KEY_NAMES.get(key.name or key) or (key.name or key).removeprefix("KEY_").lower()
            if name in COMMANDS:
                commands.append(name)
            elif name in BUTTONS:
                button = BUTTONS[name]
                released = next((pair for pair in OPPOSITES if button in pair), set())
                kept = {} if button == NO_BUTTON else self._held
                self._held = {held: end for held, end in kept.items() if held not in released}
                self._held[button] = now + HELD_SECONDS
        return commands, {button for button, until in self._held.items() if until > now}

    def show(self, picture: Picture, view: View, panel: bool) -> None:
        """Show `picture` and `view`, with the `panel` if the terminal is wide enough."""
        terminal, output = self._terminal, ""
        if not self._layout:
            for mode in (terminal.fullscreen, terminal.cbreak, terminal.hidden_cursor):
                self._restore.enter_context(mode())
        height, width = terminal.height or 24, terminal.width or 80  # in some containers both are 0
        panel = panel and width > PANEL_COLUMNS + LEAST_COLUMNS
        if self._layout != (height, width, panel):
            self._layout, self._shown = (height, width, panel), {}
            # Our own background: the texts are light, and the terminal's background may be light as well.
            output = terminal.normal + terminal.on_color_rgb(*BACKGROUND) + terminal.clear
        aspect = TELEVISION if self._atari else picture.shape[1] / picture.shape[0]
        columns = min(width - panel * (PANEL_COLUMNS + 1), round(2 * height * aspect))
        rows = min(height, round(columns / aspect / 2))
        if min(rows, columns) < 1:
            return
        game = self._overlay.paint_game(picture, view.heat_map)
        game = pygame.transform.smoothscale(game, (columns, 2 * rows))
        pixels = pygame.surfarray.pixels3d(game).reshape(columns, rows, 6).swapaxes(0, 1)
        shown = {(row, 0): self._line(cells.tobytes()) for row, cells in enumerate(pixels)}
        if panel:
            lines = panel_lines(terminal, view, self._overlay.bars(view))
            shown |= {(row, columns + 1): line for row, line in enumerate(lines[:height])}
        for place, text in shown.items():
            if self._shown.get(place) != text:
                output += terminal.move_yx(*place) + terminal.normal + text + terminal.normal
        self._shown = shown
        print(output, end="", file=terminal.stream, flush=True)

    def close(self) -> None:
        """Restore the terminal."""
        self._restore.close()

    def _draw_line(self, cells: bytes) -> str:
        """Return the output for a row of cells: red, green, blue of the upper pixel, then of the lower."""
        each = [cells[place : place + 6] for place in range(0, len(cells), 6)]
        new = zip(each, [b"", *each], strict=False)  # neighbors of one color share its codes
        return "".join((self._cell(cell) if cell != before else "") + "▀" for cell, before in new)


Display: TypeAlias = GameWindow | GameTerminal
DISPLAYS = ("window", "terminal")


def open_display(kind: str | None, title: str, atari: bool = True) -> Display:
    """Open a display of `DISPLAYS`, or raise UserError; None: a window if possible, else the terminal."""
    if kind != "terminal":
        try:
            require_display("give --display terminal")
            return GameWindow(title)
        except UserError as error:
            if kind:
                raise
            logger.warning("No window: %s. Playing in the terminal", str(error).partition(":")[0])
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError("input or output is not a terminal: use one, or a machine with a display")
    return GameTerminal(atari)
