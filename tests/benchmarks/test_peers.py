"""The table of peers, with stand-ins for them: none is installed here."""

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import comparison
import psutil
import pytest
import training
from common import FailedError
from comparison import Contender
from peers import (
    EXPLORATION_RATE,
    FILL_STEPS,
    MARK_STEPS,
    PEERS,
    WARM_UP_STEPS,
    PeerError,
    Work,
    cleanrl,
    rate_of_marks,
)

from simple_dqn.errors import UserError

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
FAILS = "print('SPS: 3')\nraise SystemExit('no ROM, no game\\n')"


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


def test_marks_that_end_early_give_no_rate() -> None:
    assert rate_of_marks(["SPS: 1"] * (WARM_UP_MARKS + 5), 1e9) is None


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


def test_cleanrl_that_fails_says_why(tmp_path: Path) -> None:
    script = tmp_path / "dqn_atari.py"
    script.write_text(FAILS)
    with pytest.raises(PeerError, match=r"^no ROM, no game$"):
        cleanrl(Work("pong", 1, 1.0, str(script)))


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


def test_peers_that_fail_leave_the_others_running(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(comparison, "OURS", {})
    script = tmp_path / "dqn_atari.py"
    script.write_text(TRAINS)
    missing = tmp_path / "missing"
    for package in ("ale_py", "envpool"):  # as if this Python had no peers, whatever it has
        (missing / package).mkdir(parents=True)
        (missing / package / "__init__.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", str(missing))
    cells = table(capsys, "--python", sys.executable, "--cleanrl", str(script))
    assert cells["Stable-Baselines3, 8 games"] == cells["Tianshou, 1 game"] == "not here"
    rate, _range, *ratios = cells["CleanRL, 1 game"].split()
    assert float(rate) > 0
    assert ratios == ["–", "–", "1.00"]


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


def test_contenders_take_turns_and_who_failed_is_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def contender(name: str, fails: bool) -> Contender:
        def rate() -> float:
            asked.append(name)
            if fails:
                raise FailedError("broken")
            return 5.0

        return Contender(name, rate)

    entries = [contender("a", False), contender("b", True), contender("c", False)]
    monkeypatch.setattr(comparison, "contenders", lambda _: entries)
    comparison.peers(Namespace(install=False, rounds=3, game="pong"))
    assert asked == ["a", "b", "c", "a", "c", "a", "c"]
    assert "broken" in capsys.readouterr().out


def install(monkeypatch: pytest.MonkeyPatch, pip_fails: bool) -> list[list[str]]:
    """Install by a stand-in of pip, and return the commands."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        if "venv" in command:
            python = f"python3.{sys.version_info.minor}"
            (Path(command[-1]) / "lib" / python / "site-packages").mkdir(parents=True)
            return subprocess.CompletedProcess(command, 0, "", "")
        return subprocess.CompletedProcess(
            command, int(pip_fails), "", "ERROR: no network\nNotice: old pip\n"
        )

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", run)
        comparison.install()
    return commands


def test_an_installation_is_made_once_and_renewed_with_its_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not comparison.is_installed()
    _venv, pip = install(monkeypatch, pip_fails=False)
    assert pip[-len(comparison.PINS) :] == list(comparison.PINS)
    assert comparison.is_installed()
    assert install(monkeypatch, pip_fails=False) == []
    monkeypatch.setattr(comparison, "PINS", ("tianshou==3",))
    assert not comparison.is_installed()
    assert len(install(monkeypatch, pip_fails=False)) == 2


def test_an_installation_that_fails_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"ERROR: no network$"):
        install(monkeypatch, pip_fails=True)
    assert not comparison.is_installed()
