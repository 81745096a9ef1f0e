"""The agent: acts, stores transitions, and has the network learn from them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from simple_dqn.errors import UserError
from simple_dqn.player import Choice, Player
from simple_dqn.profiler import Profiler
from simple_dqn.replay_memory import ReplayMemory
from simple_dqn.types import ExplorationRates

if TYPE_CHECKING:
    from simple_dqn.config import AgentConfig
    from simple_dqn.deepqnetwork import DeepQNetwork, PreparedBatch, UpdateOutcome
    from simple_dqn.statistics import Statistics
    from simple_dqn.types import CheckpointState, Experience, QValues, States, Step

UPDATES_PER_REPORT = 50  # reading a loss from a GPU waits for it, so losses are read this many at a time


class DivergedError(UserError):
    """A loss or a weight is NaN or infinite."""


class Agent:
    """Deep Q-learning with experience replay (Mnih et al. 2015, Algorithm 1).

    The schedules in `training/` call `act`, `store` and `learn_due` in turn.

    Attributes:
        player: Acts in the E games. memory: Holds their steps. network: Q. config: The settings of the agent.
        profiler: Measures where the time goes.
        total_train_steps: Training steps so far, over all games.
    """

    def __init__(
        self,
        player: Player,
        memory: ReplayMemory,
        network: DeepQNetwork,
        config: AgentConfig,
        batch_size: int,
        statistics: Statistics,
        profiler: Profiler,
    ) -> None:
        """Let `network` learn from what `player` plays.

        Args:
            player: The ε-greedy policy of `network`.
            memory: Empty, or restored.
            network: Q.
            config: The settings of the agent.
            batch_size: B, transitions in an update.
            statistics: Receives each loss.
            profiler: Measures where the time goes.
        """
        self.player = player
        self.memory = memory
        self.network = network
        self.config = config
        self.total_train_steps = 0
        self._batch_size = batch_size
        self._unreported: list[UpdateOutcome] = []  # updates whose TD errors the memory has not received
        self._statistics = statistics
        self.profiler = profiler

    @property
    def games(self) -> int:
        """The number of games side by side, E."""
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
        """The ε of each game, float64 [E]."""
        return spread(self.exploration_rate, self.config.exploration_spread, range(self.games), self.games)

    def count_from(self, steps: int) -> None:
        """Set ε, β and the learning rate to their values after `steps` training steps."""
        self.total_train_steps = steps
        self.network.updates = self.config.updates_in(steps)

    def start(self) -> None:
        """Start a new episode in every game."""
        self.memory.add(self.player.start())

    def play(self, exploration_rate: float | ExplorationRates) -> Step:
        """Make one ε-greedy step in every game, which does not count as training; see `Player.act`."""
        step = self.player.step(exploration_rate)
        self._statistics.on_step(step, float(np.mean(exploration_rate)))
        return step

    def act(self) -> Step:
        """Make one training step in every game: ε-greedy, with the current ε of each game."""
        return self.execute(self.choose())

    def choose(self, qvalues: QValues | None = None) -> Choice:
        """Choose the actions of the next training step, by `qvalues` [E, A] if they are predicted already."""
        return self.player.choose(self.exploration_rates, qvalues)

    def execute(self, choice: Choice) -> Step:
        """Make one training step with the actions from `choose`."""
        step = self.player.execute(choice)
        self._statistics.on_step(step, float(np.mean(self.exploration_rates)))
        self.total_train_steps += self.games
        return step

    def store(self, step: Step) -> None:
        """Store a step of every game in the replay memory."""
        with self.profiler.section("store"):
            self.memory.add(step)

    def learn_due(self, steps: int) -> None:
        """Make the updates due for the latest `steps` training steps, then copy θ to θ⁻ if that is due."""
        for _ in range(self.due(self.config.train_frequency, steps)):
            self.learn()
        self.update_target_network_if_due(steps)

    def due(self, every: int, steps: int) -> int:
        """Return the number of multiples of `every` among the latest `steps` training steps."""
        return multiples(every, self.total_train_steps - steps, self.total_train_steps)

    def update_target_network_if_due(self, steps: int) -> None:
        """Set θ⁻ = θ if that was due in the latest `steps` training steps, once every `target_steps`."""
        if self.config.target_steps and self.due(self.config.target_steps, steps):
            self.network.update_target_network()

    def play_rollout(self, steps: int) -> None:
        """Make `steps` training steps in every game, and compute their targets from one set of weights.

        Gallici et al. (2024), Algorithm 1.
        """
        values = []
        for _ in range(steps):
            qvalues = self.player.predict()
            self.store(self.execute(self.choose(qvalues)))
            values.append(qvalues.max(axis=1))
        values.append(self.player.predict().max(axis=1))
        with self.profiler.section("target"):
            self.memory.set_returns(self.network.returns(self.memory.rollout(), np.stack(values)))

    def learn(self) -> None:
        """Sample a minibatch and make one gradient step on it, `train_repeat` times.

        With prioritized replay, the memory receives the TD errors after each update (Schaul et al. 2016,
        Algorithm 1).
        """
        for _ in range(self.config.train_repeat):
            self.update(self.prepare(self.total_train_steps))
            self.update_priorities()

    def prepare(self, steps: int) -> PreparedBatch:
        """Sample a minibatch and compute its targets; `steps` is the training step, for the β of sampling."""
        with self.profiler.section("sample"):
            minibatch = self.memory.sample(self._batch_size, steps)
        with self.profiler.section("target"):
            return self.network.prepare(minibatch)

    def update(self, batch: PreparedBatch) -> None:
        """Make one gradient step on `batch`."""
        with self.profiler.section("update"):
            self.network.update(batch)
        if self.network.updates % UPDATES_PER_REPORT == 0:
            self.report_losses()

    def report_losses(self) -> None:
        """Pass the losses of the latest updates to the statistics; on a GPU this waits for the updates.

        Raises:
            DivergedError: A loss is NaN or infinite.
        """
        outcomes = self.network.take_outcomes()
        for update, outcome in enumerate(outcomes, self.network.updates - len(outcomes) + 1):
            if not math.isfinite(outcome.loss):
                step, loss = self.total_train_steps, outcome.loss
                raise DivergedError(f"the loss of update {update} is {loss} (seen at training step {step})")
            self._statistics.on_train(outcome.loss)
        if self.memory.uses_errors:
            self._unreported += outcomes

    def update_priorities(self) -> None:
        """Pass the TD errors of the latest updates, in their order, to a memory that samples by them.

        Raises:
            DivergedError: A loss is NaN or infinite.
        """
        if not self.memory.uses_errors:
            return
        self.report_losses()
        outcomes, self._unreported = self._unreported, []
        if outcomes:
            with self.profiler.section("store"):
                numbers, errors = ([getattr(one, name) for one in outcomes] for name in ("numbers", "errors"))
                self.memory.update_priorities(np.concatenate(numbers), np.concatenate(errors))

    def check(self) -> None:
        """Report the losses so far, and check that all weights are finite.

        Raises:
            DivergedError: A loss or a weight is NaN or infinite.
        """
        self.report_losses()
        for name, values in self.network.get_weights().items():
            if not np.isfinite(values).all():
                raise DivergedError(f"after update {self.network.updates} {name} holds NaN or infinity")

    def mean_q(self, states: States) -> float:
        """Return the mean of max_a Q(s, a) over states uint8 [B, S, H, W] (Mnih et al. 2013, section 5.1)."""
        return float(np.mean(self.network.predict(states).max(axis=1)))

    def get_state(self) -> CheckpointState:
        """Return the state for a checkpoint, without the experience in the replay memory."""
        return {
            "player": self.player.get_state(),
            "memory": self.memory.get_state(),
            "network": self.network.get_state(),
            "total_train_steps": self.total_train_steps,
        }

    def set_state(self, state: dict[str, Any], experience: Iterable[Experience]) -> None:
        """Restore what `get_state` returned, and fill the memory; see `ReplayMemory.set_state`."""
        self.player.set_state(state["player"])
        self.memory.set_state(state["memory"], experience)
        self.network.set_state(state["network"])
        self.total_train_steps = int(state["total_train_steps"])


def spread(rate: float, exponent: float, games: range, count: int) -> ExplorationRates:
    """Return ε_i = ε^(1 + α i / (N - 1)) for each i of `games`, float64 [len(games)].

    Games with a large ε find new states while those with a small one play far (Horgan et al. 2018, section
    4.1, with one game for each actor).

    Args:
        rate: ε, the largest.
        exponent: α; with 0 all games have the same ε.
        games: The games i to return, out of all N.
        count: N.
    """
    return rate ** (1 + exponent * np.array(games) / max(1, count - 1))


def multiples(of: int, before: int, now: int) -> int:
    """Return the number of multiples of `of` in (before, now]."""
    return now // of - before // of
