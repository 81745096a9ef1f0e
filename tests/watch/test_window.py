"""The window on a real X display, with keys that the X server sends."""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pygame
import pytest
from numpy.typing import NDArray

from simple_dqn import main
from simple_dqn.config import Config
from simple_dqn.run import make_environment, make_network
from simple_dqn.snapshot import Snapshot
from simple_dqn.watch.display import GameWindow
from simple_dqn.watch.overlay import BACKGROUND, BADGES
from simple_dqn.watch.watched_player import View

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
    # Drawing a Gymnasium game initialises pygame on a display in memory, where no key reaches the window.
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
    """Return a snapshot of an agent that has not learnt to play Pong."""
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


def has(image: NDArray[np.uint8], colour: tuple[int, int, int]) -> bool:
    return int((image == np.array(colour, np.uint8)).all(axis=2).sum()) > 500


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
def test_speed_volume_overlay_and_screenshot(shown: Shown, tmp_path: Path) -> None:
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
        person.press("F12")
        person.wait(lambda view, panel: view.message == "saved screenshot_2.png")

    assert play(shown, deeds, "roms/pong.rom") == 0
    saved = pygame.image.load(tmp_path / "videos" / "pong" / "screenshot_2.png")
    assert saved.get_size() == (480, 630)
    assert (tmp_path / "videos" / "pong" / "screenshot_1.png").read_text() == "kept"


@needs_x
def test_the_picture_fits_the_window_at_a_whole_number_scale(shown: Shown) -> None:
    def deeds(person: Person) -> None:
        person.press("o")
        person.wait(lambda view, panel: not panel)
        window = str(pygame.display.get_wm_info()["window"])
        for size, scale in (((400, 700), 2), ((900, 480), 2), ((170, 215), 1)):
            subprocess.run(["xdotool", "windowsize", window, *map(str, size)], check=True)
            end = time.monotonic() + PATIENCE
            while shown[-1][2].shape[:2] != size:
                assert time.monotonic() < end, f"the window never became {size}"
                time.sleep(0.02)
            image = shown[-1][2]
            game = (image != np.array(BACKGROUND, np.uint8)).any(axis=2)
            columns = np.flatnonzero(game.any(axis=1))
            assert len(columns) == 160 * scale
            assert columns[0] == (size[0] - 160 * scale) // 2

    assert play(shown, deeds, "roms/pong.rom") == 0


@needs_x
def test_an_unwritable_folder_is_told_in_the_game(shown: Shown, tmp_path: Path) -> None:
    (tmp_path / "videos").touch()

    def deeds(person: Person) -> None:
        person.press("F12")
        person.wait(lambda view, panel: "cannot write" in view.message)

    assert play(shown, deeds, "roms/pong.rom") == 0


@needs_x
def test_closing_the_window_ends(shown: Shown) -> None:
    def deeds(person: Person) -> None:
        time.sleep(1)
        pygame.event.post(pygame.event.Event(pygame.QUIT))

    assert play(shown, deeds, "roms/pong.rom", quit_by="p") == 0


@needs_x
def test_ctrl_c_ends_cleanly(shown: Shown) -> None:
    assert play(shown, lambda person: None, "roms/pong.rom", quit_by="signal") == 130
    assert not pygame.display.get_init()


@needs_x
def test_it_ends_after_as_many_games_as_asked_for(shown: Shown, capsys: pytest.CaptureFixture[str]) -> None:
    def deeds(person: Person) -> None:
        person.press("a")

    flags = ["--environment", "catch", "--play_games", "3", "--screen_width", "84"]
    assert play(shown, deeds, "catch", *flags, quit_by="p") == 0
    assert "Games played: 3" in capsys.readouterr().err
