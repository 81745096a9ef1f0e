"""The profiler: the wall time of each part of the loop, by thread.

`Profiler.watch` replaces methods of the parts by timed ones, so the algorithm has no code for the profiler.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

# The methods that `Profiler.watch` measures, of the network, the games, the memory and a cluster's actors.
METHODS = {
    "predict": "act", "step": "emulate", "add": "store", "update_priorities": "store", "sample": "sample",
    "prepare": "target", "prepare_rollout": "target", "returns": "target", "update": "update", "next": "wait",
}  # fmt: skip
# The columns of the table; the last is the rest, which includes waiting for other threads.
SECTIONS = (*dict.fromkeys(METHODS.values()), "other")


@dataclass
class PhaseProfile:
    """The wall seconds of one kind of phase, and those of each section by thread."""

    wall: float = 0.0
    steps: int = 0  # over all games
    # Each thread writes only its own entry.
    seconds: defaultdict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))

    def shares(self) -> dict[str, dict[str, float]]:
        """Return each section's share of the wall time, by thread."""
        shares = {}
        for thread, seconds in self.seconds.items():
            measured = {name: seconds[name] / self.wall for name in SECTIONS if name in seconds}
            shares[thread] = measured | {SECTIONS[-1]: 1 - sum(measured.values())}
        return shares

    def lines(self) -> list[str]:
        """Return the shares as a table, below a line with the steps per second."""
        rows = [("thread", *SECTIONS)]
        for thread, shares in self.shares().items():
            name = thread.lower().removesuffix("thread").removesuffix("_0")  # as in MainThread, actor_0
            rows.append((name, *(f"{shares[one]:.1%}" if one in shares else "" for one in SECTIONS)))
        rate = f"{self.steps} steps in {self.wall:.1f} s, {self.steps / self.wall:.0f} a second"
        return [f"Where the time went: {rate}", *("".join(f"{word:>11}" for word in row) for row in rows)]


class Profiler:
    """Measures phases, and the watched methods within them; at most one phase is open at a time."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.phases: defaultdict[str, PhaseProfile] = defaultdict(PhaseProfile)  # by name, such as train
        self._clock = clock
        self._open: PhaseProfile | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[PhaseProfile]:
        """Measure the time inside as phase `name`; the caller counts the steps."""
        profile = self._open = self.phases[name]
        start = self._clock()
        try:
            yield profile
        finally:
            self._open = None
            profile.wall += self._clock() - start

    def watch(self, *parts: object) -> None:
        """Measure those of `METHODS` that `parts` have from now on; before others keep references to them."""
        for part in parts:
            for method in METHODS.keys() & set(dir(part)):
                setattr(part, method, self._timed(getattr(part, method), METHODS[method]))

    def _timed(self, method: Callable[..., Any], section: str) -> Callable[..., Any]:
        """Return `method` with a clock around it."""

        def timed(*arguments: Any, **named: Any) -> Any:
            start = self._clock()
            try:
                return method(*arguments, **named)
            finally:
                if self._open is not None:
                    seconds = self._open.seconds[threading.current_thread().name]
                    seconds[section] = seconds.get(section, 0.0) + self._clock() - start

        return timed
