"""The speed ledger: where the wall time of a phase goes, thread by thread, and how busy the cores are."""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil

SECTIONS = ("act", "emulate", "store", "sample", "target", "update", "wait")
OTHER = "other"


@dataclass
class Book:
    """What is booked of one kind of phase."""

    wall: float = 0.0  # seconds
    cpu: float = 0.0  # seconds of computing meanwhile, on all cores, by this process and its children
    steps: int = 0  # over all games
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
            "".join(f"{word:>10}" for word in ("thread", *header)),
        ]
        for thread, shares in self.shares().items():
            cells = (f"{shares[name]:.1%}" if name in shares else "" for name in header)
            name = thread.lower().removesuffix("thread").removesuffix("_0")  # as in MainThread, actor_0
            lines.append("".join(f"{word:>10}" for word in (name, *cells)))
        return lines


class Ledger:
    """Books of all phases, of which at most one is open."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.books: defaultdict[str, Book] = defaultdict(Book)  # by phase: random, train or test
        self._clock = clock
        self._open: Book | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Book what is done inside as phase `name`."""
        book = self._open = self.books[name]
        start, cpu = self._clock(), _cpu_seconds()
        try:
            yield
        finally:
            self._open = None
            book.wall += self._clock() - start
            book.cpu += _cpu_seconds() - cpu

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Book the time inside as `name`, one of `SECTIONS`, of this thread."""
        start = self._clock()
        try:
            yield
        finally:
            if self._open is not None:
                seconds = self._open.seconds.setdefault(threading.current_thread().name, {})
                seconds[name] = seconds.get(name, 0.0) + self._clock() - start

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


def usable_cores() -> int:
    """Return how many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu_seconds() -> float:
    """Return the seconds of computing so far, of this process and of those that it started."""
    seconds = time.process_time()
    for child in psutil.Process().children():
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        seconds += times.user + times.system
    return seconds
