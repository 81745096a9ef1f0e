"""The window on a real X display, with keys of the X server; clock and speaker; the text terminal."""

import fcntl
import io
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import blessed
import numpy as np
import pygame
import pytest
from numpy.typing import NDArray

from simple_dqn import main
from simple_dqn.environment.interface import Frame
from simple_dqn.watch.overlay import BACKGROUND, BADGES
from simple_dqn.watch.player import Controls, View
from simple_dqn.watch.viewer import (
    CHUNK_SAMPLES,
    SAMPLES,
    FrameClock,
    GameTerminal,
    GameWindow,
    Speaker,
    Viewer,
)
from tests.command_line import PROJECT, Capsys, Clock, Patch
from tests.watch.test_record import save

PATIENCE = 60  # seconds
Moment = tuple[View, bool, NDArray[np.uint8]]  # view, panel, and the window's pixels [width, height, 3]


@pytest.fixture(scope="module")
def display() -> Iterator[str]:
    reader, writer = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writer), "-screen", "0", "1280x1024x24"],
        pass_fds=[writer], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(writer)
    with os.fdopen(reader) as answer:
        name = f":{answer.readline().strip()}"
    yield name
    server.terminate()
    server.wait()


@pytest.fixture
def volumes(monkeypatch: Patch) -> list[float]:
    heard: list[float] = []
    monkeypatch.setattr(Speaker, "play", lambda *values: heard.append(values[3]))
    return heard


@pytest.fixture
def shown(display: str, tmp_path: Path, monkeypatch: Patch, volumes: list[float]) -> list[Moment]:
    """Return what the window will have shown; only the last few pictures are kept."""
    for name in ("SDL_VIDEODRIVER", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"DISPLAY": display, "SDL_AUDIODRIVER": "dummy", "SIMPLE_DQN_HOME": tmp_path}.items():
        monkeypatch.setenv(name, str(value))
    # Drawing a Gymnasium game initializes pygame on a display in memory, where no key reaches the window.
    pygame.display.quit()
    pictures: list[Moment] = []
    show = GameWindow.show

    def spy(window: GameWindow, picture: NDArray[np.uint8], view: View, panel: bool) -> None:
        show(window, picture, view, panel)
        surface = pygame.display.get_surface()
        assert surface is not None
        assert pygame.display.get_driver() == "x11"
        pictures.append((view, panel, pygame.surfarray.array3d(surface)))
        del pictures[:-3]

    monkeypatch.setattr(GameWindow, "show", spy)
    return pictures


def xdotool(*words: str) -> None:
    subprocess.run(["xdotool", *words], check=True, timeout=PATIENCE)


def press(*keys: str) -> None:
    xdotool("key", "--delay", "80", *keys)


def until(shown: list[Moment], seen: Callable[[View, bool, NDArray[np.uint8]], object]) -> Moment:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for moment in list(shown):
            if seen(*moment):
                return moment
        time.sleep(0.02)
    raise TimeoutError("the window never showed it")


def play(shown: list[Moment], inputs: Callable[[], None], *arguments: str) -> int:
    """Play, with a person's `inputs`, after which the window is closed; return the exit code."""

    def give_inputs() -> None:
        try:
            until(shown, lambda *_: True)
            inputs()
        finally:
            pygame.event.post(pygame.event.Event(pygame.QUIT))

    with ThreadPoolExecutor(1) as threads:
        person = threads.submit(give_inputs)
        code = main.run(["play", *arguments, "--backend", "cpu", "--threads", "1"])
        person.result()
    return code


def has(image: NDArray[np.uint8], color: tuple[int, int, int]) -> bool:
    return int((image == np.array(color, np.uint8)).all(axis=2).sum()) > 500


@pytest.mark.skipif(not (shutil.which("Xvfb") and shutil.which("xdotool")), reason="no Xvfb or xdotool")
@pytest.mark.timeout(120)
def test_a_person_takes_over_and_looks_in(shown: list[Moment], volumes: list[float], tmp_path: Path) -> None:
    def taken(action: str) -> None:
        until(shown, lambda view, *_: view.action_names[view.action] == action)

    def take_over() -> None:
        until(shown, lambda view, panel, image: view.qvalues is not None and panel)
        until(shown, lambda view, panel, image: not view.human and has(image, BADGES[False][1]))
        press("m")
        until(shown, lambda view, panel, image: view.human and has(image, BADGES[True][1]))
        xdotool("keydown", "Right")
        taken("RIGHT")
        xdotool("keydown", "space")
        taken("RIGHTFIRE")
        xdotool("keyup", "Right")
        taken("FIRE")
        press("Return")
        xdotool("keyup", "space")
        taken("NOOP")
        press("v")
        until(shown, lambda view, *_: view.heat_map is not None)
        press("v", "m")
        until(shown, lambda view, *_: view.heat_map is None and not view.human)

    def inputs() -> None:
        take_over()
        for keys, speed in ((["s"], "2×"), (["a", "a"], "0.5×")):
            press(*keys)
            until(shown, lambda view, *_, speed=speed: view.speed == speed)
        for keys, volume in ((["bracketright"], 0.6), (["bracketleft"] * 2, 0.4)):
            press(*keys)
            until(shown, lambda *_, volume=volume: volumes[-1] == volume)
        first = until(shown, lambda view, panel, _: panel)[2]
        press("o")
        small = until(shown, lambda view, panel, _: not panel)[2]
        assert small.shape[0] < first.shape[0]
        assert small.shape[1] == first.shape[1]
        window = str(pygame.display.get_wm_info()["window"])
        for size, scale in (((400, 700), 2), ((900, 480), 2), ((170, 215), 1)):
            xdotool("windowsize", window, *map(str, size))
            image = until(shown, lambda *moment, size=size: moment[2].shape[:2] == size)[2]
            columns = np.flatnonzero((image != np.array(BACKGROUND, np.uint8)).any(axis=(1, 2)))
            assert (len(columns), columns[0]) == (160 * scale, (size[0] - 160 * scale) // 2)

    agent = save(tmp_path / "pong_1.pkl", game="pong", random_starts=0, max_game_frames=0)
    assert play(shown, inputs, str(agent)) == 0
    assert not pygame.display.get_init()


@pytest.mark.parametrize(("speed", "work", "seconds", "least", "most"), [
    (1.0, 0.001, 10, 540, 600), (0.25, 0.001, 40, 540, 600),
    (2.0, 0.001, 5, 240, 360), (8.0, 0.001, 1.25, 60, 90),  # about 60 pictures a second at most
    (None, 0.001, 0.6, 1, 60),  # nothing waits
    (1.0, 0.02, 12, 80, 599),  # late frames are left out, but not for long
])  # fmt: skip
def test_frames_are_in_time(speed: float | None, work: float, seconds: float, least: int, most: int) -> None:
    clock = Clock(100.0)
    frame_clock, drawn = FrameClock(clock, clock.advance), 0
    for _ in range(600):
        drawn += frame_clock.wait(speed)
        clock.advance(work)
    assert clock.now - 100 == pytest.approx(seconds, rel=0.01)
    assert least <= drawn <= most
    clock.advance(5.0)  # lost time is not made up for
    start = clock.now
    for _ in range(61):
        frame_clock.wait(1.0)
    assert clock.now - start == pytest.approx(1.0)


@pytest.mark.parametrize(("rate", "speed"), [(4.0, 1), (50.0, -1), (60.0, 1)])
def test_frames_come_at_the_rate_of_the_game(rate: float, speed: int) -> None:
    clock, controls = Clock(100.0), Controls()
    controls.apply("s" if speed > 0 else "a", set())
    silent: Any = SimpleNamespace(play=lambda *_: None)
    display: Any = SimpleNamespace(keys=lambda: ([], set()), show=lambda *_: None)
    viewer = Viewer(controls, display, silent, FrameClock(clock, clock.advance), 0.0)
    environment = SimpleNamespace(frames_per_second=rate, action_names=("NOOP",))
    player: Any = SimpleNamespace(environment=environment, has_agent=False, no_effect="")
    viewer.player = player
    for _ in range(101):
        viewer.watch(Frame.silent(np.zeros((2, 2), np.uint8)))
    assert clock.now - 100 == pytest.approx(100 / rate / 2**speed)


@pytest.mark.parametrize("speed", [0.25, 1.0, 8.0, None])
def test_every_sample_is_played_or_some_when_it_goes_faster(speed: float | None, monkeypatch: Patch) -> None:
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")
    heard: list[NDArray[np.uint8]] = []

    def play(piece: pygame.mixer.Sound) -> None:
        heard.append(np.frombuffer(piece.get_raw(), np.uint8))
        assert piece.get_volume() == pytest.approx(0.5, abs=0.01)

    channel = SimpleNamespace(get_queue=lambda: None, queue=play)  # that always has room
    monkeypatch.setattr(pygame.mixer, "Channel", lambda _number: channel)
    sound = np.random.default_rng(0).integers(0, 256, (48, SAMPLES), dtype=np.uint8)
    speaker = Speaker()
    for frame in sound:
        speaker.play(frame, speed, volume=0.5)
        speaker.play(np.zeros(0, np.uint8), 1.0, volume=0.5)  # a frame without sound
    speaker.close()
    if speed is None:  # as fast as possible: silent
        assert not heard
        return
    low = sound.reshape(-1).repeat(4 if speed < 1 else 1)  # slow sound is low
    assert np.array_equal(np.concatenate(heard), low[:: max(1, round(speed))])
    assert len(heard[0]) >= CHUNK_SAMPLES


@pytest.mark.parametrize(
    ("shape", "atari", "pixels"),
    [((210, 160), True, (64, 48)), ((36, 36), False, (48, 48)), ((400, 600), False, (72, 48)),
     ((10, 900), False, (80, 0)), ((900, 2), False, (0, 48))],
)  # fmt: skip
def test_a_picture_in_a_terminal_has_the_shape_of_its_game(
    shape: tuple[int, int], atari: bool, pixels: tuple[int, int], monkeypatch: Patch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(blessed.Terminal, "height", 24)
    monkeypatch.setattr(blessed.Terminal, "width", 80)
    made = blessed.Terminal(kind="xterm-256color", stream=stream, force_styling=True)
    monkeypatch.setattr(blessed, "Terminal", lambda: made)
    display = GameTerminal(atari)
    display.show(np.zeros((*shape, 3), np.uint8), View(("NOOP",), 0.0, 0), panel=False)
    display.close()
    rows = [row.count("▀") for row in re.split(r"\x1b\[\d+;1H|\x1b\[H", stream.getvalue())]
    drawn = [row for row in rows if row]
    assert ({*drawn}, 2 * len(drawn)) == (({pixels[0]}, pixels[1]) if all(pixels) else (set(), 0))


LEAVE_FULL_SCREEN = "\x1b[?1049l"
SHOW_CURSOR = re.compile(r"\x1b\[\?(12;)?25h|\x1b\[34h\x1b\[\?25h")


class Terminal:
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
        if not select.select([self._master], [], [], seconds)[0]:
            return ""
        text = os.read(self._master, 1 << 16).decode(errors="replace")
        self.output += text
        return text

    def wait(self, pattern: str) -> None:
        text, end = "", time.monotonic() + PATIENCE
        while not re.search(pattern, text):
            assert time.monotonic() < end, f"{pattern!r} was never written; last was {self.output[-300:]!r}"
            text += self.read()

    def end(self) -> int:
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


def test_without_a_display_it_plays_in_the_terminal(terminal: Terminal) -> None:
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
def test_a_signal_leaves_the_terminal_as_it_was(terminal: Terminal, end: signal.Signals, code: int) -> None:
    terminal.wait(re.escape("\x1b[38;2;"))  # of size 0, it is drawn as if it had 80 columns
    if end == signal.SIGINT:
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


def test_no_sound_device_is_one_line(tmp_path: Path, monkeypatch: Patch, capfd: Capsys) -> None:
    variables = {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "nonsense", "SIMPLE_DQN_HOME": str(tmp_path)}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    pygame.display.quit()
    assert main.run(["play", "catch", "--environment", "catch", "--play_games", "1"]) == 0
    error = capfd.readouterr().err
    assert "There is no sound device" in error
    assert "Games played: 1" in error
