"""The table of `./bench.sh learning`."""

from pathlib import Path

import learning
import pytest

from simple_dqn.errors import UserError
from tests.command_line import Capsys, Patch

pytestmark = pytest.mark.nightly

GOAL = learning.Goal(reward=18, games=40)


def row(epoch: int, games: int, mean: float | str, phase: str = "train") -> learning.Row:
    return {
        "epoch": str(epoch), "phase": phase, "nr_games": str(games), "average_reward": str(mean),
        "total_time": str(60 * epoch),
        "total_train_steps": str(1000 * epoch), "weight_updates": str(500 * epoch),
    }  # fmt: skip


def test_the_mean_is_that_of_the_latest_epochs_with_games_enough() -> None:
    rows = [row(1, 100, -21), row(2, 30, 16), row(2, 30, 20, "test"), row(3, 20, 19), row(4, 20, 20)]
    stood = learning.after_each_epoch(rows, GOAL.games)
    assert [(one.games, one.mean) for one in stood] == [
        (100, -21),
        (130, pytest.approx((100 * -21 + 30 * 16) / 130)),
        (50, pytest.approx((30 * 16 + 20 * 19) / 50)),
        (40, 19.5),
    ]
    assert learning.first(rows, GOAL) == learning.Progress(4.0, 4000, 2000, 19.5, 40)
    assert learning.first(rows[:-1], GOAL) is None
    assert learning.after_each_epoch([row(1, 0, ""), row(2, 39, 21)], GOAL.games) == []


def test_trains_until_it_is_good_enough(tmp_path: Path, monkeypatch: Patch, capsys: Capsys) -> None:
    """Catch pays -1 or +1, so the first epoch is good enough for -2."""
    monkeypatch.setattr(learning, "POLL", 0.05)
    tiny = [
        "--environment", "catch", "--screen_width", "36", "--screen_height", "36", "--random_steps", "300",
        "--concurrent", "false", "--train_steps", "400", "--epochs", "1000", "--threads", "1",
    ]  # fmt: skip
    learning.main(["catch", "--seeds", "1", "--reward", "-2", "--last", "5", *tiny])
    assert "catch_learning1" in capsys.readouterr().out
    rows = learning.read(tmp_path / "results" / "catch_learning1.csv")
    assert len(rows) < 20


def test_a_training_that_cannot_begin_says_why() -> None:
    with pytest.raises(UserError, match="nosuchgame"):
        learning.main(["nosuchgame", "--seeds", "1"])
