"""Counts steps, games, rewards and losses of each phase, and tells the writers."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from simple_dqn.scores import Scores
from simple_dqn.statistics.summary import PhaseOutcome, PhaseSummary, Progress, Writer
from simple_dqn.types import CheckpointState, Step

# The environment on which a phase runs. Random play and training share theirs, so a game that the
# one began may end in the other; a test starts its games anew.
ENVIRONMENT = {"random": "training", "train": "training", "test": "testing", "play": "testing"}

PROGRESS_INTERVAL = 0.2  # seconds between two looks at a running phase


@dataclass(slots=True)
class _Tally:
    """What was counted since the phase began."""

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
    """Hears what happens and passes a summary of each phase to its writers.

    A game's score is the sum of its raw rewards from its start to its end; a lost life does not end it.
    A phase's scores are those of the games that ended in it, wherever they began.
    """

    def __init__(self, writers: Sequence[Writer], clock: Callable[[], float] = time.perf_counter) -> None:
        """Start the clock of the run.

        Args:
            writers: Who hears of each phase, in this order.
            clock: Wall time in seconds from any origin.
        """
        self._writers = writers
        self._writers_open = False
        self._clock = clock
        self._run_start = clock()
        self._time_before = 0.0  # seconds that the run took before it was resumed
        self._phase, self._epoch, self._phase_start = "random", 0, self._run_start
        self._phase_time = 0.0  # seconds that the phase took before it was resumed
        self._next_progress = math.inf
        self._tally = _Tally()
        self._scores: dict[str, Scores] = {}  # by environment, from its first step on

    def on_phase_start(self, phase: str, epoch: int, total_steps: int) -> None:
        """Begin to count a phase.

        Args:
            phase: random, train, test or play.
            epoch: Counted from 1; 0 for the random phase.
            total_steps: Steps expected, over all games; 0: not known.

        Raises:
            UserError: A writer cannot write where it was told to.
        """
        self._phase, self._epoch = phase, epoch
        if ENVIRONMENT[phase] == "testing":
            self._scores.pop("testing", None)
        self._tally = _Tally()
        self._count_from(self._clock(), total_steps)

    def on_phase_resume(self, total_steps: int) -> None:
        """Go on counting the phase in whose middle `get_state` was called.

        Args:
            total_steps: Steps expected, over all games, those before the resume included.

        Raises:
            UserError: A writer cannot write where it was told to.
        """
        self._count_from(self._clock() - self._phase_time, total_steps)

    def _count_from(self, start: float, total_steps: int) -> None:
        if not self._writers_open:
            for writer in self._writers:
                writer.open()
            self._writers_open = True
        for writer in self._writers:
            writer.on_phase_start(self._phase, self._epoch, total_steps)
        self._phase_start = start
        self._next_progress = self._clock() + PROGRESS_INTERVAL

    def on_games_start(self) -> None:
        """Forget the scores so far: every game was started anew."""
        self._scores.clear()

    def on_step(self, step: Step, exploration_rate: float) -> None:
        """Count one step of E games, those that it starts anew among them."""
        games = len(step.rewards)
        # Only the first step tells how many games there are.
        scores = self._scores.setdefault(ENVIRONMENT[self._phase], Scores(np.zeros(games)))
        self.on_steps(games, scores.add(step), exploration_rate)

    def on_steps(self, steps: int, scores: Sequence[float], exploration_rate: float) -> None:
        """Count steps whose scores the caller has added up.

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
        """Count one update of the weights, with the mean loss of its minibatch."""
        tally = self._tally
        tally.updates += 1
        tally.loss_sum += loss
        tally.loss = loss

    def on_phase_end(self, outcome: PhaseOutcome) -> None:
        """Sum up the phase, whether it ran its length or was broken off, and tell the writers.

        Raises:
            UserError: A writer could not write.
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
        """Return what a resumed run needs to count on from here, be it in the middle of a phase."""
        return {
            "phase": self._phase,
            "epoch": self._epoch,
            "tally": asdict(self._tally),
            "scores": {name: scores.running.copy() for name, scores in self._scores.items()},
            "phase_time": self._clock() - self._phase_start,
            "total_time": self._total_time(),
        }

    def set_state(self, state: CheckpointState) -> None:
        """Go on from what `get_state` returned."""
        self._phase, self._epoch = state["phase"], state["epoch"]
        self._tally = _Tally(**state["tally"])
        self._scores = {name: Scores(running) for name, running in state["scores"].items() if running.size}
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
            total_train_steps=outcome.total_train_steps,
            replay_memory_count=outcome.replay_memory_count,
            meanq=None if outcome.meanq is None else float(outcome.meanq),
            meancost=float(tally.loss_sum / tally.updates) if tally.updates else None,
            weight_updates=outcome.weight_updates,
            total_time=self._total_time(),
            epoch_time=epoch_time,
            steps_per_second=tally.steps / epoch_time if epoch_time > 0 else 0.0,
            more=outcome.more,
        )
