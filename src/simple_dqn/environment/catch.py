"""Catch, a toy: a ball falls down a small grid and a paddle at the bottom must be under it.

After bsuite's Catch (Osband et al. 2020), drawn on a screen of any size. It shows
in seconds whether an agent learns: each game of a perfect player scores 1.
"""

import numpy as np

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.interface import Frame, Game, Screen, Watcher
from simple_dqn.types import CheckpointState

ROWS = 8  # no more than the least height of a screen in pixels
COLUMNS = 5  # a paddle that starts in the middle can reach every ball in ROWS - 1 steps
BALL, PADDLE = 255, 128  # gray levels


class CatchGame(Game):
    """One game: ROWS - 1 steps, then +1 for a ball caught or -1 for a ball missed.

    It has no lives, and `frame_skip` and `max_game_frames` have no effect.
    """

    name = "catch"
    action_names = ("LEFT", "NOOP", "RIGHT")
    frames_per_second = 6.0  # a game takes a person more than a second

    def __init__(
        self, config: EnvironmentConfig, stream: np.random.Generator, _training: bool, watcher: Watcher | None
    ) -> None:
        super().__init__(config, stream)
        self._rows = _blocks(config.screen_height, ROWS)
        self._columns = _blocks(config.screen_width, COLUMNS)
        self._watcher = watcher
        self._ball_row = self._ball_column = self._paddle = 0

    def start(self, screen: Screen) -> None:
        """Drop a ball from a random column, with the paddle in the middle."""
        self._ball_row, self._paddle = 0, COLUMNS // 2
        self._ball_column = self.random.integers(COLUMNS)
        self._draw(screen, 0.0)

    def act(self, action: int, screen: Screen) -> tuple[float, bool, bool]:
        """Move the paddle, and let the ball fall by a row."""
        self._paddle = min(max(self._paddle + action - 1, 0), COLUMNS - 1)
        self._ball_row += 1
        ended, caught = self._ball_row == ROWS - 1, self._paddle == self._ball_column
        reward = (1.0 if caught else -1.0) if ended else 0.0
        self._draw(screen, reward)
        return reward, ended, ended

    def _draw(self, screen: Screen, reward: float) -> None:
        screen[:] = 0
        screen[self._rows[-1], self._columns[self._paddle]] = PADDLE
        screen[self._rows[self._ball_row], self._columns[self._ball_column]] = BALL
        if self._watcher:
            self._watcher(Frame.silent(screen, reward))

    def get_state(self) -> CheckpointState:
        """Return the positions of ball and paddle, and the random stream."""
        places = {"ball_row": self._ball_row, "ball_column": self._ball_column, "paddle": self._paddle}
        return {**places, **super().get_state()}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned."""
        for name, places in {"ball_row": ROWS, "ball_column": COLUMNS, "paddle": COLUMNS}.items():
            if type(state[name]) is not int or state[name] not in range(places):
                raise ValueError("the ball or the paddle is outside of the screen")
        self._ball_row, self._ball_column = state["ball_row"], state["ball_column"]
        self._paddle = state["paddle"]
        super().set_state(state)


def _blocks(pixels: int, parts: int) -> list[slice]:
    """Divide `pixels` into `parts` equal parts, and return the slice of each."""
    return [slice(i * pixels // parts, (i + 1) * pixels // parts) for i in range(parts)]


open_game = CatchGame
