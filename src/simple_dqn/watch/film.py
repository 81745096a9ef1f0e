"""Films of a player's games: H.264 with the game's sound; and folders with a PNG file of every frame."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Literal

import av
import numpy as np
import pygame
from av.audio.stream import AudioStream
from av.video import reformatter as form
from av.video.stream import VideoStream
from numpy.typing import NDArray
from tqdm import tqdm

from simple_dqn.environment.interface import Frame, Picture
from simple_dqn.errors import Interrupt, UserError
from simple_dqn.statistics.writers import bar_size
from simple_dqn.watch.overlay import Overlay
from simple_dqn.watch.player import FrameFollower, WatchedPlayer

# The lossless codec of the sound for each kind of film. QuickTime, VLC and mpv play uncompressed sound in a
# .mov. Few players do in an .mp4; browsers and phones, which need one, play FLAC.
FORMATS: dict[str, Literal["pcm_s16le", "flac"]] = {"mov": "pcm_s16le", "mp4": "flac"}
H264 = {"preset": "veryfast", "crf": "12"}  # edges stay sharp, and the sound still takes most of the file
SCREEN = re.compile(r"\d{6,}\.png")


class Film:
    """A film in H.264 with the game's sound unchanged; all its frames have one size.

    ALE returns 512 samples of sound per frame, 30,720 per second. They are written with 16 bits, because
    fewer players support 8: each is 256 times ALE's, centered on 0 instead of 128. `frames` counts the
    frames so far, and `rate` is how many are shown in a second.
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

        The sound is unsigned 8-bit samples, none in a silent film. Raise OSError if it cannot be written.
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
        """Flush the encoders and write the index, or raise OSError."""
        for stream in (self._video, self._audio):
            self._container.mux(stream.encode(None) if stream else [])
        self._container.close()

    def close(self) -> None:
        """Close the file, even if the film is unfinished."""
        with suppress(OSError):
            self._container.close()


@contextmanager
def replacing_screens(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder; at the end its files replace the screens in `folder`, and other files stay.

    If that fails before the first file is moved (UserError), the screens in `folder` are unchanged.
    """
    beside = folder / f".{os.getpid()}.part"
    try:
        beside.mkdir(parents=True)
        yield beside
        new = [screen.replace(folder / screen.name) for screen in list(beside.iterdir())]
        for old in {screen for screen in folder.iterdir() if SCREEN.fullmatch(screen.name)} - set(new):
            old.unlink()
    except OSError as error:
        raise UserError(f"cannot write screens into {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


class Recording(FrameFollower):
    """Plays and films games; the player's environment has `watch` as its watcher."""

    def __init__(self, exploration_rate: float, overlay: bool) -> None:
        """Draw Q-values and heat map into the film if `overlay`."""
        super().__init__(exploration_rate)
        self._overlay = Overlay(scale=1) if overlay else None

    def play(
        self, player: WatchedPlayer, film: Film, screens: Path | None, games: int, interrupt: Interrupt
    ) -> None:
        """Play `games` games into `film`, and each frame into `screens`, if any; a signal ends it at once."""
        self._film, self._screens = film, screens
        tqdm.monitor_interval = 0  # no monitor thread: the bar is drawn after a step
        steps, size = self.follow(player, games), bar_size()
        for _ in tqdm(steps, "recording", unit=" steps", leave=False, disable=None, **size):
            if interrupt.number:
                raise KeyboardInterrupt(interrupt.number)

    def show(self, frame: Frame) -> None:
        """Add a frame to the film, about 840 pixels high, and to the folder of screens, if there is one.

        The film is at most some 8,000 pixels wide: H.264 has a limit.
        """
        picture = frame.picture
        if self._screens:
            image = pygame.image.frombuffer(picture.tobytes(), picture.shape[1::-1], "RGB")
            with (self._screens / f"{self._film.frames:06}.png").open("wb") as file:
                pygame.image.save(image, file, "screen.png")
        # Even: H.264 stores one color for 2 × 2 pixels, which then belong to one pixel of the game.
        scale = 2 * max(1, min(round(420 / picture.shape[0]), 4096 // picture.shape[1]))
        if self._overlay:
            self._overlay.scale = scale
            picture, scale = self._overlay.draw(picture, self.view(frame, heat_map=True)), 1
        self._film.add(picture, frame.sound, scale)
