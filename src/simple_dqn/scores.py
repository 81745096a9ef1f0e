"""Scores of games: raw points, from a game's start to its end; a lost life does not end it."""

import numpy as np
from numpy.typing import NDArray

from simple_dqn.types import CheckpointState, Step


class Scores:
    """The scores of E games side by side.

    Attributes:
        running: float64 [E], points so far of the games in progress; 0 where one has ended.
    """

    def __init__(self, running: NDArray[np.float64]) -> None:
        """Go on from `running` float64 [E], which is copied."""
        self.running = running.copy()

    def add(self, step: Step) -> list[float]:
        """Count one `step` of every game; return the scores of those that it ended, by their places."""
        if np.count_nonzero(step.starts):
            self.running[step.starts] = 0
        self.running += step.rewards
        if not np.count_nonzero(step.resets):
            return []
        scores: list[float] = self.running[step.resets].tolist()
        self.running[step.resets] = 0
        return scores


class ScoreBoard:
    """The scores of a test with E places, each of which plays one game after another: which games count.

    In a test of a number of games each place plays a fixed share. To count the first games that end would
    favour short ones.

    A test of a number of steps counts the games that begin within them, except the one that is then in
    progress in the last place. The other places finish theirs, and the test ends with the last of these. With
    one place this is simple_dqn's test, which drops its only unfinished game.

    Why exactly one game is dropped: let n games begin, μ be the expected score of a game, and b the
    covariance of length and score over the mean length. If all n count, their mean is too high by b / n:
    the expected sum is E[n] μ (Wald's equation), but where games are long, and score more, n is small.
    The game in progress at the limit is longer than others (the inspection paradox) and has the expected
    score μ + b, so that dropping one lowers the mean by b / n. The two cancel, up to terms of 1 / n².
    Dropping the games in progress of all E places would leave the mean off by -(E - 1) b / n. The place
    is always the last, since a choice by what happens in the games would be a selection once more.
    `benchmarks/step_limit.py` measures all three.
    """

    def __init__(self, places: int, games: int | None = None, steps: int | None = None) -> None:
        """Set up a test whose first games are about to begin.

        Args:
            places: E.
            games: Games that count, shared out among the places; None: no limit.
            steps: Steps over all games within which the games that count begin; None: no limit.
        """
        self.scores: list[float] = []  # of the games that ended and count, in that order
        self.steps = 0  # over all games
        self._limit = steps
        self._finishing = False  # the limit is reached
        self._running = Scores(np.zeros(places))
        # int64 [E], games that are still to end and count.
        self._to_play = np.full(places, np.iinfo(np.int64).max)
        if games is not None:
            self._to_play = games // places + (np.arange(places) < games % places)

    @property
    def complete(self) -> bool:
        """Whether all games that count have ended."""
        return not (self._to_play > 0).any()

    def add(self, step: Step) -> list[float]:
        """Count one step of every game; return the scores of those that ended and count."""
        self.steps += len(step.rewards)
        counting = self._to_play[step.resets] > 0
        scores = [score for score, counts in zip(self._running.add(step), counting, strict=True) if counts]
        self.scores += scores
        self._to_play -= step.resets
        if self._limit is not None and self.steps >= self._limit and not self._finishing:
            self._finishing = True
            self._to_play[:] = ~step.resets  # the games in progress
            self._to_play[-1] = 0
        return scores

    def on_games_start(self) -> None:
        """Forget the games in progress: every game was started anew."""
        self._running.running[:] = 0

    def get_state(self) -> CheckpointState:
        """Return all that is needed to go on counting in the middle of the test."""
        return {
            "scores": np.array(self.scores, np.float64),
            "steps": self.steps,
            "finishing": self._finishing,
            "running": self._running.running.copy(),
            "to_play": self._to_play.copy(),
        }

    def set_state(self, state: CheckpointState) -> None:
        """Go on from what `get_state` returned."""
        self.scores = state["scores"].tolist()
        self.steps, self._finishing = int(state["steps"]), bool(state["finishing"])
        self._running = Scores(state["running"])
        self._to_play = state["to_play"].copy()
