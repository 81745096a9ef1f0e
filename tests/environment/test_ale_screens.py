"""Screens of Atari games: against sums that were written down, and against preprocessing spelled out."""

import zlib
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import make
from simple_dqn.environment.interface import draws_of
from simple_dqn.random_streams import stream
from simple_dqn.types import Step
from tests.environment.playing import plain_emulator

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


@pytest.mark.parametrize(("game", "size"), [("breakout", (84, 84)), ("seaquest", (40, 100))])
def test_maximum_of_the_last_two_of_four_frames(game: str, size: tuple[int, int]) -> None:
    width, height = size
    steps = play(game, color_averaging=False, screen_width=width, screen_height=height)
    ale = plain_emulator(game, averaging=False, frame_skip=1)
    actions = ale.getMinimalActionSet()
    expected = [ale.getScreenGrayscale()]
    for t, step in enumerate(steps[1:]):
        frames, reward = [], 0
        for _ in range(4):
            reward += ale.act(actions[fixed_action(t, len(actions))])
            frames.append(ale.getScreenGrayscale())
        expected.append(np.maximum(frames[2], frames[3]))
        assert step.rewards[0] == reward
    assert_same_screens(steps, expected)


# ALE with a frame skip of its own averages frames, or takes the last.
@pytest.mark.parametrize(("averaging", "frame_skip"), [(True, 4), (False, 4), (False, 1)])
def test_averaging_and_the_last_frame_alone_are_what_ale_does(averaging: bool, frame_skip: int) -> None:
    steps = play("seaquest", color_averaging=averaging, frame_maximum=False, frame_skip=frame_skip)
    ale = plain_emulator("seaquest", averaging=averaging, frame_skip=frame_skip)
    actions = ale.getMinimalActionSet()
    expected = [ale.getScreenGrayscale()]
    for t, step in enumerate(steps[1:]):
        reward = ale.act(actions[fixed_action(t, len(actions))])
        expected.append(ale.getScreenGrayscale())
        assert step.rewards[0] == reward
    assert_same_screens(steps, expected)


@pytest.mark.parametrize("averaging", [True, False])
def test_every_frame_is_a_step_at_frame_skip_one(averaging: bool) -> None:
    steps = play("breakout", color_averaging=averaging, frame_skip=1)
    ale = plain_emulator("breakout", averaging=averaging, frame_skip=1)
    actions = ale.getMinimalActionSet()
    frames = [ale.getScreenGrayscale()]
    for t in range(STEPS):
        ale.act(actions[fixed_action(t, len(actions))])
        frames.append(ale.getScreenGrayscale())
    pairs = [np.maximum(before, frame) for before, frame in pairwise(frames)]
    assert_same_screens(steps, frames if averaging else [frames[0], *pairs])


def test_a_step_cut_short_shows_its_last_frame_alone() -> None:
    steps = play("seaquest", color_averaging=False, max_game_frames=42)
    ale = plain_emulator("seaquest", averaging=False, frame_skip=1)
    actions = ale.getMinimalActionSet()
    for frame in range(42):
        ale.act(actions[fixed_action(frame // 4, len(actions))])
    assert steps[11].truncations[0]
    assert_same_screens(steps[11:12], [ale.getScreenGrayscale()])
    # Nor does anything of the old game shine through in the new one.
    ale.reset_game()
    assert_same_screens(steps[12:13], [ale.getScreenGrayscale()])


@pytest.mark.parametrize("settings", [
    {"random_starts": 3},
    {"random_starts": 0, "random_start_frames": 5},
    {"random_starts": 0, "random_start_frames": 5, "repeat_action_probability": 0.5},
])  # fmt: skip
def test_the_first_screen_is_that_after_a_random_number_of_no_ops(settings: dict[str, Any]) -> None:
    native: dict[str, Any] = {"color_averaging": False, "screen_width": 160, "screen_height": 210}
    config = EnvironmentConfig(game="seaquest", **{**native, **settings})
    environment = make(config, [stream(0, "environment")], training=False)
    draws = draws_of(stream(0, "environment"))
    ale = plain_emulator("seaquest", averaging=False, frame_skip=1)
    most = max(config.random_starts, config.random_start_frames)
    frames_each = 4 if config.random_starts else 1
    seen = set()
    for game in range(50):
        screen = environment.reset().screens[0]
        if game:  # `plain_emulator` has started the first, and one start more would change those after it
            ale.reset_game()
        frames = [ale.getScreenGrayscale()]
        no_ops = draws.integers(most + 1)
        for _ in range(no_ops * frames_each):
            ale.act(0)
            frames.append(ale.getScreenGrayscale())
            if config.repeat_action_probability:
                draws.random()
        assert np.array_equal(screen, np.max(frames[-2:], axis=0))
        seen.add(no_ops)
    assert seen == set(range(most + 1))


def test_a_tall_picture_is_shown_whole() -> None:
    steps = play("adventure", color_averaging=False)
    ale = plain_emulator("adventure", averaging=False, frame_skip=1)
    assert ale.getScreenDims() == (250, 160)
    assert_same_screens(steps[:1], [ale.getScreenGrayscale()])


def test_nobody_presses_fire_at_the_start() -> None:
    config = EnvironmentConfig(game="breakout", random_starts=0, color_averaging=False)
    environment = make(config, [stream(0, "environment")], training=False)
    screens = [environment.reset().screens] + [
        environment.step(np.zeros(1, np.int64)).screens for _ in range(50)
    ]
    served = environment.step(np.ones(1, np.int64)).screens, environment.step(np.zeros(1, np.int64)).screens
    # Breakout stands still, its paddle included, until FIRE serves the ball.
    assert all(np.array_equal(screens[10], screen) for screen in screens[11:])
    assert not np.array_equal(screens[10], served[1])
