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
from typing import Any

import ale_py
import numpy as np
import pytest

from simple_dqn.watch.terminal import PANEL_COLUMNS, TerminalPanel
from simple_dqn.watch.watched_player import View

PROJECT = Path(__file__).parents[2]
PATIENCE = 60  # seconds
LEAVE_FULL_SCREEN = "\x1b[?1049l"
SHOW_CURSOR = re.compile(r"\x1b\[\?(12;)?25h|\x1b\[34h\x1b\[\?25h")


class Terminal:
    """A program in a pseudo-terminal."""

    def __init__(
        self,
        home: Path,
        arguments: list[str],
        environment: Mapping[str, str],
        rows: int = 24,
        columns: int = 80,
    ) -> None:
        self._master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.output = ""
        variables = {
            key: value
            for key, value in os.environ.items()
            if key not in ("DISPLAY", "WAYLAND_DISPLAY", "COLORTERM", "SDL_VIDEODRIVER")
        }
        variables |= {"PYTHONPATH": str(PROJECT / "src"), "SIMPLE_DQN_HOME": str(home), "LANG": "C.UTF-8"}
        variables |= {"TERM": "xterm-256color", "SDL_AUDIODRIVER": "dummy"}
        variables |= {"BLESSED_QUERY_TIMEOUT_SECONDS": "0.05", **environment}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "simple_dqn.main", "play", *arguments],
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
    arguments, environment, *size = getattr(request, "param", ([], {}))
    opened = Terminal(tmp_path, ["roms/pong.rom", *arguments], environment, *size)
    yield opened
    opened.close()


def assert_restored(terminal: Terminal) -> None:
    assert LEAVE_FULL_SCREEN in terminal.output
    after = terminal.output.rindex(LEAVE_FULL_SCREEN)
    assert SHOW_CURSOR.search(terminal.output)
    assert "▀" not in terminal.output[after:]
    assert termios.tcgetattr(terminal.slave) == terminal.before


def test_without_a_display_it_says_so_and_plays_in_the_terminal(terminal: Terminal, tmp_path: Path) -> None:
    terminal.wait("No window: there is no display .* Playing in the terminal")
    terminal.wait("YOU PLAY")
    terminal.wait("▀")
    assert termios.tcgetattr(terminal.slave) != terminal.before
    for keys, shown in (
        ("s", "speed 2×"),
        ("aa", r"speed 0\.5×"),
        ("]", "volume 60%"),
        ("m", "no agent here"),
        ("\x1b[24~", r"saved screenshot_1\.png"),
    ):
        terminal.type(keys)
        terminal.wait(shown)
    assert (tmp_path / "videos" / "pong" / "screenshot_1.png").stat().st_size > 1000
    terminal.type("q")
    assert terminal.end() == 0
    assert_restored(terminal)
    assert "Games played: 0" in terminal.output


@pytest.mark.parametrize("terminal", [(["--display", "terminal"], {})], indirect=True)
def test_arrows_play(terminal: Terminal) -> None:
    terminal.wait("YOU PLAY")
    terminal.wait("NOOP ")
    # The colours of the action that is taken.
    chosen = re.search(r"(\x1b\[38;5;\d+m\x1b\[48;5;\d+m)NOOP ", terminal.output)
    assert chosen
    terminal.type("\x1b[C")  # right
    terminal.wait(re.escape(chosen[1]) + "RIGHT ")
    terminal.type("\x1b[D ")  # left, and space
    terminal.wait(re.escape(chosen[1]) + "LEFTFIRE ")
    terminal.type("p")
    terminal.wait(re.escape(chosen[1]) + "NOOP ")
    terminal.type("q")
    assert terminal.end() == 0


@pytest.mark.parametrize("terminal", [([], {"COLORTERM": "truecolor"})], indirect=True)
def test_it_draws_anew_when_the_terminal_changes_its_size(terminal: Terminal) -> None:
    terminal.wait("YOU PLAY")
    assert "\x1b[38;2;" in terminal.output
    for rows, columns in ((40, 120), (10, 30), (2, 5), (1, 1), (24, 80)):
        terminal.read(0.3)
        terminal.resize(rows, columns)
        os.kill(terminal.process.pid, signal.SIGWINCH)
        terminal.wait(r"\x1b\[H\x1b\[2J" if rows > 1 else "")
    terminal.wait("YOU PLAY")
    terminal.type("o")
    terminal.wait("YOU PLAY")
    assert terminal.process.poll() is None
    terminal.type("\x03")
    assert terminal.end() == 130
    assert_restored(terminal)
    assert "Traceback" not in terminal.output


@pytest.mark.parametrize("terminal", [([], {}, *size) for size in ((0, 0), (1, 1))], indirect=True)
def test_q_ends_it_where_no_cell_has_room(terminal: Terminal) -> None:
    terminal.wait(re.escape("\x1b[?1049h"))
    terminal.read(0.3)
    terminal.type("q")
    assert terminal.end() == 0
    assert_restored(terminal)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_the_terminal_as_it_was(terminal: Terminal, number: int) -> None:
    terminal.wait("YOU PLAY")
    os.kill(terminal.process.pid, number)
    assert terminal.end() == 128 + number
    assert_restored(terminal)
    assert "Traceback" not in terminal.output


@pytest.mark.parametrize("terminal", [([], {"TERM": "vt100"})], indirect=True)
def test_a_terminal_without_colours_is_one_line(terminal: Terminal) -> None:
    assert terminal.end() == 2
    last = terminal.output.strip().splitlines()[-1]
    assert "shows no colours" in last
    assert termios.tcgetattr(terminal.slave) == terminal.before


def play(home: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    """Run it where there is no terminal; return the exit code and standard error."""
    variables = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
    variables |= {"PYTHONPATH": str(PROJECT / "src"), "SIMPLE_DQN_HOME": str(home), **environment}
    done = subprocess.run(
        [sys.executable, "-m", "simple_dqn.main", "play", *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, env=variables, timeout=PATIENCE,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["roms/pong.rom"], "not a terminal"),
        (["roms/pong.rom", "--display", "terminal"], "not a terminal"),
        (["roms/pong.rom", "--display", "window"], "there is no display"),
        (["roms/pong.rom", "--workers", "2"], "one game at a time"),
        (["snapshots/nowhere_1.pkl"], "does not exist"),
        (["roms/pongg.rom"], "did you mean pong"),
    ],
)
def test_what_cannot_be_played_is_one_line(tmp_path: Path, arguments: list[str], words: str) -> None:
    code, error = play(tmp_path, *arguments)
    assert code == 2
    assert words in error.splitlines()[-1]
    assert "Traceback" not in error


def test_no_sound_device_is_one_line(tmp_path: Path) -> None:
    code, error = play(
        tmp_path, "catch", "--environment", "catch", "--play_games", "1",
        SDL_VIDEODRIVER="dummy", SDL_AUDIODRIVER="nonsense",
    )  # fmt: skip
    assert code == 0
    assert [line for line in error.splitlines() if "sound" in line.lower()] == [
        line for line in error.splitlines() if "There is no sound device" in line
    ]
    assert error.count("There is no sound device") == 1
    assert "ALSA lib" not in error
    assert "Games played: 1" in error


class Marks:
    """A terminal whose colours can be read: `<f>` and `<b>` in place of its codes."""

    normal = "<n>"

    def color_rgb(self, *_colour: int) -> str:
        return "<f>"

    def on_color_rgb(self, *_colour: int) -> str:
        return "<b>"


@pytest.mark.parametrize("qvalues", [None, np.linspace(-99, 999, 18, dtype=np.float32)])
def test_every_cell_of_the_panel_has_its_own_background_and_every_name_its_space(qvalues: Any) -> None:
    """On a light terminal, light words without a background could not be read."""
    names = tuple(action.name for action in ale_py.Action.__members__.values())
    view = View(names, 17, human=False, score=265, lives=3, qvalues=qvalues, message="volume 60%")
    marks: Any = Marks()
    panel = TerminalPanel(marks)
    lines = panel.lines(view, 30)
    assert sorted(lines) == list(range(30))
    for line in (*lines.values(), panel.status_line(view, 70)):
        assert line.startswith("<n>")
        assert all(part.startswith("<f><b>") for part in line.split("<n>")[1:])
    words = [re.sub("<.>", "", line) for line in lines.values()]
    assert {len(line) for line in words[4:]} == {PANEL_COLUMNS}
    assert [line[:14].rstrip() for line in words[5:23]] == list(names)
    assert all(line[13] == " " for line in words[5:23])
