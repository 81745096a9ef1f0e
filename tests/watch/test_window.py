"""The window on a real X display, with keys that the X server sends; the clock and the speaker."""

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pygame
import pytest
from numpy.typing import NDArray

from simple_dqn import main
from simple_dqn.environment import Frame
from simple_dqn.watch.overlay import BACKGROUND, BADGES
from simple_dqn.watch.player import Controls, View
from simple_dqn.watch.viewer import CHUNK_SAMPLES, SAMPLES, FrameClock, GameWindow, Speaker, Viewer
from tests.watch.test_record import save

needs_x = pytest.mark.skipif(
    not (shutil.which("Xvfb") and shutil.which("xdotool")), reason="Xvfb and xdotool are not installed"
)
PATIENCE = 60  # seconds
pytestmark = pytest.mark.timeout(120)

Moment = tuple[View, bool, NDArray[np.uint8]]  # view, panel, and the window's pixels [width, height, 3]


@pytest.fixture(scope="module")
def display() -> Iterator[str]:
    """Start an X server that draws in memory, and return its name."""
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
def volumes(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the volume of each frame's sound."""
    heard: list[float] = []
    monkeypatch.setattr(Speaker, "play", lambda *values: heard.append(values[3]))
    return heard


@pytest.fixture
def shown(
    display: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, volumes: list[float]
) -> list[Moment]:
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
    """Wait until the window has shown what `seen` looks for."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for moment in list(shown):
            if seen(*moment):
                return moment
        time.sleep(0.02)
    raise TimeoutError("the window never showed it")


def play(shown: list[Moment], deeds: Callable[[], None], *arguments: str) -> int:
    """Play, while a person does `deeds` and closes the window at last; return the exit code."""
    errors: list[BaseException] = []

    def sit_before_it() -> None:
        try:
            until(shown, lambda *_: True)
            deeds()
        except BaseException as error:
            errors.append(error)
            pygame.event.post(pygame.event.Event(pygame.QUIT))

    person = threading.Thread(target=sit_before_it)
    person.start()
    code = main.run(["play", *arguments, "--backend", "cpu", "--threads", "1"])
    person.join()
    if errors:
        raise errors[0]
    return code


def has(image: NDArray[np.uint8], color: tuple[int, int, int]) -> bool:
    return int((image == np.array(color, np.uint8)).all(axis=2).sum()) > 500


@needs_x
def test_a_person_takes_over_looks_into_the_agent_and_closes_the_window(
    shown: list[Moment], volumes: list[float], tmp_path: Path
) -> None:
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

    def deeds() -> None:
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
        pygame.event.post(pygame.event.Event(pygame.QUIT))

    agent = save(tmp_path / "pong_1.pkl", game="pong", random_starts=0, max_game_frames=0)
    assert play(shown, deeds, str(agent)) == 0
    assert not pygame.display.get_init()


class Clock:
    """A clock that moves when somebody sleeps or works."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += max(0.0, seconds)


@pytest.mark.parametrize(("speed", "work", "seconds", "least", "most"), [
    (1.0, 0.001, 10, 540, 600), (0.25, 0.001, 40, 540, 600),
    (2.0, 0.001, 5, 240, 360), (8.0, 0.001, 1.25, 60, 90),  # about 60 pictures a second at most
    (None, 0.001, 0.6, 1, 60),  # nothing waits
    (1.0, 0.02, 12, 80, 599),  # late frames are left out, but not for long
])  # fmt: skip
def test_frames_come_at_their_time(
    speed: float | None, work: float, seconds: float, least: int, most: int
) -> None:
    clock = Clock()
    frame_clock, drawn = FrameClock(clock, clock.pass_), 0
    for _ in range(600):
        drawn += frame_clock.wait(speed)
        clock.pass_(work)
    assert clock.now - 100 == pytest.approx(seconds, rel=0.01)
    assert least <= drawn <= most
    clock.pass_(5.0)  # lost time is not made up for
    start = clock.now
    for _ in range(61):
        frame_clock.wait(1.0)
    assert clock.now - start == pytest.approx(1.0)


@pytest.mark.parametrize(("rate", "speed"), [(4.0, 1), (50.0, -1), (60.0, 1)])
def test_frames_come_at_the_rate_of_the_game(rate: float, speed: int) -> None:
    clock, controls = Clock(), Controls()
    controls.apply("s" if speed > 0 else "a", set())
    silent: Any = SimpleNamespace(play=lambda *_: None)
    display: Any = SimpleNamespace(keys=lambda: ([], set()), show=lambda *_: None)
    viewer = Viewer(controls, display, silent, FrameClock(clock, clock.pass_), 0.0)
    environment = SimpleNamespace(frames_per_second=rate, action_names=("NOOP",))
    player: Any = SimpleNamespace(environment=environment, has_agent=False)
    viewer.player = player
    for _ in range(101):
        viewer.watch(Frame.silent(np.zeros((2, 2), np.uint8)))
    assert clock.now - 100 == pytest.approx(100 / rate / 2**speed)


@pytest.mark.parametrize("speed", [0.25, 1.0, 8.0, None])
def test_every_sample_is_played_or_some_when_it_goes_faster(
    speed: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
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
