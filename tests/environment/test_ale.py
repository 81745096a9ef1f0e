"""The rules of Atari games against a plain emulator, and their screens against sums and areas."""

import zlib
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from simple_dqn.types import Step
from tests.environment import playing
from tests.environment.playing import assert_same, plain_steps, play

games = partial(playing.games, game="breakout", screen_width=32, screen_height=32)

# Game, steps, what happens in them, and settings; there are no no-ops unless they are asked for.
RULES: list[tuple[str, int, str, dict[str, Any]]] = [
    ("breakout", 400, "terminals resets", {}),  # a lost life ends an episode in training only
    ("breakout", 400, "terminals resets", {"training": False}),
    ("pong", 40, "truncations", {"max_game_frames": 42}),
    ("pong", 250, "resets", {"repeat_action_probability": 0.25, "max_game_frames": 480}),
    ("seaquest", 200, "rewards", {"color_averaging": True}),
    ("seaquest", 200, "rewards", {"frame_maximum": False}),
    ("seaquest", 100, "", {"frame_skip": 1}),
    ("seaquest", 120, "truncations", {"random_starts": 3, "max_game_frames": 40}),
    ("backgammon", 40, "", {"random_starts": 3}),  # no action of it is a no-op
    ("seaquest", 60, "truncations", {"random_start_frames": 5, "max_game_frames": 20}),
    ("seaquest", 60, "truncations",
     {"random_start_frames": 5, "max_game_frames": 20, "repeat_action_probability": 0.5}),
    ("pong", 12, "truncations", {"random_starts": 30, "max_game_frames": 8}),  # most no-ops outlast a game
    ("space_invaders", 9, "", {"random_starts": 300, "seed": 14}),  # a life lost while idle ends no episode
]  # fmt: skip


@pytest.mark.parametrize(("game", "steps", "events", "settings"), RULES, ids=str)
def test_steps_are_those_of_the_rules(game: str, steps: int, events: str, settings: dict[str, Any]) -> None:
    settings = {"random_starts": 0, **settings}
    environment = playing.games(game=game, screen_width=160, screen_height=210, **settings)
    played = play(environment, steps)
    # The step after the end of a game starts another, and ignores its action.
    actions = np.random.default_rng(5).integers(environment.actions, size=(steps, 64))[:, 0]
    assert_same(played, plain_steps(actions, game=game, **settings))
    assert all(any(getattr(step, event)[0] for step in played) for event in events.split())


@pytest.mark.parametrize("what", ["resets", "terminals"])  # a game over, and a lost life
def test_an_end_at_the_limit_is_terminal_and_not_truncated(what: str) -> None:
    settings: dict[str, Any] = {"frame_skip": 1, "random_starts": 0}
    steps = play(games(**settings, max_game_frames=0), 2000 if what == "resets" else 500)
    end = next(t for t, step in enumerate(steps) if getattr(step, what)[0])
    at_limit = play(games(**settings, max_game_frames=end), end)[-1]
    assert (at_limit.terminals[0], at_limit.truncations[0], at_limit.resets[0]) == (True, False, True)
    before = play(games(**settings, max_game_frames=end - 1), end - 1)[-1]
    assert (before.terminals[0], before.truncations[0], before.resets[0]) == (False, True, True)


def test_a_vector_of_games_equals_single_games() -> None:
    settings: dict[str, Any] = {"random_starts": 6, "repeat_action_probability": 0.25}
    settings["max_game_frames"] = 360
    count, length = 2, 250
    together = games(count, **settings)
    actions = np.random.default_rng(1).integers(together.actions, size=(length, count))
    steps = [together.reset(), *(together.step(row) for row in actions)]  # Their arrays are the caller's.
    for i in range(count):
        single = games(1, first=i, **settings)
        alone = [single.reset(), *(single.step(row[i : i + 1]) for row in actions)]
        assert_same(
            [Step(*(getattr(one, name)[i : i + 1] for name in Step.__slots__)) for one in steps], alone
        )
    for field in ("terminals", "truncations", "resets"):
        assert sum(getattr(step, field).sum() for step in steps) >= 3, f"too few {field} to tell"
    assert any(not np.array_equal(step.screens[0], step.screens[1]) for step in steps)


# CRC-32 of 200 screens of 84 x 84, one after the other: game, averaged, maximum of two.
GOLDEN = {
    "pong": (1359749292, 1928030277),
    "breakout": (2781985618, 2669466918),
    "space_invaders": (1287872806, 19385545),
}


def play_fixed(game: str, **settings: Any) -> list[Step]:
    """Play 200 fixed actions from the first screen on."""
    environment = playing.games(game=game, random_starts=0, training=False, **settings)
    actions = ((t * t // 7 + t // 5) % environment.actions for t in range(200))
    return [environment.reset(), *(environment.step(np.array([action])) for action in actions)]


@pytest.mark.parametrize("averaging", [True, False])
@pytest.mark.parametrize("game", GOLDEN)
def test_golden_sums(game: str, averaging: bool) -> None:
    steps = play_fixed(game, color_averaging=averaging)
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
    steps = play_fixed(game, color_averaging=False, screen_width=size[0], screen_height=size[1])
    actions = np.array([step.actions[0] for step in steps[1:]])
    native = plain_steps(actions, game=game, training=False, random_starts=0)
    assert_same_screens(steps, [step.screens[0] for step in native])
