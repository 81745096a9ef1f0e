"""From frames to screens: holding an action for several frames, no-ops at a game's start, scaling a frame.

Mnih et al. 2015, "Human-level control through deep reinforcement learning", Methods: preprocessing and
training details.
"""

import math
from abc import abstractmethod
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.interface import Game, Screen

NO_OP = 0  # the action that does nothing, in games that have one
SEEDS = 2**31  # ALE and Gymnasium take seeds below this


class FrameGame(Game):
    """A game in steps of `frame_skip` frames, which starts with a random number of no-ops."""

    def __init__(self, config: EnvironmentConfig, stream: np.random.Generator) -> None:
        """Set up a game; `stream` decides its no-ops, and the seeds of its own randomness."""
        cv2.setNumThreads(1)  # a screen is too small to share, and the network needs the other cores
        self.random = stream
        self._frame_skip = config.frame_skip
        self._frame_limit: float = config.max_game_frames or math.inf
        self._most_no_ops = config.random_start_frames or config.random_starts
        self._no_op_frames = 1 if config.random_start_frames else config.frame_skip  # of each no-op

    def start(self, screen: Screen) -> None:
        """Start a new game with 0 to `random_starts` steps, or `random_start_frames` frames, of no-op.

        All numbers are equally likely.
        """
        self._restart()
        for _ in range(int(self.random.integers(self._most_no_ops + 1))):
            self._hold(NO_OP, self._no_op_frames)
            if self._ended():
                self._restart()
        self._draw(screen)

    @abstractmethod
    def _restart(self) -> None:
        """Start a new game, without any no-op."""

    @abstractmethod
    def _hold(self, action: int, frames: int) -> float:
        """Play `frames` frames, or until the game ends; return the sum of their rewards."""

    @abstractmethod
    def _ended(self) -> bool:
        """Return whether the game is over, or cut off at `max_game_frames`."""

    @abstractmethod
    def _draw(self, screen: Screen) -> None:
        """Turn the frames last played into `screen` uint8 [H, W]."""


def scale(frame: NDArray[Any], screen: Screen) -> None:
    """Scale `frame` uint8 [height, width] to `screen` uint8 [H, W], by the mean of the area of each pixel."""
    assert frame.dtype == np.uint8, "OpenCV would leave the screen as it is, and return another"
    cv2.resize(frame, screen.shape[::-1], dst=screen, interpolation=cv2.INTER_AREA)
