"""The window on a real X display, with keys that the X server sends; the clock and the speaker."""

import os
import shutil
import signal
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
from simple_dqn.config import Config
from simple_dqn.environment import Frame
from simple_dqn.run import make_environment, make_network
from simple_dqn.snapshot import Snapshot
from simple_dqn.watch.overlay import BACKGROUND, BADGES
from simple_dqn.watch.player import Controls, View
from simple_dqn.watch.viewer import PIECE, SAMPLES, FrameClock, GameWindow, Speaker, Viewer

needs_x = pytest.mark.skipif(
    not (shutil.which("Xvfb") and shutil.which("xdotool")), reason="Xvfb and xdotool are not installed"
)
PATIENCE = 60  # seconds
pytestmark = pytest.mark.timeout(120)

Shown = list[tuple[View, bool, NDArray[np.uint8]]]  # view, panel, and the window's pixels [width, height, 3]


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
def shown(display: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Return what the window will have shown; only the last few pictures are kept."""
    for name in ("SDL_VIDEODRIVER", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    # Drawing a Gymnasium game initializes pygame on a display in memory, where no key reaches the window.
    pygame.display.quit()
    pictures: Shown = []
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


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """Return a snapshot of an agent that has not learned to play Pong."""
    config = Config.from_flags(
        {"game": "pong", "random_seed": 0, "backend": "cpu", "threads": 1, "random_starts": 0}
    )
    environment = make_environment(config, training=False)
    weights = make_network(config, environment).get_weights()
    path = tmp_path / "pong_1.pkl"
    Snapshot("pong", 1, environment.actions, 0, config.shared_flags(), weights).save(path)
    return path


class Person(threading.Thread):
    """Sits before the window, does what `deeds` say, and closes the window at last, come what may."""

    def __init__(self, shown: Shown, deeds: Callable[["Person"], None], quit_by: str = "q") -> None:
        super().__init__()
        self._shown, self._deeds, self._quit_by = shown, deeds, quit_by
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.wait(lambda view, panel: True)
            self._deeds(self)
        except BaseException as error:
            self.error = error
        if self._quit_by == "signal":
            os.kill(os.getpid(), signal.SIGINT)
        else:
            self.press(self._quit_by)

    def press(self, *keys: str) -> None:
        subprocess.run(["xdotool", "key", "--delay", "80", *keys], check=True, timeout=PATIENCE)

    def hold(self, key: str, down: bool) -> None:
        subprocess.run(["xdotool", "keydown" if down else "keyup", key], check=True, timeout=PATIENCE)

    def wait(self, seen: Callable[[View, bool], bool]) -> tuple[View, bool, NDArray[np.uint8]]:
        """Wait until the window has shown what `seen` looks for."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for moment in list(self._shown):
                if seen(*moment[:2]):
                    return moment
            time.sleep(0.02)
        raise TimeoutError("the window never showed it")


def play(shown: Shown, deeds: Callable[[Person], None], *arguments: str, quit_by: str = "q") -> int:
    """Play, with a person who does `deeds`; return the exit code."""
    person = Person(shown, deeds, quit_by)
    person.start()
    code = main.run(["play", *arguments, "--backend", "cpu", "--threads", "1"])
    person.join()
    if person.error:
        raise person.error
    return code


def has(image: NDArray[np.uint8], color: tuple[int, int, int]) -> bool:
    return int((image == np.array(color, np.uint8)).all(axis=2).sum()) > 500


@needs_x
def test_a_person_takes_over_and_looks_into_the_agent(shown: Shown, snapshot: Path, tmp_path: Path) -> None:
    def deeds(person: Person) -> None:
        view, panel, image = person.wait(lambda view, panel: view.qvalues is not None)
        assert not view.human
        assert panel
        assert has(image, BADGES[False][1])
        person.press("m")
        _, _, image = person.wait(lambda view, panel: view.human)
        assert has(image, BADGES[True][1])
        person.hold("Right", down=True)
        person.wait(lambda view, panel: view.action_names[view.action] == "RIGHT")
        person.hold("space", down=True)
        person.wait(lambda view, panel: view.action_names[view.action] == "RIGHTFIRE")
        person.hold("Right", down=False)
        person.wait(lambda view, panel: view.action_names[view.action] == "FIRE")
        person.press("Return")
        person.hold("space", down=False)
        person.wait(lambda view, panel: view.action_names[view.action] == "NOOP")
        person.press("v")
        assert person.wait(lambda view, panel: view.heat_map is not None)[0].heat_map is not None
        person.press("v", "m")
        person.wait(lambda view, panel: view.heat_map is None and not view.human)

    assert play(shown, deeds, str(snapshot)) == 0
    assert not pygame.display.get_init()


@needs_x
def test_speed_volume_overlay_size_and_screenshot(shown: Shown, tmp_path: Path) -> None:
    (tmp_path / "videos" / "pong").mkdir(parents=True)
    (tmp_path / "videos" / "pong" / "screenshot_1.png").write_text("kept")

    def deeds(person: Person) -> None:
        first = person.wait(lambda view, panel: panel)[2]
        person.press("s")
        person.wait(lambda view, panel: view.speed == "2×")
        person.press("a", "a")
        person.wait(lambda view, panel: view.speed == "0.5×")
        person.press("bracketright")
        person.wait(lambda view, panel: view.message == "volume 60%")
        person.press("bracketleft", "bracketleft")
        person.wait(lambda view, panel: view.message == "volume 40%")
        person.press("o")
        small = person.wait(lambda view, panel: not panel)[2]
        assert small.shape[0] < first.shape[0]
        assert small.shape[1] == first.shape[1]
        person.press("m")
        person.wait(lambda view, panel: "no agent" in view.message)
        window = str(pygame.display.get_wm_info()["window"])
        for size, scale in (((400, 700), 2), ((900, 480), 2), ((170, 215), 1)):
            subprocess.run(["xdotool", "windowsize", window, *map(str, size)], check=True)
            end = time.monotonic() + PATIENCE
            while shown[-1][2].shape[:2] != size:
                assert time.monotonic() < end, f"the window never became {size}"
                time.sleep(0.02)
            columns = np.flatnonzero((shown[-1][2] != np.array(BACKGROUND, np.uint8)).any(axis=(1, 2)))
            assert (len(columns), columns[0]) == (160 * scale, (size[0] - 160 * scale) // 2)
        person.press("F12")
        person.wait(lambda view, panel: view.message == "saved screenshot_2.png")

    assert play(shown, deeds, "roms/pong.rom") == 0
    saved = pygame.image.load(tmp_path / "videos" / "pong" / "screenshot_2.png")
    assert saved.get_size() == (480, 630)
    assert (tmp_path / "videos" / "pong" / "screenshot_1.png").read_text() == "kept"


@needs_x
@pytest.mark.parametrize("quit_by", ["p", "signal"])
def test_closing_the_window_and_ctrl_c_end_it(shown: Shown, tmp_path: Path, quit_by: str) -> None:
    (tmp_path / "videos").touch()  # no screenshot can be saved

    def deeds(person: Person) -> None:
        person.press("F12")
        person.wait(lambda view, panel: "cannot write" in view.message)
        if quit_by == "p":
            pygame.event.post(pygame.event.Event(pygame.QUIT))

    assert play(shown, deeds, "roms/pong.rom", quit_by=quit_by) == (130 if quit_by == "signal" else 0)
    assert not pygame.display.get_init()


class Clock:
    """A clock that moves when somebody sleeps or works."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += max(0.0, seconds)


@pytest.mark.parametrize(
    ("speed", "work", "seconds", "least", "most"),
    [
        (1.0, 0.001, 10, 540, 600),
        (0.25, 0.001, 40, 540, 600),
        (2.0, 0.001, 5, 240, 360),  # about 60 pictures a second at most
        (8.0, 0.001, 1.25, 60, 90),
        (None, 0.001, 0.6, 1, 60),  # nothing waits
        (1.0, 0.02, 12, 80, 599),  # late frames are left out, but not for long
    ],
)
def test_frames_come_at_their_time(
    speed: float | None, work: float, seconds: float, least: int, most: int
) -> None:
    clock = Clock()
    frame_clock, drawn = FrameClock(clock, clock.pass_), 0
    for _ in range(600):
        frame_clock.wait(speed)
        drawn += frame_clock.picture_due()
        clock.pass_(work)
    assert clock.now - 100 == pytest.approx(seconds, rel=0.01)
    assert least <= drawn <= most
    clock.pass_(5.0)  # lost time is not made up for
    start = clock.now
    for _ in range(61):
        frame_clock.wait(1.0)
    assert clock.now - start == pytest.approx(1.0)


@pytest.mark.parametrize(("rate", "speed"), [(4.0, 1), (50.0, -1), (60.0, 1)])
def test_frames_come_at_the_rate_of_the_game(
    rate: float, speed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, controls = Clock(), Controls()
    controls.apply("s" if speed > 0 else "a", set())
    silent: Any = SimpleNamespace(play=lambda *_: None)
    display: Any = SimpleNamespace(keys=lambda: ([], set()), show=lambda *_: None)
    viewer = Viewer(controls, display, silent, 0.0, Path(), FrameClock(clock, clock.pass_))
    view = View(("NOOP",), 0, human=False, score=0, lives=0)
    environment = SimpleNamespace(frames_per_second=rate, action_names=("NOOP",))
    player: Any = SimpleNamespace(environment=environment, has_agent=False)
    viewer.player = player
    monkeypatch.setattr(viewer, "_view", lambda *_: view)
    for _ in range(102):  # the last is held back
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
    assert len(heard[0]) >= PIECE
