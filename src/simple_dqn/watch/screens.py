"""A folder with a PNG file of every frame of a game, replaced as a whole."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import av

from simple_dqn.environment import FRAMES_PER_SECOND
from simple_dqn.environment.interface import Picture
from simple_dqn.errors import UserError

SCREEN = re.compile(r"\d{6,}\.png")
FLAT = {"pred": "none"}  # without PNG's guesses from neighbours the flat colours of a game take less


class Screens:
    """Writes pictures as they are, pixel by pixel, as `000000.png` and so on."""

    def __init__(self, folder: Path) -> None:
        """Write into `folder`, which must exist."""
        self.count = 0
        self._folder = folder
        self._codec: av.VideoCodecContext = av.CodecContext.create("png", "w")
        self._codec.pix_fmt = "rgb24"
        self._codec.time_base = Fraction(1, FRAMES_PER_SECOND)
        self._codec.options = FLAT
        self._codec.thread_count = 1  # several would hold pictures back

    def add(self, picture: Picture) -> None:
        """Write `picture`, uint8 [height, width, 3], all of one size.

        Raises:
            OSError: It cannot be written.
        """
        if not self.count:
            self._codec.height, self._codec.width = picture.shape[:2]
        (packet,) = self._codec.encode(av.VideoFrame.from_ndarray(picture, format="rgb24"))
        (self._folder / f"{self.count:06}.png").write_bytes(bytes(packet))
        self.count += 1


@contextmanager
def replacing_screens(folder: Path) -> Iterator[Screens]:
    """Give a writer of screens; once all are written, they replace those in `folder`.

    They are written to a folder beside it, which then takes its place. Whatever else was in `folder` is
    in it afterwards too.

    Raises:
        UserError: They cannot be written; `folder` is as it was.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"cannot write screens into {folder}: it is a file; move it away")
    place = folder.resolve()  # of a link, where it leads to: both folders must be on the same disk
    beside = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        beside.mkdir(parents=True)
        yield Screens(beside)
        _swap(beside, place)
    except OSError as error:
        raise UserError(f"cannot write screens into {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _swap(new: Path, folder: Path) -> None:
    """Put `new` in the place of `folder`, with all that is in this but the screens of an earlier film."""
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
    old.rmdir()  # which refuses if something came in meanwhile
