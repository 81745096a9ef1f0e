"""Keeping time: 60 frames a second of play, and no more pictures than a person can see."""

import time
from collections.abc import Callable

from simple_dqn.environment import FRAMES_PER_SECOND

FRAME = 1 / FRAMES_PER_SECOND  # seconds
LATE = 0.1  # seconds behind which lost time is no longer made up for


class Pace:
    """A clock that waits for the time of each frame, and says which frames are to be drawn."""

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Begin with the first frame."""
        self._clock, self._sleep = clock, sleep
        self._due = self._drawn = -float("inf")  # when the next frame is due, the last picture was drawn

    def wait(self, speed: float | None) -> None:
        """Wait until the next frame is due, at `speed` times real time; None: do not wait."""
        now = self._clock()
        if speed is None or now - self._due > LATE:
            self._due = now
        elif self._due > now:
            self._sleep(self._due - now)
        if speed is not None:
            self._due += FRAME / speed

    def picture_due(self) -> bool:
        """Return whether this frame is to be drawn.

        One is left out if the last was drawn less than 1/60 of a second ago, as at more than real
        time, or if the next frame is already due, as on a slow terminal; but never for long.
        """
        now = self._clock()
        since = now - self._drawn
        due = since > LATE or (since > 0.75 * FRAME and now < self._due)
        if due:
            self._drawn = now
        return due
