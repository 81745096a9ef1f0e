"""An agent from a snapshot: its Q-values, actions and scores, and the games that it plays."""

from collections import deque
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simple_dqn import evaluation, random_streams
from simple_dqn.api.training import as_words, check_switch, checked_word
from simple_dqn.config import Config
from simple_dqn.environment import Frame
from simple_dqn.errors import UserError
from simple_dqn.interrupt import Interrupt
from simple_dqn.run import make_environment, make_network, make_player
from simple_dqn.snapshot import Snapshot, check_fits, check_layers
from simple_dqn.statistics import Statistics
from simple_dqn.types import Actions, QValues, States
from simple_dqn.verbs.common import load_weights, open_snapshot
from simple_dqn.verbs.settings import parser_for, settings_of_agent, workers_for
from simple_dqn.watch.player import WatchedPlayer


class Scores(NamedTuple):
    """The scores of a test, in raw game points."""

    mean: float
    deviation: float  # standard deviation of the games
    games: list[float]  # of each game, in the order of their ends


class PlayedStep(NamedTuple):
    """One action of an agent, and its effect."""

    screen: NDArray[np.uint8]  # after the action: a color frame [height, width, 3], or a screen [H, W]
    action: int  # index into `TrainedAgent.action_names`
    q_values: NDArray[np.float32]  # [A], by which the action was chosen
    reward: float  # raw game points
    over: bool  # whether the game ended


class TrainedAgent:
    """An agent from a snapshot; `load` returns it.

    Attributes:
        game: The name of its game.
        actions: The number of its actions, A.
        action_names: Their names.
        settings: All settings that it plays with, by flag.

    Example:
        >>> agent = simple_dqn.load("snapshots/trained/breakout_200.pkl")
        >>> agent.evaluate(games=10).mean
    """

    def __init__(self, path: Path, snapshot: Snapshot, given: dict[str, Any]) -> None:
        """Build the network and give it the snapshot's weights.

        Args:
            path: The file of `snapshot`, for messages.
            snapshot: Weights, game and settings.
            given: Flags that replace the snapshot's settings.

        Raises:
            UserError: The game cannot be played, or the weights do not fit its network.
        """
        self._path, self._snapshot, self._given = path, snapshot, given
        config = self._config("play", {"random_seed": given.get("random_seed", 0)})
        with closing(make_environment(config, training=False)) as environment:
            # Check first, because importing PyTorch takes seconds.
            check_fits(path, snapshot, environment.name, environment.actions)
            check_layers(path, snapshot, config)
            self._network = make_network(config, environment)
            load_weights(path, environment, self._network, snapshot)
            self._player = make_player(config, environment, self._network)
        self.game, self.settings = environment.name, config.flags()
        self.actions, self.action_names = environment.actions, environment.action_names
        self._state_shape = (config.memory.history_length, *environment.screen_shape)

    def q_values(self, states: States) -> QValues:
        """Return the value of each action, the discounted sum of clipped rewards.

        Args:
            states: uint8 [B, S, H, W], oldest screen first.

        Returns:
            float32 [B, A].

        Raises:
            UserError: The states have another shape or type.

        Example:
            >>> agent.q_values(np.zeros((1, 4, 84, 84), np.uint8)).shape
            (1, 4)
        """
        return self._network.predict(self._checked(states))

    def act(self, states: States, epsilon: float = 0.0) -> Actions:
        """Return the action with the highest Q-value, or with probability ε a random one.

        Args:
            states: uint8 [B, S, H, W], oldest screen first.
            epsilon: ε, from 0 to 1.

        Returns:
            int64 [B], indices into `action_names`.

        Raises:
            UserError: The states have another shape or type, or ε is no probability.

        Example:
            >>> agent.act(np.zeros((1, 4, 84, 84), np.uint8), epsilon=0.05)
        """
        rate = _read("play", {"exploration_rate_test": epsilon})["exploration_rate_test"]
        return self._player.choose(rate, states=self._checked(states))

    def saliency(self, states: States) -> NDArray[np.float32]:
        """Return which pixels raised the highest Q-value of each state, by guided backpropagation.

        Args:
            states: uint8 [B, S, H, W], oldest screen first.

        Returns:
            float32 [B, S, H, W]: the change of the Q-value for a change of the pixel from black to white.

        Raises:
            UserError: The states have another shape or type.

        Example:
            >>> agent.saliency(np.zeros((1, 4, 84, 84), np.uint8)).shape
            (1, 4, 84, 84)
        """
        return self._network.guided_backpropagation().saliency(self._checked(states))

    def evaluate(self, games: int = 10, seed: int = 0, epsilon: float = 0.05) -> Scores:
        """Play whole games, as `./test.sh SNAPSHOT --play_games GAMES` does, and return their scores.

        Args:
            games: The number of games, at least 1.
            seed: The seed of all random streams.
            epsilon: ε, from 0 to 1.

        Returns:
            The mean, the standard deviation and the score of each game, in raw game points.

        Raises:
            UserError: A number is out of range.

        Example:
            >>> agent.evaluate(games=10).mean
        """
        asked = {"play_games": games, "random_seed": seed, "exploration_rate_test": epsilon}
        number = _read("test", asked)["play_games"]
        if number < 1:
            raise UserError(f"{games} games have no score: give at least 1")
        config = self._config("test", asked, **workers_for(number, self._snapshot.flags))
        with closing(make_environment(config, training=False)) as environment:
            player = make_player(config, environment, self._network)
            outcome = evaluation.evaluate(player, config, "simple_dqn", Statistics([]), Interrupt())
        assert outcome.mean is not None
        assert outcome.standard_deviation is not None
        return Scores(outcome.mean, outcome.standard_deviation, outcome.scores)

    def play(
        self, game: str | None = None, frames: bool = True, seed: int = 0, epsilon: float = 0.05
    ) -> Iterator[PlayedStep]:
        """Play one game, and yield each step.

        Args:
            game: The name or the ROM of the agent's game; None: the snapshot's.
            frames: Yield the last color frame of each step; False: the screen that the network sees.
            seed: The seed of all random streams.
            epsilon: ε, from 0 to 1.

        Yields:
            The screen, the action, the Q-values, the reward, and whether the game ended.

        Raises:
            UserError: The agent was trained on another game, or with other actions.

        Example:
            >>> for step in agent.play(): print(step.action, step.reward)
        """
        check_switch("frames", frames)
        asked = {"random_seed": seed, "exploration_rate_test": epsilon}
        config = self._config("play", asked, **({} if game is None else {"game": checked_word("game", game)}))
        seen: deque[Frame] = deque(maxlen=1)
        watcher = seen.append if frames else None
        with closing(make_environment(config, training=False, watcher=watcher)) as environment:
            check_fits(self._path, self._snapshot, environment.name, environment.actions)
            rng = random_streams.stream(config.seed, "test exploration")
            player = WatchedPlayer(environment, self._network.predict, config.memory.history_length, rng)
            over = player.start().resets[0]
            while not over:
                step = player.step(config.agent.exploration_rate_test)
                over = bool(step.resets[0])
                assert player.qvalues is not None
                screen = seen[0].picture if frames else step.screens[0]
                yield PlayedStep(screen, player.action, player.qvalues, float(step.rewards[0]), over)

    def _config(self, verb: str, asked: dict[str, Any], **fixed: Any) -> Config:
        """Return the settings of `verb`, with `asked` and `fixed` in place of the snapshot's."""
        given = {**self._given, **_read(verb, asked)}
        return settings_of_agent(verb, self._path, self._snapshot, given, fixed)

    def _checked(self, states: States) -> States:
        found = type(states).__name__
        if isinstance(states, np.ndarray):
            if states.dtype == np.uint8 and states.shape[1:] == self._state_shape and len(states):
                return states
            found = f"{states.dtype} {list(states.shape)}"
        raise UserError(f"the states are {found}: give uint8 [B, {', '.join(map(str, self._state_shape))}]")


def load(path: str | Path, game: str | None = None, **flags: Any) -> TrainedAgent:
    """Return the agent in a snapshot of this project or of Neon; loading runs no code from the file.

    Args:
        path: The snapshot.
        game: The game of a Neon snapshot whose file name does not contain it.
        flags: Settings that replace the snapshot's, such as `backend="cpu"`.

    Raises:
        UserError: The file is missing, damaged or not a snapshot, or a flag is unknown or out of range.

    Example:
        >>> agent = simple_dqn.load("snapshots/trained/breakout_200.pkl")
    """
    file = Path(checked_word("path", path))
    snapshot = open_snapshot(file, None if game is None else checked_word("game", game))
    return TrainedAgent(file, snapshot, _read("play", flags))


def _read(verb: str, flags: dict[str, Any]) -> dict[str, Any]:
    """Return `flags` as the parser of `verb` reads them; raise UserError if one is wrong."""
    return parser_for(verb, f"simple-dqn {verb}", "").parse(as_words(flags))
