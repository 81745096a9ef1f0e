import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simple_dqn.evaluation import PROTOCOLS, Evaluation, ScoreBoard
from simple_dqn.types import Step


def step(rewards: list[float], resets: list[bool], starts: list[bool] | None = None) -> Step:
    result = Step.start(np.zeros((len(rewards), 2, 2), np.uint8))
    result.rewards[:] = rewards
    result.resets[:] = resets
    result.starts[:] = starts or [False] * len(rewards)
    return result


def test_each_place_plays_its_share_so_that_short_games_are_not_favoured() -> None:
    board = ScoreBoard(places=2, games=4)
    for number in range(1, 7):  # place 0 ends a game at each step, place 1 at each third
        assert not board.complete
        board.add(step([1, 1], [True, number % 3 == 0], [number > 1, number % 3 == 1]))
    assert board.complete
    assert sorted(board.scores) == [1, 1, 3, 3]


def test_shares_differ_by_one_at_most() -> None:
    board = ScoreBoard(places=3, games=4)
    for _ in range(5):
        board.add(step([1, 2, 3], [True] * 3, [True] * 3))
    assert sorted(board.scores) == [1, 1, 2, 3]


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), max_size=60))
def test_scores_against_a_plain_count(events: list[tuple[int, bool]]) -> None:
    board, expected, running, start = ScoreBoard(1, None), [], 0, True
    for reward, reset in events:
        paid = 0 if start else reward
        board.add(step([paid], [reset and not start], [start]))
        running = 0 if start else running + reward
        if reset and not start:
            expected.append(running)
        start = reset and not start
    assert board.scores == expected
    assert board.steps == len(events)
    assert not board.complete


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("nature", {"exploration_rate_test": 0.05, "random_starts": 30, "max_game_frames": 18_000}),
        (
            "machado",
            {"repeat_action_probability": 0.25, "minimal_action_set": False, "max_game_frames": 108_000},
        ),
    ],
)
def test_protocols_are_as_published(name: str, flags: dict[str, object]) -> None:
    protocol = PROTOCOLS[name]
    assert protocol.games == 30
    assert {flag: protocol.flags[flag] for flag in flags} == flags


def test_a_test_too_short_for_a_game_says_so() -> None:
    evaluation = Evaluation(
        game="pong", protocol="simple_dqn", scores=[], mean=None, standard_deviation=None,
        human_normalised=None, steps=20, exploration_rate=0.05, random_starts=30, max_game_frames=0,
        repeat_action_probability=0.0, minimal_action_set=True, rom_md5=None, random_seed=0,
    )  # fmt: skip
    assert str(evaluation).startswith("pong: no game ended in 20 steps: raise --test_steps")
