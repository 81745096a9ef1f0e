"""The agent: chooses actions, stores what came of them, asks the network to learn from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from simple_dqn.errors import UserError
from simple_dqn.ledger import Ledger
from simple_dqn.replay_memory import ReplayMemory, StateBuffer

if TYPE_CHECKING:
    from simple_dqn.config import AgentConfig
    from simple_dqn.deepqnetwork import DeepQNetwork, PreparedBatch, UpdateOutcome
    from simple_dqn.environment import Environment
    from simple_dqn.types import Actions, Experience, QValues, State, States, Step

LOSSES_TOGETHER = 50  # updates whose losses are fetched from a GPU at once


class DivergedError(UserError):
    """The network has learnt numbers that are none."""


class Listener(Protocol):
    """Who hears what the agent does."""

    def on_step(self, step: Step, exploration_rate: float) -> None:
        """E games made one step."""

    def on_train(self, loss: float) -> None:
        """The network made one update."""


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
    ) -> None:
        """Set up a player whose games have not begun.

        Args:
            environment: The games.
            predict: From states uint8 [B, S, H, W] to Q-values float32 [B, A].
            history_length: S.
            rng: What decides when to explore, and how.
            ledger: Where the time of acting and of emulation is booked.
            synchronize: Predict for all games at once; False: for one after the other.
        """
        self.environment = environment
        self._predict = predict if synchronize else _one_by_one(predict)
        self._states = StateBuffer(environment.games, history_length, environment.screen_shape)
        self._rng = rng
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

    def act(self, states: States, exploration_rate: float) -> Actions:
        """Return an action for each of `states`: a random one with probability ε, else the best.

        Mnih et al. (2015), Algorithm 1, "with probability ε select a random action".

        Args:
            states: uint8 [B, S, H, W].
            exploration_rate: ε, from 0 to 1.

        Returns:
            int64 [B].
        """
        explore = self._rng.random(len(states)) < exploration_rate
        actions = self._rng.integers(self.environment.actions, size=len(states))
        if explore.all():
            return actions
        return np.where(explore, actions, self._predict(states).argmax(axis=1))

    def step(self, exploration_rate: float) -> Step:
        """Make one step in every game."""
        with self._ledger.section("act"):
            actions = self.act(self._states.states, exploration_rate)
        with self._ledger.section("emulate"):
            step = self.environment.step(actions)
        self._states.update(step)
        self._ledger.count(self.environment.games)
        return step

    def get_state(self) -> State:
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


class Agent:
    """Plays, remembers and learns: deep Q-learning with experience replay (Mnih et al., 2015)."""

    def __init__(
        self,
        player: Player,
        memory: ReplayMemory,
        network: DeepQNetwork,
        config: AgentConfig,
        batch_size: int,
        listener: Listener,
        ledger: Ledger,
    ) -> None:
        self.player = player
        self.memory = memory
        self.network = network
        self.config = config
        self.total_train_steps = 0  # steps of training so far, over all games
        self._batch_size = batch_size
        self._untold: list[UpdateOutcome] = []  # whose errors the memory is yet to hear of
        self._listener = listener
        self.ledger = ledger

    @property
    def games(self) -> int:
        """Games played side by side."""
        return self.player.environment.games

    @property
    def exploration_rate(self) -> float:
        """The ε of training: falls linearly over `exploration_decay_steps`, then stays."""
        start, end = self.config.exploration_rate_start, self.config.exploration_rate_end
        if self.total_train_steps >= self.config.exploration_decay_steps:
            return end
        return start + (end - start) * self.total_train_steps / self.config.exploration_decay_steps

    def start(self) -> None:
        """Start every game anew."""
        self.memory.add(self.player.start())

    def play(self, exploration_rate: float) -> Step:
        """Make one step in every game."""
        step = self.player.step(exploration_rate)
        self._listener.on_step(step, exploration_rate)
        return step

    def play_to_learn(self) -> Step:
        """Make one step of training in every game."""
        step = self.play(self.exploration_rate)
        self.total_train_steps += self.games
        return step

    def remember(self, step: Step) -> None:
        """Store what came of a step."""
        with self.ledger.section("store"):
            self.memory.add(step)

    def learn(self) -> None:
        """Update the network from `train_repeat` minibatches of the memory.

        A memory with priorities hears of the errors after each (Schaul et al. 2016, Algorithm 1); a GPU is
        waited for then, as it would be by the next action.
        """
        for _ in range(self.config.train_repeat):
            self.update(self.prepare(self.total_train_steps))
            self.tell_errors()

    def prepare(self, steps: int) -> PreparedBatch:
        """Draw a minibatch from the memory after `steps` of training, and value it by the target network."""
        with self.ledger.section("sample"):
            minibatch = self.memory.sample(self._batch_size, steps)
        with self.ledger.section("target"):
            return self.network.prepare(minibatch)

    def update(self, batch: PreparedBatch) -> None:
        """Update the network from `batch`."""
        with self.ledger.section("update"):
            self.network.update(batch)
        if self.network.updates % LOSSES_TOGETHER == 0:
            self.tell_losses()

    def tell_losses(self) -> None:
        """Tell the listener what the latest updates' losses were, for which a GPU must be waited for.

        Raises:
            DivergedError: One is not a number, or infinite.
        """
        outcomes = self.network.take_outcomes()
        for update, outcome in enumerate(outcomes, self.network.updates - len(outcomes) + 1):
            if not math.isfinite(outcome.loss):
                step, loss = self.total_train_steps, outcome.loss
                raise DivergedError(f"the loss of update {update} is {loss} (seen at training step {step})")
            self._listener.on_train(outcome.loss)
        if self.memory.prioritized:
            self._untold += outcomes

    def tell_errors(self) -> None:
        """Tell a memory with priorities how wrong the predictions of the latest updates were, in their order.

        Raises:
            DivergedError: A loss is not a number, or infinite.
        """
        if not self.memory.prioritized:
            return
        self.tell_losses()
        told, self._untold = self._untold, []
        if told:
            with self.ledger.section("store"):
                indices, errors = ([getattr(one, name) for one in told] for name in ("indices", "errors"))
                self.memory.update_priorities(np.concatenate(indices), np.concatenate(errors))

    def check(self) -> None:
        """Tell the losses so far, and see that the network is sound.

        Raises:
            DivergedError: A loss or a weight is not a number, or infinite.
        """
        self.tell_losses()
        for name, values in self.network.get_weights().items():
            if not np.isfinite(values).all():
                raise DivergedError(f"after update {self.network.updates} {name} holds what is no number")

    def get_state(self) -> State:
        """Return all that is needed to go on, but for the experience that is remembered."""
        return {
            "player": self.player.get_state(),
            "memory": self.memory.get_state(),
            "network": self.network.get_state(),
            "total_train_steps": self.total_train_steps,
        }

    def set_state(self, state: dict[str, Any], experience: Iterable[Experience]) -> None:
        """Go on from what `get_state` returned, and remember `experience`; see `ReplayMemory.set_state`."""
        self.player.set_state(state["player"])
        self.memory.set_state(state["memory"], experience)
        self.network.set_state(state["network"])
        self.total_train_steps = int(state["total_train_steps"])
