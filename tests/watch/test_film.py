"""Films, decoded again: every frame at its time, every sample of sound, and nothing after an error.

The folder of screens is replaced as a whole, and only screens in it.
"""

import os
import resource
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from simple_dqn.errors import UserError
from simple_dqn.files import replacing
from simple_dqn.watch.film import FORMATS, HEIGHT, Film, film_scale, png, replacing_screens

FRAMES = 50
SAMPLES = 512
SCALE = 4


def pictures(height: int = 30, width: int = 20) -> list[NDArray[np.uint8]]:
    """Return pictures of a grey field in which a coloured block moves."""
    result = []
    for t in range(FRAMES):
        picture = np.full((height, width, 3), 40, np.uint8)
        picture[t % (height - 8) :][:8, 4:12] = (200, 72 + t, 72)
        result.append(picture)
    return result


def sounds() -> list[NDArray[np.uint8]]:
    return list(np.random.default_rng(0).integers(256, size=(FRAMES, SAMPLES), dtype=np.uint8))


def make(path: Path, scale: int = SCALE, silent: bool = False, rate: float = 60) -> None:
    with replacing(path) as beside, closing(Film(beside, path.suffix[1:], rate)) as film:
        for picture, sound in zip(pictures(), sounds(), strict=True):
            film.add(picture, sound[:0] if silent else sound, scale)
        film.finish()


def enlarged(picture: NDArray[np.uint8], scale: int = SCALE) -> NDArray[np.uint8]:
    return picture.repeat(scale, axis=0).repeat(scale, axis=1)


def decoded(path: Path, kind: str) -> list[Any]:
    with av.open(str(path)) as container:
        return list(container.decode(**{kind: 0}))


RATES = [(60, 60), (50, 50), (4, 4), (29.97, Fraction(2997, 100)), (0.5, Fraction(1, 2))]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(("asked", "rate"), RATES)
def test_every_frame_is_shown_for_its_part_of_a_second(
    tmp_path: Path, kind: str, asked: float, rate: Fraction
) -> None:
    path = tmp_path / f"film.{kind}"
    make(path, silent=asked != 60, rate=asked)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
        assert (stream.codec_context.width, stream.codec_context.height) == (20 * SCALE, 30 * SCALE)
        assert stream.average_rate == rate
        assert stream.time_base is not None
        assert stream.duration is not None
        assert stream.duration * stream.time_base == FRAMES / Fraction(rate)
    frames = decoded(path, "video")
    assert [frame.pts * frame.time_base for frame in frames] == [t / Fraction(rate) for t in range(FRAMES)]


@pytest.mark.parametrize("kind", FORMATS)
def test_colours_are_the_pictures_own(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"film.{kind}"
    make(path)
    for frame, picture in zip(decoded(path, "video"), pictures(), strict=True):
        error = np.abs(frame.to_ndarray(format="rgb24").astype(int) - enlarged(picture))
        assert error.mean() < 2
        assert np.median(error.max(axis=2)) <= 3


@pytest.mark.parametrize("kind", FORMATS)
def test_every_sample_is_heard_at_its_time(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"film.{kind}"
    make(path)
    frames = decoded(path, "audio")
    assert {(frame.sample_rate, frame.layout.name) for frame in frames} == {(SAMPLES * 60, "mono")}
    starts = np.cumsum([0, *(frame.samples for frame in frames)])
    assert [frame.pts * frame.time_base * SAMPLES * 60 for frame in frames] == starts[:-1].tolist()
    heard = np.concatenate([frame.to_ndarray()[0] for frame in frames])
    assert np.array_equal(heard // 256 + 128, np.concatenate(sounds()))
    assert not (heard % 256).any()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_game_without_sound_makes_a_silent_film(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"film.{kind}"
    make(path, silent=True)
    with av.open(str(path)) as container:
        assert [stream.type for stream in container.streams] == ["video"]
    assert len(decoded(path, "video")) == FRAMES


def test_films_of_any_game_have_even_sides_and_a_usual_size() -> None:
    for height in (8, 83, 84, 210, 250, 400, 1024):
        scale = film_scale(np.zeros((height, 2, 3), np.uint8))
        assert scale >= 2
        assert scale % 2 == 0
        assert scale == 2 or abs(height * scale - HEIGHT) <= height
    assert film_scale(np.zeros((210, 160, 3), np.uint8)) == 4


@pytest.mark.parametrize("kind", FORMATS)
def test_a_full_disk_leaves_the_earlier_film(
    tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"film.{kind}"
    make(path)
    size = path.stat().st_size
    path.write_bytes(b"an earlier film")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The encoder shares its work among threads, and no two films are of quite the same size.
    for limit in (0, 1, 1000, size // 3, size // 2, size * 9 // 10):
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            with pytest.raises(UserError, match=r"cannot write .*film"):
                make(path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert path.read_bytes() == b"an earlier film"
        assert list(tmp_path.iterdir()) == [path]
    assert capfd.readouterr() == ("", "")


def noise(count: int) -> list[NDArray[np.uint8]]:
    return list(np.random.default_rng(count).integers(256, size=(count, 21, 16, 3), dtype=np.uint8))


def write(folder: Path, count: int) -> None:
    with replacing_screens(folder) as screens:
        for number, picture in enumerate(noise(count)):
            (screens / f"{number:06}.png").write_bytes(png(picture))


def read(path: Path) -> NDArray[np.uint8]:
    picture = cv2.imread(str(path))
    assert picture is not None
    return picture[:, :, ::-1].astype(np.uint8)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_screens_are_the_pictures_to_the_pixel(tmp_path: Path) -> None:
    folder = tmp_path / "videos" / "pong"
    write(folder, 12)
    assert names(folder) == [f"{number:06}.png" for number in range(12)]
    for number, picture in enumerate(noise(12)):
        assert np.array_equal(read(folder / f"{number:06}.png"), picture)
    assert names(tmp_path / "videos") == ["pong"]


def test_screens_of_an_earlier_film_go_and_all_else_stays(tmp_path: Path) -> None:
    folder = tmp_path / "pong"
    write(folder, 9)
    (folder / "best moment.png").write_bytes(b"chosen")
    (folder / "12.png").write_bytes(b"no screen")
    (folder / "000002.png.bak").write_bytes(b"no screen")
    (folder / "notes").mkdir()
    (folder / "notes" / "000001.png").write_bytes(b"not here")
    (folder / "1000000.png").write_bytes(b"of a very long film")
    write(folder, 3)
    screens = [f"{number:06}.png" for number in range(3)]
    assert names(folder) == sorted([*screens, "000002.png.bak", "12.png", "best moment.png", "notes"])
    assert (folder / "best moment.png").read_bytes() == b"chosen"
    assert (folder / "notes" / "000001.png").read_bytes() == b"not here"
    assert np.array_equal(read(folder / "000002.png"), noise(3)[2])
    assert names(tmp_path) == ["pong"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, OSError])
def test_after_an_error_the_folder_is_as_it_was(tmp_path: Path, error: type[BaseException]) -> None:
    folder = tmp_path / "pong"
    write(folder, 3)

    def begin_and_fail() -> None:
        with replacing_screens(folder) as screens:
            (screens / "000000.png").write_bytes(png(noise(5)[0]))
            raise error

    with pytest.raises(UserError if error is OSError else error):
        begin_and_fail()
    assert names(tmp_path) == ["pong"]
    assert names(folder) == ["000000.png", "000001.png", "000002.png"]
    assert np.array_equal(read(folder / "000000.png"), noise(3)[0])


def test_a_folder_elsewhere_is_replaced_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "large disk").mkdir()
    (tmp_path / "pong").symlink_to(tmp_path / "large disk")
    write(tmp_path / "pong", 2)
    write(tmp_path / "pong", 1)
    assert (tmp_path / "pong").is_symlink()
    assert names(tmp_path / "large disk") == ["000000.png"]
    assert names(tmp_path) == ["large disk", "pong"]


def test_a_file_in_its_place_is_kept(tmp_path: Path) -> None:
    (tmp_path / "pong").write_text("mine")
    with pytest.raises(UserError, match="it is a file"):
        write(tmp_path / "pong", 1)
    assert (tmp_path / "pong").read_text() == "mine"


def test_a_swap_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "pong"
    write(folder, 3)

    def fail(_self: Path, _target: Path) -> None:
        raise PermissionError(os.strerror(13))

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(UserError, match="cannot write screens"):
        write(folder, 1)
    assert names(tmp_path) == ["pong"]
    assert len(names(folder)) == 3
    assert np.array_equal(read(folder / "000000.png"), noise(3)[0])
