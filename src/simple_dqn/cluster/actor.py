"""An actor: plays games by a copy of the network, and sends trajectories. This module does not use Ray."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simple_dqn import random_streams
from simple_dqn.agent import Player
from simple_dqn.cluster.session import machine_facts
from simple_dqn.config import Config
from simple_dqn.environment import make
from simple_dqn.own_code import OwnCode
from simple_dqn.snapshot.checkpoint import pack
from simple_dqn.statistics import GameScores
from simple_dqn.types import CONTEXT, Experience, ExplorationRates, Mask, QValues, Step

if TYPE_CHECKING:
    from simple_dqn.networks import NetworkSpec

PlayedRow = tuple[Step, QValues | None]  # with the Q-values of the state before; None: not predicted


@dataclass(frozen=True, slots=True)
class Trajectory:
    """T steps of an actor's W games by one version of the weights; the first has their first screens."""

    number: int  # how many trajectories the actor sent before
    packed: bytes  # the rows as `checkpoint.pack` compresses them, each screen once
    scores: list[float]  # of the games that ended, in raw game points, including earlier trajectories
    version: int  # of the weights: the number of updates that produced them
    # float32 [rows, W], |TD error| of each row in which a transition begins; None: unknown.
    errors: NDArray[np.float32] | None


class TrajectoryStream:
    """The trajectories of one actor in their order, as rows of the memory that all actors share.

    `simple_dqn.types.CONTEXT` explains which rows are context.
    """

    def __init__(self, history_length: int, n_step: int) -> None:
        """Expect the first trajectory, for states of S = `history_length` screens and n = `n_step` steps."""
        self._kept, self._incomplete = history_length + n_step - 1, n_step - 1
        self._before: Experience | None = None  # the rows that the next trajectory needs before it

    def append(self, trajectory: Experience) -> tuple[list[Step], Mask, slice]:
        """Return what to store for the actor's next `trajectory`, which has at least S + n rows.

        Returns:
            The rows for `ReplayMemory.add`, after copies of the rows before; the rows and games in which
            transitions begin, bool [R, W]; and the slice of the rows in which one may, not the last n - 1.
        """
        parts = [trajectory] if self._before is None else [self._before, trajectory]
        rows = Experience._make(map(np.concatenate, zip(*parts, strict=True)))
        first = 0 if self._before is None else self._kept - self._incomplete
        inside = slice(first, len(rows.actions) - self._incomplete)
        # Copies: views would keep the whole trajectory in memory.
        self._before = Experience._make(array[-self._kept :].copy() for array in trajectory)
        begins = np.zeros_like(rows.starts)
        begins[inside] = ~rows.starts[inside]
        rows.actions[: inside.start] = rows.actions[inside.stop :] = CONTEXT
        rows.starts[0] = True  # separates the rows from those of other actors
        unused = np.zeros(rows.starts.shape[1], np.bool_)  # The memory ignores truncations and resets.
        steps = [
            Step(screens, actions, rewards, terminals, unused, unused, starts)
            for screens, actions, rewards, terminals, starts in zip(*rows, strict=True)
        ]
        return steps, begins, inside


class Actor:
    """Plays W games ε-greedily, one trajectory after the other."""

    def describe_machine(self) -> dict[str, str]:
        """Return `machine_facts`; the learner calls this first, before it sends objects of this project."""
        return machine_facts()

    def start(self, config: Config, index: int, spec: "NetworkSpec", code: OwnCode | None) -> str | None:
        """Make the games and the network, and return the MD5 sum of the ROM; None: the game has none.

        `index` is that of the random streams, which no other actor of the run has. The games need the user's
        `code`, if there is any. UserError: this machine cannot play them.
        """
        from simple_dqn.dqn import DeepQNetwork

        if code:
            code.install()
        games = range(config.environment.workers)
        streams = [random_streams.stream(config.seed, f"actor environment {game}", index) for game in games]
        environment = make(config.environment.unseen(), streams, training=True)
        length, datatype = config.memory.history_length, config.backend.datatype
        if datatype in ("bfloat16", "float16"):  # narrow only where this CPU has instructions for it
            datatype = "auto"
        self._network = DeepQNetwork(
            environment.actions, length, environment.screen_shape,
            replace(config.network, target_rule="max", average_updates=0),  # as it does not learn
            replace(config.backend, backend="cpu", datatype=datatype, threads=1),
            random_streams.stream(config.seed, "actor noise", index),
            use_target_network=False, spec=spec,
        )  # fmt: skip
        rng = random_streams.stream(config.seed, "actor exploration", index)
        self._player = Player(environment, partial(self._network.predict, explore=True), length, rng)
        self._config = config
        # Errors are priorities: c51's are divergences instead, and a registered sampler may use them too.
        self._sends_errors = config.memory.sampler != "uniform" and config.network.distributional != "c51"
        self._version, self._sent = -1, 0
        self._scores = GameScores(np.zeros(environment.games))
        self._incomplete: list[PlayedRow] = []  # the latest n - 1, whose transitions are incomplete
        return environment.rom_md5

    def play(
        self, weights: Mapping[str, NDArray[np.float32]] | None, version: int,
        exploration_rate: float | ExplorationRates,
    ) -> Trajectory:  # fmt: skip
        """Play `chunk_steps` steps of each game, and return them.

        `exploration_rate` is ε of all games, or of each [W]. `version` is the number of updates that produced
        the `weights`; None: all actions are random and need no prediction.
        """
        if weights is not None and version != self._version:
            self._network.set_weights(weights)
            self._version = version
        rows, scores = list[PlayedRow](), list[float]()
        if not self._sent:
            shape = (self._player.environment.games, self._player.environment.actions)
            rows.append((self._player.start(), np.zeros(shape, np.float32)))  # no transition begins there
        for _ in range(self._config.cluster.chunk_steps):
            qvalues = None if weights is None else self._player.predict()  # the TD errors need them too
            step = self._player.execute(self._player.choose(exploration_rate, qvalues))
            rows.append((step, qvalues))
            scores += self._scores.add(step)
        self._sent += 1
        return Trajectory(
            number=self._sent - 1,
            packed=pack([step for step, _ in rows]),
            scores=scores,
            version=version,
            errors=self._errors(rows) if self._sends_errors else None,
        )

    def _errors(self, rows: list[PlayedRow]) -> NDArray[np.float32] | None:
        """Return `td_errors` of the rows in which `TrajectoryStream` lets transitions begin.

        None: some were played at random, without a prediction.
        """
        config, rows = self._config, self._incomplete + rows
        self._incomplete = rows[len(rows) - config.memory.n_step + 1 :]
        predictions = [before for _, before in rows if before is not None]
        if len(predictions) < len(rows):
            return None
        qvalues = np.stack(predictions)
        names = ("actions", "rewards", "terminals", "starts")
        columns = (np.stack([getattr(step, name) for step, _ in rows]) for name in names)
        actions, rewards, terminals, starts = columns
        return td_errors(
            rewards.clip(config.network.min_reward, config.network.max_reward), terminals, starts,
            np.take_along_axis(qvalues, actions[..., np.newaxis], axis=2)[..., 0],
            np.concatenate((qvalues.max(axis=2), self._player.predict().max(axis=1)[np.newaxis])),
            config.network.discount_rate, config.memory.n_step,
        )  # fmt: skip


def td_errors(
    rewards: NDArray[np.float32], terminals: Mask, starts: Mask, taken: NDArray[np.float32],
    best: NDArray[np.float32], discount_rate: float, n_step: int,
) -> NDArray[np.float32]:  # fmt: skip
    """Return |r + γ^m max_a Q(s', a) - Q(s, a)| of the transition of up to n steps that begins in each row.

    These are the first priorities of the transitions (Horgan et al. 2018, section 3), so the learner need not
    predict them again. Both Q are the actor's own, from when it acted, without a target network.

    Args:
        rewards: r [L, W], clipped as in an update.
        terminals: [L, W], the episode ended in this row.
        starts: [L, W], a game starts in this row.
        taken: [L, W], Q(s, a) of the action that led to this row.
        best: [L + 1, W], max_a Q(s, a) of the state before each row, and of the state after the last.
        discount_rate: γ.
        n_step: n.

    Returns:
        float32 [L - n + 1, W]: the transitions of later rows are not complete yet.
    """
    count = len(rewards) - n_step + 1
    returns = np.zeros((count, rewards.shape[1]), np.float32)
    going = np.ones(returns.shape, np.bool_)
    for k in range(n_step):
        rows, after = slice(k, k + count), slice(k + 1, k + 1 + count)
        returns += np.where(going, discount_rate**k * rewards[rows], 0)
        ends = terminals[rows] | (starts[after] if k < n_step - 1 else True)
        values = np.where(terminals[rows], 0, discount_rate ** (k + 1) * best[after])
        returns += np.where(going & ends, values, 0)
        going &= ~ends
    np.abs(returns - taken[:count], out=returns)
    return returns
