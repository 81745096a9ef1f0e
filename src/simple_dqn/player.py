"""The player acts ε-greedily in its games, and the tester scores the games of a test. Neither learns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simple_dqn.profiler import Profiler
from simple_dqn.scores import ScoreBoard

if TYPE_CHECKING:
    from simple_dqn.environment import Environment
    from simple_dqn.types import Actions, CheckpointState, ExplorationRates, Flags, QValues, States, Step


class Choice(NamedTuple):
    """The actions of one step, int64 [E] each."""

    actions: Actions
    executed: Actions  # the same, except in games that slip; see `--slip_probability`


class Player:
    """The ε-greedy policy in E games side by side."""

    def __init__(
        self,
        environment: Environment,
        predict: Callable[[States], QValues],
        history_length: int,
        rng: np.random.Generator,
        profiler: Profiler,
        synchronize: bool = True,
        slip_probability: float = 0.0,
    ) -> None:
        """Set up a player whose games have not begun.

        Args:
            environment: The games.
            predict: Returns the Q-values float32 [B, A] of states uint8 [B, S, H, W].
            history_length: S.
            rng: The random stream of exploration and slips.
            profiler: Records the time of acting and of emulation.
            synchronize: Predict for all games in one batch; False: for one game after the other.
            slip_probability: The probability that a game executes a random action in place of the chosen one.
        """
        self.environment = environment
        self._predict = predict if synchronize else _one_by_one(predict)
        self._states = StateBuffer(environment.games, history_length, environment.screen_shape)
        self._rng = rng
        self._slip_probability = slip_probability
        self._profiler = profiler

    @property
    def states(self) -> States:
        """The current states, uint8 [E, S, H, W]: a view to read, valid until the next step."""
        return self._states.states

    def start(self) -> Step:
        """Start a new episode in every game, and return the step with its first screens."""
        step = self.environment.reset()
        self._states.update(step)
        return step

    def predict(self) -> QValues:
        """Return the Q-values of the current states, float32 [E, A], for `choose`."""
        with self._profiler.section("act"):
            return self._predict(self._states.states)

    def act(
        self, states: States, exploration_rate: float | ExplorationRates, qvalues: QValues | None = None
    ) -> Actions:
        """Return a random action with probability ε, otherwise argmax_a Q(s, a), for each of `states`.

        Mnih et al. (2015), Algorithm 1.

        Args:
            states: uint8 [B, S, H, W].
            exploration_rate: ε, from 0 to 1; or float64 [B], one for each state.
            qvalues: Q, float32 [B, A]; None: they are predicted.

        Returns:
            int64 [B].
        """
        explore, actions = self._draw(len(states), exploration_rate)
        if explore.all():
            return actions
        qvalues = self._predict(states) if qvalues is None else qvalues
        return np.where(explore, actions, qvalues.argmax(axis=1))

    def step(self, exploration_rate: float | ExplorationRates) -> Step:
        """Make one step in every game; see `act`."""
        return self.execute(self.choose(exploration_rate))

    def choose(self, exploration_rate: float | ExplorationRates, qvalues: QValues | None = None) -> Choice:
        """Choose the actions of the next step, which `execute` then takes; see `act`."""
        with self._profiler.section("act"):
            actions = self.act(self._states.states, exploration_rate, qvalues)
            return Choice(actions, self._slip(actions))

    def execute(self, choice: Choice) -> Step:
        """Make one step in every game.

        Where a game slips, the step has the chosen action, not the executed one: slips belong to the dynamics
        of the game, and the Q-value of an action includes them.
        """
        with self._profiler.section("emulate"):
            step = self.environment.step(choice.executed)
        if choice.executed is not choice.actions:
            step = replace(step, actions=np.where(step.starts, step.actions, choice.actions))
        self._states.update(step)
        self._profiler.count(self.environment.games)
        return step

    def _slip(self, actions: Actions) -> Actions:
        """Return the actions to execute: `actions`, some of them replaced with `slip_probability`."""
        if not self._slip_probability:
            return actions
        slips, random_actions = self._draw(len(actions), self._slip_probability)
        return np.where(slips, random_actions, actions)

    def _draw(self, count: int, probability: float | ExplorationRates) -> tuple[Flags, Actions]:
        """Draw bool [count], each True with `probability`, and random actions [count]."""
        flags = self._rng.random(count) < probability
        return flags, self._rng.integers(self.environment.actions, size=count)

    def get_state(self) -> CheckpointState:
        """Return the state for a checkpoint, in the middle of every game."""
        return {
            "environment": self.environment.get_state(),
            "states": self._states.get_state(),
            "rng": self._rng.bit_generator.state,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore what `get_state` returned."""
        self.environment.set_state(state["environment"])
        self._states.set_state(state["states"])
        self._rng.bit_generator.state = state["rng"]


class Tester:
    """Plays one test after another, ε-greedily, in games of its own."""

    def __init__(self, player: Player, exploration_rate: float, steps: int) -> None:
        """Set up a tester with ε = `exploration_rate`, for tests of `steps` steps over all games.

        Games that begin later do not count, see `ScoreBoard`.
        """
        self.exploration_rate = exploration_rate
        self._player, self._steps = player, steps
        self._board = ScoreBoard(self.games, steps=steps)

    @property
    def games(self) -> int:
        """The number of games side by side."""
        return self._player.environment.games

    @property
    def complete(self) -> bool:
        """Whether all games that count have ended."""
        return self._board.complete

    def begin(self) -> None:
        """Begin a test with a new episode in every game."""
        self._player.start()
        self._board = ScoreBoard(self.games, steps=self._steps)

    def restart_games(self) -> None:
        """Start a new episode in every game, within the test; the games in progress do not count."""
        self._player.start()
        self._board.on_games_start()

    def step(self) -> list[float]:
        """Make one step in every game; return the scores of the games that ended and count."""
        return self._board.add(self._player.step(self.exploration_rate))

    def get_state(self) -> CheckpointState:
        """Return the state for a checkpoint, in the middle of a test."""
        return {**self._player.get_state(), "board": self._board.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore what `get_state` returned."""
        self._player.set_state(state)
        if "board" in state:  # version 1.0.0 did not save it; `Epochs` begins its test anew
            self._board.set_state(state["board"])

    def close(self) -> None:
        """Close the games."""
        self._player.environment.close()


def _one_by_one(predict: Callable[[States], QValues]) -> Callable[[States], QValues]:
    """Return `predict` without batching, as for workers that do not wait for each other."""
    return lambda states: np.concatenate([predict(state[np.newaxis]) for state in states])


class StateBuffer:
    """The current states of E games, on which the agent acts.

    They equal the prestates of the next transitions in the replay memory, bit for bit.
    """

    def __init__(self, games: int, history_length: int, screen_shape: tuple[int, int]) -> None:
        self._states = np.zeros((games, history_length, *screen_shape), np.uint8)
        self._readable = self._states.view()
        self._readable.flags.writeable = False

    @property
    def states(self) -> States:
        """The current states, uint8 [E, S, H, W]: a read-only view, valid until the next `update`."""
        return self._readable

    def update(self, step: Step) -> None:
        """Append the screens of `step`, and set those from before an episode to zero.

        A game that ended keeps its last state until the next step starts another game.
        """
        states = self._states
        states[:, :-1] = states[:, 1:]
        states[:, -1] = step.screens
        begins = step.starts | (step.terminals & ~step.resets)
        if begins.any():
            states[begins, :-1] = 0

    def get_state(self) -> CheckpointState:
        """Return the states for a checkpoint: a view, valid until the next `update`."""
        return {"states": self._readable}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` of a buffer of the same shape returned."""
        self._states[...] = state["states"]
