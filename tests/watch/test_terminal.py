"""The text terminal, through a pseudo-terminal: what is written to it, and how it is left."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pygame
import pytest

from simple_dqn import main

PROJECT = Path(__file__).parents[2]
PATIENCE = 60  # seconds
LEAVE_FULL_SCREEN = "\x1b[?1049l"
SHOW_CURSOR = re.compile(r"\x1b\[\?(12;)?25h|\x1b\[34h\x1b\[\?25h")


class Terminal:
    """A program in a pseudo-terminal."""

    def __init__(self, home: Path, environment: Mapping[str, str], rows: int = 24, columns: int = 80) -> None:
        self._master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.output = ""
        hidden = ("DISPLAY", "WAYLAND_DISPLAY", "COLORTERM", "SDL_VIDEODRIVER")
        variables = {key: value for key, value in os.environ.items() if key not in hidden}
        variables |= {"PYTHONPATH": str(PROJECT / "src"), "SIMPLE_DQN_HOME": str(home), "LANG": "C.UTF-8"}
        variables |= {"TERM": "xterm-256color", "SDL_AUDIODRIVER": "dummy"}
        variables |= {"BLESSED_QUERY_TIMEOUT_SECONDS": "0.05", **environment}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "simple_dqn.main", "play", "roms/pong.rom"],
            stdin=self.slave, stdout=self.slave, stderr=self.slave, env=variables, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def read(self, seconds: float = 0.1) -> str:
        """Return what is written within `seconds`."""
        if not select.select([self._master], [], [], seconds)[0]:
            return ""
        text = os.read(self._master, 1 << 16).decode(errors="replace")
        self.output += text
        return text

    def wait(self, pattern: str) -> None:
        """Wait until something like `pattern` is written from now on."""
        text, end = "", time.monotonic() + PATIENCE
        while not re.search(pattern, text):
            assert time.monotonic() < end, f"{pattern!r} was never written; last was {self.output[-300:]!r}"
            text += self.read()

    def end(self) -> int:
        """Wait for the end, and return the exit code."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end, "it does not end"
            self.read()
        while self.read():
            pass
        return self.process.returncode

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)
        os.close(self.slave)


@pytest.fixture
def terminal(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    environment, *size = getattr(request, "param", ({},))
    opened = Terminal(tmp_path, environment, *size)
    yield opened
    opened.close()


def assert_restored(terminal: Terminal) -> None:
    assert LEAVE_FULL_SCREEN in terminal.output
    after = terminal.output.rindex(LEAVE_FULL_SCREEN)
    assert SHOW_CURSOR.search(terminal.output)
    assert "▀" not in terminal.output[after:]
    assert "Traceback" not in terminal.output
    assert termios.tcgetattr(terminal.slave) == terminal.before


def test_without_a_display_it_plays_in_the_terminal_and_draws_anew_when_its_size_changes(
    terminal: Terminal,
) -> None:
    terminal.wait("No window: there is no display .* Playing in the terminal")
    terminal.wait("YOU PLAY")
    terminal.wait("▀")
    assert termios.tcgetattr(terminal.slave) != terminal.before
    for keys, shown in (("s", "2×"), ("aa", r"0\.5×")):
        terminal.type(keys)
        terminal.wait(shown)
    terminal.type("\x1b[C")  # right
    chosen = r"\x1b\[38;5;(\d+)m\x1b\[48;5;(\d+)m"
    terminal.wait(chosen + "RIGHT ")
    colors = re.findall(chosen + "RIGHT ", terminal.output)[-1]  # of the action that is taken
    for keys, action in (("\x1b[D ", "LEFTFIRE"), ("p", "NOOP")):  # left and space, and none
        terminal.type(keys)
        terminal.wait(re.escape("\x1b[38;5;{}m\x1b[48;5;{}m".format(*colors)) + f"{action} ")
    for rows, columns in ((40, 120), (10, 30), (2, 5), (1, 1), (24, 80)):
        terminal.read(0.3)
        terminal.resize(rows, columns)
        terminal.wait(r"\x1b\[H\x1b\[2J" if rows > 1 else "")
    terminal.wait("YOU PLAY")
    terminal.type("o")
    terminal.wait(r"\x1b\[H\x1b\[2J")
    terminal.read(0.3)
    assert "YOU PLAY" not in terminal.output.rpartition("\x1b[2J")[2]
    terminal.type("q")
    assert terminal.end() == 0
    assert_restored(terminal)
    assert "Games played: 0" in terminal.output


@pytest.mark.parametrize("terminal", [({"COLORTERM": "truecolor"}, 0, 0)], indirect=True)
@pytest.mark.parametrize(("end", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_the_terminal_as_it_was_even_where_no_cell_has_room(
    terminal: Terminal, end: signal.Signals, code: int
) -> None:
    terminal.wait(re.escape("\x1b[?1049h"))
    if end == signal.SIGINT:
        terminal.resize(24, 80)
        terminal.wait(re.escape("\x1b[38;2;"))
        terminal.type("\x03")
    else:
        os.kill(terminal.process.pid, end)
    assert terminal.end() == code
    assert_restored(terminal)


@pytest.mark.parametrize("terminal", [({"TERM": "vt100"},)], indirect=True)
def test_a_terminal_without_colors_is_one_line(terminal: Terminal) -> None:
    assert terminal.end() == 2
    assert "shows no colors" in terminal.output.strip().splitlines()[-1]
    assert termios.tcgetattr(terminal.slave) == terminal.before


def test_what_cannot_be_played_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    for flags, words in (
        ([], "not a terminal"), (["--display", "window"], "there is no display"),
        (["--workers", "2"], "one game at a time"),
    ):  # fmt: skip
        assert main.run(["play", "roms/pong.rom", *flags]) == 2
        assert words in capsys.readouterr().err.splitlines()[-1]


def test_no_sound_device_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    variables = {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "nonsense", "SIMPLE_DQN_HOME": str(tmp_path)}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    pygame.display.quit()
    assert main.run(["play", "catch", "--environment", "catch", "--play_games", "1"]) == 0
    error = capfd.readouterr().err
    assert "There is no sound device" in error
    assert "Games played: 1" in error
