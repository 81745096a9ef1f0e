"""How far one run is, and how well it plays, from its CSV."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simple_dqn.errors import UserError
from simple_dqn.statistics import Run, read_run


@dataclass(frozen=True)
class Standing:
    """What the last row of a run's CSV says, and its scores so far."""

    epoch: int
    steps: int  # of training
    rate: float  # steps per second in the last phase
    hours: float  # of wall time
    phase: str  # which phases are scored: test, or train where there is no test; empty: none yet
    last: float | None  # average reward of the last scored phase, raw game points
    best: float | None  # the highest of them


def read_standing(path: Path) -> Standing | None:
    """Return how the run whose CSV is `path` stands; None: nothing is known yet."""
    try:
        run = read_run(path, path.stem)
    except UserError:
        return None
    if not len(run.phases):
        return None
    phase, scores = _scores(run)
    epoch, steps, rate, seconds = (
        float(np.nan_to_num(run.columns[name][-1]))
        for name in ("epoch", "total_train_steps", "steps_per_second", "total_time")
    )
    return Standing(
        epoch=int(epoch),
        steps=int(steps),
        rate=rate,
        hours=seconds / 3600,
        phase=phase,
        last=scores[-1] if scores else None,
        best=max(scores, default=None),
    )


def _scores(run: Run) -> tuple[str, list[float]]:
    """Return the phase that is scored, and the average reward of each of its rows in which a game ended."""
    for phase in ("test", "train"):
        _, values = run.line(phase, "average_reward")
        if len(values):
            return phase, values.tolist()
    return "", []


class Watch:
    """Reads a CSV again when it has changed."""

    def __init__(self, path: Path) -> None:
        self.standing: Standing | None = None
        self._path = path
        self._seen = (0, 0)  # its time, in nanoseconds, and its size when it was read

    def look(self) -> bool:
        """Bring `standing` up to date, and return whether it has changed."""
        try:
            state = self._path.stat()
        except OSError:
            return False
        if (state.st_mtime_ns, state.st_size) == self._seen:
            return False
        self._seen = (state.st_mtime_ns, state.st_size)
        before, self.standing = self.standing, read_standing(self._path)
        return self.standing != before
