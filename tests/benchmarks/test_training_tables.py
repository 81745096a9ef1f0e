"""The tables of `./bench.sh training`, with tiny trainings."""

import re
import sys
from collections import deque
from pathlib import Path
from typing import Any

import common
import comparison
import measurement
import numpy as np
import pytest
import training
from common import FailedError, machine, print_table
from measurement import Flags, measure

from simple_dqn import device
from simple_dqn.errors import UserError
from simple_dqn.types import Step

HOME = Path(__file__).parents[2]
TINY: Flags = {"game": "catch", "screen_width": 36, "screen_height": 36, "threads": 1}


@pytest.fixture(autouse=True)
def paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HOME / "src"))
    monkeypatch.setattr(comparison, "FOLDER", tmp_path / "peers")


def test_the_rate_is_that_of_the_profiler() -> None:
    outcome = measurement.rate(TINY, seconds=0.5)
    found = re.search(r"(\d+) steps in .* s, (\d+) a second", outcome["lines"][0])
    assert found
    # By updates, of which each is worth 4 steps; the profiler counts the steps that were played.
    assert outcome["rate"] == pytest.approx(int(found[2]), abs=1 + 4 * int(found[2]) / int(found[1]))


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
        expected = (
            float(np.mean(scores[-measurement.LAST_GAMES :]))
            if len(scores) >= measurement.LAST_GAMES
            else None
        )
        assert listener.mean == pytest.approx(expected)
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


@pytest.mark.parametrize("flags", ROWS)
def test_flags_of_every_row_go_together(flags: Flags) -> None:
    config = measurement.settings(flags)
    assert config.with_flags(flags) == config


def test_hands_on_measures_each_speed_up_and_the_time_to_reward(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = deque([100.0, 61.0, 150.0, None, 200.0, 7.2, 300.0, 5.0])  # rate, seconds, rate, ...
    asked: list[tuple[Flags, str, dict[str, float]]] = []

    def train(_arguments: Any, flags: Flags, what: str = "rate", **limits: float) -> dict[str, float | None]:
        asked.append((flags, what, limits))
        return {"rate" if what == "rate" else "seconds": outcomes.popleft()}

    monkeypatch.setattr(training, "train", train)
    words = ["--game", "catch", "--reward", "0.9", "--limit", "30", "--flags", '{"learning_rate": 0.5}']
    training.main(["hands_on", *words])
    lines = capsys.readouterr().out.splitlines()[-4:]
    assert [line.split("  ")[-1].strip() for line in lines] == ["61 s", "not in 30 s", "7 s", "5 s"]
    assert [re.findall(r"\d+\.\d\d", line)[0] for line in lines] == ["1.00", "1.50", "2.00", "3.00"]
    assert [(what, limits) for _, what, limits in asked[1::2]] == 4 * [
        ("time_to_reward", {"reward": 0.9, "limit": 30.0})
    ]
    assert [flags["learning_rate"] for flags, *_ in asked] == 8 * [0.5]
    assert asked[-1][0]["concurrent"]
    assert not asked[-1][0]["frame_maximum"]


def test_hands_on_without_a_reward_has_no_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "train", lambda *_: {"rate": 50.0})
    training.main(["hands_on"])
    assert "until" not in capsys.readouterr().out


def test_a_gpu_is_compared_with_the_cpu(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Flags] = []

    def train(_arguments: Any, flags: Flags) -> dict[str, float]:
        asked.append(flags)
        return {"rate": 100.0 * len(asked)}

    monkeypatch.setattr(training, "train", train)
    monkeypatch.setattr(device, "gpus", lambda: ["Some GPU", "Another"])
    training.main(["gpu"])
    lines = capsys.readouterr().out.splitlines()
    assert "Steps/s on pong, Some GPU" in lines
    assert [line.split()[-2:] for line in lines[-len(asked) :]] == [
        [f"{rate}00", f"{rate}.0"] for rate in range(1, len(asked) + 1)
    ]
    assert [flags["backend"] for flags in asked] == ["cpu", *["gpu"] * (len(asked) - 1)]


def test_without_a_gpu_there_is_no_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "gpus", list[str])
    with pytest.raises(UserError, match="there is no GPU that PyTorch can use"):
        training.main(["gpu"])


def test_a_training_in_a_process_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    small = '{"screen_width": 36, "screen_height": 36, "threads": 1}'
    training.main(["--game", "catch", "--datatypes", "float32", "--seconds", "0.2", "--flags", small])
    assert "Where the time went: train" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["tower"], "invalid choice: 'tower'"),
        (["--seconds", "0"], "0 is too small: give more than 0"),
        (["--seconds", "nan"], "'nan' is not a number"),
        (["--rounds", "1.5"], "'1.5' is not a whole number"),
        (["--wat"], "unknown flag --wat"),
        (["--game", "nosuch"], "no game called 'nosuch'"),
        (["--datatypes", "float99"], "invalid choice: 'float99'"),
        (["--flags", "{"], "is not a JSON object"),
        (["--flags", "[1]"], "is not a JSON object"),
        (["--flags", '{"workrs": 2}'], "did you mean --workers?"),
        (["--flags", '{"workers": "two"}'], "'two' is not a whole number"),
        (["--flags", '{"concurrent": true, "workers": 3}'], "give 804"),
        (["peers", "--python", "/no/such/python"], "/no/such/python is not a program"),
        (["peers", "--cleanrl", "/no/such/file"], "/no/such/file is not a file"),
    ],
)
def test_a_bad_command_line_is_one_line(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["training", *words])
    assert common.console("training", training.main) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert complaint in printed.err


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_measurements_answer_refuse_or_fail() -> None:
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


def test_measurements_that_hang_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("measurement.SLACK_SECONDS", 0)
    with pytest.raises(FailedError, match=r"^no answer in 1 s$"):
        measure(python("import time; time.sleep(600)"), 0, seconds=1)


def test_a_gpu_is_hidden_where_the_work_is_for_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    seen = "import json, os; print(json.dumps({'seen': os.environ['CUDA_VISIBLE_DEVICES']}))"
    assert measure(python(seen), 0, 1, gpu=True) == {"seen": "0"}
    assert measure(python(seen), 0, 1, gpu=False) == {"seen": ""}


def test_a_note_extends_over_the_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("T", ["name", "n", "m"], [["a", 1, 22], ["longer", "a long note, with a reason"]])
    assert capsys.readouterr().out.splitlines() == [
        "", "T", "name    n   m", "------  -  --", "a       1  22", "longer  a long note, with a reason",
    ]  # fmt: skip


def test_machine_says_cores_and_versions() -> None:
    assert re.search(
        r", \d+ usable core\(s\), Python 3\.\d+\.\d+, torch \d.*, numpy \d.*, ale-py \d", machine()
    )
