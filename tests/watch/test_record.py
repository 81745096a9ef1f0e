"""`record` films the game that ALE plays: each frame at its time, each sample, nothing if it fails."""

import os
import re
import resource
import shutil
import signal
from contextlib import closing
from fractions import Fraction
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
from simple_dqn.environment.catch import CatchGame
from simple_dqn.environment.interface import Frame
from simple_dqn.errors import UserError
from simple_dqn.files import replacing
from simple_dqn.run import make_environment, make_network
from simple_dqn.snapshot import Snapshot
from simple_dqn.watch.film import FORMATS, Film, Recording, replacing_screens
from tests.command_line import CATCH, Capsys, Patch, Told, watch

LIMIT = 60  # frames of a game
SMALL = {name: CATCH[name] for name in ("screen_width", "screen_height", "backend", "network")}


def save(path: Path, **flags: Any) -> Path:
    """Write a snapshot of a network that has learned nothing, and return `path`."""
    config = Config.from_flags({**SMALL, "random_seed": 7, "max_game_frames": LIMIT, **flags})
    environment = make_environment(config, training=False)
    weights = make_network(config, environment).get_weights()
    snapshot = Snapshot(environment.name, 3, environment.actions, 600, config.shared_flags(), weights)
    path.parent.mkdir(exist_ok=True)
    snapshot.save(path)
    return path


@pytest.fixture
def home(home: Path, monkeypatch: Patch) -> Path:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER", "SDL_AUDIODRIVER", "AUDIODEV"):
        monkeypatch.delenv(name, raising=False)
    return home


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


def test_a_film_and_its_screens_are_the_games_frames(home: Path, pong: str, monkeypatch: Patch) -> None:
    expected: list[tuple[NDArray[np.uint8], NDArray[np.uint8]]] = []

    def note(_: Recording, frame: Frame) -> None:
        expected.append((frame.picture.copy(), frame.sound.copy()))

    watch(Recording, "watch", note, monkeypatch)
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
    assert {path.name for path in screens.iterdir()} == {f"{n:06}.png" for n in range(len(expected))}
    for number in range(0, len(expected), 20):
        assert np.array_equal(picture(screens / f"{number:06}.png"), expected[number][0])


def test_an_overlay_is_drawn_into_the_film_and_not_into_the_screens(home: Path) -> None:
    screens, films, written = home / "videos" / "pong", [], []
    size = {"screen_width": 84, "screen_height": 84}  # a game that Warp could play
    pong = str(save(home / "pong_3.pkl", game="pong", color_averaging=False, random_starts=0, **size))
    for flags in (["--emulator", "auto"], ["--overlay", "true"]):  # auto shows ALE, which has colors
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


def test_a_film_of_gymnasium_has_its_frame_rate_and_its_first_picture(home: Path, capsys: Capsys) -> None:
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


def test_films_are_called_as_the_snapshot_and_frames_kept_if_asked(
    home: Path, capsys: Capsys, monkeypatch: Patch
) -> None:
    def scaled(points: float, *ends: Any) -> Any:
        return (1_234_560 * points, *ends)  # a score of seven digits

    act: Any = CatchGame.act
    monkeypatch.setattr(CatchGame, "act", lambda *which: scaled(*act(*which)))
    snapshot = save(home / "snapshots" / "catch_3.pkl", environment="catch", game="catch")
    assert main.run(["record", str(snapshot)]) == 0
    assert [path.name for path in (home / "videos").iterdir()] == ["catch_3.mov"]
    said = capsys.readouterr().out
    assert re.search(r"catch_3.mov: 8 frames, 0:01, score -?1234560\n", said)  # slow enough to be watched
    assert "frames are in" not in said
    for name, film in [("catch_3", "catch_3"), ("catch_long_3",) * 2, ("the best", "catch_3")]:
        snapshot = save(home / "snapshots" / f"{name}.pkl", environment="catch", game="catch")
        assert record(str(snapshot), "--play_games", "3") == 0
        said = capsys.readouterr().out
        assert said.startswith(f"{home}/videos/{film}.mov: 24 frames")  # a first screen and seven steps each
        assert (home / "videos" / film.removesuffix("_3") / "000023.png").exists()
        with av.open(str(home / "videos" / f"{film}.mov")) as container:
            assert [stream.type for stream in container.streams] == ["video"]  # Catch has no sound


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_the_film(home: Path, pong: str, monkeypatch: Patch, number: int, code: int) -> None:
    film, screen = home / "videos" / "pong_3.mov", home / "videos" / "pong" / "000000.png"
    screen.parent.mkdir(parents=True)
    film.write_text("an earlier film")
    screen.write_text("an earlier screen")
    before, add = sorted(home.rglob("*")), Film.add

    def disturbed(self: Film, picture: Any, sound: Any, scale: int) -> None:
        add(self, picture, sound, scale)
        if self.frames == 40:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(Film, "add", disturbed)
    assert record(pong) == code
    assert sorted(home.rglob("*")) == before
    assert (film.read_text(), screen.read_text()) == ("an earlier film", "an earlier screen")


@pytest.mark.parametrize(("flags", "words"), [
    (["--play_games", "0"], "--play_games 0"), (["--format", "avi"], "avi"),
    (["videos/pong"], "cannot write"), (["videos/pong_3.mov"], "cannot write"),
], ids=str)  # fmt: skip
def test_bad_input_is_one_line(home: Path, pong: str, flags: list[str], words: str, told: Told) -> None:
    if words == "cannot write":  # a folder where a file is to be, or the other way round
        (place := home / flags.pop()).parent.mkdir(exist_ok=True)
        place.mkdir() if place.suffix == ".mov" else place.write_text("mine")
    before = [path for path in home.rglob("*") if path.is_file()]
    assert words in told("record", pong, "--keep_frames", *flags, code=2).splitlines()[-1]
    assert [path for path in home.rglob("*") if path.is_file()] == before


FRAMES, SAMPLES, SCALE = 30, 512, 4


def make(path: Path, silent: bool = False, rate: float = 60) -> NDArray[np.uint8]:
    """Make a film of noise, and return its sound."""
    rng = np.random.default_rng(0)
    sounds = rng.integers(256, size=(FRAMES, SAMPLES), dtype=np.uint8)
    with replacing(path) as beside, closing(Film(beside, path.suffix[1:], rate)) as film:
        for sound in sounds:
            picture = rng.integers(256, size=(30, 20, 3), dtype=np.uint8)
            film.add(picture, sound[:0] if silent else sound, SCALE)
        film.finish()
    return sounds.reshape(-1)


def decoded(path: Path, kind: str = "video") -> list[Any]:
    with av.open(str(path)) as container:
        return list(container.decode(**{kind: 0}))


@pytest.mark.parametrize(("kind", "asked", "rate"), [
    *((kind, 60, 60) for kind in FORMATS), ("mov", 29.97, Fraction(2997, 100)), ("mp4", 0.5, Fraction(1, 2)),
])  # fmt: skip
def test_every_frame_and_sample_has_its_time(tmp_path: Path, kind: str, asked: float, rate: Fraction) -> None:
    path = tmp_path / f"film.{kind}"
    sound = make(path, silent=asked != 60, rate=asked)
    with av.open(str(path)) as container:
        assert [stream.type for stream in container.streams] == ["video", "audio"][: 1 + (asked == 60)]
        stream: Any = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
        assert (stream.codec_context.width, stream.codec_context.height) == (20 * SCALE, 30 * SCALE)
        assert stream.average_rate == rate
        assert stream.duration * stream.time_base == FRAMES / Fraction(rate)
    frames = decoded(path)
    assert [frame.pts * frame.time_base for frame in frames] == [t / Fraction(rate) for t in range(FRAMES)]
    if asked != 60:
        return
    frames = decoded(path, "audio")
    assert {(frame.sample_rate, frame.layout.name) for frame in frames} == {(SAMPLES * 60, "mono")}
    starts = np.cumsum([0, *(frame.samples for frame in frames)])
    assert [frame.pts * frame.time_base * SAMPLES * 60 for frame in frames] == starts[:-1].tolist()
    heard = np.concatenate([frame.to_ndarray()[0] for frame in frames])
    assert np.array_equal(heard // 256 + 128, sound)
    assert not (heard % 256).any()


def test_a_full_disk_leaves_the_earlier_film(tmp_path: Path, capfd: Capsys) -> None:
    path = tmp_path / "film.mov"
    make(path)
    size = path.stat().st_size
    path.write_bytes(b"an earlier film")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The encoder shares its work among threads, and no two films are of quite the same size.
    for limit in (0, 1000, size // 2, size * 9 // 10):
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            with pytest.raises(UserError, match=r"cannot write .*film"):
                make(path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert path.read_bytes() == b"an earlier film"
        assert list(tmp_path.iterdir()) == [path]
    assert capfd.readouterr() == ("", "")


def write(folder: Path, count: int) -> None:
    """Replace the screens in `folder` by `count` files that say how many there are."""
    with replacing_screens(folder) as screens:
        for number in range(count):
            (screens / f"{number:06}.png").write_text(str(count))


def test_screens_of_an_earlier_film_go_and_all_else_stays(tmp_path: Path) -> None:
    folder = tmp_path / "videos" / "pong"
    (tmp_path / "large disk").mkdir()
    folder.parent.mkdir()
    folder.symlink_to(tmp_path / "large disk")
    write(folder, 9)
    (folder / "notes").mkdir()
    others = ["best moment.png", "12.png", "000002.png.bak", "notes/000001.png"]
    for name in others:
        (folder / name).write_text("kept")
    (folder / "1000000.png").write_text("of a very long film")
    write(folder, 3)
    found = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.*")}
    assert found == {**{f"{number:06}.png": "3" for number in range(3)}, **dict.fromkeys(others, "kept")}
    assert folder.is_symlink()


@pytest.mark.parametrize("error", [RuntimeError, OSError, "swap"])
def test_after_an_error_the_folder_is_as_it_was(tmp_path: Path, error: Any, monkeypatch: Patch) -> None:
    write(tmp_path, 3)

    def fail(*_: object) -> None:
        raise PermissionError(os.strerror(13)) if error == "swap" else error

    def begin_and_fail() -> None:
        with replacing_screens(tmp_path) as screens:
            (screens / "000000.png").write_text("new")
            if error == "swap":
                monkeypatch.setattr(Path, "replace", fail)
            else:
                fail()

    with pytest.raises(RuntimeError if error is RuntimeError else UserError):
        begin_and_fail()
    assert [path.read_text() for path in tmp_path.iterdir()] == ["3"] * 3
