"""Flappy Bird: a bird falls, a flap lifts it, and each pipe it passes gives a point.

./train.sh examples/flappy_bird.py         trains an agent
./play.sh examples/flappy_bird.py          lets you play: the space bar flaps
"""

from simple_dqn.environment import Screen, SimpleGame

HEIGHT = WIDTH = 64  # of the screen; all lengths are in pixels
BIRD_X, BIRD_SIZE = 12, 5
GRAVITY, FLAP = 1.0, -2.5  # pixels per step², pixels per step; down is positive
PIPE_WIDTH, GAP, APART = 8, 24, 40  # the gap separates the upper and lower parts of a pipe
SPEED = 3  # pixels per step
WON = 50  # points that end the game
BIRD, PIPE, SKY = 255, 160, 0  # grey levels


class FlappyBird(SimpleGame):
    """Flappy Bird: +1 for each pipe; the game ends when the bird touches a pipe, or after 50 pipes."""

    action_names = ("NOOP", "FIRE")
    screen_shape = (HEIGHT, WIDTH)

    def start(self) -> None:
        """Place the bird in the middle and the first pipe at the right."""
        self.y, self.falls = HEIGHT / 2, 0.0  # top edge of the bird, and its speed
        self.pipes = [self._pipe(WIDTH)]  # [left edge, top of the gap], from left to right
        self.points = 0

    def act(self, action: int) -> tuple[float, bool]:
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
        return float(passed), self._touches() or self.points == WON

    def draw(self, screen: Screen) -> None:
        """Draw the pipes with their gaps, and the bird."""
        for left, gap in self.pipes:
            columns = slice(max(left, 0), max(left + PIPE_WIDTH, 0))
            screen[:, columns] = PIPE
            screen[gap : gap + GAP, columns] = SKY
        top = max(round(self.y), 0)
        screen[top : top + BIRD_SIZE, BIRD_X : BIRD_X + BIRD_SIZE] = BIRD

    def _pipe(self, left: int) -> list[int]:
        return [left, int(self.random.integers(4, HEIGHT - GAP - 4))]

    def _touches(self) -> bool:
        """Return whether the bird touches a pipe or has left the screen."""
        left, gap = self.pipes[0]
        beside = left < BIRD_X + BIRD_SIZE and left + PIPE_WIDTH > BIRD_X
        clear = gap <= self.y and self.y + BIRD_SIZE <= gap + GAP
        return not 0 <= self.y <= HEIGHT - BIRD_SIZE or (beside and not clear)
