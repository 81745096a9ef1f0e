"""The agent: an ε-greedy player of E games, with a replay memory and a network that learns from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from simple_dqn.errors import UserError
from simple_dqn.types import observation_dtype, on_host

if TYPE_CHECKING:
    from simple_dqn.config import AgentConfig
    from simple_dqn.device import Device
    from simple_dqn.dqn import DeepQNetwork, PreparedBatch, UpdateOutcome
    from simple_dqn.environment.interface import Environment
    from simple_dqn.replay import ReplayMemory
    from simple_dqn.statistics import Statistics
    from simple_dqn.types import Actions, CheckpointState, Experience, ExplorationRates, QValues, States, Step

UPDATES_PER_REPORT = 50  # reading a loss from a GPU waits for it, so losses are read this many at a time


class Player:
    """Plays the E games of an `environment` side by side, by an ε-greedy policy.

    `states` are the current states of the games, uint8 [E, S, H, W]: to read, valid until the next step. They
    equal the prestates of the next transitions in the replay memory, bit for bit.
    """

    def __init__(
        self, environment: Environment, predict: Callable[[States], QValues], history_length: int,
        rng: np.random.Generator, synchronize: bool = True, device: Device | None = None,
    ) -> None:  # fmt: skip
        """Set up a player whose games have not begun, for states of S = `history_length` screens.

        `predict` returns the Q-values float32 [B, A] of states uint8 [B, S, H, W], for all games in one batch
        or, without `synchronize`, for one game after the other. `rng` is the random stream of exploration.
        `device` is that of the network. If `environment` has its screens there, too, the states are a tensor
        on it; otherwise they are a NumPy array.
        """
        self.environment = environment
        self._predict = predict
        if not synchronize:  # as if the games did not wait for each other
            self._predict = lambda states: np.concatenate([predict(state[np.newaxis]) for state in states])
        self._device = None if environment.device is None else device
        shape = environment.screen_shape
        states = np.zeros((environment.games, history_length, *shape), observation_dtype(shape))
        self.states: Any = self._device.tensor(states) if self._device else states
        self._rng = rng

    def start(self) -> Step:
        """Start a new episode in every game, and return the step with its first screens."""
        return self._append(self.environment.reset())

    def predict(self) -> QValues:
        """Return the Q-values of the current states, float32 [E, A], for `choose`."""
        return self._predict(self.states)

    def choose(self, exploration_rate: float | ExplorationRates, qvalues: QValues | None = None) -> Actions:
        """Return a random action with probability ε, otherwise argmax_a Q(s, a), for each state s: int64 [B].

        Mnih et al. (2015), Algorithm 1. ε is one number or float64 [B]. `qvalues` are the Q-values of the
        states, float32 [B, A]; None: those of the current states of the games, predicted if they are needed.
        """
        count = self.environment.games if qvalues is None else len(qvalues)
        explore = self._rng.random(count) < exploration_rate
        actions = self._rng.integers(self.environment.actions, size=count)
        if explore.all():
            return actions
        qvalues = self.predict() if qvalues is None else qvalues
        return np.where(explore, actions, qvalues.argmax(axis=1))

    def execute(self, actions: Actions) -> Step:
        """Take `actions` int64 [E], one in each game, and return the step."""
        return self._append(self.environment.step(actions))

    def _append(self, step: Step) -> Step:
        """Append the screens of `step`, set those from before an episode to zero, and return `step`.

        A game that ended keeps its last state until the next step starts another game.
        """
        states = self.states
        for place in range(states.shape[1] - 1):  # a tensor cannot be copied to one that overlaps it
            states[:, place] = states[:, place + 1]
        states[:, -1] = step.screens
        begins = step.starts | (step.terminals & ~step.resets)
        if begins.any():
            states[begins, :-1] = 0
        return step

    def step(self, exploration_rate: float | ExplorationRates) -> Step:
        """Make one ε-greedy step in every game; see `choose`."""
        return self.execute(self.choose(exploration_rate))

    def get_state(self, games: bool = True) -> CheckpointState:
        """Return the state for a checkpoint, in the middle of every game; with or without that of `games`."""
        return {
            "environment": self.environment.get_state() if games else None,
            "states": {"states": on_host(self.states)},
            "rng": self._rng.bit_generator.state,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore what `get_state` returned."""
        self.environment.set_state(state["environment"])
        states = state["states"]["states"]
        self.states[...] = self._device.tensor(states) if self._device else states
        self._rng.bit_generator.state = state["rng"]


class Agent:
    """Deep Q-learning with experience replay (Mnih et al. 2015, Algorithm 1), a part at a time.

    The schedules in `schedules.py` call these parts in turn. The `player` acts in E = `games` games side by
    side, the `memory` holds their steps, and the `network` Q learns from minibatches of B = `batch_size`.
    `total_train_steps` counts over all games.
    """

    def __init__(
        self, player: Player, memory: ReplayMemory, network: DeepQNetwork, config: AgentConfig,
        batch_size: int, statistics: Statistics,
    ) -> None:  # fmt: skip
        self.player, self.memory, self.network, self.config = player, memory, network, config
        self.games = player.environment.games
        self.total_train_steps = 0
        self.batch_size = batch_size
        self._statistics = statistics
        self._unreported: list[UpdateOutcome] = []  # updates whose TD errors the memory has not received

    def exploration_rates(self, games: range | None = None, count: int = 0) -> ExplorationRates:
        """Return the present ε of each game of training, float64 [len(games)].

        ε falls linearly over `exploration_decay_steps`, then stays. Game i of N explores with
        ε_i = ε^(1 + α i / (N - 1)), α = `exploration_spread`: games with a large ε find new states while
        those with a small one play far (Horgan et al. 2018, section 4.1, with one game for each actor).
        `games` has the numbers i, of N = `count` games in all; by default both are those of this agent.
        """
        config, games = self.config, games or range(self.games)
        start, rate = config.exploration_rate_start, config.exploration_rate_end
        if self.total_train_steps < config.exploration_decay_steps:
            rate = start + (rate - start) * self.total_train_steps / config.exploration_decay_steps
        return rate ** (1 + config.exploration_spread * np.array(games) / max(1, (count or self.games) - 1))

    def count_from(self, steps: int) -> None:
        """Set ε, β and the learning rate to their values after `steps` training steps."""
        self.total_train_steps = steps
        self.network.updates = self.config.updates_in(steps)

    def execute(self, actions: Actions, exploration_rate: float | None = None) -> Step:
        """Take `actions` int64 [E], one in each game, and return the step.

        It counts as a training step of each game, unless `exploration_rate`, their mean ε, is given.
        """
        step = self.player.execute(actions)
        if exploration_rate is None:
            exploration_rate = float(self.exploration_rates().mean())
            self.total_train_steps += self.games
        self._statistics.on_step(step, exploration_rate)
        return step

    def learn(self, steps: int) -> None:
        """Make the updates due for the latest `steps` training steps, then copy θ to θ⁻ if that is due.

        With prioritized replay, the memory receives the TD errors after each update (Schaul et al. 2016,
        Algorithm 1).
        """
        for _ in range(self.updates_due(steps)):
            self.learn_from(self.prepare(self.total_train_steps))
            self.update_priorities()
        if self.config.target_steps and self.due(self.config.target_steps, steps):
            self.network.update_target_network()

    def due(self, every: int, steps: int) -> int:
        """Return the number of multiples of `every` among the latest `steps` training steps."""
        return self.total_train_steps // every - (self.total_train_steps - steps) // every

    def updates_due(self, steps: int) -> int:
        """Return the number of updates that are due for the latest `steps` training steps."""
        return self.due(self.config.train_frequency, steps) * self.config.train_repeat

    def prepare(self, steps: int) -> PreparedBatch:
        """Sample a minibatch and compute its targets; `steps` is the training step, for the β of sampling."""
        return self.network.prepare(self.memory.sample(self.batch_size, steps))

    def learn_from(self, batch: PreparedBatch) -> None:
        """Make one update from `batch`; the memory receives its TD errors by `update_priorities`."""
        self.network.update(batch)
        if self.network.updates % UPDATES_PER_REPORT == 0:
            self.report_losses()

    def report_losses(self) -> None:
        """Report the losses of the latest updates, or raise UserError if one is NaN or infinite."""
        outcomes = self.network.take_outcomes()
        for update, outcome in enumerate(outcomes, self.network.updates - len(outcomes) + 1):
            if not math.isfinite(loss := outcome.loss):
                step = self.total_train_steps
                found = f"the loss of update {update} is {loss} (seen at training step {step})"
                raise UserError(f"{found}: lower --learning_rate")
            self._statistics.on_train(loss)
        if self.memory.uses_errors:
            self._unreported += outcomes

    def update_priorities(self) -> None:
        """Pass the TD errors of the latest updates, in their order, to a memory that samples by them."""
        if not self.memory.uses_errors:
            return
        self.report_losses()
        outcomes, self._unreported = self._unreported, []
        if outcomes:
            numbers = np.concatenate([outcome.numbers for outcome in outcomes])
            errors = np.concatenate([outcome.errors for outcome in outcomes])
            self.memory.update_priorities(numbers, errors)

    def check(self) -> None:
        """Report the losses so far, or raise UserError if a loss or a weight is NaN or infinite."""
        self.report_losses()
        for name, values in self.network.get_weights().items():
            if not np.isfinite(values).all():
                found = f"after update {self.network.updates} {name} holds NaN or infinity"
                raise UserError(f"{found}: lower --learning_rate")

    def get_state(self, games: bool = True) -> CheckpointState:
        """Return the state for a checkpoint, without the experience in the replay memory."""
        return {
            "player": self.player.get_state(games),
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
