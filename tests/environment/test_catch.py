"""The toy game: its rules, its drawing, and games side by side."""

from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from simple_dqn.errors import UserError
from tests.environment import playing

LEFT, STAY, RIGHT = 0, 1, 2
BALL, PADDLE = 255, 128
games = partial(playing.games, game="catch", environment="catch")


def seen(screen: NDArray[np.uint8], level: int) -> tuple[float, float]:
    """Return the middle (row, column) of the pixels of that level, as shares of height and width."""
    rows, columns = np.nonzero(screen == level)
    return (rows.mean() + 0.5) / screen.shape[0], (columns.mean() + 0.5) / screen.shape[1]


def perfect(screen: NDArray[np.uint8]) -> int:
    difference = seen(screen, BALL)[1] - seen(screen, PADDLE)[1]
    return STAY if abs(difference) < 0.1 else (RIGHT if difference > 0 else LEFT)


@pytest.mark.parametrize(("width", "height"), [(84, 84), (9, 8)])
def test_a_perfect_player_catches_every_ball(width: int, height: int) -> None:
    environment = games(screen_width=width, screen_height=height)
    step = environment.reset()
    assert step.screens.shape == (1, height, width)
    total, columns = 0.0, set()
    for _ in range(50 * 8):
        if step.starts[0]:
            columns.add(seen(step.screens[0], BALL)[1])
        action = STAY if step.resets[0] else perfect(step.screens[0])
        step = environment.step(np.array([action]))
        total += step.rewards[0]
    assert total == 50
    assert len(columns) == 5


def test_a_game_is_seven_steps_and_one_reward() -> None:
    environment = games()
    steps = [environment.reset(), *(environment.step(np.array([LEFT])) for _ in range(8 * 40))]
    for t, step in enumerate(steps):
        assert step.starts[0] == (t % 8 == 0)
        assert step.terminals[0] == step.resets[0] == (t % 8 == 7)
        assert not step.truncations[0]
        assert abs(step.rewards[0]) == (t % 8 == 7)
    rewards = [step.rewards[0] for step in steps if step.resets[0]]
    # In the corner on the left it catches a ball in five, more or less.
    assert 2 <= rewards.count(1) <= 16
    assert rewards.count(1) + rewards.count(-1) == 40


def test_what_only_ale_can_do_is_refused() -> None:
    for name in (
        "display_screen",
        "repeat_action_probability",
        "record_screen_path",
        "record_sound_filename",
    ):
        with pytest.raises(UserError, match=f"--{name} works only with Atari games"):
            games(**{name: True})  # type: ignore[arg-type]
