"""The tables of `./bench.sh training`, with tiny trainings."""

import sys
from pathlib import Path
from typing import Any

import comparison
import measurement
import numpy as np
import pytest
import training
from common import FailedError
from measurement import Flags, measure

from simple_dqn.errors import UserError
from simple_dqn.types import Step

pytestmark = pytest.mark.nightly

HOME = Path(__file__).parents[2]
TINY: Flags = {"game": "catch", "screen_width": 36, "screen_height": 36, "threads": 1}


@pytest.fixture(autouse=True)
def paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HOME / "src"))
    monkeypatch.setattr(comparison, "FOLDER", tmp_path / "peers")


def test_reward_is_reached_or_not() -> None:
    assert measurement.time_to_reward({**TINY, "random_steps": 300}, reward=-1.0, limit=60)["seconds"] > 0
    assert measurement.time_to_reward({**TINY, "random_steps": 300}, reward=1.1, limit=0.5)["seconds"] is None


def test_last_games_against_a_plain_list() -> None:
    rng, games = np.random.default_rng(0), 3
    listener, scores, running = measurement.LastGames(), [], [0.0] * games
    for t in range(300):
        rewards, resets = rng.integers(-2, 3, games).astype(np.float32), rng.random(games) < 0.3
        listener.on_step(step(rewards, resets, first=t == 0), 0.1)
        for game in range(games):
            running[game] += float(rewards[game])
            if resets[game]:
                scores.append(running[game])
                running[game] = 0.0
        last = scores[-measurement.LAST_GAMES :]
        assert listener.mean == (
            pytest.approx(np.mean(last)) if len(last) == measurement.LAST_GAMES else None
        )
    assert len(scores) > 2 * measurement.LAST_GAMES


def step(rewards: "np.ndarray[Any, np.dtype[np.float32]]", resets: Any, first: bool) -> Step:
    games = len(rewards)
    return Step(
        screens=np.zeros((games, 8, 8), np.uint8), actions=np.zeros(games, np.int64), rewards=rewards,
        terminals=resets, truncations=np.zeros(games, np.bool_), resets=resets,
        starts=np.full(games, first),
    )  # fmt: skip


ROWS = [
    *({**training.RECIPE, "game": "pong", **flags} for _, flags in training.SPEED_UPS),
    *({**training.RECIPES["catch"], "game": "catch", **flags} for _, flags in training.SPEED_UPS),
    *({"game": "pong", **flags} for flags in comparison.OURS.values()),
    *({"game": "pong", **training.GPU_FLAGS, **flags} for _, flags in training.GPU_CASES),
]


def test_flags_of_every_row_go_together() -> None:
    for flags in ROWS:
        config = measurement.settings(flags)
        assert config.with_flags(flags) == config


def test_a_training_in_a_process_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    small = '{"screen_width": 36, "screen_height": 36, "threads": 1}'
    training.main(["--game", "catch", "--datatypes", "float32", "--seconds", "0.2", "--flags", small])
    assert "Where the time went: train" in capfd.readouterr().out


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_measurements_answer_refuse_fail_or_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = "import json, sys; print('a word before'); print(json.dumps({'got': json.loads(sys.argv[1])}))"
    assert measure(python(answer), ["x", 1], seconds=1) == {"got": ["x", 1]}
    with pytest.raises(UserError, match=r"^no such game$"):
        measure(python("import sys; print('no such game', file=sys.stderr); sys.exit(2)"), 0, seconds=1)
    with pytest.raises(FailedError, match=r"^ValueError: oh$") as failure:
        measure(python("raise ValueError('oh')"), 0, seconds=1)
    assert "Traceback" in failure.value.details
    with pytest.raises(FailedError, match="exit code -9"):
        measure(python("import os; os.kill(os.getpid(), 9)"), 0, seconds=1)
    with pytest.raises(FailedError, match="cannot be started"):
        measure(["/no/such/python"], 0, seconds=1)
    monkeypatch.setattr("measurement.SLACK_SECONDS", 0)
    with pytest.raises(FailedError, match=r"^no answer in 1 s$"):
        measure(python("import time; time.sleep(600)"), 0, seconds=1)
    # A GPU is hidden where the work is for the CPU.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    seen = "import json, os; print(json.dumps({'seen': os.environ['CUDA_VISIBLE_DEVICES']}))"
    assert measure(python(seen), 0, 1, gpu=True) == {"seen": "0"}
    assert measure(python(seen), 0, 1, gpu=False) == {"seen": ""}
