"""Films as GIF: small, silent, and shown by whatever shows a picture."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

import av
import numpy as np
from av.filter import Graph
from av.filter.context import FilterContext
from av.video.reformatter import Interpolation, VideoReformatter
from av.video.stream import VideoStream
from numpy.typing import NDArray

from simple_dqn.environment.interface import Picture
from simple_dqn.watch.sink import Sink

# A GIF counts in hundredths of a second, and browsers show no more than 50 pictures in one. Every third
# frame, shown for 5/100, keeps the game's pace exactly; and since three is odd, what a game draws in
# every other frame only, as many do, flickers instead of being always or never there.
EVERY = 3
TICK = Fraction(1, 20)  # seconds that a picture is shown
LOSSLESS = {"preset": "ultrafast", "qp": "0"}
# No dithering: flat colours stay flat, which is how a game looks and what a GIF stores well.
COLOURING = "paletteuse", "dither=none:diff_mode=rectangle"


class Gif:
    """A film as GIF, in the colours that suit it best: the game's own, where they are at most 255.

    They are known at the end only. Therefore the film is first kept in a draft, without loss, in a file
    without a name, which is gone with the program however that ends.
    """

    def __init__(self, file: BinaryIO, folder: Path) -> None:
        """Begin a film in `file`, with its draft in `folder`."""
        self.frames = 0
        self._file = file
        self._draft_file = TemporaryFile(dir=folder)  # noqa: SIM115 - stays open as long as this object
        self._draft = av.open(Sink(self._draft_file), "w", format="nut")
        self._draft_stream: VideoStream
        self._size = (0, 0)  # width and height in pixels
        self._colours = Graph()  # gathers the colours of the film

    def add(self, picture: Picture, _sound: NDArray[np.uint8], scale: int) -> None:
        """Add a frame, of which every third is shown and none is heard; see `Film`."""
        if self.frames % EVERY == 0:
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = self.frames // EVERY, TICK
            if not self.frames:
                self._begin(frame, scale)
            self._draft.mux(self._draft_stream.encode(frame))
            self._colours.push(frame)
            assert not list(_ready(self._colours)), "the palette came before the end"
        self.frames += 1

    def _begin(self, frame: av.VideoFrame, scale: int) -> None:
        self._size = (frame.width * scale, frame.height * scale)
        self._draft_stream = self._draft.add_stream(
            "libx264rgb", 1 / TICK, LOSSLESS, width=frame.width, height=frame.height, pix_fmt="rgb24"
        )
        colours = self._colours
        colours.link_nodes(_source(colours, frame), colours.add("palettegen"), colours.add("buffersink"))
        colours.configure()

    def finish(self) -> None:
        """Write the film in its best colours."""
        self._draft.mux(self._draft_stream.encode(None))
        self._draft.close()
        self._draft_file.seek(0)
        with av.open(Sink(self._file), "w", format="gif") as film:
            width, height = self._size
            stream = film.add_stream("gif", 1 / TICK, width=width, height=height, pix_fmt="pal8")
            for number, frame in enumerate(self._coloured()):
                frame.pts, frame.time_base = number, TICK
                film.mux(stream.encode(frame))
            film.mux(stream.encode(None))

    def _coloured(self) -> Iterator[av.VideoFrame]:
        """Yield the frames of the draft in full size, each pixel in the nearest colour of the palette."""
        self._colours.push(None)
        (palette,) = _ready(self._colours)
        reformatter = VideoReformatter()
        graph = Graph()
        with av.open(self._draft_file, "r") as draft:
            for number, frame in enumerate(draft.decode(video=0)):
                large = reformatter.reformat(frame, *self._size, "bgra", interpolation=Interpolation.POINT)
                large.pts, large.time_base = number, TICK
                if not number:
                    _link_colouring(graph, large, palette)
                graph.push(large, at=0)
                yield from _ready(graph)
        graph.push(None, at=0)
        yield from _ready(graph)


def _source(graph: Graph, frame: av.VideoFrame) -> FilterContext:
    """Return where frames like `frame` go into `graph`."""
    return graph.add_buffer(width=frame.width, height=frame.height, format=frame.format, time_base=TICK)


def _link_colouring(graph: Graph, frame: av.VideoFrame, palette: av.VideoFrame) -> None:
    """Make `graph` paint frames like `frame` in the colours of `palette`."""
    colouring = graph.add(*COLOURING)
    frames, colours = _source(graph, frame), _source(graph, palette)
    frames.link_to(colouring, 0, 0)
    colours.link_to(colouring, 0, 1)
    colouring.link_to(graph.add("buffersink"))
    graph.configure()
    palette.pts, palette.time_base = 0, TICK
    colours.push(palette)
    colours.push(None)


def _ready(graph: Graph) -> Iterator[av.VideoFrame]:
    """Yield the frames that `graph` has ready; as libav has it, it works only when it is asked."""
    while True:
        try:
            yield graph.vpull()
        except (BlockingIOError, EOFError):
            return
