"""The agent: plays, stores what came of it, and asks the network to learn from that."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from simple_dqn.errors import UserError
from simple_dqn.ledger import Ledger
from simple_dqn.player import Player
from simple_dqn.replay_memory import ReplayMemory
from simple_dqn.types import ExplorationRates

if TYPE_CHECKING:
    from simple_dqn.config import AgentConfig
    from simple_dqn.deepqnetwork import DeepQNetwork, PreparedBatch, UpdateOutcome
    from simple_dqn.types import CheckpointState, Experience, Step

LOSSES_TOGETHER = 50  # updates whose losses are fetched from a GPU at once


class DivergedError(UserError):
    """The network has learnt numbers that are none."""


class Listener(Protocol):
    """Who hears what the agent does."""

    def on_step(self, step: Step, exploration_rate: float) -> None:
        """E games made one step."""

    def on_train(self, loss: float) -> None:
        """The network made one update."""


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

    @property
    def exploration_rates(self) -> ExplorationRates:
        """The ε of each game, [E]."""
        return spread(self.exploration_rate, self.config.exploration_spread, range(self.games), self.games)

    def count_from(self, steps: int) -> None:
        """Have ε, β and the learning rate as after `steps` of training, with the updates due in them."""
        self.total_train_steps = steps
        self.network.updates = steps // self.config.train_frequency * self.config.train_repeat

    def start(self) -> None:
        """Start every game anew."""
        self.memory.add(self.player.start())

    def play(self, exploration_rate: float | ExplorationRates) -> Step:
        """Make one step in every game; see `Player.act`."""
        step = self.player.step(exploration_rate)
        self._listener.on_step(step, float(np.mean(exploration_rate)))
        return step

    def play_to_learn(self) -> Step:
        """Make one step of training in every game."""
        step = self.play(self.exploration_rates)
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

    def learn_due(self, steps: int) -> None:
        """Make the updates due for the latest `steps` steps, then the copy to the target network."""
        now, target_steps = self.total_train_steps, self.config.target_steps
        for _ in range(multiples(self.config.train_frequency, now - steps, now)):
            self.learn()
        if target_steps and multiples(target_steps, now - steps, now):
            self.network.update_target_network()

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
                numbers, errors = ([getattr(one, name) for one in told] for name in ("numbers", "errors"))
                self.memory.update_priorities(np.concatenate(numbers), np.concatenate(errors))

    def check(self) -> None:
        """Tell the losses so far, and see that the network is sound.

        Raises:
            DivergedError: A loss or a weight is not a number, or infinite.
        """
        self.tell_losses()
        for name, values in self.network.get_weights().items():
            if not np.isfinite(values).all():
                raise DivergedError(f"after update {self.network.updates} {name} holds what is no number")

    def get_state(self) -> CheckpointState:
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


def spread(rate: float, exponent: float, games: range, count: int) -> ExplorationRates:
    """Return ε_i = ε^(1 + α i / (N - 1)) for each i of `games`: how much that game is to explore.

    Where games differ, some try what is new while others show how far it carries. Horgan et al. 2018, section
    4.1, with a game for each actor.

    Args:
        rate: ε, of the game that explores most.
        exponent: α; 0: all explore alike.
        games: Which of all games.
        count: N.
    """
    return rate ** (1 + exponent * np.array(games) / max(1, count - 1))


def multiples(of: int, before: int, now: int) -> int:
    """Return how many multiples of `of` lie in (before, now]."""
    return now // of - before // of
