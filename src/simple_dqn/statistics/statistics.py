"""Statistics count the steps, games, scores and losses of each phase for the writers."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simple_dqn.statistics.csv_writer import CsvWriter
from simple_dqn.statistics.summary import PhaseOutcome, PhaseSummary, Point, Progress, Writer
from simple_dqn.types import CheckpointState, QValues, Step

PROGRESS_INTERVAL = 0.2  # seconds between two `on_progress` events
POINT_STEPS = 1000  # between two `on_point` events


class Scores:
    """Sums the raw rewards of E games side by side, from a game's start to its end, lost lives included.

    Attributes:
        running: float64 [E], points of the games in progress; 0 after a game's end.
    """

    def __init__(self, running: NDArray[np.float64]) -> None:
        """Start with `running` float64 [E], which is copied."""
        self.running = running.copy()

    def add(self, step: Step) -> list[float]:
        """Add a `step` of every game; return the scores of the games that ended with it, in order."""
        if np.count_nonzero(step.starts):
            self.running[step.starts] = 0
        self.running += step.rewards
        if not np.count_nonzero(step.resets):
            return []
        scores: list[float] = self.running[step.resets].tolist()
        self.running[step.resets] = 0
        return scores


@dataclass(slots=True)
class _Tally:
    """Counts since the phase began."""

    steps: int = 0
    nr_games: int = 0
    reward_sum: float = 0.0
    min_game_reward: float = math.inf
    max_game_reward: float = -math.inf
    exploration_rate: float | None = None
    updates: int = 0
    loss_sum: float = 0.0
    loss: float | None = None

    def add_game(self, score: float) -> None:
        self.nr_games += 1
        self.reward_sum += score
        self.min_game_reward = min(self.min_game_reward, score)
        self.max_game_reward = max(self.max_game_reward, score)

    def average_reward(self) -> float | None:
        return self.reward_sum / self.nr_games if self.nr_games else None

    def progress(self) -> Progress:
        return Progress(self.steps, self.nr_games, self.average_reward(), self.exploration_rate, self.loss)


class Statistics:
    """Receives the events of a run, and passes a summary of each phase to the writers.

    A game's score is the sum of its raw rewards from start to end; a lost life does not end it. The scores
    of a phase are those of the games that ended in it: one that begins in random play may end in training.
    """

    def __init__(self, writers: Sequence[Writer], clock: Callable[[], float] = time.perf_counter) -> None:
        """Start the clock of the run.

        Args:
            writers: Receive the events of phases, in this order.
            clock: Wall time in seconds from any origin.
        """
        self._writers = writers
        self._writers_open = False
        self._clock = clock
        self._run_start = clock()
        self._time_before = 0.0  # seconds of the run before it was resumed
        self._phase, self._epoch, self._phase_start = "random", 0, self._run_start
        self._phase_time = 0.0  # seconds of the phase before it was resumed
        self._next_progress = math.inf
        self._tally = _Tally()
        # Training steps between two `on_point` events; 0: no writer wants them.
        self.point_steps = POINT_STEPS * any(writer.points for writer in writers)
        self._last_point = (self._run_start, _Tally())  # the time and the counts then
        self._scores: Scores | None = None  # of the games of random play and training, from the first step

    def on_phase_start(self, phase: str, epoch: int, total_steps: int) -> None:
        """Begin a phase.

        Args:
            phase: random, train, test or play.
            epoch: Counted from 1; 0 for the random phase.
            total_steps: Steps expected, over all games; 0: unknown.

        Raises:
            UserError: A writer cannot write its file.
        """
        self._phase, self._epoch = phase, epoch
        self._tally = _Tally()
        self._count_from(self._clock(), total_steps)

    def on_phase_resume(self, total_steps: int) -> None:
        """Continue the phase that `set_state` has restored.

        Args:
            total_steps: Steps expected in the whole phase, over all games.

        Raises:
            UserError: A writer cannot write its file.
        """
        self._count_from(self._clock() - self._phase_time, total_steps)

    def _count_from(self, start: float, total_steps: int) -> None:
        if not self._writers_open:
            for writer in self._writers:
                writer.open()
            self._writers_open = True
        for writer in self._writers:
            writer.on_phase_start(self._phase, self._epoch, total_steps)
        self._phase_start, now = start, self._clock()
        self._next_progress = now + PROGRESS_INTERVAL
        self._last_point = (now, replace(self._tally))

    def on_games_start(self) -> None:
        """Forget the scores of the games in progress: new games were started."""
        self._scores = None

    def on_step(self, step: Step, exploration_rate: float) -> None:
        """Count one step of the E games of random play and training, including a step that starts a game."""
        games = len(step.rewards)
        self._scores = self._scores or Scores(np.zeros(games))
        self.on_steps(games, self._scores.add(step), exploration_rate)

    def on_steps(self, steps: int, scores: Sequence[float], exploration_rate: float) -> None:
        """Count steps whose scores the caller has added up, such as those of a test.

        Args:
            steps: Steps over all games.
            scores: Scores of the games that ended in these steps.
            exploration_rate: ε.
        """
        tally = self._tally
        for score in scores:
            tally.add_game(score)
        tally.steps += steps
        tally.exploration_rate = exploration_rate
        now = self._clock()
        if now >= self._next_progress:
            self._next_progress = now + PROGRESS_INTERVAL
            for writer in self._writers:
                writer.on_progress(tally.progress())

    def on_train(self, loss: float) -> None:
        """Count one update, with the mean loss of its minibatch."""
        tally = self._tally
        tally.updates += 1
        tally.loss_sum += loss
        tally.loss = loss

    def on_point(self, step: int, qvalues: QValues | None) -> None:
        """Pass the numbers since the last point, or since the phase began, to the writers.

        Args:
            step: Training steps since the run began.
            qvalues: float32 [states, A] of held-out states; None: there are none yet.
        """
        (time_before, before), now, tally = self._last_point, self._clock(), self._tally
        self._last_point = (now, replace(tally))
        numbers = {
            "reward": _mean(tally.reward_sum - before.reward_sum, tally.nr_games - before.nr_games),
            "loss": _mean(tally.loss_sum - before.loss_sum, tally.updates - before.updates),
            "mean_q": None if qvalues is None else float(qvalues.max(axis=1).mean()),
            "exploration_rate": tally.exploration_rate,
            "steps_per_second": _mean(tally.steps - before.steps, now - time_before),
        }
        there = {f"progress/{name}": float(value) for name, value in numbers.items() if value is not None}
        for writer in self._writers:
            writer.on_point(Point(step, there, qvalues))

    def on_file(self, path: Path) -> None:
        """Pass the path of a new file, such as a snapshot, to the writers."""
        for writer in self._writers:
            writer.on_file(path)

    def on_phase_end(self, outcome: PhaseOutcome) -> None:
        """Pass the summary of the phase, completed or interrupted, to the writers.

        Raises:
            UserError: A writer could not write its file.
        """
        self._next_progress = math.inf
        summary = self._summary(outcome)
        for writer in self._writers:
            writer.on_phase_end(summary)

    def close(self) -> None:
        """Close the writers."""
        for writer in self._writers:
            writer.close()

    def get_state(self) -> CheckpointState:
        """Return the state for a checkpoint, in the middle of a phase or between two."""
        return {
            "phase": self._phase,
            "epoch": self._epoch,
            "tally": asdict(self._tally),
            "scores": {"training": self._scores.running.copy()} if self._scores else {},
            "phase_time": self._clock() - self._phase_start,
            "total_time": self._total_time(),
            "csv": next((one.rows_sum for one in self._writers if isinstance(one, CsvWriter)), None),
        }

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned."""
        self._phase, self._epoch = state["phase"], state["epoch"]
        self._tally = _Tally(**state["tally"])
        running = state["scores"].get("training", np.zeros(0))
        self._scores = Scores(running) if running.size else None
        self._phase_time = state["phase_time"]
        self._time_before, self._run_start = state["total_time"], self._clock()

    def _total_time(self) -> float:
        return self._time_before + self._clock() - self._run_start

    def _summary(self, outcome: PhaseOutcome) -> PhaseSummary:
        tally = self._tally
        epoch_time = self._clock() - self._phase_start
        rate = tally.exploration_rate
        return PhaseSummary(
            epoch=self._epoch,
            phase=self._phase,
            steps=tally.steps,
            nr_games=tally.nr_games,
            average_reward=tally.average_reward(),
            min_game_reward=tally.min_game_reward if tally.nr_games else None,
            max_game_reward=tally.max_game_reward if tally.nr_games else None,
            last_exploration_rate=None if rate is None else float(rate),
            meancost=float(tally.loss_sum / tally.updates) if tally.updates else None,
            total_time=self._total_time(),
            epoch_time=epoch_time,
            steps_per_second=tally.steps / epoch_time if epoch_time > 0 else 0.0,
            **asdict(outcome),
        )


def _mean(total: float, count: float) -> float | None:
    return total / count if count else None
