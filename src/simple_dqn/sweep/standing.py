"""How far one run is, and how well it plays, from its CSV."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import numpy as np

from simple_dqn.errors import UserError
from simple_dqn.statistics import Run, read_run

PHASES = ("test", "train")  # that can be scored, the better one first
Rewards = Mapping[int, float | None]  # epoch -> average reward, raw game points; None: no game ended


@dataclass(frozen=True)
class Standing:
    """What the last row of a run's CSV says, and the rewards of all its epochs."""

    epoch: int
    steps: int  # of training
    rate: float  # steps per second in the last phase
    hours: float  # of wall time
    rewards: Mapping[str, Rewards] = field(default_factory=dict)  # by phase, test and train

    @property
    def phase(self) -> str:
        """The phase to score: test, or train where no test game has ended; empty: no game has ended."""
        return next((phase for phase in PHASES if self.games_ended(phase)), "")

    @property
    def last(self) -> float | None:
        """The average reward of the latest epoch in which a game ended, in the phase to score."""
        known = [reward for reward in self._rewards(self.phase).values() if reward is not None]
        return known[-1] if known else None

    def games_ended(self, phase: str) -> bool:
        """Return whether a game has ended in any epoch of `phase`."""
        return any(reward is not None for reward in self._rewards(phase).values())

    def reached(self, phase: str) -> int:
        """Return the latest epoch whose `phase` is over; 0: none is."""
        return max(self._rewards(phase), default=0)

    def score(self, phase: str, epoch: int) -> float | None:
        """Return the mean reward of the last tenth of the epochs up to `epoch`; None: no game ended then."""
        rewards = [self._rewards(phase).get(number) for number in last_tenth(epoch)]
        known = [reward for reward in rewards if reward is not None]
        return fmean(known) if known else None

    def best(self, phase: str, epoch: int) -> float | None:
        """Return the highest average reward of an epoch up to `epoch`, which chance makes too high."""
        rewards = self._rewards(phase).items()
        return max((one for number, one in rewards if number <= epoch and one is not None), default=None)

    def _rewards(self, phase: str) -> Rewards:
        return self.rewards.get(phase, {})


def last_tenth(epoch: int) -> range:
    """Return the last tenth of the epochs 1 to `epoch`, rounded up: 46 to 50 of 50, 5 of 5."""
    return range(epoch - -(-epoch // 10) + 1, epoch + 1)


def read_standing(path: Path) -> Standing | None:
    """Return how the run whose CSV is `path` stands; None: nothing is known yet."""
    try:
        run = read_run(path, path.stem)
    except UserError:
        return None
    if not len(run.phases):
        return None
    epoch, steps, rate, seconds = (
        float(np.nan_to_num(run.columns[name][-1]))
        for name in ("epoch", "total_train_steps", "steps_per_second", "total_time")
    )
    return Standing(
        epoch=int(epoch),
        steps=int(steps),
        rate=rate,
        hours=seconds / 3600,
        rewards={phase: _rewards(run, phase) for phase in PHASES},
    )


def _rewards(run: Run, phase: str) -> Rewards:
    rows = run.phases == phase
    epochs, values = run.columns["epoch"][rows].tolist(), run.columns["average_reward"][rows].tolist()
    return {
        int(epoch): value if np.isfinite(value) else None
        for epoch, value in zip(epochs, values, strict=True)
        if np.isfinite(epoch)
    }


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
