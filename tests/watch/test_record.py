"""`record` films the game that ALE plays: each frame, each sample, and nothing of it if it fails."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import av
import cv2
import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

from simple_dqn import main
from simple_dqn.config import Config
from simple_dqn.environment import Frame
from simple_dqn.run import make_environment, make_network
from simple_dqn.snapshot import Snapshot
from simple_dqn.watch.film import Film, Recording
from tests.watch.test_film import decoded

LIMIT = 60  # frames of a game
SMALL = {
    "screen_width": 36, "screen_height": 36, "random_seed": 7, "backend": "cpu", "max_game_frames": LIMIT,
    "network": "small",
}  # fmt: skip


def save(path: Path, **flags: Any) -> Path:
    """Write a snapshot of a network that has learned nothing, and return `path`."""
    config = Config.from_flags({**SMALL, **flags})
    environment = make_environment(config, training=False)
    weights = make_network(config, environment).get_weights()
    snapshot = Snapshot(environment.name, 3, environment.actions, 0, config.shared_flags(), weights)
    path.parent.mkdir(exist_ok=True)
    snapshot.save(path)
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the project's folder, on a machine without a screen or a speaker."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER", "SDL_AUDIODRIVER", "AUDIODEV"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SIMPLE_DQN_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("saved") / "pong_3.pkl", game="pong")


@pytest.fixture
def pong(home: Path, saved: Path) -> str:
    return str(shutil.copy(saved, home))


def record(*arguments: str) -> int:
    return main.run(["record", *arguments, "--random_seed", "1", "--keep_frames"])


def picture(path: Path) -> NDArray[np.uint8]:
    result = cv2.imread(str(path))
    assert result is not None
    return result[:, :, ::-1].astype(np.uint8)


def test_a_film_and_its_screens_are_the_frames_of_the_games(
    home: Path, pong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected: list[tuple[NDArray[np.uint8], NDArray[np.uint8]]] = []
    watch = Recording.watch

    def noting(self: Recording, frame: Frame) -> None:
        expected.append((frame.picture.copy(), frame.sound.copy()))
        watch(self, frame)

    monkeypatch.setattr(Recording, "watch", noting)
    assert record(pong, "--format", "mp4", "--play_games", "2") == 0
    assert len(expected) >= 2 * LIMIT
    shown = decoded(home / "videos" / "pong_3.mp4", "video")
    assert len(shown) == len(expected)
    assert shown[-1].time == pytest.approx((len(expected) - 1) / 60)
    for frame, (screen, _) in list(zip(shown, expected, strict=True))[::20]:
        large = screen.repeat(4, axis=0).repeat(4, axis=1).astype(int)
        assert np.abs(frame.to_ndarray(format="rgb24") - large).mean() < 3
    heard = decoded(home / "videos" / "pong_3.mp4", "audio")
    samples = np.concatenate([frame.to_ndarray()[0] for frame in heard])
    sound = np.concatenate([sound for _, sound in expected])
    assert len(set(sound)) > 1, "all is silent"
    assert np.array_equal(samples // 256 + 128, sound)
    screens = home / "videos" / "pong"
    names = [f"{number:06}.png" for number in range(len(expected))]
    assert sorted(path.name for path in screens.iterdir()) == names
    for number in range(0, len(expected), 20):
        assert np.array_equal(picture(screens / f"{number:06}.png"), expected[number][0])


def test_an_overlay_is_drawn_into_the_film_and_not_into_the_screens(home: Path, pong: str) -> None:
    screens, films, written = home / "videos" / "pong", [], []
    for flags in ([], ["--overlay", "true"]):
        assert record(pong, "--max_game_frames", "12", *flags) == 0
        films.append(decoded(home / "videos" / "pong_3.mov"))
        written.append({path.name: path.read_bytes() for path in screens.iterdir()})
    plain, drawn = films
    assert written[0] == written[1]
    assert len(drawn) == len(plain)
    width, height = plain[0].width, plain[0].height
    assert drawn[0].height == height
    assert drawn[0].width > width
    last, before = (shown[-1].to_ndarray(format="rgb24").astype(int) for shown in (drawn, plain))
    assert np.abs(last[:, :width] - before).mean() > 3, "there is no heat map"
    assert last[:, width:].std() > 10, "there are no bars"


def test_a_film_of_gymnasium_has_its_frame_rate_and_its_first_picture(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for game, rate, height in [("CartPole-v1", 50, 800), ("FrozenLake-v1", 4, 1024)]:
        snapshot = save(home / "snapshots" / f"{game}_3.pkl", environment="gym", game=game, random_starts=0)
        assert record(str(snapshot), "--max_game_frames", "9") == 0
        count = int(capsys.readouterr().out.split(" frames, 0:0")[0].split()[-1])
        path, screens = home / "videos" / f"{game}_3.mov", home / "videos" / game
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            assert stream.average_rate == rate
            assert stream.codec_context.height == height
        assert decoded(path)[-1].time == pytest.approx((count - 1) / rate)
    first = gymnasium.make(game, render_mode="rgb_array")  # all games of FrozenLake begin alike
    first.reset(seed=0)
    drawn: Any = first.render()
    assert np.array_equal(picture(screens / "000000.png"), drawn)
    assert not np.array_equal(picture(screens / f"{count - 1:06}.png"), drawn)
    first.close()


def test_films_are_called_as_the_snapshot(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, film in [("catch_3", "catch_3"), ("catch_long_3",) * 2, ("the best", "catch_3")]:
        snapshot = save(home / "snapshots" / f"{name}.pkl", environment="catch", game="catch")
        assert record(str(snapshot), "--play_games", "3") == 0
        said = capsys.readouterr().out
        assert said.startswith(f"{home}/videos/{film}.mov: 24 frames")  # a first screen and seven steps each
        assert (home / "videos" / film.removesuffix("_3") / "000023.png").exists()
        with av.open(str(home / "videos" / f"{film}.mov")) as container:
            assert [stream.type for stream in container.streams] == ["video"]  # Catch has no sound


def test_frames_are_kept_only_if_asked(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = save(home / "snapshots" / "catch_3.pkl", environment="catch", game="catch")
    assert main.run(["record", str(snapshot), "--random_seed", "1"]) == 0
    assert [path.name for path in (home / "videos").iterdir()] == ["catch_3.mov"]
    assert "8 frames, 0:00" in (said := capsys.readouterr().out)
    assert "frames are in" not in said


def test_ctrl_c_leaves_the_earlier_film(home: Path, pong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    film, screen = home / "videos" / "pong_3.mov", home / "videos" / "pong" / "000000.png"
    screen.parent.mkdir(parents=True)
    film.write_text("an earlier film")
    screen.write_text("an earlier screen")
    before, add = sorted(home.rglob("*")), Film.add

    def disturbed(self: Film, picture: Any, sound: Any, scale: int) -> None:
        add(self, picture, sound, scale)
        if self.frames == 40:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Film, "add", disturbed)
    assert record(pong) == 130
    assert sorted(home.rglob("*")) == before
    assert (film.read_text(), screen.read_text()) == ("an earlier film", "an earlier screen")


@pytest.mark.parametrize(("flags", "words"), [
    (["--workers", "2"], "--workers 2"), (["--play_games", "0"], "--play_games 0"),
    (["--format", "avi"], "avi"), (["--minimal_action_set", "false"], "6 actions"),
    (["videos/pong"], "cannot write"), (["videos/pong_3.mov"], "cannot write"),
], ids=str)  # fmt: skip
def test_bad_input_and_places_that_cannot_be_written_to(
    home: Path, pong: str, flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if words == "cannot write":  # a folder where a file is to be, or the other way round
        (place := home / flags.pop()).parent.mkdir(exist_ok=True)
        place.mkdir() if place.suffix == ".mov" else place.write_text("mine")
    before = [path for path in home.rglob("*") if path.is_file()]
    assert record(pong, *flags) == 2
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert [path for path in home.rglob("*") if path.is_file()] == before
