"""Films a player's games: every emulated frame, with the overlay if it is wanted."""

import logging
import sys
from collections.abc import Callable
from typing import NoReturn

import numpy as np
from tqdm import tqdm

from simple_dqn.environment import Frame
from simple_dqn.scores import Scores
from simple_dqn.types import Step
from simple_dqn.watch.film import Film, Format, ScreenFolder
from simple_dqn.watch.overlay import Overlay
from simple_dqn.watch.watched_player import View, WatchedPlayer

logger = logging.getLogger(__name__)

BAR = "{desc}: {n_fmt} frames, {rate_noinv_fmt}{postfix}"  # without a total: games differ in length
NO_ACTION = -1  # before the first choice of a game


class FrameWriter:
    """Writes each frame as a PNG file, and adds it to the film."""

    def __init__(self, film: Film, screens: ScreenFolder, form: Format) -> None:
        """Write to `film`, as large as `form` says, and to `screens`."""
        self.film = film
        self._screens = screens
        self._form = form
        self._overlay: Overlay | None = None  # made when the first frame gives the scale

    def write(self, frame: Frame, view: View | None) -> None:
        """Write one frame, in the film with `view` drawn over it; None: without.

        Raises:
            OSError: The disk is full.
        """
        self._screens.add(frame.picture)
        scale = self._form.scale(frame.picture)
        if view is None:
            self.film.add(frame.picture, frame.sound, scale)
            return
        self._overlay = self._overlay or Overlay(scale)
        self.film.add(self._overlay.draw(frame.picture, view), frame.sound, scale=1)


class Recording:
    """Plays and films games.

    Attributes:
        scores: Raw points of each game that has ended.
    """

    def __init__(
        self,
        player: WatchedPlayer,
        frames: list[Frame],
        writer: FrameWriter,
        exploration_rate: float,
        overlay: bool,
    ) -> None:
        """Set up the recording.

        Args:
            player: Plays by a network.
            frames: To which the environment appends each frame; emptied after each step.
            writer: Writes the frames.
            exploration_rate: ε of the player.
            overlay: Whether the film shows the overlay.
        """
        self.scores: list[float] = []
        self._player = player
        self._frames = frames
        self._writer = writer
        self._exploration_rate = exploration_rate
        self._overlay = overlay
        self._running = Scores(np.zeros(1))

    def play(self, games: int, stopped: Callable[[], bool]) -> None:
        """Play and film `games` games; on a terminal a bar shows the progress.

        Raises:
            OSError: The disk is full.
            KeyboardInterrupt: `stopped` returned True.
        """
        tqdm.monitor_interval = 0  # no monitor thread: the bar is drawn after each step
        with tqdm(
            bar_format=BAR, unit="", leave=False, dynamic_ncols=True, file=sys.stderr, disable=None
        ) as bar:
            self._write(self._player.start(), bar)
            while len(self.scores) < games:
                if stopped():
                    logger.info("Stopped: no film was written")
                    raise KeyboardInterrupt
                self._write(self._player.step(self._exploration_rate), bar)
                bar.set_description_str(f"game {min(len(self.scores) + 1, games)} of {games}", refresh=False)

    def _write(self, step: Step, bar: "tqdm[NoReturn]") -> None:
        """Write the frames of `step`, and count its reward."""
        for frame in self._frames:
            self._writer.write(frame, self._view(step, frame.lives) if self._overlay else None)
        self.scores += self._running.add(step)
        bar.set_postfix_str(f"score {self._running.running[0]:g}", refresh=False)
        bar.update(len(self._frames))
        self._frames.clear()

    def _view(self, step: Step, lives: int) -> View:
        """Return the view of a frame of `step`; a game that starts has no action and no Q-values yet."""
        player, rate = self._player, self._exploration_rate
        if step.starts[0]:
            names = player.environment.action_names
            return View(names, NO_ACTION, human=False, score=0.0, lives=lives, exploration_rate=rate)
        return player.view(float(self._running.running[0]), lives, rate, heat_map=True)
