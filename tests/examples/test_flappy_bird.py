"""The Flappy Bird: its rules, what it draws, and that a whole training runs."""

from pathlib import Path

import numpy as np
import pytest

from examples import flappy_bird as rules
from examples.flappy_bird import FlappyBird
from simple_dqn import main
from simple_dqn.config import words
from simple_dqn.snapshot import Snapshot
from tests.command_line import CATCH, Patch

EXAMPLE = Path(__file__).parents[2] / "examples" / "flappy_bird.py"


@pytest.fixture
def game() -> FlappyBird:
    game = FlappyBird()
    game.reset(seed=0)
    return game


def act(game: FlappyBird, action: int) -> tuple[float, bool]:
    _, reward, over, cut_off, _ = game.step(action)
    assert not cut_off
    return reward, over


def test_pipes_come_at_their_distance_and_each_that_is_passed_is_a_point(game: FlappyBird) -> None:
    rewards, over = [], False
    while not over:
        lefts = [left for left, _ in game.pipes]
        assert (np.diff(lefts) == rules.APART).all()
        # The bird is where it is in no danger.
        game.y, game.falls = game.pipes[0][1] + (rules.GAP - rules.BIRD_SIZE) / 2, 0.0
        reward, over = act(game, 0)
        rewards.append(reward)
        assert len(rewards) < 2 * rules.WON * rules.APART / rules.SPEED
    assert sum(rewards) == rules.WON
    assert set(rewards) == {0.0, 1.0}


@pytest.mark.parametrize(
    ("above", "lost"),
    [(-1, True), (0, False), (rules.GAP - rules.BIRD_SIZE, False), (rules.GAP - rules.BIRD_SIZE + 1, True)],
)
def test_beside_a_pipe_the_bird_must_be_in_its_gap(game: FlappyBird, above: int, lost: bool) -> None:
    game.pipes = [[rules.BIRD_X + rules.SPEED, 10]]
    game.y, game.falls = 10 + above - rules.GRAVITY, 0.0
    assert act(game, 0) == (0.0, lost)


def test_what_is_drawn_is_what_is_touched(game: FlappyBird) -> None:
    """In many random games a bird that has not lost covers no pixel of a pipe."""
    rng = np.random.default_rng(1)
    for _ in range(60):
        over = False
        game.reset()
        while not over:
            image, _, over, _, _ = game.step(int(rng.random() < 0.3))
            pipes = np.zeros_like(image)
            for left, gap in game.pipes:
                pipes[:, max(left, 0) : max(left + rules.PIPE_WIDTH, 0)] = 1
                pipes[gap : gap + rules.GAP, max(left, 0) : max(left + rules.PIPE_WIDTH, 0)] = 0
            assert set(np.unique(image)) <= {rules.SKY, rules.PIPE, rules.BIRD}
            if 0 <= game.y <= rules.HEIGHT - rules.BIRD_SIZE and not over:
                rows = slice(int(np.ceil(game.y)), int(game.y) + rules.BIRD_SIZE)
                assert not pipes[rows, rules.BIRD_X : rules.BIRD_X + rules.BIRD_SIZE].any()
                assert (image == rules.BIRD).sum() == rules.BIRD_SIZE**2


def test_a_training_runs(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    assert main.run(["train", str(EXAMPLE), *words(CATCH)]) == 0
    snapshot = Snapshot.load(tmp_path / "snapshots" / "flappy_bird_1.pkl")
    assert (snapshot.game, snapshot.actions) == ("flappy_bird", 2)
