"""The profiler: the wall time of each part of the loop, by thread, and the load of the cores."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from simple_dqn.machine import busy_seconds, cpu_seconds, usable_cores

SECTIONS = ("act", "emulate", "preprocess", "store", "sample", "target", "update", "wait")
OTHER = "other"
WIDTH = 11  # characters of a column


@dataclass
class PhaseProfile:
    """The times of one kind of phase."""

    wall: float = 0.0  # seconds
    cpu: float = 0.0  # CPU seconds of this process and its children
    steps: int = 0  # over all games
    busy: dict[int, float] = field(default_factory=dict)  # busy seconds of each usable core, of all programs
    # Wall seconds by thread, then section. Each thread writes only its own entry.
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)

    def shares(self) -> dict[str, dict[str, float]]:
        """Return each section's share of the wall time by thread, with the rest as `OTHER`."""
        shares = {}
        for thread, seconds in self.seconds.items():
            measured = {name: seconds[name] / self.wall for name in SECTIONS if name in seconds}
            shares[thread] = measured | {OTHER: 1 - sum(measured.values())}
        return shares

    def lines(self, phase: str) -> list[str]:
        """Return the lines of the table."""
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
    """Data of the calling thread."""

    within = 0.0  # seconds of the nested sections of the open one


class Profiler:
    """Measures the sections of phases; at most one phase is open at a time."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        # By phase: random, train or test.
        self.phases: defaultdict[str, PhaseProfile] = defaultdict(PhaseProfile)
        self._clock = clock
        self._open: PhaseProfile | None = None
        self._thread = _Thread()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the time inside as phase `name`."""
        profile = self._open = self.phases[name]
        start, cpu, cores = self._clock(), cpu_seconds(), busy_seconds()
        try:
            yield
        finally:
            self._open = None
            profile.wall += self._clock() - start
            profile.cpu += cpu_seconds() - cpu
            now = busy_seconds()
            for core in now.keys() & cores.keys():  # the usable cores may change during a run
                profile.busy[core] = profile.busy.get(core, 0.0) + now[core] - cores[core]

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Measure the time inside, without nested sections, as `name`, one of `SECTIONS`, of this thread."""
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
        """Count `steps` more steps of the open phase."""
        if self._open is not None:
            self._open.steps += steps

    def lines(self) -> list[str]:
        """Return the table of training, else of a test, else of random play; empty if there were no steps."""
        for phase in ("train", "test", "random"):
            if self.phases[phase].steps:
                return self.phases[phase].lines(phase)
        return []
