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
import numpy as np
import pytest
from numpy.typing import NDArray

from simple_dqn.errors import UserError
from simple_dqn.files import replacing
from simple_dqn.watch.film import FORMATS, Film, replacing_screens

FRAMES = 30
SAMPLES = 512
SCALE = 4


def pictures() -> list[NDArray[np.uint8]]:
    """Return pictures of a gray field in which a colored block moves."""
    result = []
    for t in range(FRAMES):
        picture = np.full((30, 20, 3), 40, np.uint8)
        picture[t % 22 :][:8, 4:12] = (200, 72 + t, 72)
        result.append(picture)
    return result


def sounds() -> list[NDArray[np.uint8]]:
    return list(np.random.default_rng(0).integers(256, size=(FRAMES, SAMPLES), dtype=np.uint8))


def make(path: Path, silent: bool = False, rate: float = 60) -> None:
    with replacing(path) as beside, closing(Film(beside, path.suffix[1:], rate)) as film:
        for picture, sound in zip(pictures(), sounds(), strict=True):
            film.add(picture, sound[:0] if silent else sound, SCALE)
        film.finish()


def decoded(path: Path, kind: str = "video") -> list[Any]:
    with av.open(str(path)) as container:
        return list(container.decode(**{kind: 0}))


@pytest.mark.parametrize(("kind", "asked", "rate"), [
    *((kind, 60, 60) for kind in FORMATS), ("mov", 29.97, Fraction(2997, 100)), ("mp4", 0.5, Fraction(1, 2)),
])  # fmt: skip
def test_every_frame_has_its_time_and_colors_and_every_sample_its_own(
    tmp_path: Path, kind: str, asked: float, rate: Fraction
) -> None:
    path = tmp_path / f"film.{kind}"
    make(path, silent=asked != 60, rate=asked)
    with av.open(str(path)) as container:
        assert [stream.type for stream in container.streams] == ["video", "audio"][: 1 + (asked == 60)]
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
        assert (stream.codec_context.width, stream.codec_context.height) == (20 * SCALE, 30 * SCALE)
        assert stream.average_rate == rate
        assert stream.time_base is not None
        assert stream.duration is not None
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
    assert np.array_equal(heard // 256 + 128, np.concatenate(sounds()))
    assert not (heard % 256).any()


def test_a_full_disk_leaves_the_earlier_film(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
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
def test_after_an_error_the_folder_is_as_it_was(
    tmp_path: Path, error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
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
