"""Encoders of films: H.264 with the game's sound, or a GIF without."""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, Literal

import av
import numpy as np
from av.audio.stream import AudioStream
from av.filter import Graph
from av.filter.context import FilterContext
from av.video.reformatter import (
    ColorPrimaries,
    ColorRange,
    Colorspace,
    ColorTrc,
    Interpolation,
    VideoReformatter,
)  # fmt: skip
from av.video.stream import VideoStream
from numpy.typing import NDArray

from simple_dqn.environment import FRAMES_PER_SECOND
from simple_dqn.environment.interface import Picture

# Edges stay sharp, and sound still takes most of the file. A key frame each second makes it easy to seek.
H264 = {"preset": "veryfast", "crf": "12", "g": str(FRAMES_PER_SECOND)}
# The unit of a file's length. With the default, 1/1000 s, a film would end in the middle of a frame.
TIMESCALE = {"movie_timescale": str(512 * FRAMES_PER_SECOND)}

# A GIF counts in 1/100 s, and browsers show at most 50 pictures a second. Every third frame, shown for
# 5/100 s, keeps the game's pace exactly. Three is odd, so what a game draws in every other frame flickers;
# an even number would show it always or never.
GIF_EVERY = 3
GIF_TICK = Fraction(1, 20)  # seconds for which a picture is shown
LOSSLESS = {"preset": "ultrafast", "qp": "0"}
# No dithering: flat colours stay flat, as they are in the game, and compress well.
COLOURING = "paletteuse", "dither=none:diff_mode=rectangle"


class Movie:
    """A film in H.264, 60 frames a second, with the game's sound unchanged.

    ALE gives 512 samples of sound a frame, 30,720 a second. They are written with 16 bits, since fewer
    players know 8: each is 256 times ALE's, centred on 0 instead of 128.
    """

    def __init__(self, file: BinaryIO, container: str, sound: Literal["pcm_s16le", "flac"]) -> None:
        """Begin a film in `file`, of libav's format `container` and with its codec `sound`."""
        self.frames = 0
        self._sound = sound
        self._container = av.open(_Output(file), "w", format=container, container_options=TIMESCALE)
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
            self._container.mux(self._audio.encode(_audio_frame(sound, self.frames * len(sound))))
        self.frames += 1

    def _add_streams(self, width: int, height: int, samples: int) -> None:
        """Add a stream of pictures, and one of sound if there are `samples` in each frame."""
        self._video = self._container.add_stream(
            "libx264",
            FRAMES_PER_SECOND,
            H264,
            width=width,
            height=height,
            pix_fmt="yuv420p",
            time_base=Fraction(1, FRAMES_PER_SECOND),
        )
        # Without these, players guess the colour space by the film's height.
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


def _audio_frame(sound: NDArray[np.uint8], position: int) -> av.AudioFrame:
    """Return unsigned 8-bit samples as 16-bit ones, `position` samples after the beginning of the film."""
    samples = (sound.astype(np.int16) - 128) << 8
    frame = av.AudioFrame.from_ndarray(samples[np.newaxis], format="s16", layout="mono")
    frame.sample_rate = len(sound) * FRAMES_PER_SECOND
    frame.pts, frame.time_base = position, Fraction(1, frame.sample_rate)
    return frame


class Gif:
    """A GIF in the colours that suit the whole film best: the game's own, if there are at most 255.

    They are known only at the end. Until then the film is kept without loss in an unnamed temporary file.
    """

    def __init__(self, file: BinaryIO, folder: Path) -> None:
        """Begin a film in `file`, with the temporary file in `folder`."""
        self.frames = 0
        self._file = file
        self._draft_file = TemporaryFile(dir=folder)  # noqa: SIM115 - stays open as long as this object
        self._draft = av.open(_Output(self._draft_file), "w", format="nut")
        self._draft_stream: VideoStream
        self._size = (0, 0)  # width and height in pixels
        self._palette = Graph()  # collects the colours of the film

    def add(self, picture: Picture, _sound: NDArray[np.uint8], scale: int) -> None:
        """Add a frame, of which every third is shown; see `Film`."""
        if self.frames % GIF_EVERY == 0:
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = self.frames // GIF_EVERY, GIF_TICK
            if not self.frames:
                self._begin(frame, scale)
            self._draft.mux(self._draft_stream.encode(frame))
            self._palette.push(frame)
            assert not list(_ready(self._palette)), "the palette came before the end"
        self.frames += 1

    def _begin(self, frame: av.VideoFrame, scale: int) -> None:
        self._size = (frame.width * scale, frame.height * scale)
        self._draft_stream = self._draft.add_stream(
            "libx264rgb", 1 / GIF_TICK, LOSSLESS, width=frame.width, height=frame.height, pix_fmt="rgb24"
        )
        palette = self._palette
        palette.link_nodes(_source(palette, frame), palette.add("palettegen"), palette.add("buffersink"))
        palette.configure()

    def finish(self) -> None:
        """Write the film in its best colours."""
        self._draft.mux(self._draft_stream.encode(None))
        self._draft.close()
        self._draft_file.seek(0)
        with av.open(_Output(self._file), "w", format="gif") as film:
            width, height = self._size
            stream = film.add_stream("gif", 1 / GIF_TICK, width=width, height=height, pix_fmt="pal8")
            for number, frame in enumerate(self._coloured()):
                frame.pts, frame.time_base = number, GIF_TICK
                film.mux(stream.encode(frame))
            film.mux(stream.encode(None))

    def _coloured(self) -> Iterator[av.VideoFrame]:
        """Yield the frames in full size, each pixel in the nearest colour of the palette."""
        self._palette.push(None)
        (palette,) = _ready(self._palette)
        reformatter = VideoReformatter()
        graph = Graph()
        with av.open(self._draft_file, "r") as draft:
            for number, frame in enumerate(draft.decode(video=0)):
                large = reformatter.reformat(frame, *self._size, "bgra", interpolation=Interpolation.POINT)
                large.pts, large.time_base = number, GIF_TICK
                if not number:
                    _link_colouring(graph, large, palette)
                graph.push(large, at=0)
                yield from _ready(graph)
        graph.push(None, at=0)
        yield from _ready(graph)


def _source(graph: Graph, frame: av.VideoFrame) -> FilterContext:
    """Return an input of `graph` for frames like `frame`."""
    return graph.add_buffer(width=frame.width, height=frame.height, format=frame.format, time_base=GIF_TICK)


def _link_colouring(graph: Graph, frame: av.VideoFrame, palette: av.VideoFrame) -> None:
    """Set up `graph` to paint frames like `frame` in the colours of `palette`."""
    colouring = graph.add(*COLOURING)
    frames, colours = _source(graph, frame), _source(graph, palette)
    frames.link_to(colouring, 0, 0)
    colours.link_to(colouring, 0, 1)
    colouring.link_to(graph.add("buffersink"))
    graph.configure()
    palette.pts, palette.time_base = 0, GIF_TICK
    colours.push(palette)
    colours.push(None)


def _ready(graph: Graph) -> Iterator[av.VideoFrame]:
    """Yield the frames that `graph` has ready; libav's filters work only when they are asked for one."""
    while True:
        try:
            yield graph.vpull()
        except (BlockingIOError, EOFError):
            return


class _Output:
    """A file for libav that raises its first error only, and drops what is written after it.

    libav writes on for a while before it reports an error, and PyAV would print each further one with a
    traceback besides raising the first.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._failed = False

    @property
    def closed(self) -> bool:
        """Whether the file is closed; PyAV then writes no trailer."""
        return self._file.closed

    def write(self, data: bytes) -> int:
        """Write all of `data`; return its length."""
        with self._first_error_only():
            self._file.write(data)
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to a position in the file, and return it; this writes what was buffered."""
        with self._first_error_only():
            return self._file.seek(offset, whence)
        return offset

    def tell(self) -> int:
        """Return the position in the file."""
        return self._file.tell()

    @contextmanager
    def _first_error_only(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            if not self._failed:
                self._failed = True
                raise
