"""Screens of Atari games: against sums that were written down, and against preprocessing spelled out."""

import zlib
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import make
from simple_dqn.random_streams import stream
from simple_dqn.types import Step
from tests.environment.playing import plain_steps

STEPS = 200
# CRC-32 of 200 screens of 84 x 84, one after the other: game, averaged, maximum of two.
GOLDEN = {
    "pong": (1359749292, 1928030277),
    "breakout": (2781985618, 2669466918),
    "space_invaders": (1287872806, 19385545),
}


def play(game: str, **settings: Any) -> list[Step]:
    """Play 200 fixed actions from the first screen on, without idle steps."""
    config = EnvironmentConfig(game=game, **{"random_starts": 0, **settings})
    environment = make(config, [stream(0, "environment")], training=False)
    steps = [environment.reset()]
    steps += [environment.step(np.array([fixed_action(t, environment.actions)])) for t in range(STEPS)]
    environment.close()
    return steps


def fixed_action(t: int, actions: int) -> int:
    return (t * t // 7 + t // 5) % actions


@pytest.mark.parametrize("averaging", [True, False])
@pytest.mark.parametrize("game", GOLDEN)
def test_golden_sums(game: str, averaging: bool) -> None:
    steps = play(game, color_averaging=averaging)
    total = zlib.crc32(b"".join(step.screens.tobytes() for step in steps[1:]))
    assert total == GOLDEN[game][0 if averaging else 1]


def area_weights(source: int, target: int) -> NDArray[np.float64]:
    """[target, source]: which share of each source pixel is in each target pixel, over its size."""
    scale = source / target
    weights = np.zeros((target, source))
    for t in range(target):
        for s in range(source):
            overlap = min((t + 1) * scale, s + 1) - max(t * scale, s)
            weights[t, s] = max(overlap, 0) / scale
    return weights


def assert_same_screens(steps: list[Step], frames: list[NDArray[np.uint8]]) -> None:
    """Compare each screen with its frame, resized in float64; only a tie may be rounded either way."""
    screens = np.concatenate([step.screens for step in steps])
    rows = area_weights(frames[0].shape[0], screens.shape[1])
    columns = area_weights(frames[0].shape[1], screens.shape[2])
    narrow = np.tensordot(np.stack(frames), columns, axes=(2, 1))  # [T, source rows, columns]
    exact = np.tensordot(narrow, rows, axes=(1, 1)).swapaxes(1, 2)  # [T, rows, columns]
    assert np.abs(screens - exact).max() < 0.5 + 1e-3


@pytest.mark.parametrize(("game", "size"), [
    ("breakout", (84, 84)), ("seaquest", (40, 100)),
    ("adventure", (84, 84)),  # whose picture is taller, and is shown whole
])  # fmt: skip
def test_a_pixel_is_the_mean_of_its_area(game: str, size: tuple[int, int]) -> None:
    steps = play(game, color_averaging=False, screen_width=size[0], screen_height=size[1])
    actions = np.array([step.actions[0] for step in steps[1:]])
    native = plain_steps(actions, game=game, training=False, random_starts=0)
    assert_same_screens(steps, [step.screens[0] for step in native])
