"""The bar and the log lines, on a terminal that is none."""

import io
import logging
import os
import re
import select
import termios
from pathlib import Path

import pytest

from simple_dqn.statistics import PhaseSummary as Progress
from simple_dqn.statistics.console import Console, ConsoleHandler


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def progress(steps: int, games: int = 0, reward: float | None = None, loss: float | None = None) -> Progress:
    rate = 0.88 if loss else 0.05
    return Progress(12, "train", steps, games, reward, loss=loss, last_exploration_rate=rate)


def test_the_bar_shows_the_progress_in_80_columns() -> None:
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    seen = []
    with os.fdopen(slave, "w", encoding="utf-8") as terminal:
        console = Console(terminal)
        console.on_phase_start("train", 12, 250_000)
        console.on_progress(progress(100_000, 120, -20.25, 0.00117))
        for end in (False, True):
            if end:
                console.close()
            text = b""
            while select.select([master], [], [], 0.1)[0]:
                text += os.read(master, 10_000)
            seen.append(text.decode())
    os.close(master)
    drawn = seen[0].split("\r")[-1]
    pattern = r"train 12 40%\|.+\| \d\d:\d\d left \S+/s ε 0\.88 120 games reward -20\.2 loss 0\.0012"
    assert re.fullmatch(pattern, drawn)
    assert len(drawn) <= 80
    assert seen[1].strip() == ""


@pytest.mark.parametrize(
    ("total", "steps", "drawn"),
    [
        (0, [100], ["test 3 100 steps "]),  # of unknown length
        (60, [60, 66, 72], ["test 3 100%|", "test 3 66.0 steps ", "test 3 72.0 steps "]),  # it ends its games
    ],
)
def test_a_bar_without_an_end_counts_steps(total: int, steps: list[int], drawn: list[str]) -> None:
    terminal = Terminal()
    console = Console(terminal)
    console.on_phase_start("test", 3, total)
    for step, words in zip(steps, drawn, strict=True):
        console.on_progress(progress(step))
        last = terminal.getvalue().split("\r")[-1]
        assert last.startswith(words)
        assert last.rstrip().endswith("ε 0.05 0 games")
    console.close()


def test_the_lines_of_simple_dqn_follow_the_phase_and_no_bar_is_in_a_file(
    caplog: pytest.LogCaptureFixture, summary: Progress
) -> None:
    stream = io.StringIO()
    console = Console(stream)
    console.on_phase_start("train", 1, 250)
    console.on_progress(progress(100))
    with caplog.at_level(logging.INFO):
        console.on_phase_end(summary)
    assert caplog.messages == [
        "Epoch #1: train ended after 250 steps",
        "  num_games: 3, average_reward: -20.500000, min_game_reward: -21, max_game_reward: -19",
        "  last_exploration_rate: 0.100000, epoch_time: 10s, steps_per_second: 25",
    ]
    assert stream.getvalue() == ""


def test_log_lines_go_above_the_bar_without_control_characters() -> None:
    terminal = Terminal()
    console = Console(terminal)
    console.on_phase_start("train", 1, 250)
    ConsoleHandler(terminal).handle(logging.makeLogRecord({"msg": "saved %s", "args": ("a\x1b[2J\nb",)}))
    lines = [line.split("\r")[-1] for line in terminal.getvalue().split("\n")]
    assert lines[0] == "saved a\\x1b[2J\\nb"
    assert lines[-1].startswith("train 1 0%|")
    console.close()


def test_the_log_outlives_its_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with Path("/dev/full").open("w") as full:
        handler = ConsoleHandler(full)
        for _ in range(2):
            handler.handle(logging.makeLogRecord({"msg": "training goes on"}))
        full.flush()
    assert capfd.readouterr().err == ""
