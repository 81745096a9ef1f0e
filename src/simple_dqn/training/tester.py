"""The tests of a run: ε-greedy play between two epochs of training, from which nothing is learnt."""

from typing import Any

from simple_dqn.player import Player
from simple_dqn.scores import ScoreBoard
from simple_dqn.types import CheckpointState


class Tester:
    """Plays one test after another, on games of its own."""

    def __init__(self, player: Player, exploration_rate: float, steps: int) -> None:
        """Set up a tester that has not begun a test.

        Args:
            player: Plays the games.
            exploration_rate: ε of the tests.
            steps: Steps of a test, over all games, within which the games that count begin; see `ScoreBoard`.
        """
        self.exploration_rate = exploration_rate
        self._player, self._steps = player, steps
        self._board = ScoreBoard(self.games, steps=steps)

    @property
    def games(self) -> int:
        """Games played side by side."""
        return self._player.environment.games

    @property
    def complete(self) -> bool:
        """Whether all games of the test that count have ended."""
        return self._board.complete

    def begin(self) -> None:
        """Begin a test: start every game anew."""
        self._player.start()
        self._board = ScoreBoard(self.games, steps=self._steps)

    def restart_games(self) -> None:
        """Start every game anew in the middle of the test; those in progress do not count."""
        self._player.start()
        self._board.on_games_start()

    def step(self) -> list[float]:
        """Make one step in every game; return the scores of the games that it ended and that count."""
        return self._board.add(self._player.step(self.exploration_rate))

    def get_state(self) -> CheckpointState:
        """Return all that is needed to go on in the middle of a test."""
        return {**self._player.get_state(), "board": self._board.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `get_state` returned."""
        self._player.set_state(state)
        if "board" in state:  # Version 1.0.0 did not save it; `Epochs` begins its test anew.
            self._board.set_state(state["board"])

    def close(self) -> None:
        """Close the games."""
        self._player.environment.close()
