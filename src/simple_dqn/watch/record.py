"""Films a player's games: every frame that is emulated, with the player's thoughts if they are wanted."""

import logging
import sys
from collections.abc import Callable
from typing import NoReturn

import numpy as np
from tqdm import tqdm

from simple_dqn.environment import Frame
from simple_dqn.scores import Scores
from simple_dqn.types import Step
from simple_dqn.watch.film import Film, Format
from simple_dqn.watch.mind import Seat
from simple_dqn.watch.overlay import Overlay, View
from simple_dqn.watch.screens import Screens

logger = logging.getLogger(__name__)

BAR = "{desc}: {n_fmt} frames, {rate_noinv_fmt}{postfix}"  # without an end: nobody knows how long a game is
UNDECIDED = -1  # the game starts: nobody has chosen an action yet


class Camera:
    """Takes frames: each as a picture of its own, just as it is, and all of them together as a film."""

    def __init__(self, film: Film, screens: Screens, form: Format) -> None:
        """Set the camera up.

        Args:
            film: Where all frames go.
            screens: Where each goes on its own.
            form: Says how large the film is to be.
        """
        self.film = film
        self._screens = screens
        self._form = form
        self._overlay: Overlay | None = None  # made when the first frame tells its scale

    def take(self, frame: Frame, view: View | None) -> None:
        """Take one frame, and draw `view` into the film; None: the film shows the game alone.

        Raises:
            OSError: There is no room for it.
        """
        self._screens.add(frame.picture)
        scale = self._form.scale(frame.picture)
        if view is None:
            self.film.add(frame.picture, frame.sound, scale)
            return
        self._overlay = self._overlay or Overlay(scale)
        self.film.add(self._overlay.draw(frame.picture, view), frame.sound, scale=1)


class Recording:
    """The filming of one seat.

    Attributes:
        scores: Raw points of each game that has ended.
    """

    def __init__(
        self, seat: Seat, frames: list[Frame], camera: Camera, exploration_rate: float, overlay: bool
    ) -> None:
        """Set up the filming.

        Args:
            seat: Who plays; with a mind.
            frames: Where the environment puts each frame; they are taken out of it after each step.
            camera: Where the frames go then.
            exploration_rate: ε of the player.
            overlay: Whether the film shows what the player thinks.
        """
        self.scores: list[float] = []
        self._seat = seat
        self._frames = frames
        self._camera = camera
        self._rate = exploration_rate
        self._overlay = overlay
        self._running = Scores(np.zeros(1))

    def play(self, games: int, stopped: Callable[[], bool]) -> None:
        """Play and film `games` games; on a terminal a bar shows how it goes.

        Raises:
            OSError: There is no room for the film.
            KeyboardInterrupt: `stopped` says that the user does not wait for the end.
        """
        tqdm.monitor_interval = 0  # no thread: the bar is drawn when frames are taken
        with tqdm(
            bar_format=BAR, unit="", leave=False, dynamic_ncols=True, file=sys.stderr, disable=None
        ) as bar:
            self._take(self._seat.start(), bar)
            while len(self.scores) < games:
                if stopped():
                    logger.info("Stopped: no film was written")
                    raise KeyboardInterrupt
                self._take(self._seat.step(self._rate), bar)
                bar.set_description_str(f"game {min(len(self.scores) + 1, games)} of {games}", refresh=False)

    def _take(self, step: Step, bar: "tqdm[NoReturn]") -> None:
        """Film the frames of `step`, and count its reward."""
        for frame in self._frames:
            self._camera.take(frame, self._view(step, frame.lives) if self._overlay else None)
        self.scores += self._running.add(step)
        bar.set_postfix_str(f"score {self._running.running[0]:g}", refresh=False)
        bar.update(len(self._frames))
        self._frames.clear()

    def _view(self, step: Step, lives: int) -> View:
        """Return what there is to say about a frame of `step`: less while the game only starts."""
        seat, starting = self._seat, bool(step.starts[0])
        assert seat.mind
        return View(
            action_names=seat.environment.action_names,
            action=UNDECIDED if starting else seat.action,
            human=False,
            score=0.0 if starting else float(self._running.running[0]),
            lives=lives,
            exploring=seat.exploring and not starting,
            exploration_rate=self._rate,
            qvalues=None if starting else seat.mind.qvalues,
            heat_map=None if starting else seat.mind.heat_map(),
        )
