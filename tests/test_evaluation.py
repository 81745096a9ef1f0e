import csv
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simple_dqn.config import Config
from simple_dqn.evaluation import PROTOCOLS, Evaluation, ScoreBoard, evaluate
from simple_dqn.interrupt import Interrupt
from simple_dqn.types import Step
from simple_dqn.wiring import make_environment, make_network, make_player, make_statistics


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


def test_the_csv_has_the_games_of_the_report_and_no_others(tmp_path: Path) -> None:
    """A place that has played its share plays on until the last has, which is heard by neither."""
    config = Config.from_flags({
        "environment": "catch", "game": "catch", "screen_width": 36, "screen_height": 36, "workers": 4,
        "play_games": 6, "csv_file": str(tmp_path / "test.csv"), "backend": "cpu", "random_seed": 0,
    })  # fmt: skip
    environment = make_environment(config, training=False)
    player = make_player(config, environment, make_network(config, environment))
    with closing(make_statistics(config)) as statistics:
        outcome = evaluate(player, config, "simple_dqn", statistics, Interrupt())
    (row,) = csv.DictReader((tmp_path / "test.csv").open())
    assert int(row["nr_games"]) == len(outcome.scores) == 6
    assert float(row["average_reward"]) == pytest.approx(np.mean(outcome.scores))
