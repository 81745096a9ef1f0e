"""The table of human scores: its games exist, and its ends are 0 and 100."""

import csv
from pathlib import Path

import pytest
from ale_py.roms import get_all_rom_ids

from simple_dqn.evaluation import SCORES, human_normalized


def test_all_57_games_have_a_rom() -> None:
    assert len(SCORES) == 57
    assert set(SCORES) <= set(get_all_rom_ids())


def test_random_play_is_0_and_a_human_100() -> None:
    for game, scores in SCORES.items():
        random, human = scores["random"], scores["human"]
        assert random < human
        assert human_normalized(game, random) == 0
        assert human_normalized(game, human) == pytest.approx(100)


def test_values_in_between_and_beyond() -> None:
    # The figures of the Nature DQN's Breakout and Pong, worked out by hand.
    assert human_normalized("breakout", 401.2) == pytest.approx(1387.15, abs=0.01)
    assert human_normalized("pong", 18.9) == pytest.approx(112.18, abs=0.01)


def test_a_game_that_was_not_measured_has_no_score() -> None:
    assert human_normalized("tetris", 100) is None


def test_published_scores_are_those_of_the_table_of_results() -> None:
    table = Path(__file__).parents[1] / "docs" / "data" / "results.csv"
    rows = csv.DictReader(line for line in table.read_text().splitlines() if line[0] != "#")
    columns = {"simple_dqn": "simple_dqn", "deepmind": "DeepMind 2015"}
    for row in rows:
        found = SCORES[row["game"].lower().replace(" ", "_")]
        for name, column in columns.items():
            assert found[name] == float(row[column].split(" ±")[0].replace(",", ""))
