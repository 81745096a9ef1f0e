"""Shows games to a person, in a window or a text terminal, at the right speed and with sound."""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import TypeAlias

import blessed
import numpy as np
import pygame
from numpy.typing import NDArray

from simple_dqn.environment import FRAMES_PER_SECOND, Frame
from simple_dqn.environment.interface import Picture
from simple_dqn.errors import UserError
from simple_dqn.files import replacing
from simple_dqn.machine import require_display
from simple_dqn.watch.overlay import BACKGROUND, PANEL_COLUMNS, Overlay, panel_lines
from simple_dqn.watch.player import BUTTONS, COMMANDS, OPPOSITES, Controls, FrameFollower, View, WatchedPlayer

logger = logging.getLogger(__name__)

Keys: TypeAlias = tuple[list[str], set[str]]  # of `COMMANDS`, and values of `BUTTONS`

SCREENSHOT_SCALE = 3
FRAME = 1 / FRAMES_PER_SECOND  # seconds
LATE = 0.1  # seconds; a longer delay is not caught up
SAMPLES = 512  # per frame
RATE = FRAMES_PER_SECOND * SAMPLES  # samples per second
PIECE = 3 * SAMPLES  # samples given to the mixer at a time; it holds at most two pieces, 0.1 s

ASPECT = 4 / 3  # of the picture, as on a television; each of a cell's two pixels is about square
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

    def wait(self, speed: float | None) -> None:
        """Wait until the next frame is due, at `speed` times 60 frames a second; None: do not wait."""
        now = self._clock()
        if speed is None or now - self._due > LATE:
            self._due = now
        elif self._due > now:
            self._sleep(self._due - now)
        if speed is not None:
            self._due += FRAME / speed

    def picture_due(self) -> bool:
        """Return whether to draw this frame: 1/60 s after the last, unless the next is already due.

        At least one frame every `LATE` seconds is drawn.
        """
        now = self._clock()
        since = now - self._drawn
        due = since > LATE or (since > 0.75 * FRAME and now < self._due)
        self._drawn = now if due else self._drawn
        return due


class Speaker:
    """Plays a game's sound, if there is a sound device; else it is silent, with a warning."""

    def __init__(self) -> None:
        self._waiting = np.zeros(0, np.uint8)  # samples not yet passed to the mixer
        self._audible = False
        try:
            with _mute_libraries():
                pygame.mixer.init(RATE, size=8, channels=1, buffer=SAMPLES, allowedchanges=0)
            self._audible = True
        except pygame.error as error:
            logger.warning("There is no sound device (%s): playing without sound", error)

    def play(self, sound: NDArray[np.uint8], speed: float | None, volume: float) -> None:
        """Play a frame's `sound`, unsigned 8-bit samples; `speed` changes its pitch, None is silent."""
        if not self._audible or not len(sound) or speed is None:
            return
        self._waiting = np.append(self._waiting, sound[np.arange(0, len(sound), speed).astype(np.int64)])
        if len(self._waiting) < PIECE:
            return
        channel = pygame.mixer.Channel(0)
        piece = pygame.mixer.Sound(buffer=self._waiting.tobytes())
        piece.set_volume(volume)
        if channel.get_queue() is None:
            channel.queue(piece)  # which plays it at once if nothing plays
        elif len(self._waiting) < 2 * PIECE:
            return  # the queue may have room soon; otherwise the sound is late, and is dropped
        self._waiting = self._waiting[:0]

    def close(self) -> None:
        """Close the sound device."""
        pygame.mixer.quit()


@contextmanager
def _mute_libraries() -> Iterator[None]:
    """Hide the eight lines that ALSA writes to standard error without a device."""
    standard_error = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), 2)
            yield
    finally:
        os.dup2(standard_error, 2)
        os.close(standard_error)


class Viewer(FrameFollower):
    """Shows each frame of a player's games, whose environment has `watch` as watcher, and applies keys."""

    def __init__(
        self, controls: Controls, display: "Display", speaker: Speaker, exploration_rate: float,
        pictures: Path, clock: FrameClock,
    ) -> None:  # fmt: skip
        """Set up the viewer; screenshots go into the folder `pictures`."""
        super().__init__(exploration_rate)
        self._controls, self._display, self._speaker = controls, display, speaker
        self._pictures, self._clock = pictures, clock

    def play(self, player: WatchedPlayer, games: int, stopped: Callable[[], bool]) -> None:
        """Play and show `games` games, or with 0 until the person quits, unless `stopped` returns True."""
        for _ in self.follow(player, games):
            if stopped() or self._controls.ended:
                break
        self.flush()

    def show(self, frame: Frame, view_of: Callable[[bool], View]) -> None:
        """Show the frame when it is due, unless the display is late, with its sound."""
        controls = self._controls
        controls.apply(*self._display.keys())
        self._speaker.play(frame.sound, controls.speed, controls.volume)
        rate = self.player.environment.frames_per_second / FRAMES_PER_SECOND
        self._clock.wait(controls.speed and controls.speed * rate)
        if self._clock.picture_due() or controls.screenshot:
            view = replace(
                view_of(controls.saliency), human=controls.human, speed=controls.speed_name,
                message=controls.message(),
            )  # fmt: skip
            if controls.screenshot:
                self._take_screenshot(frame, view)
            self._display.show(frame.picture, view, controls.overlay)

    def _take_screenshot(self, frame: Frame, view: View) -> None:
        """Save the picture as a PNG file with a new name."""
        self._controls.screenshot = False
        paths = (self._pictures / f"screenshot_{number}.png" for number in count(1))
        path = next(path for path in paths if not path.exists())
        try:
            with replacing(path) as beside, beside.open("wb") as file:
                canvas = Overlay(SCREENSHOT_SCALE, self._controls.overlay).paint(frame.picture, view)
                pygame.image.save(canvas, file, "screenshot.png")
            self._controls.say(f"saved {path.name}")
        except UserError as error:
            self._controls.say(str(error))


class GameWindow:
    """A window that shows the game at the largest whole-number scale that fits."""

    def __init__(self, title: str) -> None:
        """Prepare a window, which opens with the first picture; a UserError says that it cannot."""
        try:
            pygame.display.init()
            self._desktop = pygame.display.get_desktop_sizes()[0]
        except pygame.error as error:
            raise UserError(f"no window can be opened ({error})") from None
        pygame.display.set_caption(title)
        pygame.key.stop_text_input()
        self._overlay = Overlay(scale=1)

    def keys(self) -> Keys:
        """Return the commands pressed since the last call, in order, and the buttons held since then."""
        commands, tapped = [], set()
        for event in pygame.event.get():
            if event.type == pygame.QUIT:
                commands.append("q")
            elif event.type == pygame.KEYDOWN:
                # The key's label, then its character: on some keyboards brackets need AltGr.
                names = (pygame.key.name(event.key), event.unicode)
                name = next((one for one in names if one in COMMANDS or one in BUTTONS), "")
                commands += [name] if name in COMMANDS else []
                tapped |= {BUTTONS[name]} if name in BUTTONS else set()
        pressed = pygame.key.get_pressed()
        held = {button for name, button in BUTTONS.items() if pressed[pygame.key.key_code(name)]}
        return commands, held | tapped

    def show(self, picture: Picture, view: View, panel: bool) -> None:
        """Show `picture` and `view`; switching the panel on or off resizes the window."""
        screen = pygame.display.get_surface()
        if screen is None or panel != self._overlay.panel:
            self._overlay.panel = panel
            if screen is None:
                self._fit_scale(picture, (0.8 * self._desktop[0], 0.8 * self._desktop[1]))
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
        for scale in range(8, 0, -1):
            self._overlay.scale = scale
            width, height = self._overlay.size(picture)
            if width <= room[0] and height <= room[1]:
                return


class GameTerminal:
    """A text terminal, over SSH too: two pixels per cell, and a panel; only what changed is written.

    A key counts as held for a quarter of a second after each press; a key that is held down repeats.
    """

    def __init__(self) -> None:
        """Prepare the terminal, full screen from the first picture on; a UserError says that it cannot."""
        self._terminal = terminal = blessed.Terminal()
        if terminal.number_of_colors < 8:
            raise UserError("this terminal shows no colors: set another TERM, such as xterm-256color")
        self._overlay = Overlay(scale=1)
        self._held: dict[str, float] = {}  # for each button the time at which it is released
        self._started = False
        self._layout: tuple[int, ...] = ()  # rows, columns, panel: a change redraws everything
        self._shown: dict[tuple[int, int], str] = {}  # by row and column, now on the terminal
        self._line, self._cell = lru_cache(1 << 10)(self._draw_line), lru_cache(1 << 16)(self._draw_cell)
        self._restore = ExitStack()

    def keys(self) -> Keys:
        """Return the commands pressed since the last call, in order, and the buttons held since then."""
        commands, now = [], time.monotonic()
        while self._started and (key := self._terminal.inkey(timeout=0)):
            name = KEY_NAMES.get(key.name or key) or (key.name or key).removeprefix("KEY_").lower()
            if name in COMMANDS:
                commands.append(name)
            elif name in BUTTONS:
                button = BUTTONS[name]
                released = next((pair for pair in OPPOSITES if button in pair), set())
                kept = {} if button == BUTTONS["p"] else self._held  # which releases all
                self._held = {held: end for held, end in kept.items() if held not in released}
                self._held[button] = now + HELD_SECONDS
        return commands, {button for button, until in self._held.items() if until > now}

    def show(self, picture: Picture, view: View, panel: bool) -> None:
        """Show `picture` and `view`, with the `panel` if the terminal is wide enough."""
        terminal, output = self._terminal, ""
        if not self._started:  # even where no cell has room: keys are read in these modes
            self._started = True
            for mode in (terminal.fullscreen, terminal.cbreak, terminal.hidden_cursor):
                self._restore.enter_context(mode())
        height, width = terminal.height, terminal.width
        panel = panel and width > PANEL_COLUMNS + LEAST_COLUMNS
        rows, room = (height, width - PANEL_COLUMNS - 1) if panel else (height - 1, width)
        columns = min(room, round(2 * rows * ASPECT))
        rows = min(rows, max(1, round(columns / ASPECT / 2)))
        if rows < 1 or columns < 1:
            return
        if self._layout != (height, width, panel):
            self._layout, self._shown = (height, width, panel), {}
            # Our own background: the texts are light, and the terminal may be, too.
            output = terminal.normal + terminal.on_color_rgb(*BACKGROUND) + terminal.clear
        game = pygame.transform.smoothscale(
            self._overlay.paint_game(picture, view.heat_map), (columns, 2 * rows)
        )
        pixels = pygame.surfarray.pixels3d(game).reshape(columns, rows, 6).swapaxes(0, 1)
        shown = {(row, 0): self._line(cells.tobytes()) for row, cells in enumerate(pixels)}
        lines = panel_lines(terminal, view, self._overlay.bars(view))
        if panel:
            shown |= {(row, columns + 1): line for row, line in enumerate(lines[:height])}
        else:
            shown[height - 1, 0] = terminal.truncate(lines[0] + lines[1], width)
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

    def _draw_cell(self, colors: bytes) -> str:
        return str(self._terminal.color_rgb(*colors[:3]) + self._terminal.on_color_rgb(*colors[3:]))


Display: TypeAlias = GameWindow | GameTerminal
DISPLAYS = ("window", "terminal")


def open_display(kind: str | None, title: str) -> Display:
    """Open the display of `kind`, one of `DISPLAYS`; None: a window if possible, else the terminal.

    Raises:
        UserError: The display cannot be opened.
    """
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
    return GameTerminal()
