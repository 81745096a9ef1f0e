"""The game's sound."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pygame
from numpy.typing import NDArray

from simple_dqn.environment import FRAMES_PER_SECOND

logger = logging.getLogger(__name__)

SAMPLES = 512  # a frame
RATE = FRAMES_PER_SECOND * SAMPLES  # samples a second
PIECE = 3 * SAMPLES  # samples given to the mixer at a time; it holds at most two pieces, 0.1 s


class Speaker:
    """Plays a game's sound, or nothing where there is no sound device.

    Attributes:
        audible: Whether there was a sound device.
    """

    def __init__(self) -> None:
        """Open the sound device; log a warning if there is none."""
        self._waiting = np.zeros(0, np.uint8)  # samples not given to the mixer yet
        self.audible = False
        self._opened = False
        try:
            with _mute_libraries():
                pygame.mixer.init(RATE, size=8, channels=1, buffer=SAMPLES, allowedchanges=0)
            self.audible = self._opened = True
        except pygame.error as error:
            logger.warning("There is no sound device (%s): playing on in silence", error)

    def play(self, sound: NDArray[np.uint8], speed: float | None, volume: float) -> None:
        """Play a frame's `sound`, unsigned 8-bit samples; `speed` changes its pitch, None is silent."""
        if not self._opened or not len(sound) or speed is None:
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
            return  # there may be room soon; if not, the sound is late and is dropped
        self._waiting = self._waiting[:0]

    def close(self) -> None:
        """Close the sound device."""
        if self._opened:
            pygame.mixer.quit()
            self._opened = False


@contextmanager
def _mute_libraries() -> Iterator[None]:
    """Hide the eight lines that ALSA writes to standard error where there is no device."""
    standard_error = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(standard_error, 2)
        os.close(standard_error)
        os.close(nowhere)
