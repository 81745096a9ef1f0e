"""The files of a film: the film in one of several formats, and a folder with a PNG of every frame."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO, Protocol

import av
import numpy as np
from numpy.typing import NDArray

from simple_dqn.environment import FRAMES_PER_SECOND
from simple_dqn.environment.interface import Picture
from simple_dqn.errors import UserError
from simple_dqn.watch.encoders import Gif, Movie

SCREEN = re.compile(r"\d{6,}\.png")
FLAT = {"pred": "none"}  # the flat colours of a game compress better without PNG's prediction


class Film(Protocol):
    """A film being made; all its frames have one size."""

    frames: int  # so far, 60 a second

    def add(self, picture: Picture, sound: NDArray[np.uint8], scale: int) -> None:
        """Add a frame.

        Args:
            picture: uint8 [height, width, 3], red, green and blue.
            sound: Its unsigned 8-bit samples; empty in all frames of a silent film.
            scale: Side of a pixel of `picture`, in pixels of the film, whose sides must be even.
        """

    def finish(self) -> None:
        """Write the rest; no frame can follow."""


@dataclass(frozen=True)
class Format:
    """A kind of film."""

    height: int  # of a film, about, in pixels
    begin: Callable[[BinaryIO, Path], Film]  # from the file, and a folder for temporary files

    def scale(self, picture: Picture) -> int:
        """Return the factor by which a film enlarges `picture`.

        It is whole, so that pixels stay square and sharp, and even, since H.264 stores one colour for 2 × 2
        pixels, which then belong to one pixel of the game.
        """
        height: int = picture.shape[0]
        return max(2, 2 * round(self.height / height / 2))


# Both kinds of sound are lossless. QuickTime, VLC and mpv play uncompressed sound in a .mov; few play it in
# an .mp4, which is for browsers and phones, and they play FLAC. AAC loses some, and has no rate of 30,720.
FORMATS = {
    "mov": Format(840, lambda file, _folder: Movie(file, "mov", "pcm_s16le")),
    "mp4": Format(840, lambda file, _folder: Movie(file, "mp4", "flac")),
    "gif": Format(420, Gif),
}


@contextmanager
def filming(path: Path, form: Format) -> Iterator[Film]:
    """Yield a film that is written to `path`; finish it at the end, unless there was an error.

    Raises:
        OSError: The file cannot be written.
    """
    with path.open("wb") as file:
        film = form.begin(file, path.parent)
        yield film
        film.finish()


class ScreenFolder:
    """Writes pictures unchanged as `000000.png`, `000001.png` and so on."""

    def __init__(self, folder: Path) -> None:
        """Write into `folder`, which must exist."""
        self._count = 0
        self._folder = folder
        self._codec: av.VideoCodecContext = av.CodecContext.create("png", "w")
        self._codec.pix_fmt = "rgb24"
        self._codec.time_base = Fraction(1, FRAMES_PER_SECOND)
        self._codec.options = FLAT
        self._codec.thread_count = 1  # several would hold pictures back

    def add(self, picture: Picture) -> None:
        """Write `picture`, uint8 [height, width, 3]; all have one size.

        Raises:
            OSError: It cannot be written.
        """
        if not self._count:
            self._codec.height, self._codec.width = picture.shape[:2]
        (packet,) = self._codec.encode(av.VideoFrame.from_ndarray(picture, format="rgb24"))
        (self._folder / f"{self._count:06}.png").write_bytes(bytes(packet))
        self._count += 1


@contextmanager
def replacing_screens(folder: Path) -> Iterator[ScreenFolder]:
    """Yield a writer of screens, which replace those in `folder` once all are written.

    They are written to a folder beside it, which then takes its place. All other files in `folder` stay.

    Raises:
        UserError: They cannot be written; `folder` is unchanged.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"cannot write screens into {folder}: it is a file; move it away")
    place = folder.resolve()  # the target of a link: both folders must be on the same disk
    beside = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        beside.mkdir(parents=True)
        yield ScreenFolder(beside)
        _swap(beside, place)
    except OSError as error:
        raise UserError(f"cannot write screens into {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _swap(new: Path, folder: Path) -> None:
    """Put `new` in the place of `folder`, and move into it all but the screens of an earlier film."""
    if not folder.exists():
        new.rename(folder)
        return
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    folder.rename(old)
    try:
        new.rename(folder)
    except OSError:
        old.rename(folder)
        raise
    for entry in old.iterdir():
        if SCREEN.fullmatch(entry.name) and entry.is_file():
            entry.unlink()
        else:
            entry.rename(folder / entry.name)
    old.rmdir()  # fails if a file was added meanwhile
