"""Films of a game: H.264 with the game's own sound, or a GIF."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

import av
import numpy as np
from av.audio.stream import AudioStream
from av.video.reformatter import (
    ColorPrimaries,
    ColorRange,
    Colorspace,
    ColorTrc,
    Interpolation,
    VideoReformatter,
)
from av.video.stream import VideoStream
from numpy.typing import NDArray

from simple_dqn.environment import FRAMES_PER_SECOND
from simple_dqn.environment.interface import Picture
from simple_dqn.watch.gif import Gif
from simple_dqn.watch.sink import Sink

# A quality at which the edges stay sharp and the sound still takes most of the file, and a key frame in
# every second, so that one can step through a film.
H264 = {"preset": "veryfast", "crf": "12", "g": str(FRAMES_PER_SECOND)}
# How finely a file counts its length: in thousands of a second, the default, a film would end in mid-frame.
TIMESCALE = {"movie_timescale": str(512 * FRAMES_PER_SECOND)}


class Film(Protocol):
    """A film that is being made; all its frames are of one size."""

    frames: int  # that it has so far, 60 a second

    def add(self, picture: Picture, sound: NDArray[np.uint8], scale: int) -> None:
        """Add a frame.

        Args:
            picture: uint8 [height, width, 3], in red, green and blue.
            sound: What is heard meanwhile, unsigned 8-bit samples; empty throughout a silent film.
            scale: Pixels on each side of a pixel of the picture; both sides of the film are to be even.
        """

    def finish(self) -> None:
        """Write what is still to be written; no frame can follow."""


@dataclass(frozen=True)
class Container:
    """A kind of file for pictures with sound."""

    name: str
    sound: Literal["pcm_s16le", "flac"]  # both keep every sample as it is


class Movie:
    """A film in H.264, every frame shown for exactly 1/60 of a second, with the game's sound unchanged.

    ALE has 512 samples of sound for a frame, 30,720 a second. They are written with 16 bits, which
    players know better than 8, and so are 256 times what ALE gave, around 0 instead of 128.
    """

    def __init__(self, file: BinaryIO, container: Container) -> None:
        """Begin a film in `file`."""
        self.frames = 0
        self._sound = container.sound
        self._container = av.open(Sink(file), "w", format=container.name, container_options=TIMESCALE)
        self._reformatter = VideoReformatter()
        self._video: VideoStream
        self._audio: AudioStream | None = None

    def add(self, picture: Picture, sound: NDArray[np.uint8], scale: int) -> None:
        """Add a frame; see `Film`."""
        height, width = picture.shape[0] * scale, picture.shape[1] * scale
        if not self.frames:
            self._add_streams(width, height, len(sound))
        frame = self._reformatter.reformat(
            av.VideoFrame.from_ndarray(picture, format="rgb24"),
            width,
            height,
            "yuv420p",
            dst_colorspace=Colorspace.ITU709,
            dst_color_range=ColorRange.MPEG,
            interpolation=Interpolation.POINT,
        )
        frame.pts, frame.time_base = self.frames, Fraction(1, FRAMES_PER_SECOND)
        self._container.mux(self._video.encode(frame))
        if self._audio:
            self._container.mux(self._audio.encode(_heard(sound, self.frames * len(sound))))
        self.frames += 1

    def _add_streams(self, width: int, height: int, samples: int) -> None:
        """Say what the film consists of, with `samples` of sound to a frame."""
        self._video = self._container.add_stream(
            "libx264",
            FRAMES_PER_SECOND,
            H264,
            width=width,
            height=height,
            pix_fmt="yuv420p",
            time_base=Fraction(1, FRAMES_PER_SECOND),
        )
        # Said outright, since players guess by the height of a film, and so its colours would depend on it.
        colours = self._video.codec_context
        colours.colorspace, colours.color_range = Colorspace.ITU709, ColorRange.MPEG
        colours.color_primaries, colours.color_trc = ColorPrimaries.BT709, ColorTrc.BT709
        if samples:
            rate = samples * FRAMES_PER_SECOND
            self._audio = self._container.add_stream(self._sound, rate, format="s16", layout="mono")

    def finish(self) -> None:
        """Write what the encoders hold back, and the index."""
        self._container.mux(self._video.encode(None))
        if self._audio:
            self._container.mux(self._audio.encode(None))
        self._container.close()


def _heard(sound: NDArray[np.uint8], position: int) -> av.AudioFrame:
    """Return unsigned 8-bit samples as 16-bit ones that begin `position` samples after the film."""
    samples = (sound.astype(np.int16) - 128) << 8
    frame = av.AudioFrame.from_ndarray(samples[np.newaxis], format="s16", layout="mono")
    frame.sample_rate = len(sound) * FRAMES_PER_SECOND
    frame.pts, frame.time_base = position, Fraction(1, frame.sample_rate)
    return frame


@dataclass(frozen=True)
class Format:
    """A kind of film."""

    container: Container | None  # None: a GIF
    height: int  # pixels that a film is to have, more or less

    def scale(self, picture: Picture) -> int:
        """Return how many times larger than in the game a film shows `picture`.

        It is a whole number, so that pixels stay square and sharp, and an even one: H.264 stores one
        colour for two by two pixels, which then belong to one pixel of the game.
        """
        height: int = picture.shape[0]
        return max(2, 2 * round(self.height / height / 2))


# Uncompressed sound plays wherever a .mov does: QuickTime, VLC, mpv. Few play it out of an .mp4, which
# is for browsers and telephones: those know FLAC, which loses nothing either. AAC, the usual choice, does,
# and has no 30,720 samples a second.
FORMATS = {
    "mov": Format(Container("mov", "pcm_s16le"), height=840),
    "mp4": Format(Container("mp4", "flac"), height=840),
    "gif": Format(None, height=420),
}


@contextmanager
def filming(path: Path, form: Format) -> Iterator[Film]:
    """Give a film that is written to `path`, and finish it at the end, unless there was an error.

    Raises:
        OSError: The file cannot be written.
    """
    with path.open("wb") as file:
        film: Film = Movie(file, form.container) if form.container else Gif(file, path.parent)
        yield film
        film.finish()
