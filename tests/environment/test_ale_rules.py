"""When an Atari episode starts and ends, and what is random in it."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from simple_dqn.environment.interface import draws_of
from simple_dqn.random_streams import stream
from simple_dqn.types import Step
from tests.environment import playing
from tests.environment.playing import assert_same, plain_emulator, play

games = partial(playing.games, game="breakout", screen_width=32, screen_height=32)


def test_lost_life_ends_an_episode_in_training_only_and_the_game_goes_on() -> None:
    trained, tested = (play(games(training=training, random_starts=0), 700) for training in (True, False))
    ends = [t for t, step in enumerate(trained) if step.resets[0]]
    lives = [t for t, step in enumerate(trained) if step.terminals[0]]
    # Breakout gives five lives: four are lost with the game going on, the fifth ends it.
    assert len(lives[: lives.index(ends[0]) + 1]) == 5
    assert [t for t, step in enumerate(tested) if step.terminals[0]] == ends
    for one, other in zip(trained, tested, strict=True):
        for name in ("screens", "resets", "starts", "rewards"):
            assert np.array_equal(getattr(one, name), getattr(other, name))


def test_the_step_after_the_end_ignores_its_action_and_starts_a_game() -> None:
    one, other = games(random_starts=0), games(random_starts=0)
    steps = play(one, 700)
    end = next(t for t, step in enumerate(steps) if step.resets[0])
    actions = np.random.default_rng(5).integers(other.actions, size=(700, 64))[:, :1]
    other.reset()
    for t in range(end):
        other.step(actions[t])
    assert actions[end] != 2
    start, expected = other.step(np.array([2])), steps[end + 1]
    assert start.starts[0]
    assert (start.rewards[0], start.actions[0]) == (0, 0)
    assert not any((start.terminals[0], start.truncations[0], start.resets[0]))
    assert np.array_equal(start.screens, expected.screens)
    assert np.array_equal(start.screens, steps[0].screens)
    following = other.step(actions[end + 1])
    assert not following.starts[0]
    assert np.array_equal(following.screens, steps[end + 2].screens)


def test_a_game_cut_off_is_no_terminal() -> None:
    steps = play(games(game="pong", max_game_frames=42, random_starts=0), 40)
    ends = [t for t, step in enumerate(steps) if step.resets[0]]
    assert ends == [11, 23, 35]  # the eleventh step is cut short after two frames; then a start
    assert [t for t, step in enumerate(steps) if step.truncations[0]] == ends
    assert not any(step.terminals[0] for step in steps)
    assert [t for t, step in enumerate(steps) if step.starts[0]] == [0, 12, 24, 36]


@pytest.mark.parametrize("what", ["resets", "terminals"])  # a game over, and a lost life
def test_an_end_at_the_limit_is_terminal_and_not_truncated(what: str) -> None:
    settings: dict[str, Any] = {"frame_skip": 1, "random_starts": 0}
    steps = play(games(**settings, max_game_frames=0), 3000 if what == "resets" else 1000)
    end = next(t for t, step in enumerate(steps) if getattr(step, what)[0])
    at_limit = play(games(**settings, max_game_frames=end), end)[-1]
    assert (at_limit.terminals[0], at_limit.truncations[0], at_limit.resets[0]) == (True, False, True)
    before = play(games(**settings, max_game_frames=end - 1), end - 1)[-1]
    assert (before.terminals[0], before.truncations[0], before.resets[0]) == (False, True, True)


@pytest.mark.parametrize("settings", [
    {"random_starts": 3, "max_game_frames": 40},
    {"random_starts": 0, "random_start_frames": 3, "max_game_frames": 10, "frame_skip": 1},
])  # fmt: skip
def test_games_start_with_zero_to_most_no_ops_each_as_likely(settings: dict[str, Any]) -> None:
    environment = games(game="pong", **{**settings, "screen_width": 8, "screen_height": 8})
    lengths: list[int] = []
    length = 0
    environment.reset()
    while len(lengths) < 120:
        step = environment.step(np.zeros(1, np.int64))
        length = 0 if step.starts[0] else length + 1
        if step.resets[0]:
            lengths.append(length)
    # Ten steps fill a game; the no-ops are not among those counted.
    values, counts = np.unique(lengths, return_counts=True)
    assert values.tolist() == [7, 8, 9, 10]
    assert counts.min() > 15


@pytest.mark.parametrize("no_ops", [{"random_starts": 30}, {"random_starts": 0, "random_start_frames": 30}])
def test_no_ops_that_outlast_a_game_start_another(no_ops: dict[str, Any]) -> None:
    environment = games(game="pong", max_game_frames=8, screen_width=8, screen_height=8, **no_ops)
    for _ in range(10):
        first = environment.reset()
        assert not first.resets[0]
        step = environment.step(np.zeros(1, np.int64))
        assert not step.starts[0]


def test_a_life_lost_while_idle_ends_no_episode() -> None:
    environment = games(game="space_invaders", random_starts=300)
    for _ in range(8):
        environment.reset()
        assert not environment.step(np.zeros(1, np.int64)).terminals[0]


def test_same_seed_same_game_and_different_seed_different_game() -> None:
    one, same, other = (play(games(game="pong", seed=seed), 50) for seed in (0, 0, 2))
    assert all(np.array_equal(a.screens, b.screens) for a, b in zip(one, same, strict=True))
    assert any(not np.array_equal(a.screens, b.screens) for a, b in zip(one, other, strict=True))


def test_sticky_actions_follow_machado_frame_by_frame() -> None:
    probability = 0.25
    native: dict[str, Any] = {"screen_width": 160, "screen_height": 210}
    sticky: dict[str, Any] = {
        "repeat_action_probability": probability,
        "random_starts": 0,
        "max_game_frames": 480,
    }
    steps = play(games(game="pong", **native, **sticky), 300)
    draws = draws_of(stream(0, "environment"))
    ale = plain_emulator("pong")
    actions = ale.getMinimalActionSet()
    repeated = 0
    for step in steps:
        if step.starts[0]:
            ale.reset_game()
            previous, frames = actions[0], [ale.getScreenGrayscale()]
            draws.integers(1)  # the number of idle steps, of which none are allowed
        for _ in range(0 if step.starts[0] else 4):
            if draws.random() < probability:
                repeated += 1
            else:
                previous = actions[step.actions[0]]
            ale.act(previous)
            frames.append(ale.getScreenGrayscale())
        assert np.array_equal(step.screens[0], np.max(frames[-2:], axis=0))
    assert abs(repeated / (300 * 4) - probability) < 0.05


def test_a_vector_of_games_equals_single_games() -> None:
    settings: dict[str, Any] = {
        "max_game_frames": 700, "random_starts": 6, "repeat_action_probability": 0.25,
    }  # fmt: skip
    count, length = 3, 500
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
