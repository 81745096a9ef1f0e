"""Where it all comes together: games are played before the eyes of a person, who may take part."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pygame

from simple_dqn.environment import Frame
from simple_dqn.errors import UserError
from simple_dqn.files import replacing
from simple_dqn.scores import Scores
from simple_dqn.types import Step
from simple_dqn.watch.controls import Controls
from simple_dqn.watch.display import Display
from simple_dqn.watch.mind import Seat
from simple_dqn.watch.overlay import Overlay, View
from simple_dqn.watch.pace import Pace
from simple_dqn.watch.speaker import Speaker

SCREENSHOT_SCALE = 3


class Stage:
    """Shows a game frame by frame, and lets the person's keys act on it."""

    def __init__(self, controls: Controls, pictures: Path, pace: Pace) -> None:
        """Set the stage; the curtain is still closed.

        Args:
            controls: What the keys act on.
            pictures: The folder for screenshots.
            pace: What keeps time.
        """
        self.scores: list[float] = []  # of the games that ended
        self._controls = controls
        self._pictures = pictures
        self._pace = pace
        self._running = Scores(np.zeros(1))

    def open(self, seat: Seat, exploration_rate: float, display: Display, speaker: Speaker) -> None:
        """Open the curtain.

        Args:
            seat: Who plays; its environment's watcher is `watch`.
            exploration_rate: The agent's ε.
            display: Where the game is shown, and where the keys come from.
            speaker: Where it is heard.
        """
        self._seat, self._exploration_rate = seat, exploration_rate
        self._display, self._speaker = display, speaker

    def watch(self, frame: Frame) -> None:
        """Show a frame at its time; the `Watcher` of the environment."""
        controls = self._controls
        controls.take(*self._display.keys())
        self._speaker.play(frame.sound, controls.speed, controls.volume)
        self._pace.wait(controls.speed)
        if self._pace.picture_due() or controls.screenshot:
            view = self._view(frame)
            if controls.screenshot:
                self._take_screenshot(frame, view)
            self._display.show(frame.picture, view, controls.overlay)

    def play(self, games: int, stopped: Callable[[], bool], keep: Callable[[Step, bool], None]) -> None:
        """Play `games` games; 0: until stopped.

        Args:
            games: How many games.
            stopped: Says whether to stop at once.
            keep: Is told of every step, and whether the person made it.
        """
        seat = self._seat
        keep(seat.start(), False)
        while not (stopped() or self._controls.ended or (games and len(self.scores) == games)):
            step = seat.step(self._exploration_rate)
            keep(step, seat.human)
            self.scores += self._running.add(step)

    def _view(self, frame: Frame) -> View:
        """Return what there is to say about `frame`."""
        seat, controls = self._seat, self._controls
        mind = seat.mind
        return View(
            action_names=seat.environment.action_names,
            action=seat.action,
            human=controls.human,
            score=float(self._running.running[0]),
            lives=frame.lives,
            speed=controls.speed_name,
            exploring=seat.exploring,
            exploration_rate=self._exploration_rate if mind else None,
            qvalues=mind.qvalues if mind else None,
            heat_map=mind.heat_map() if mind and controls.saliency else None,
            message=controls.message(),
        )

    def _take_screenshot(self, frame: Frame, view: View) -> None:
        """Save what is shown as a PNG file; a name that exists is left alone."""
        self._controls.screenshot = False
        canvas = Overlay(SCREENSHOT_SCALE, self._controls.overlay).paint(frame.picture, view)
        number = 1
        while (path := self._pictures / f"screenshot_{number}.png").exists():
            number += 1
        try:
            with replacing(path) as beside, beside.open("wb") as file:
                pygame.image.save(canvas, file, "screenshot.png")
            self._controls.say(f"saved {path.name}")
        except UserError as error:
            self._controls.say(str(error))
