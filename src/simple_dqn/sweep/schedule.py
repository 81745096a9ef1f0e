"""The loop: runs are handed to the cluster, begun again when they fail, and followed until all have ended."""

import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

from simple_dqn.snapshot import Checkpoints, checkpoint_folder
from simple_dqn.sweep.plan import Places, Run
from simple_dqn.sweep.standing import Standing, Watch

MOST_FAILURES = 3  # one after the other without a new checkpoint between them
PAUSE_SECONDS = 3.0  # before a run is begun again, longer each time: what failed may still be ending
LOOK_SECONDS = 1.0


class State(StrEnum):
    """Where a run is."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class News(Protocol):
    """What the cluster tells of a run."""

    @property
    def name(self) -> str:
        """Of the run."""

    @property
    def ended(self) -> bool:
        """Whether it has ended; else it has begun."""

    @property
    def words(self) -> str:
        """On which machine it has begun, or why it failed; empty: it did not."""


class Row:
    """One run, and how it stands."""

    def __init__(self, run: Run, places: Places, state: State = State.WAITING) -> None:
        self.run = run
        self.state = state
        self.reason = ""  # of the last failure
        self.failures = 0  # since the last checkpoint
        self.due: float | None = 0.0  # when it is to be handed over; None: it was
        self._watch = Watch(places.csv(run))
        self._checkpoints = Checkpoints(checkpoint_folder(places.prefix(run)))
        self._mark = self.checkpoint

    @property
    def open(self) -> bool:
        """Whether it is still to end."""
        return self.state in (State.WAITING, State.RUNNING)

    @property
    def standing(self) -> Standing | None:
        """What its CSV said last."""
        return self._watch.standing

    def look(self) -> bool:
        """Read its CSV if that has grown, and return whether it has."""
        return self._watch.look()

    @property
    def checkpoint(self) -> int:
        """The number of its latest checkpoint; they only grow."""
        return self._checkpoints.latest_number()

    def fail(self, reason: str, now: float) -> None:
        """Have it go on from its last checkpoint, or give it up if it got no further for too often."""
        mark, before = self.checkpoint, self._mark
        self._mark, self.reason = mark, reason
        self.failures = 1 if mark > before else self.failures + 1
        if self.failures < MOST_FAILURES:
            self.state, self.due = State.WAITING, now + PAUSE_SECONDS * self.failures
        else:
            self.state = State.FAILED


class Sweep:
    """All rows of a sweep."""

    def __init__(
        self,
        rows: Sequence[Row],
        start: Callable[[Run], None],
        wait: Callable[[float], Sequence[News]],
        changed: Callable[[Sequence[Row], Sequence[Row]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up a sweep of which nothing runs yet.

        Args:
            rows: Of the runs.
            start: Has a run begin, or go on, as soon as there is room for it.
            wait: Returns what becomes known within so many seconds.
            changed: Is called with all rows and with those that have changed, at least once a second or so.
            clock: Tells seconds.
        """
        self._rows = {row.run.name: row for row in rows}
        self._start = start
        self._wait = wait
        self._changed = changed
        self._clock = clock

    def run(self) -> None:
        """Carry out every run that is not done, and return when all have ended, well or not."""
        rows = list(self._rows.values())
        for row in rows:
            row.look()
        self._changed(rows, rows)
        while any(row.open for row in rows):
            self._hand_over()
            moved = [self._hear(news) for news in self._wait(LOOK_SECONDS)]
            grown = [row for row in rows if row.open and row.look()]
            self._changed(rows, list(dict.fromkeys([*moved, *grown])))

    def _hand_over(self) -> None:
        for row in self._rows.values():
            if row.state is State.WAITING and row.due is not None and row.due <= self._clock():
                row.due = None
                self._start(row.run)

    def _hear(self, news: News) -> Row:
        row = self._rows[news.name]
        if not news.ended:
            row.state = State.RUNNING
        elif news.words:
            row.fail(news.words, self._clock())
        else:
            row.state, row.reason = State.DONE, ""
        row.look()
        return row
