"""How many chunks may be in flight: as few as keep the learner busy.

Those beyond that wait for the learner, and age: what they hold was played by weights that are older for it.
"""

from simple_dqn.cluster.crew import IN_FLIGHT

WAITING = 0.05  # share of the learner's time from which on it counts as waiting
FED = 32  # chunks in a row for which it did not wait, after which fewer may be in flight


class Pace:
    """The most chunks that may be in flight: fewer while the learner never waits, more when it does."""

    allowed: int  # at least one

    def __init__(self, actors: int) -> None:
        """Allow all that so many `actors` can have in flight."""
        self._most = self.allowed = actors * IN_FLIGHT
        self._fed = 0

    def came(self, waited: float, since: float) -> None:
        """Hear that a chunk came `since` seconds after the one before, the last `waited` spent on waiting."""
        if waited > WAITING * since:
            self._fed = 0
            self.allowed = min(self._most, self.allowed + self._share)
            return
        self._fed += 1
        if self._fed == FED:
            self._fed = 0
            self.allowed = max(1, self.allowed - self._share)

    @property
    def _share(self) -> int:
        """Return by how many chunks to go up or down, so that a thousand actors are soon slowed down too."""
        return max(1, self.allowed // 8)
