"""The profiler: the wall time of each part of the loop, by thread, and the load of the cores.

It times the parts from outside: `watch` puts a clock around their methods, so the algorithm knows of none.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from simple_dqn.machine import busy_seconds, cpu_seconds, usable_cores

SECTIONS = ("act", "emulate", "store", "sample", "target", "update", "wait")
# The methods that `Profiler.watch` measures, of the network, the games, the memory and a cluster's actors.
METHODS = {
    "predict": "act", "prepare": "target", "returns": "target", "update": "update", "step": "emulate",
    "add": "store", "update_priorities": "store", "sample": "sample", "next": "wait",
}  # fmt: skip
OTHER = "other"  # the rest, which includes waiting for other threads
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


class Profiler:
    """Measures phases, and the watched methods within them; at most one phase is open at a time."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        # By phase: random, train or test.
        self.phases: defaultdict[str, PhaseProfile] = defaultdict(PhaseProfile)
        self._clock = clock
        self._open: PhaseProfile | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[PhaseProfile]:
        """Measure the time inside as phase `name`; the caller counts the steps."""
        profile = self._open = self.phases[name]
        start, cpu, cores = self._clock(), cpu_seconds(), busy_seconds()
        try:
            yield profile
        finally:
            self._open = None
            profile.wall += self._clock() - start
            profile.cpu += cpu_seconds() - cpu
            now = busy_seconds()
            for core in now.keys() & cores.keys():  # the usable cores may change during a run
                profile.busy[core] = profile.busy.get(core, 0.0) + now[core] - cores[core]

    def watch(self, *parts: object) -> None:
        """Measure those of `METHODS` that `parts` have from now on; before others keep references to them."""
        for part in {id(part): part for part in parts}.values():  # each once
            for method in METHODS.keys() & set(dir(part)):
                setattr(part, method, self._timed(getattr(part, method), METHODS[method]))

    def lines(self) -> list[str]:
        """Return the table of training, else of a test, else of random play; empty if there were no steps."""
        for phase in ("train", "test", "random"):
            if self.phases[phase].steps:
                return self.phases[phase].lines(phase)
        return []

    def _timed(self, method: Callable[..., Any], section: str) -> Callable[..., Any]:
        """Return `method` with a clock around it."""

        def timed(*arguments: Any, **named: Any) -> Any:
            start = self._clock()
            try:
                return method(*arguments, **named)
            finally:
                if self._open is not None:
                    seconds = self._open.seconds.setdefault(threading.current_thread().name, {})
                    seconds[section] = seconds.get(section, 0.0) + self._clock() - start

        return timed
