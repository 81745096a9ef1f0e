"""Shows games to a person at the right speed and with sound, and applies the keys."""

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pygame
from numpy.typing import NDArray

from simple_dqn.environment import FRAMES_PER_SECOND, Frame
from simple_dqn.errors import UserError
from simple_dqn.files import replacing
from simple_dqn.watch.controls import Controls
from simple_dqn.watch.display import Display
from simple_dqn.watch.overlay import Overlay
from simple_dqn.watch.watched_player import FrameFollower, View, WatchedPlayer

logger = logging.getLogger(__name__)

SCREENSHOT_SCALE = 3
FRAME = 1 / FRAMES_PER_SECOND  # seconds
LATE = 0.1  # seconds; a longer delay is not caught up
SAMPLES = 512  # per frame
RATE = FRAMES_PER_SECOND * SAMPLES  # samples per second
PIECE = 3 * SAMPLES  # samples given to the mixer at a time; it holds at most two pieces, 0.1 s


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
        """Return whether to draw this frame.

        A frame is skipped if the last was drawn less than 1/60 s ago, as happens at higher speeds, or if the
        next is already due, as on a slow terminal. At least one frame every `LATE` seconds is drawn.
        """
        now = self._clock()
        since = now - self._drawn
        due = since > LATE or (since > 0.75 * FRAME and now < self._due)
        if due:
            self._drawn = now
        return due


class Speaker:
    """Plays a game's sound, if there is a sound device.

    Attributes:
        audible: Whether there was a sound device.
    """

    def __init__(self) -> None:
        """Open the sound device; log a warning if there is none."""
        self._waiting = np.zeros(0, np.uint8)  # samples not yet passed to the mixer
        self.audible = False
        try:
            with _mute_libraries():
                pygame.mixer.init(RATE, size=8, channels=1, buffer=SAMPLES, allowedchanges=0)
            self.audible = True
        except pygame.error as error:
            logger.warning("There is no sound device (%s): playing without sound", error)

    def play(self, sound: NDArray[np.uint8], speed: float | None, volume: float) -> None:
        """Play a frame's `sound`, unsigned 8-bit samples; `speed` changes its pitch, None is silent."""
        if not self.audible or not len(sound) or speed is None:
            return
        places = np.arange(0, len(sound), speed).astype(np.int64)
        self._waiting = np.concatenate([self._waiting, sound[places]])
        if len(self._waiting) < PIECE:
            return
        channel = pygame.mixer.Channel(0)
        piece = pygame.mixer.Sound(buffer=self._waiting.tobytes())
        piece.set_volume(volume)
        if not channel.get_busy():
            channel.play(piece)
        elif channel.get_queue() is None:
            channel.queue(piece)
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
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(standard_error, 2)
        os.close(standard_error)
        os.close(nowhere)


class Viewer:
    """Shows each frame of a player's games, and applies the person's keys."""

    def __init__(
        self, controls: Controls, display: Display, speaker: Speaker, exploration_rate: float, pictures: Path,
        clock: FrameClock,
    ) -> None:  # fmt: skip
        """Set up the viewer; screenshots go into the folder `pictures`."""
        self._controls, self._display, self._speaker = controls, display, speaker
        self._exploration_rate = exploration_rate
        self._pictures = pictures
        self._clock = clock
        self._follower = FrameFollower(self._show)

    @property
    def scores(self) -> list[float]:
        """Raw points of each game that has ended."""
        return self._follower.scores

    def watch(self, frame: Frame) -> None:
        """Show the frame before `frame` when it is due; the environment of the player calls this."""
        self._follower.watch(frame)

    def _show(self, frame: Frame, score: float, begins: bool) -> None:
        controls = self._controls
        controls.apply(*self._display.keys())
        self._speaker.play(frame.sound, controls.speed, controls.volume)
        rate = self._player.environment.frames_per_second / FRAMES_PER_SECOND
        self._clock.wait(controls.speed and controls.speed * rate)
        if self._clock.picture_due() or controls.screenshot:
            view = self._view(frame, score, begins)
            if controls.screenshot:
                self._take_screenshot(frame, view)
            self._display.show(frame.picture, view, controls.overlay)

    def play(self, player: WatchedPlayer, games: int, stopped: Callable[[], bool]) -> None:
        """Play and show `games` games, or with 0 until the person quits, unless `stopped` returns True.

        The player's environment must have `watch` as its watcher.
        """
        self._player = player
        self._follower.add(player.start())
        while not (stopped() or self._controls.ended or (games and len(self.scores) == games)):
            self._follower.add(player.step(self._exploration_rate))
        self._follower.flush()

    def _view(self, frame: Frame, score: float, begins: bool) -> View:
        """Return the values to show with `frame`, including the state of the controls."""
        controls, rate = self._controls, self._exploration_rate
        view = self._player.view(score, frame.lives, rate, heat_map=controls.saliency, begins=begins)
        return replace(view, human=controls.human, speed=controls.speed_name, message=controls.message())

    def _take_screenshot(self, frame: Frame, view: View) -> None:
        """Save the picture as a PNG file with a new name."""
        self._controls.screenshot = False
        canvas = Overlay(SCREENSHOT_SCALE, self._controls.overlay).paint(frame.picture, view)
        number = 1
        while (path := self._pictures / f"screenshot_{number}.png").exists():
            number += 1
        try:
            with replacing(path) as beside, beside.open("wb") as file:
                pygame.image.save(canvas, file, "screenshot.png")
            self._controls.say(f"saved {path.name}")
        except UserError as error:
            self._controls.say(str(error))
