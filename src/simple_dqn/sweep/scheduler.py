"""The scheduler: starts the runs of a sweep, starts those that fail again, and follows all to their ends."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from enum import StrEnum
from pathlib import Path

from simple_dqn.errors import UserError
from simple_dqn.snapshot import CheckpointFolder, checkpoint_folder
from simple_dqn.statistics.csv_file import Run, read_run
from simple_dqn.sweep.plan import SweepFiles, SweepRun
from simple_dqn.sweep.runner import ENDED_WELL

MAX_FAILURES = 3  # in a row, without a new checkpoint between them
RETRY_SECONDS = 3.0  # before a new attempt, longer each time: the one before may still be ending
POLL_SECONDS = 1.0


class RunState(StrEnum):
    """The state of a run."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class RunStatus:
    """One run of a sweep: its state, and its results so far.

    Attributes:
        run: The game, the setting and the seed.
        state: Whether it waits, runs, is done or has failed for good.
        reason: The reason of its last failure; empty: there was none.
        data: The content of its CSV; None: it has no row of training or a test yet.
        due: When it is to start, in seconds of the scheduler's clock; None: it is started.
    """

    def __init__(self, run: SweepRun, files: SweepFiles) -> None:
        self.run, self.state, self.reason = run, RunState.WAITING, ""
        self.data: Run | None = None
        self.due: float | None = 0.0
        self._csv, self._log = files.csv(run), files.log(run)
        if files.log(run).exists() and files.log(run).read_bytes().endswith(ENDED_WELL):
            self.state = RunState.DONE
        self._csv_version = (0, 0)  # when it was read
        self._log_size = 0  # before the run was started
        self._failures = 0  # since its latest checkpoint
        self._checkpoints = CheckpointFolder(checkpoint_folder(files.prefix(run)))
        self._checkpoint = self._checkpoints.latest_number()  # at the last failure; the numbers only grow
        self.update()

    @property
    def open(self) -> bool:
        """Whether it has not ended yet."""
        return self.state in (RunState.WAITING, RunState.RUNNING)

    def start(self) -> None:
        """Record that the run was queued."""
        self.due, self._log_size = None, size_of(self._log)[0]

    def end(self, reason: str, now: float) -> None:
        """Record that the run ended at the time `now`, with the `reason` if it failed.

        After a failure it is due again, or has failed for good after too many without a new checkpoint.
        """
        self.reason, self.state = reason, RunState.DONE
        if reason:
            before, self._checkpoint = self._checkpoint, self._checkpoints.latest_number()
            self._failures = 1 if self._checkpoint > before else self._failures + 1
            self.state = RunState.WAITING if self._failures < MAX_FAILURES else RunState.FAILED
            self.due = now + RETRY_SECONDS * self._failures
        self.update()

    def update(self) -> bool:
        """Look at the log and the CSV, and return whether they tell anything new."""
        waits = self.state is RunState.WAITING and self.due is None
        began = waits and size_of(self._log)[0] > self._log_size
        self.state = RunState.RUNNING if began else self.state
        version = size_of(self._csv)
        if version == self._csv_version:
            return began
        self._csv_version = version
        try:
            self.data = read_run(self._csv, self.run.setting)
        except UserError:  # It has no row of training yet, or is being written anew.
            return began
        return True


def size_of(path: Path) -> tuple[int, int]:
    """Return the size of a file and its time of change in nanoseconds; (0, 0): it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


def run_all(
    runs: Sequence[RunStatus],
    submit: Callable[[SweepRun], "Future[str]"],
    report: Callable[[Sequence[RunStatus], Sequence[RunStatus]], None],
    clock: Callable[[], float] = time.monotonic,
    poll_seconds: float = POLL_SECONDS,
) -> None:
    """Carry out every run that is not done, and return when all have ended, well or not.

    Args:
        runs: All runs of the sweep.
        submit: Puts a run into the queue; the future has the reason of its failure, empty for none.
        report: Is called with all runs and those that have changed, each time that their files are read.
        clock: Returns seconds.
        poll_seconds: How long to wait at most until the files are read again.
    """
    queue: dict[Future[str], RunStatus] = {}
    report(runs, runs)
    while any(one.open for one in runs):
        for one in runs:
            if one.state is RunState.WAITING and one.due is not None and one.due <= clock():
                one.start()
                queue[submit(one.run)] = one
        if not queue:
            time.sleep(poll_seconds)
        ended, _ = wait(queue, poll_seconds, FIRST_COMPLETED)
        changed = [queue.pop(future) for future in ended]
        for one, future in zip(changed, ended, strict=True):
            error = future.exception()  # Ray has many kinds: the machine is lost, the task was killed, …
            one.end(f"{type(error).__name__}: {error}".splitlines()[0] if error else future.result(), clock())
        changed += [one for one in runs if one.open and one.update()]
        report(runs, list(dict.fromkeys(changed)))
