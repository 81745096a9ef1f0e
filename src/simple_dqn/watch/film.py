"""Films of a player's games: H.264 with the game's sound, and a folder with a PNG file of every frame."""

import logging
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import av
import numpy as np
import pygame
from av.audio.stream import AudioStream
from av.video import reformatter as form
from av.video.stream import VideoStream
from numpy.typing import NDArray
from tqdm import tqdm

from simple_dqn.environment import Frame
from simple_dqn.environment.interface import Picture
from simple_dqn.errors import UserError
from simple_dqn.watch.overlay import Overlay
from simple_dqn.watch.player import FrameFollower, View, WatchedPlayer

logger = logging.getLogger(__name__)

# The lossless codec of the sound for each kind of film. QuickTime, VLC and mpv play uncompressed sound in a
# .mov. Few players do in an .mp4; browsers and phones, which need one, play FLAC.
FORMATS: dict[str, Literal["pcm_s16le", "flac"]] = {"mov": "pcm_s16le", "mp4": "flac"}
H264 = {"preset": "veryfast", "crf": "12"}  # edges stay sharp, and the sound still takes most of the file
SCREEN = re.compile(r"\d{6,}\.png")
BAR = "{desc}: {n_fmt} frames, {rate_noinv_fmt}"  # without a total: games differ in length


def film_scale(picture: Picture) -> int:
    """Return the factor by which a film enlarges `picture`: to about 840 pixels of height.

    It is a whole number, so that pixels stay square and sharp. It is even, because H.264 stores one color
    for 2 × 2 pixels, which then belong to one pixel of the game.
    """
    height: int = picture.shape[0]
    return max(2, 2 * round(420 / height))


class Film:
    """A film in H.264 with the game's sound unchanged; all its frames have one size.

    ALE returns 512 samples of sound per frame, 30,720 per second. They are written with 16 bits, because
    fewer players support 8: each is 256 times ALE's, centered on 0 instead of 128.

    Attributes:
        frames: The number of frames so far. rate: How many of them are shown in a second.
    """

    def __init__(self, path: Path, kind: str, rate: float) -> None:
        """Begin a film at `path` with `rate` frames per second; `kind` is one of `FORMATS`."""
        self.frames, self.rate = 0, Fraction(rate).limit_denominator(1001)
        self._sound = FORMATS[kind]
        # The unit of a film's length; with the default, 1/1000 s, it would end in the middle of a frame.
        timescale = {"movie_timescale": str(512 * self.rate.numerator)}
        self._container = av.open(str(path), "w", format=kind, container_options=timescale)
        self._reformatter = form.VideoReformatter()
        self._video: VideoStream
        self._audio: AudioStream | None = None

    def add(self, picture: Picture, sound: NDArray[np.uint8], scale: int) -> None:
        """Add a frame: `picture` uint8 [height, width, 3], enlarged by `scale` to an even size, with `sound`.

        The sound is unsigned 8-bit samples, none in a silent film. An OSError says that it cannot be written.
        """
        height, width = picture.shape[0] * scale, picture.shape[1] * scale
        if not self.frames:
            self._add_streams(width, height, len(sound))
        frame = self._reformatter.reformat(
            av.VideoFrame.from_ndarray(picture, format="rgb24"), width, height, "yuv420p",
            dst_colorspace=form.Colorspace.ITU709, dst_color_range=form.ColorRange.MPEG,
            interpolation=form.Interpolation.POINT,
        )  # fmt: skip
        frame.pts, frame.time_base = self.frames, 1 / self.rate
        self._container.mux(self._video.encode(frame))
        if self._audio:
            samples = (sound.astype(np.int16) - 128) << 8
            heard = av.AudioFrame.from_ndarray(samples[np.newaxis], format="s16", layout="mono")
            heard.sample_rate = round(len(sound) * self.rate)
            heard.pts, heard.time_base = self.frames * len(sound), Fraction(1, heard.sample_rate)
            self._container.mux(self._audio.encode(heard))
        self.frames += 1

    def _add_streams(self, width: int, height: int, samples: int) -> None:
        """Add a video stream, and an audio stream if each frame has `samples`."""
        seek = {"g": str(max(1, round(self.rate)))}  # a key frame per second makes seeking fast
        self._video = self._container.add_stream("libx264", self.rate, {**H264, **seek})
        self._video.width, self._video.height = width, height
        self._video.pix_fmt, self._video.time_base = "yuv420p", 1 / self.rate
        # Without these, players guess the color space from the film's height.
        colors = self._video.codec_context
        colors.colorspace, colors.color_range = form.Colorspace.ITU709, form.ColorRange.MPEG
        colors.color_primaries, colors.color_trc = form.ColorPrimaries.BT709, form.ColorTrc.BT709
        if samples:
            rate = round(samples * self.rate)
            self._audio = self._container.add_stream(self._sound, rate, format="s16", layout="mono")

    def finish(self) -> None:
        """Flush the encoders and write the index; an OSError says that it cannot be written."""
        self._container.mux(self._video.encode(None))
        if self._audio:
            self._container.mux(self._audio.encode(None))
        self._container.close()

    def close(self) -> None:
        """Close the file, even if the film is unfinished."""
        with suppress(OSError):
            self._container.close()


@contextmanager
def replacing_screens(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder; at the end its files replace the screens in `folder`, and other files stay.

    Raises:
        UserError: They cannot be written; `folder` is unchanged.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"cannot write screens into {folder}: it is a file; move it away")
    place = folder.resolve()  # the target of a link: both folders must be on the same disk
    beside = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        beside.mkdir(parents=True)
        yield beside
        place.mkdir(exist_ok=True)
        new = {screen.name for screen in beside.iterdir()}
        for name in new:
            (beside / name).replace(place / name)
        for old in place.iterdir():
            if SCREEN.fullmatch(old.name) and old.name not in new and old.is_file():
                old.unlink()
    except OSError as error:
        raise UserError(f"cannot write screens into {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


class Recording(FrameFollower):
    """Plays and films games; the player's environment has `watch` as its watcher."""

    _overlay: Overlay | None = None  # made when the first frame gives the scale

    def __init__(self, exploration_rate: float, overlay: bool) -> None:
        """Set up the recording, with Q-values and heat map if `overlay`."""
        super().__init__(exploration_rate)
        self._with_overlay = overlay

    def play(
        self, player: WatchedPlayer, film: Film, screens: Path, games: int, stopped: Callable[[], bool]
    ) -> None:
        """Play `games` games into `film`, and each frame unchanged into the folder `screens`.

        A terminal shows a progress bar.

        Raises:
            OSError: The disk is full.
            KeyboardInterrupt: `stopped` returned True.
        """
        self._film, self._screens = film, screens
        tqdm.monitor_interval = 0  # no monitor thread: the bar is drawn after each step
        look: dict[str, Any] = {"bar_format": BAR, "unit": "", "leave": False, "dynamic_ncols": True}
        with tqdm(**look, file=sys.stderr, disable=None) as bar:
            for _ in self.follow(player, games):
                if stopped():
                    logger.info("Stopped: no film was written")
                    raise KeyboardInterrupt
                done = f"game {len(self.scores) + 1} of {games}, score {self.score:g}"
                bar.set_description_str(done, refresh=False)
                bar.update(film.frames - bar.n)

    def show(self, frame: Frame, view_of: Callable[[bool], View]) -> None:
        """Add a frame to the film and to the folder of screens."""
        picture, scale = frame.picture, film_scale(frame.picture)
        image = pygame.image.frombuffer(picture.tobytes(), picture.shape[1::-1], "RGB")
        with (self._screens / f"{self._film.frames:06}.png").open("wb") as file:
            pygame.image.save(image, file, "screen.png")
        if self._with_overlay:
            self._overlay = self._overlay or Overlay(scale)
            picture, scale = self._overlay.draw(picture, view_of(True)), 1
        self._film.add(picture, frame.sound, scale)
