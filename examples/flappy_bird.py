"""Flappy Bird: a bird falls, a flap lifts it, and each pipe it passes gives a point.

./train.sh examples/flappy_bird.py         trains an agent
./play.sh examples/flappy_bird.py          lets you play: the space bar flaps
"""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

HEIGHT = WIDTH = 64  # of the screen; all lengths are in pixels
BIRD_X, BIRD_SIZE = 12, 5
GRAVITY, FLAP = 1.0, -2.5  # pixels per step², pixels per step; down is positive
PIPE_WIDTH, GAP, APART = 8, 24, 40  # the gap separates the upper and lower parts of a pipe
SPEED = 3  # pixels per step
WON = 50  # points that end the game
BIRD, PIPE, SKY = 255, 160, 0  # gray levels

Screen = NDArray[np.uint8]  # [HEIGHT, WIDTH]


class FlappyBird(gymnasium.Env[Screen, int]):
    """Flappy Bird: +1 for each pipe; the game ends when the bird touches a pipe, or after 50 pipes."""

    observation_space = gymnasium.spaces.Box(0, 255, (HEIGHT, WIDTH), np.uint8)
    action_space: Any = gymnasium.spaces.Discrete(2)
    metadata = {"render_modes": [], "render_fps": 15}  # noqa: RUF012 - as in Gymnasium

    def get_action_meanings(self) -> list[str]:
        """Return the names of the actions, which decide the keys: FIRE is the space bar."""
        return ["NOOP", "FIRE"]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Screen, dict[str, Any]]:
        """Place the bird in the middle and the first pipe at the right."""
        super().reset(seed=seed, options=options)
        self.y, self.falls = HEIGHT / 2, 0.0  # top edge of the bird, and its speed
        self.pipes = [self._pipe(WIDTH)]  # [left edge, top of the gap], from left to right
        self.points = 0
        return self._draw(), {}

    def step(self, action: int) -> tuple[Screen, float, bool, bool, dict[str, Any]]:
        """Flap (1) or not (0), and move everything by one step."""
        self.falls = FLAP if action == 1 else self.falls + GRAVITY
        self.y += self.falls
        for pipe in self.pipes:
            pipe[0] -= SPEED
        if self.pipes[-1][0] <= WIDTH - APART:
            self.pipes.append(self._pipe(self.pipes[-1][0] + APART))
        passed = self.pipes[0][0] + PIPE_WIDTH < BIRD_X
        if passed:
            self.pipes.pop(0)
            self.points += 1
        return self._draw(), float(passed), self._touches() or self.points == WON, False, {}

    def get_state(self) -> dict[str, Any]:
        """Return what a checkpoint saves, so that a run resumes in the middle of a game."""
        return {"y": self.y, "falls": self.falls, "pipes": self.pipes, "points": self.points}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore what `get_state` returned."""
        vars(self).update(state)

    def _draw(self) -> Screen:
        screen = np.full((HEIGHT, WIDTH), SKY, np.uint8)
        for left, gap in self.pipes:
            columns = slice(max(left, 0), max(left + PIPE_WIDTH, 0))
            screen[:, columns] = PIPE
            screen[gap : gap + GAP, columns] = SKY
        top = max(round(self.y), 0)
        screen[top : top + BIRD_SIZE, BIRD_X : BIRD_X + BIRD_SIZE] = BIRD
        return screen

    def _pipe(self, left: int) -> list[int]:
        return [left, int(self.np_random.integers(4, HEIGHT - GAP - 4))]

    def _touches(self) -> bool:
        """Return whether the bird touches a pipe or has left the screen."""
        left, gap = self.pipes[0]
        beside = left < BIRD_X + BIRD_SIZE and left + PIPE_WIDTH > BIRD_X
        clear = gap <= self.y and self.y + BIRD_SIZE <= gap + GAP
        return not 0 <= self.y <= HEIGHT - BIRD_SIZE or (beside and not clear)


gymnasium.register("flappy_bird", entry_point=f"{__name__}:FlappyBird")
