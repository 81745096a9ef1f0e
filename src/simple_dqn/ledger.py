"""The speed ledger: where the wall time of a phase goes, thread by thread, and how busy the cores are."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from simple_dqn.machine import busy_seconds, cpu_seconds, usable_cores

SECTIONS = ("act", "emulate", "preprocess", "store", "sample", "target", "update", "wait")
OTHER = "other"
WIDTH = 11  # of a column


@dataclass
class Book:
    """What is booked of one kind of phase."""

    wall: float = 0.0  # seconds
    cpu: float = 0.0  # seconds of computing meanwhile, on all cores, by this process and its children
    steps: int = 0  # over all games
    busy: dict[int, float] = field(default_factory=dict)  # seconds that each usable core worked, for anyone
    # Wall seconds by thread, then section. Each thread writes to its own entry alone.
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)

    def shares(self) -> dict[str, dict[str, float]]:
        """Return by thread which share of the wall time each section took, and what no section booked."""
        shares = {}
        for thread, seconds in self.seconds.items():
            booked = {name: seconds[name] / self.wall for name in SECTIONS if name in seconds}
            shares[thread] = booked | {OTHER: 1 - sum(booked.values())}
        return shares

    def lines(self, phase: str) -> list[str]:
        """Return the table that a person reads, line by line."""
        rate, busy, cores = self.steps / self.wall, self.cpu / self.wall, usable_cores()
        header = (*SECTIONS, OTHER)
        lines = [
            f"Where the time went: {phase}, {self.steps} steps in {self.wall:.1f} s, {rate:.0f} a second, "
            f"{busy:.2f} of {cores} cores busy",
            "".join(f"{word:>{WIDTH}}" for word in ("thread", *header)),
        ]
        for thread, shares in self.shares().items():
            cells = (f"{shares[name]:.1%}" if name in shares else "" for name in header)
            name = thread.lower().removesuffix("thread").removesuffix("_0")  # as in MainThread, actor_0
            lines.append("".join(f"{word:>{WIDTH}}" for word in (name, *cells)))
        loads = (f"{core}: {seconds / self.wall:.0%}" for core, seconds in sorted(self.busy.items()))
        lines.append(f"{'cores':>{WIDTH}}    {'   '.join(loads)}   busy, other programs included")
        return lines


class _Thread(threading.local):
    """What is known of the thread that looks."""

    within = 0.0  # seconds of the sections that ended inside of the one that is open


class Ledger:
    """Books of all phases, of which at most one is open."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.books: defaultdict[str, Book] = defaultdict(Book)  # by phase: random, train or test
        self._clock = clock
        self._open: Book | None = None
        self._thread = _Thread()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Book what is done inside as phase `name`."""
        book = self._open = self.books[name]
        start, cpu, cores = self._clock(), cpu_seconds(), busy_seconds()
        try:
            yield
        finally:
            self._open = None
            book.wall += self._clock() - start
            book.cpu += cpu_seconds() - cpu
            now = busy_seconds()
            for core in now.keys() & cores.keys():  # A run may be moved to other cores while it is running.
                book.busy[core] = book.busy.get(core, 0.0) + now[core] - cores[core]

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Book the time inside as `name`, one of `SECTIONS`, of this thread, but for sections within it."""
        thread = self._thread
        around, thread.within = thread.within, 0.0
        start = self._clock()
        try:
            yield
        finally:
            elapsed = self._clock() - start
            if self._open is not None:
                seconds = self._open.seconds.setdefault(threading.current_thread().name, {})
                seconds[name] = seconds.get(name, 0.0) + elapsed - thread.within
            thread.within = around + elapsed

    def count(self, steps: int) -> None:
        """Book `steps` more steps."""
        if self._open is not None:
            self._open.steps += steps

    def lines(self) -> list[str]:
        """Return the table of training, or of what there was instead; none where nothing was done."""
        for phase in ("train", "test", "random"):
            if self.books[phase].steps:
                return self.books[phase].lines(phase)
        return []
