"""`./bench.sh training` with tiny trainings, and with stand-ins for peers: none is installed here."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import common
import comparison
import measurement
import numpy as np
import psutil
import pytest
import training
from common import FailedError
from comparison import Contender
from measurement import Flags, measure
from peers import EXPLORATION_RATE, FILL_STEPS, MARK_STEPS, PEERS, WARM_UP_STEPS, Work, cleanrl, rate_of_marks

from simple_dqn.errors import UserError
from simple_dqn.types import Step
from tests.command_line import Capsys, Patch

pytestmark = pytest.mark.nightly

HOME = Path(__file__).parents[2]
TINY: Flags = {"game": "catch", "screen_width": 36, "screen_height": 36, "threads": 1}
# Stands in for CleanRL's script: it writes down where it runs and with which flags, and prints its marks.
TRAINS = """
import json, os, pathlib, sys, time
called = json.dumps([os.getpid(), os.getcwd(), sys.argv[1:]])
pathlib.Path(__file__).with_name("called.json").write_text(called)
while True:
    print("global_step=7, episodic_return=[-21.]")
    print("SPS: 3")
    time.sleep(0.001)
"""


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["tower"], "invalid choice: 'tower'"),
        (["--rounds", "1.5"], "'1.5' is not a whole number"),
        (["--wat"], "unknown flag --wat"),
        (["--game", "nosuch"], "no game called 'nosuch'"),
        (["--flags", "[1]"], "is not a JSON object"),
        (["--flags", '{"workrs": 2}'], "did you mean --workers?"),
        (["--flags", '{"concurrent": true, "workers": 3}'], "give 804"),
        (["peers", "--python", "/no/such/python"], "/no/such/python is not a program"),
        (["peers", "--cleanrl", "/no/such/file"], "/no/such/file is not a file"),
    ],
)
def test_a_bad_command_line_is_one_line(
    words: list[str], complaint: str, capsys: Capsys, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(sys, "argv", ["training", *words])
    assert common.console("training", training.main) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert complaint in err


def test_every_table_is_a_program(tmp_path: Path) -> None:
    command = [str(HOME / "bench.sh"), "learning", "none.csv"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "none.csv has no rows of a training" in done.stderr


def test_reward_is_reached_or_not() -> None:
    assert measurement.time_to_reward({**TINY, "random_steps": 300}, reward=-1.0, limit=60)["seconds"] > 0
    assert measurement.time_to_reward({**TINY, "random_steps": 300}, reward=1.1, limit=0.5)["seconds"] is None


def test_last_games_against_a_plain_list() -> None:
    rng, games = np.random.default_rng(0), 3
    listener, scores, running = measurement.LastGames(), [], np.zeros(games)
    for t in range(300):
        step = Step.start(np.zeros((games, 8, 8), np.uint8))
        step.rewards[:], step.resets[:] = rng.integers(-2, 3, games), rng.random(games) < 0.3
        step.starts[:] = t == 0
        listener.on_step(step, 0.1)
        running += step.rewards
        scores += running[step.resets].tolist()
        running[step.resets] = 0
        last = scores[-measurement.LAST_GAMES :]
        full = len(last) == measurement.LAST_GAMES
        assert listener.mean == (pytest.approx(np.mean(last)) if full else None)
    assert len(scores) > 2 * measurement.LAST_GAMES


def test_flags_of_every_row_go_together() -> None:
    for flags in (
        *({**training.RECIPE, "game": "pong", **flags} for _, flags in training.SPEED_UPS),
        *({**training.RECIPES["catch"], "game": "catch", **flags} for _, flags in training.SPEED_UPS),
        *({"game": "pong", **flags} for flags in comparison.OURS.values()),
        *({"game": "pong", **training.GPU_FLAGS, **flags} for _, flags in training.GPU_CASES),
    ):
        config = measurement.settings(flags)
        assert config.with_flags(flags) == config


def test_a_training_in_a_process_of_its_own(capfd: Capsys) -> None:
    small = '{"screen_width": 36, "screen_height": 36, "threads": 1}'
    training.main(["--game", "catch", "--datatypes", "float32", "--seconds", "0.2", "--flags", small])
    assert "Where the time went: train" in capfd.readouterr().out


def asked(program: str, order: Any = 0, **others: Any) -> Any:
    return measure([sys.executable, "-c", program], order, seconds=1, **others)


def test_measurements_answer_refuse_fail_or_are_ended(monkeypatch: Patch) -> None:
    answer = "import json, sys; print('a word before'); print(json.dumps({'got': json.loads(sys.argv[1])}))"
    assert asked(answer, ["x", 1]) == {"got": ["x", 1]}
    with pytest.raises(UserError, match=r"^no such game$"):
        asked("import sys; print('no such game', file=sys.stderr); sys.exit(2)")
    with pytest.raises(FailedError, match=r"^ValueError: oh$") as failure:
        asked("raise ValueError('oh')")
    assert "Traceback" in failure.value.details
    with pytest.raises(FailedError, match="exit code -9"):
        asked("import os; os.kill(os.getpid(), 9)")
    with pytest.raises(FailedError, match="cannot be started"):
        measure(["/no/such/python"], 0, seconds=1)
    monkeypatch.setattr("measurement.SLACK_SECONDS", 0)
    with pytest.raises(FailedError, match=r"^no answer in 1 s$"):
        asked("import time; time.sleep(600)")
    # A GPU is hidden where the work is for the CPU.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    for gpu, seen in ((True, "0"), (False, "")):
        program = "import json, os; print(json.dumps(os.environ['CUDA_VISIBLE_DEVICES']))"
        assert asked(program, gpu=gpu) == seen


def test_marks_give_the_rate_after_the_warm_up() -> None:
    warming = [float(mark) for mark in range(WARM_UP_STEPS // MARK_STEPS)]  # a second each
    times = iter(warming + [warming[-1] + 0.25 * mark for mark in range(1, 20)])
    lines = [line for _ in range(100) for line in ("SPS: 999", "global_step=1, episodic_return=2", "")]
    assert rate_of_marks(lines, 2.0, lambda: next(times)) == MARK_STEPS / 0.25


def test_cleanrl_gets_the_same_work_and_is_ended(tmp_path: Path) -> None:
    script = tmp_path / "dqn_atari.py"
    script.write_text(TRAINS)
    assert cleanrl(Work("space_invaders", 1, 0.05, str(script))) > 0
    process, folder, words = json.loads((tmp_path / "called.json").read_text())
    flags = dict(zip(words[::2], words[1::2], strict=True))
    assert flags["--env-id"] == "SpaceInvadersNoFrameskip-v4"
    assert (flags["--learning-starts"], flags["--batch-size"]) == (str(FILL_STEPS), "32")
    assert flags["--start-e"] == flags["--end-e"] == str(EXPLORATION_RATE)
    assert not Path(folder).exists(), "what it wrote lies about"
    assert not psutil.pid_exists(process), "it still trains"


def test_peers_that_are_missing_are_rows(tmp_path: Path, capsys: Capsys, monkeypatch: Patch) -> None:
    monkeypatch.setattr(comparison, "FOLDER", tmp_path / "peers")
    monkeypatch.setattr(comparison, "OURS", {})
    training.main(["peers", "--rounds", "1", "--seconds", "0.05"])
    lines = capsys.readouterr().out.splitlines()
    for peer in PEERS.values():
        for games in peer.games:
            name = f"{peer.title}, {comparison.count_games(games)}"
            (row,) = [line.removeprefix(name).strip() for line in lines if line.startswith(name)]
            assert row.startswith(
                "not measured: give a copy" if peer.title == "CleanRL" else "not installed: "
            )


def test_ratios_are_to_the_best_of_each_peer() -> None:
    entries = [
        Contender("slow", float, "tianshou"), Contender("quick", float, "tianshou"),
        Contender("gone", float, "cleanrl"), Contender("we", float),
    ]  # fmt: skip
    rates = {"slow": [10.0], "quick": [30.0, 20.0, 10.0], "gone": [], "we": [50.0, 70.0]}
    assert comparison.rows(entries, rates, {"gone": "no such thing"}) == [
        ["slow", "10", "10–10", "–", "0.50", "–"],
        ["quick", "20", "10–30", "–", "1.00", "–"],
        ["gone", "no such thing"],
        ["we", "60", "50–70", "–", "3.00", "–"],
    ]
