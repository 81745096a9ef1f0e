"""The scores of games: the sum of raw rewards from a game's start to its end, lost lives included."""

import numpy as np
from numpy.typing import NDArray

from simple_dqn.types import CheckpointState, Step


class Scores:
    """Sums the rewards of E games side by side.

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


class ScoreBoard:
    """Decides which games of a test count. The test has E places, each of which plays one game after another.

    In a test by games, each place plays a fixed share of them. Counting the first games that end would favour
    short ones.

    In a test by steps, the games that begin within these steps count, except the game in progress in the last
    place at the limit. The other places finish their games, and the test ends with the last of these. With
    one place this is the test of simple_dqn, which drops its only unfinished game.

    Why exactly one game is dropped: let n be the number of games that begin, μ the expected score of a game,
    and b the covariance of length and score divided by the mean length. If all n games count, their mean is
    too high by b / n: the expected sum is E[n] μ (Wald's equation), but n is small where games are long and
    score more. The game in progress at the limit is longer than others (the inspection paradox) and has the
    expected score μ + b, so dropping it lowers the mean by b / n. The two cancel, up to terms of 1 / n².
    Dropping the games in progress in all E places would bias the mean by -(E - 1) b / n. The game is always
    that of the last place, because a choice that depends on the games would be a selection again.
    `./bench.sh step_limit` simulates all three rules.
    """

    def __init__(self, places: int, games: int | None = None, steps: int | None = None) -> None:
        """Set up a test that has not begun.

        Args:
            places: E.
            games: The number of games that count, divided among the places; None: no limit.
            steps: Steps over all places; games that begin within them count. None: no limit.
        """
        self.scores: list[float] = []  # of the games that count, in the order of their ends
        self.steps = 0  # over all places
        self._limit = steps
        self._finishing = False  # whether the limit of steps is reached
        self._running = Scores(np.zeros(places))
        # int64 [E], the number of games still to count in each place.
        self._to_play = np.full(places, np.iinfo(np.int64).max)
        if games is not None:
            self._to_play = games // places + (np.arange(places) < games % places)

    @property
    def complete(self) -> bool:
        """Whether all games that count have ended."""
        return not (self._to_play > 0).any()

    def add(self, step: Step) -> list[float]:
        """Add one step of every place; return the scores of the games that ended and count."""
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
        """Forget the games in progress: new games were started."""
        self._running.running[:] = 0

    def get_state(self) -> CheckpointState:
        """Return the state for a checkpoint, in the middle of the test."""
        return {
            "scores": np.array(self.scores, np.float64),
            "steps": self.steps,
            "finishing": self._finishing,
            "running": self._running.running.copy(),
            "to_play": self._to_play.copy(),
        }

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned."""
        self.scores = state["scores"].tolist()
        self.steps, self._finishing = int(state["steps"]), bool(state["finishing"])
        self._running = Scores(state["running"])
        self._to_play = state["to_play"].copy()
