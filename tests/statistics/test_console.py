"""The bar and the log lines, on a terminal that is none."""

import io
import logging
import os
import re
import select
import termios
from pathlib import Path

import pytest

from simple_dqn.statistics import ConsoleHandler, PhaseSummary, Progress
from simple_dqn.statistics.console import Console

PROGRESS = Progress(steps=100_000, nr_games=120, average_reward=-20.25, exploration_rate=0.88, loss=0.00117)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def read_all(terminal: int) -> str:
    """Return what was written to the other end of a pseudo-terminal so far."""
    seen = b""
    while select.select([terminal], [], [], 0.1)[0]:
        seen += os.read(terminal, 10_000)
    return seen.decode()


def test_the_bar_shows_how_the_phase_stands_in_80_columns() -> None:
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    with os.fdopen(slave, "w", encoding="utf-8") as terminal:
        console = Console(terminal)
        console.on_phase_start("train", 12, 250_000)
        console.on_progress(PROGRESS)
        drawn = read_all(master).split("\r")[-1]
        console.close()
        after = read_all(master)
    os.close(master)
    assert re.fullmatch(
        r"train 12 40%\|.+\| \d\d:\d\d left \S+/s ε 0\.88 120 games reward -20\.2 loss 0\.0012", drawn
    )
    assert len(drawn) <= 80
    assert after.strip() == ""


def test_the_bar_says_only_what_there_is() -> None:
    terminal = Terminal()
    console = Console(terminal)
    console.on_phase_start("play", 0, 0)
    console.on_progress(
        Progress(steps=100, nr_games=0, average_reward=None, exploration_rate=0.05, loss=None)
    )
    drawn = terminal.getvalue().split("\r")[-1]
    assert drawn.startswith("play 0 100 steps ")
    assert drawn.rstrip().endswith("ε 0.05 0 games")
    console.close()


def test_the_bar_of_a_test_that_finishes_its_games_has_no_end() -> None:
    terminal = Terminal()
    console = Console(terminal)
    console.on_phase_start("test", 3, 60)
    for steps, drawn in ((60, "test 3 100%|"), (66, "test 3 66.0 steps "), (72, "test 3 72.0 steps ")):
        console.on_progress(
            Progress(steps=steps, nr_games=7, average_reward=1.0, exploration_rate=0.05, loss=None)
        )
        assert terminal.getvalue().split("\r")[-1].startswith(drawn)
    console.close()


def test_there_is_no_bar_where_there_is_no_terminal(summary: PhaseSummary) -> None:
    stream = io.StringIO()
    console = Console(stream)
    console.on_phase_start("train", 12, 250)
    console.on_progress(PROGRESS)
    console.on_phase_end(summary)
    console.close()
    assert stream.getvalue() == ""


def test_the_lines_of_simple_dqn_follow_the_phase(
    caplog: pytest.LogCaptureFixture, summary: PhaseSummary
) -> None:
    console = Console(io.StringIO())
    console.on_phase_start("train", 1, 250)
    with caplog.at_level(logging.INFO):
        console.on_phase_end(summary)
    assert caplog.messages == [
        "Epoch #1: train ended after 250 steps",
        "  num_games: 3, average_reward: -20.500000, min_game_reward: -21, max_game_reward: -19",
        "  last_exploration_rate: 0.100000, epoch_time: 10s, steps_per_second: 25",
    ]


def test_log_lines_go_above_the_bar() -> None:
    terminal = Terminal()
    console = Console(terminal)
    console.on_phase_start("train", 1, 250)
    handler = ConsoleHandler(terminal)
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler.handle(logging.makeLogRecord({"msg": "saved %s", "args": ("pong_1.pkl",)}))
    drawn = terminal.getvalue()
    lines = [line.split("\r")[-1] for line in drawn.split("\n")]
    assert lines[0] == "saved pong_1.pkl"
    assert lines[-1].startswith("train 1 0%|")
    console.close()


def test_a_log_line_is_one_line_without_control_characters() -> None:
    output = io.StringIO()
    ConsoleHandler(output).handle(logging.makeLogRecord({"msg": "play %s", "args": ("a\x1b[2J\nb",)}))
    assert output.getvalue().endswith("play a\\x1b[2J\\nb\n")
    assert output.getvalue().count("\n") == 1


def test_the_log_outlives_its_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with Path("/dev/full").open("w") as full:
        handler = ConsoleHandler(full)
        for _ in range(2):
            handler.handle(logging.makeLogRecord({"msg": "training goes on"}))
        full.flush()
    assert capfd.readouterr().err == ""
