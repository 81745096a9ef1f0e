"""The player: plays games by Q-values that it is told, and learns nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from simple_dqn.ledger import Ledger
from simple_dqn.replay_memory import StateBuffer

if TYPE_CHECKING:
    from simple_dqn.environment import Environment
    from simple_dqn.types import Actions, CheckpointState, ExplorationRates, Flags, QValues, States, Step


class Player:
    """Plays E games side by side, ε-greedily by Q-values that it is told. Learns nothing."""

    def __init__(
        self,
        environment: Environment,
        predict: Callable[[States], QValues],
        history_length: int,
        rng: np.random.Generator,
        ledger: Ledger,
        synchronize: bool = True,
        slip_probability: float = 0.0,
    ) -> None:
        """Set up a player whose games have not begun.

        Args:
            environment: The games.
            predict: From states uint8 [B, S, H, W] to Q-values float32 [B, A].
            history_length: S.
            rng: What decides when to explore, and how.
            ledger: Where the time of acting and of emulation is booked.
            synchronize: Predict for all games at once; False: for one after the other.
            slip_probability: How likely a game does a random action in place of the one that it was given.
        """
        self.environment = environment
        self._predict = predict if synchronize else _one_by_one(predict)
        self._states = StateBuffer(environment.games, history_length, environment.screen_shape)
        self._rng = rng
        self._slip_probability = slip_probability
        self._ledger = ledger

    @property
    def states(self) -> States:
        """The current states, uint8 [E, S, H, W]: a view to read, valid until the next step."""
        return self._states.states

    def start(self) -> Step:
        """Start every game anew, and return the step that says so."""
        step = self.environment.reset()
        self._states.update(step)
        return step

    def act(self, states: States, exploration_rate: float | ExplorationRates) -> Actions:
        """Return an action for each of `states`: a random one with probability ε, else the best.

        Mnih et al. (2015), Algorithm 1, "with probability ε select a random action".

        Args:
            states: uint8 [B, S, H, W].
            exploration_rate: ε, from 0 to 1; or one for each state [B].

        Returns:
            int64 [B].
        """
        explore, actions = self._chance(len(states), exploration_rate)
        if explore.all():
            return actions
        return np.where(explore, actions, self._predict(states).argmax(axis=1))

    def step(self, exploration_rate: float | ExplorationRates) -> Step:
        """Make one step in every game; see `act`.

        Where a game slips, the step has the action that was chosen, not the one that was done: slips are part
        of the game then, and each Q-value is that of an action that may come to nothing.
        """
        with self._ledger.section("act"):
            actions = self.act(self._states.states, exploration_rate)
            done = self._slip(actions)
        with self._ledger.section("emulate"):
            step = self.environment.step(done)
        if done is not actions:
            step = replace(step, actions=np.where(step.starts, step.actions, actions))
        self._states.update(step)
        self._ledger.count(self.environment.games)
        return step

    def _slip(self, actions: Actions) -> Actions:
        """Return what is done in place of `actions`: the same, but for those that slip."""
        if not self._slip_probability:
            return actions
        slips, others = self._chance(len(actions), self._slip_probability)
        return np.where(slips, others, actions)

    def _chance(self, count: int, probability: float | ExplorationRates) -> tuple[Flags, Actions]:
        """Draw for each of `count` states whether chance decides there, and on which action [count]."""
        decides = self._rng.random(count) < probability
        return decides, self._rng.integers(self.environment.actions, size=count)

    def get_state(self) -> CheckpointState:
        """Return all that is needed to go on in mid-game."""
        return {
            "environment": self.environment.get_state(),
            "states": self._states.get_state(),
            "rng": self._rng.bit_generator.state,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `get_state` returned."""
        self.environment.set_state(state["environment"])
        self._states.set_state(state["states"])
        self._rng.bit_generator.state = state["rng"]


def _one_by_one(predict: Callable[[States], QValues]) -> Callable[[States], QValues]:
    """Return `predict` without its batching, as for workers that do not wait for each other."""
    return lambda states: np.concatenate([predict(state[np.newaxis]) for state in states])
