"""The mean of the weights of several snapshots."""

from pathlib import Path

import numpy as np
import pytest

from simple_dqn import main
from simple_dqn.config import Config
from simple_dqn.snapshot import Snapshot

Weights = dict[str, np.ndarray]


def write(path: Path, weights: Weights, game: str = "pong", epoch: int = 1) -> str:
    Snapshot(game, epoch, 6, 100 * epoch, Config().shared_flags(), weights).save(path)
    return str(path)


def layers(value: float) -> Weights:
    return {"a": np.full((2, 3), value, np.float32), "b": np.array([value, 0], np.float32)}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "pong_mean.pkl"


def test_weights_are_the_mean_and_all_else_is_of_the_one_that_learnt_longest(
    tmp_path: Path, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {2: 1.0, 5: 2.0, 4: 6.0}
    sources = [
        write(tmp_path / f"pong_{epoch}.pkl", layers(value), "pong", epoch) for epoch, value in values.items()
    ]
    assert main.run(["snapshot", "average", *sources, str(target)]) == 0
    assert capsys.readouterr().out == f"{target}: pong, epoch 5\n"
    mean = Snapshot.load(target)
    assert (mean.epoch, mean.total_train_steps) == (5, 500)
    assert mean.weights.keys() == layers(3).keys()
    for name, weights in layers(3).items():
        assert mean.weights[name].dtype == np.float32
        assert (mean.weights[name] == weights).all()


def test_many_small_differences_are_not_lost(tmp_path: Path, target: Path) -> None:
    """In float32 the sum of these would stand still."""
    large, small = np.float32(8192), np.float32(1 / 4096)
    values = [large, *[small] * 7]
    sources = [write(tmp_path / f"pong_{n}.pkl", {"a": np.array([value])}) for n, value in enumerate(values)]
    assert main.run(["snapshot", "average", *sources, str(target)]) == 0
    assert Snapshot.load(target).weights["a"][0] == np.float32((8192 + 7 / 4096) / 8)


@pytest.mark.parametrize(
    ("other", "game", "words"),
    [
        (layers(1), "breakout", "was trained on breakout, not on pong"),
        (
            {"a": np.zeros((3, 2), np.float32), "b": np.zeros(2, np.float32)},
            "pong",
            "not have the same layers",
        ),
        ({"a": np.zeros((2, 3), np.float32)}, "pong", "not have the same layers"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    tmp_path: Path, target: Path, other: Weights, game: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = [write(tmp_path / "one.pkl", layers(1)), write(tmp_path / "two.pkl", other, game)]
    assert main.run(["snapshot", "average", *sources, str(target)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "two.pkl" in error
    assert not target.exists()


def test_batch_normalisation_is_refused(
    tmp_path: Path, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write(tmp_path / "one.pkl", layers(1) | {"norm.running_var": np.ones(2, np.float32)})
    assert main.run(["snapshot", "average", source, source, str(target)]) == 2
    assert "batch normalisation" in capsys.readouterr().err


def test_a_file_that_exists_is_kept(tmp_path: Path, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target.write_text("mine")
    assert main.run(["snapshot", "average", write(tmp_path / "one.pkl", layers(1)), str(target)]) == 2
    assert "exists" in capsys.readouterr().err
    assert target.read_text() == "mine"
