"""The table of peers, with stand-ins for them: none is installed here."""

import json
from pathlib import Path

import comparison
import psutil
import pytest
import training
from comparison import Contender
from peers import (
    EXPLORATION_RATE,
    FILL_STEPS,
    MARK_STEPS,
    PEERS,
    WARM_UP_STEPS,
    Work,
    cleanrl,
    rate_of_marks,
)

pytestmark = pytest.mark.nightly

HOME = Path(__file__).parents[2]
WARM_UP_MARKS = WARM_UP_STEPS // MARK_STEPS

# Stand in for CleanRL's script: it writes down where it runs and with which flags, and prints its marks.
TRAINS = """
import json, os, pathlib, sys, time
called = json.dumps([os.getpid(), os.getcwd(), sys.argv[1:]])
pathlib.Path(__file__).with_name("called.json").write_text(called)
while True:
    print("global_step=7, episodic_return=[-21.]")
    print("SPS: 3")
    time.sleep(0.001)
"""


@pytest.fixture(autouse=True)
def paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HOME / "src"))
    monkeypatch.setattr(comparison, "FOLDER", tmp_path / "peers")


def test_marks_give_the_rate_after_the_warm_up() -> None:
    warming = [float(mark) for mark in range(WARM_UP_MARKS)]  # a second each
    training_times = [warming[-1] + 0.25 * mark for mark in range(1, 20)]
    times = iter(warming + training_times)
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


def table(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, str]:
    """Return what stands behind each name in the table that `peers` prints."""
    training.main(["peers", "--rounds", "1", "--seconds", "0.05", *words])
    printed = capsys.readouterr().out
    names = [
        f"{peer.title}, {comparison.count_games(games)}" for peer in PEERS.values() for games in peer.games
    ]
    lines = {name: line for line in printed.splitlines() for name in names if line.startswith(name)}
    assert list(lines) == names
    return {name: line.removeprefix(name).strip() for name, line in lines.items()}


def test_peers_that_are_missing_are_rows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "OURS", {})
    cells = table(capsys)
    assert cells["Tianshou, 16 games"] == "not installed: ./bench.sh training peers --install"
    assert cells["CleanRL, 1 game"].startswith("not measured: give a copy")


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
