"""Statistics count the steps, games, scores and losses of each phase of a run, and pass them to writers."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simple_dqn.errors import Interrupt
from simple_dqn.types import CheckpointState, QValues, Step

PROGRESS_INTERVAL = 0.2  # seconds between two `on_progress` events
POINT_STEPS = 1000  # between two `on_point` events


@dataclass(slots=True)
class PhaseSummary:
    """The numbers of a phase, so far or at its end; None is a value that does not exist.

    Up to `steps_per_second` the fields are the columns of the CSV, in simple_dqn's order and with its names.
    """

    epoch: int  # 0 for the random phase
    phase: str  # random, train, test or play
    steps: int = 0  # over all games
    nr_games: int = 0  # games that ended in the phase
    average_reward: float | None = None  # mean score of these games, raw game points
    min_game_reward: float | None = None
    max_game_reward: float | None = None
    last_exploration_rate: float | None = None  # None: the phase had no step
    total_train_steps: int = 0  # training steps since the run began, over all games
    replay_memory_count: int = 0  # experiences held
    meanq: float | None = None  # mean over held-out states of max_a Q(s, a); None: not measured
    meancost: float | None = None  # mean loss of the updates of this phase; None: there were none
    weight_updates: int = 0  # updates since the run began
    total_time: float = 0.0  # wall seconds of the run
    epoch_time: float = 0.0  # wall seconds of this phase
    steps_per_second: float = 0.0
    more: Mapping[str, float | None] = field(default_factory=dict)  # additional columns, such as a cluster's
    reward_sum: float = 0.0  # of the games that ended
    updates: int = 0  # in this phase
    loss_sum: float = 0.0  # of these updates
    loss: float | None = None  # of the last of them

    def row(self) -> dict[str, float | str | None]:
        """Return the row of the CSV, by column."""
        return {**{name: getattr(self, name) for name in COLUMNS}, **self.more}

    def scalars(self) -> dict[str, float]:
        """Return the numbers that exist, by names such as `test/average_reward`, for curves."""
        numbers = {name: value for name, value in self.row().items() if value is not None and name != "phase"}
        return {f"{self.phase}/{name}": float(value) for name, value in numbers.items()}


COLUMNS = tuple(field.name for field in fields(PhaseSummary))[:16]  # of the CSV


@dataclass(frozen=True, slots=True)
class Point:
    """The numbers of the latest steps of a training phase, for curves within it."""

    step: int  # training steps since the run began, over all games
    scalars: Mapping[str, float]  # those that exist, by name: `progress/reward`, `progress/loss`, ...
    qvalues: QValues | None  # float32 [states, A], of the held-out states of `meanq`


class Writer:
    """Receives the events of phases. A subclass overrides those that it uses."""

    points = False  # whether it receives points, for which the network values the held-out states
    unfinished = True  # whether it receives the end of a phase that was stopped, and that a resume completes
    every = 0  # steps of a phase between two `on_safe_point` events; 0: it receives none
    interrupt: Interrupt  # of the run: a writer that sets `interrupt.requested` ends it, with a checkpoint
    last_row: str | None = None  # of the CSV, after which a resumed run continues

    def open(self) -> None:
        """Create the files; called once, when the first phase starts."""

    def on_phase_start(self, phase: str, epoch: int, total_steps: int) -> None:
        """Called when a phase of `total_steps` steps begins; 0: its length is unknown."""

    def on_progress(self, progress: PhaseSummary) -> None:
        """Called a few times a second while a phase runs, with its counts so far, which change later."""

    def on_point(self, point: Point) -> None:
        """Called every 1,000 steps of a training phase if any writer of the run has `points`."""

    def on_safe_point(self, summary: PhaseSummary) -> None:
        """Called in every phase at the first safe point after each `every` steps, with the counts so far."""

    def on_file(self, path: Path) -> None:
        """Called when a snapshot was written, and for a film of the run."""

    def on_phase_end(self, summary: PhaseSummary) -> None:
        """Called when a phase has ended, completed or interrupted."""

    def close(self) -> None:
        """Close the files; called once, also after an error."""


class GameScores:
    """Sums the raw rewards of E games side by side, each over a whole game, lost lives included."""

    def __init__(self, running: NDArray[np.float64]) -> None:
        """Start with a copy of `running` float64 [E], the points of the games in progress."""
        self.running = running.copy()

    def add(self, step: Step) -> list[float]:
        """Add a `step` of every game; return the scores of the games that ended with it, in order."""
        self.running += step.rewards
        scores: list[float] = self.running[step.resets].tolist()
        self.running[step.resets] = 0
        return scores


class Statistics:
    """Receives the events of a run, and passes a summary of each phase to the writers.

    The scores of a phase are those of the games that ended in it: a game that begins in random play may end
    in training. The methods raise the `UserError` of a writer that cannot write its file.
    """

    def __init__(self, writers: Sequence[Writer], clock: Callable[[], float] = time.perf_counter) -> None:
        """Start the run's `clock`, of seconds from any origin; the `writers` receive events in this order."""
        self._writers, self._clock, self._unopened = writers, clock, list(writers)
        self._run_start = self._phase_start = clock()  # earlier by the time before the run was resumed
        self._next_progress = math.inf
        self._phase = PhaseSummary(0, "random")
        # Training steps between two `on_point` events; 0: no writer wants them.
        self.point_steps = POINT_STEPS * any(writer.points for writer in writers)
        self._scores: GameScores | None = None  # of random play and training, from the first step

    def open(self) -> None:
        """Open the files of the writers, or raise UserError; the first phase does it otherwise."""
        while self._unopened:
            self._unopened.pop(0).open()

    def begin(self) -> None:
        """Open the files; a run from a snapshot continues the total time of the CSV's last row."""
        self.open()
        row = next((writer.last_row for writer in self._writers if writer.last_row), "")
        with suppress(IndexError, ValueError):  # a new CSV has only its header
            before = float(row.split(",")[COLUMNS.index("total_time")])
            self._run_start -= before if 0 < before < math.inf else 0

    def on_phase_start(self, phase: str, epoch: int, total_steps: int) -> None:
        """Begin a phase, random, train, test or play, of `total_steps` over all games; 0: unknown."""
        self._phase, self._phase_start = PhaseSummary(epoch, phase), self._clock()
        self.on_phase_resume(total_steps)

    def on_phase_resume(self, total_steps: int) -> None:
        """Continue the phase that `set_state` has restored, of `total_steps` steps in all."""
        self.open()
        for writer in self._writers:
            writer.on_phase_start(self._phase.phase, self._phase.epoch, total_steps)
        now = self._clock()
        self._next_progress, self._last_point = now + PROGRESS_INTERVAL, (now, replace(self._phase))

    def on_games_start(self) -> None:
        """Forget the scores of the games in progress: new games were started."""
        self._scores = None

    def on_step(self, step: Step, exploration_rate: float) -> None:
        """Count one step of the E games of random play and training, including a step that starts a game."""
        games = len(step.rewards)
        self._scores = self._scores or GameScores(np.zeros(games))
        self.on_steps(games, self._scores.add(step), exploration_rate)

    def on_steps(self, steps: int, scores: Sequence[float], exploration_rate: float) -> None:
        """Count `steps` over all games, in which games ended with these `scores`, such as those of a test."""
        phase = self._phase
        for score in scores:
            phase.nr_games += 1
            phase.reward_sum += score
            phase.average_reward = phase.reward_sum / phase.nr_games
            lowest, highest = phase.min_game_reward, phase.max_game_reward
            phase.min_game_reward = score if lowest is None else min(lowest, score)
            phase.max_game_reward = score if highest is None else max(highest, score)
        phase.steps += steps
        phase.last_exploration_rate = float(exploration_rate)
        now = self._clock()
        if now >= self._next_progress:
            self._next_progress = now + PROGRESS_INTERVAL
            for writer in self._writers:
                writer.on_progress(phase)

    def on_train(self, loss: float) -> None:
        """Count one update, with the mean loss of its minibatch."""
        self._phase.updates += 1
        self._phase.loss_sum += loss
        self._phase.loss = loss

    def on_point(self, step: int, qvalues: QValues | None) -> None:
        """Pass the numbers since the last point, or since the phase began, to the writers; see `Point`."""
        (time_before, before), now, phase = self._last_point, self._clock(), self._phase
        self._last_point = (now, replace(phase))
        numbers = {
            "reward": _ratio(phase.reward_sum - before.reward_sum, phase.nr_games - before.nr_games),
            "loss": _ratio(phase.loss_sum - before.loss_sum, phase.updates - before.updates),
            "mean_q": None if qvalues is None else float(qvalues.max(axis=1).mean()),
            "exploration_rate": phase.last_exploration_rate,
            "steps_per_second": _ratio(phase.steps - before.steps, now - time_before),
        }
        scalars = {f"progress/{name}": float(value) for name, value in numbers.items() if value is not None}
        for writer in self._writers:
            writer.on_point(Point(step, scalars, qvalues))

    def on_safe_point(self, before: int, now: int, **counted: Any) -> None:
        """Pass the counts so far to the writers whose `every` has a multiple in the steps after `before`."""
        for writer in self._writers:
            if writer.every and now // writer.every > before // writer.every:
                writer.on_safe_point(self._summary(**counted))

    def on_file(self, path: Path) -> None:
        """Pass the path of a new file, such as a snapshot, to the writers."""
        for writer in self._writers:
            writer.on_file(path)

    def on_phase_end(self, complete: bool = True, /, **counted: Any) -> None:
        """Pass the summary of the phase, `complete` or interrupted, to the writers; `counted` by the run."""
        self._next_progress = math.inf
        summary = self._summary(**counted)
        for writer in self._writers:
            if complete or writer.unfinished:
                writer.on_phase_end(summary)

    def _summary(self, **counted: Any) -> PhaseSummary:
        phase, now = self._phase, self._clock()
        seconds = now - self._phase_start
        return replace(
            phase, meancost=_ratio(phase.loss_sum, phase.updates), total_time=now - self._run_start,
            epoch_time=seconds, steps_per_second=_ratio(phase.steps, seconds) or 0.0, **counted,
        )  # fmt: skip

    def close(self) -> None:
        """Close the writers."""
        for writer in self._writers:
            writer.close()

    def get_state(self) -> CheckpointState:
        """Return the state for a checkpoint, in the middle of a phase or between two."""
        return {
            "tally": asdict(self._phase),
            "running": self._scores.running.copy() if self._scores else None,
            "phase_time": self._clock() - self._phase_start,
            "total_time": self._clock() - self._run_start,
            "csv": next((writer.last_row for writer in self._writers if writer.last_row), None),
        }

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned."""
        self._phase = PhaseSummary(**state["tally"])
        self._scores = None if state["running"] is None else GameScores(state["running"])
        now = self._clock()
        self._phase_start, self._run_start = now - state["phase_time"], now - state["total_time"]


def _ratio(total: float, count: float) -> float | None:
    return float(total / count) if count else None
