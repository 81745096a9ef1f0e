"""The least that a game of your own must do."""

from abc import ABC, abstractmethod

import numpy as np

from simple_dqn.environment.interface import Screen


class SimpleGame(ABC):
    """One game, drawn in grey: `start`, `act` and `draw` are all that it needs. It is made without arguments.

    Whoever plays it sees to the rest: many games side by side, screens of the size that the agent
    sees, the limit of time (`--max_game_frames`), the window, films.

    Attributes:
        action_names: What each action does. Names like ALE's (`NOOP`, `FIRE`, `UP`, `LEFT` ...) have keys
            in `play.sh`.
        screen_shape: Height and width (H, W) of what it draws, in pixels.
        random: The one source of its randomness, there before `start` is called.
    """

    action_names: tuple[str, ...]
    screen_shape: tuple[int, int] = (84, 84)
    random: np.random.Generator

    @abstractmethod
    def start(self) -> None:
        """Start a new game."""

    @abstractmethod
    def act(self, action: int) -> tuple[float, bool]:
        """Take `action` (0 to A - 1); return the reward in game points, and whether the game is over."""

    @abstractmethod
    def draw(self, screen: Screen) -> None:
        """Draw what is seen now into `screen` uint8 [H, W], which is black: 0 is black, 255 white."""
