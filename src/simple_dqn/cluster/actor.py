"""Who plays: games, and a copy of the network to predict by. Knows nothing of Ray."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from simple_dqn import random_streams
from simple_dqn.cluster.chunk import Chunk, Task, about_this_machine
from simple_dqn.cluster.first_errors import first_errors
from simple_dqn.environment import make
from simple_dqn.ledger import Ledger
from simple_dqn.player import Player
from simple_dqn.snapshot.experience_log import pack
from simple_dqn.types import ExplorationRates, QValues, States, Step

Weights = Mapping[str, NDArray[np.float32]]
# What is learnt of a return and told as an error is a distance of expectations, but for c51's divergence.
ESTIMATED = ("none", "quantile")


class Actor:
    """Plays the games of one `Task` ε-greedily, chunk by chunk."""

    def greet(self) -> dict[str, str]:
        """Say what this machine is; nothing else is understood before it is known to be of the same make."""
        return about_this_machine()

    def begin(self, task: Task) -> str | None:
        """Get ready to play, and return what the ROM is known by.

        Raises:
            UserError: The game cannot be played on this machine.
        """
        from simple_dqn.deepqnetwork.networks import NETWORKS
        from simple_dqn.deepqnetwork.predictor import Predictor

        config, life = task.config, task.index  # with random streams of its own
        games = range(config.environment.workers)
        streams = [random_streams.stream(config.seed, f"actor environment {game}", life) for game in games]
        environment = make(config.environment.unseen(), streams, training=True)
        length = config.memory.history_length
        self._predictor = Predictor(
            environment.actions, length, environment.screen_shape, config.network, config.backend,
            random_streams.stream(config.seed, "actor noise", life), NETWORKS[config.network.network],
        )  # fmt: skip
        rng = random_streams.stream(config.seed, "actor exploration", life)
        slips = config.agent.slip_probability
        self._player = Player(environment, self._told, length, rng, Ledger(), slip_probability=slips)
        self._config = config
        self._estimates = config.memory.prioritized and config.network.distributional in ESTIMATED
        self._version, self._chunks = -1, 0
        self._qvalues = np.zeros((environment.games, environment.actions), np.float32)
        self._scores = np.zeros(environment.games)
        # The latest n - 1 rows, and before them nothing, each with the Q-values of the state before it.
        self._open: list[tuple[Step, QValues]] = []
        self._predicted = True  # whether there were Q-values in the chunk before
        return environment.rom_md5

    def play(
        self, weights: Weights | None, version: int, exploration_rate: float | ExplorationRates
    ) -> Chunk:
        """Play a chunk.

        Args:
            weights: The network's; None: no prediction is needed, as all actions are random.
            version: Which these are.
            exploration_rate: ε, of all games or of each [W].
        """
        if weights is not None and version != self._version:
            self._predictor.set_weights(weights)
            self._version = version
        rows, scores = [], list[float]()
        if not self._chunks:
            rows.append((self._player.start(), self._qvalues))
        for _ in range(self._config.cluster.chunk_steps):
            if weights is not None:
                self._qvalues = self._predictor.predict_to_explore(self._player.states)
            step = self._player.step(exploration_rate)
            rows.append((step, self._qvalues))
            scores += self._ended(step)
        self._chunks += 1
        return Chunk(
            number=self._chunks - 1,
            packed=pack([step for step, _ in rows]),
            steps=self._config.cluster.chunk_steps * self._player.environment.games,
            scores=scores,
            version=version,
            errors=self._errors(rows, known=weights is not None) if self._estimates else None,
        )

    def _told(self, _states: States) -> QValues:
        """Return what was predicted for the current states: as long as errors are told, by each step once."""
        return self._qvalues

    def _ended(self, step: Step) -> list[float]:
        """Add up the rewards of `step`, and return the scores of the games that it ended."""
        self._scores[step.starts] = 0
        self._scores += step.rewards
        return [float(score) for score in self._scores[step.resets]]

    def _errors(self, rows: list[tuple[Step, QValues]], known: bool) -> NDArray[np.float32] | None:
        """Return how wrong the predictions were for what `Lane` will let begin; None: there were none."""
        config = self._config
        known_before, self._predicted = self._predicted or not self._open, known
        rows = self._open + rows
        self._open = rows[len(rows) - config.memory.n_step + 1 :]
        if not (known and known_before):
            return None
        steps, qvalues = [step for step, _ in rows], np.stack([before for _, before in rows])
        after = self._predictor.predict_to_explore(self._player.states)
        actions = np.stack([step.actions for step in steps])
        rewards = np.stack([step.rewards for step in steps])
        return first_errors(
            rewards.clip(config.network.min_reward, config.network.max_reward),
            np.stack([step.terminals for step in steps]),
            np.stack([step.starts for step in steps]),
            np.take_along_axis(qvalues, actions[..., np.newaxis], axis=2)[..., 0],
            np.concatenate((qvalues.max(axis=2), after.max(axis=1)[np.newaxis])),
            config.network.discount_rate,
            config.memory.n_step,
        )
