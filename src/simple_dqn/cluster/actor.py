"""An actor: plays games by a copy of the network. Nothing here knows Ray."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simple_dqn import random_streams
from simple_dqn.agent import Player
from simple_dqn.cluster.session import machine_facts
from simple_dqn.cluster.trajectory import Trajectory, td_errors
from simple_dqn.config import Config
from simple_dqn.environment import make
from simple_dqn.snapshot import pack
from simple_dqn.statistics import Scores
from simple_dqn.types import ExplorationRates, QValues, Step

if TYPE_CHECKING:
    from simple_dqn.networks import NetworkSpec

Weights = Mapping[str, NDArray[np.float32]]
# Distributions whose priority is a distance of expectations; c51's is a divergence.
WITH_ERRORS = ("none", "quantile")
# The datatype of an actor's CPU, by the learner's: narrow only where the CPU has instructions for it.
PREDICTS_IN = {
    "float32": "float32", "float64": "float64", "bfloat16": "auto", "float16": "auto", "auto": "auto",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ActorSettings:
    """The settings of one actor, and its place among those of the run."""

    config: Config
    number: int  # of the worker slot, from 0
    generation: int  # how many actors had this slot before
    resumes: int = 0  # how often the run was resumed
    spec: "NetworkSpec | None" = None  # the network's layers; None: those of the project's table

    @property
    def stream_index(self) -> int:
        """The index of the actor's random streams, which no other actor of the run has."""
        return (self.resumes << 40) + (self.generation << 20) + self.number


class Actor:
    """Plays W games ε-greedily, one trajectory after the other."""

    def describe_machine(self) -> dict[str, str]:
        """Return `machine_facts`; the learner calls this first, before it sends objects of this project."""
        return machine_facts()

    def start(self, settings: ActorSettings) -> str | None:
        """Make the games and the network, and return the MD5 sum of the ROM; None: the game has none.

        Raises:
            UserError: The game cannot be played on this machine.
        """
        from simple_dqn.dqn import DeepQNetwork
        from simple_dqn.networks import NETWORKS

        config, index = settings.config, settings.stream_index
        games = range(config.environment.workers)
        streams = [random_streams.stream(config.seed, f"actor environment {game}", index) for game in games]
        environment = make(config.environment.unseen(), streams, training=True)
        length = config.memory.history_length
        self._network = DeepQNetwork(
            environment.actions, length, environment.screen_shape, config.network,
            replace(config.backend, backend="cpu", datatype=PREDICTS_IN[config.backend.datatype], threads=1),
            random_streams.stream(config.seed, "actor noise", index),
            use_target_network=False, spec=settings.spec or NETWORKS[config.network.network],
        )  # fmt: skip
        rng = random_streams.stream(config.seed, "actor exploration", index)
        predict = partial(self._network.predict, explore=True)
        self._player = Player(environment, predict, length, rng)
        self._config = config
        # A registered sampler is unknown here, and may use them.
        wanted = config.memory.sampler != "uniform"
        self._sends_errors = wanted and config.network.distributional in WITH_ERRORS
        self._version, self._sent = -1, 0
        self._qvalues = np.zeros((environment.games, environment.actions), np.float32)
        self._scores = Scores(np.zeros(environment.games))
        # The latest n - 1 rows, whose transitions are incomplete, each with the Q-values of the state before.
        self._incomplete: list[tuple[Step, QValues]] = []
        self._predicted = True  # whether the rows before were played with Q-values
        return environment.rom_md5

    def play(
        self, weights: Weights | None, version: int, exploration_rate: float | ExplorationRates
    ) -> Trajectory:
        """Play `chunk_steps` steps of each game, and return them.

        Args:
            weights: The network's weights; None: all actions are random and need no prediction.
            version: The number of updates that produced the weights.
            exploration_rate: ε of all games, or of each game [W].
        """
        if weights is not None and version != self._version:
            self._network.set_weights(weights)
            self._version = version
        rows, scores = [], list[float]()
        if not self._sent:
            rows.append((self._player.start(), self._qvalues))
        for _ in range(self._config.cluster.chunk_steps):
            if weights is not None:
                self._qvalues = self._player.predict()  # the TD errors need them too
            step = self._player.execute(self._player.choose(exploration_rate, self._qvalues))
            rows.append((step, self._qvalues))
            scores += self._scores.add(step)
        self._sent += 1
        return Trajectory(
            number=self._sent - 1,
            packed=pack([step for step, _ in rows]),
            steps=self._config.cluster.chunk_steps * self._player.environment.games,
            scores=scores,
            version=version,
            errors=self._errors(rows, predicted=weights is not None) if self._sends_errors else None,
        )

    def _errors(self, rows: list[tuple[Step, QValues]], predicted: bool) -> NDArray[np.float32] | None:
        """Return `td_errors` of the rows in which `MemoryRows` lets transitions begin.

        Args:
            rows: Each step of the trajectory, and the Q-values of the state before it.
            predicted: Whether the network predicted these Q-values.

        Returns:
            float32 [rows, W]; None: some of the Q-values are missing.
        """
        config = self._config
        predicted_before, self._predicted = self._predicted or not self._incomplete, predicted
        rows = self._incomplete + rows
        self._incomplete = rows[len(rows) - config.memory.n_step + 1 :]
        if not (predicted and predicted_before):
            return None
        steps, qvalues = [step for step, _ in rows], np.stack([before for _, before in rows])
        after = self._player.predict()
        actions = np.stack([step.actions for step in steps])
        rewards = np.stack([step.rewards for step in steps])
        return td_errors(
            rewards.clip(config.network.min_reward, config.network.max_reward),
            np.stack([step.terminals for step in steps]),
            np.stack([step.starts for step in steps]),
            np.take_along_axis(qvalues, actions[..., np.newaxis], axis=2)[..., 0],
            np.concatenate((qvalues.max(axis=2), after.max(axis=1)[np.newaxis])),
            config.network.discount_rate,
            config.memory.n_step,
        )
