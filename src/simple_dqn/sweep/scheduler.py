"""The scheduler: starts the runs of a sweep, starts those that fail again, and follows all to their ends."""

import time
from collections.abc import Callable, Sequence
from enum import StrEnum

from simple_dqn.snapshot import CheckpointFolder, checkpoint_folder
from simple_dqn.sweep.plan import SweepFiles, SweepRun
from simple_dqn.sweep.results import RunResults, read_results
from simple_dqn.sweep.runner import JobEvent

MAX_FAILURES = 3  # in a row, without a new checkpoint between them
RETRY_SECONDS = 3.0  # before a new attempt, longer each time: the one before may still be ending
POLL_SECONDS = 1.0


class RunState(StrEnum):
    """Where a run is."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class RunStatus:
    """One run of a sweep: its state, and its results so far.

    Attributes:
        run: The game and the seed.
        state: Whether it waits, runs, is done or has failed for good.
        reason: The reason of its last failure; empty: there was none.
        results: Those in its CSV; None: there are none yet.
        failures: How many there were since its latest checkpoint.
        due: When it is to start, in seconds of the scheduler's clock; None: it is started.
    """

    def __init__(self, run: SweepRun, files: SweepFiles, state: RunState = RunState.WAITING) -> None:
        self.run, self.state, self.reason = run, state, ""
        self.results: RunResults | None = None
        self.failures = 0
        self.due: float | None = 0.0
        self._csv = files.csv(run)
        self._csv_version = (0, 0)  # its time of change, in nanoseconds, and its size when it was read
        self._checkpoints = CheckpointFolder(checkpoint_folder(files.prefix(run)))
        self._checkpoint = self._checkpoints.latest_number()  # at the last failure; the numbers only grow

    @property
    def open(self) -> bool:
        """Whether it has not ended yet."""
        return self.state in (RunState.WAITING, RunState.RUNNING)

    def update_results(self) -> bool:
        """Read the CSV if it has changed, and return whether the results have."""
        try:
            stat = self._csv.stat()
        except OSError:
            return False
        version = (stat.st_mtime_ns, stat.st_size)
        if version == self._csv_version:
            return False
        self._csv_version = version
        before, self.results = self.results, read_results(self._csv)
        return self.results != before

    def on_event(self, event: JobEvent, now: float) -> None:
        """Take note that the run has started, ended or failed, at `now` on the scheduler's clock."""
        if not event.ended:
            self.state = RunState.RUNNING
        elif event.words:
            self._fail(event.words, now)
        else:
            self.state, self.reason = RunState.DONE, ""
        self.update_results()

    def _fail(self, reason: str, now: float) -> None:
        """Schedule an attempt from the latest checkpoint, or give up after too many without a new one."""
        before, self._checkpoint = self._checkpoint, self._checkpoints.latest_number()
        self.reason = reason
        self.failures = 1 if self._checkpoint > before else self.failures + 1
        if self.failures < MAX_FAILURES:
            self.state, self.due = RunState.WAITING, now + RETRY_SECONDS * self.failures
        else:
            self.state = RunState.FAILED


def run_all(
    runs: Sequence[RunStatus],
    start: Callable[[SweepRun], None],
    wait: Callable[[float], Sequence[JobEvent]],
    report: Callable[[Sequence[RunStatus], Sequence[RunStatus]], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Carry out every run that is not done, and return when all have ended, well or not.

    Args:
        runs: All runs of the sweep.
        start: Puts a run into the queue of those that wait for a free processor.
        wait: Returns the events of the next so many seconds.
        report: Is called with all runs and those that have changed, at least once a second or so.
        clock: Returns seconds.
    """
    by_name = {one.run.name: one for one in runs}
    for one in runs:
        one.update_results()
    report(runs, runs)
    while any(one.open for one in runs):
        for one in runs:
            if one.state is RunState.WAITING and one.due is not None and one.due <= clock():
                one.due = None
                start(one.run)
        changed = []
        for event in wait(POLL_SECONDS):
            by_name[event.name].on_event(event, clock())
            changed.append(by_name[event.name])
        changed += [one for one in runs if one.open and one.update_results()]
        report(runs, list(dict.fromkeys(changed)))
