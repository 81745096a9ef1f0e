"""The schedule of a cluster: remember what actors played, learn what is due for it, hand out new weights."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import ray

from simple_dqn.agent import Agent, spread
from simple_dqn.cluster.chunk import Chunk
from simple_dqn.cluster.crew import Crew, Post
from simple_dqn.cluster.pace import Pace
from simple_dqn.cluster.session import Session
from simple_dqn.config import Config
from simple_dqn.snapshot.experience_log import unpack
from simple_dqn.statistics import Statistics
from simple_dqn.types import ExplorationRates

RANDOM = 1.0  # the ε at which no prediction is needed


class ClusterSchedule:
    """A `Schedule` whose agent does not play: actors do."""

    def __init__(self, config: Config, crew: Crew, session: Session, statistics: Statistics) -> None:
        self._config, self._crew, self._session, self._statistics = config, crew, session, statistics
        self._weights: Any = None  # Ray's reference to the latest version, and which it is
        self._version = -1
        self._pace = Pace(config.cluster.actors)
        self._last = time.monotonic()  # when the latest chunk was taken in
        self._waited = 0.0  # seconds since
        self._ages: list[int] = []  # of the weights by which the chunks of this phase were played, in updates

    def start(self, agent: Agent) -> None:
        """Do nothing: actors begin with new games."""

    def fill(
        self,
        agent: Agent,
        steps: int,
        exploration_rate: float | None,
        stopped: Callable[[], bool],
        at_rest: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Have `steps` steps played without learning; no more are asked for. See `training.serial.fill`."""
        left = steps
        while left > 0 and not stopped():
            left -= self._take_in(agent, exploration_rate, left, at_rest, learns=False)

    def train(
        self,
        agent: Agent,
        steps: int,
        stopped: Callable[[], bool],
        at_rest: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Have `steps` steps played, in whole chunks, and learn every `train_frequency` of them.

        Args:
            agent: Who learns.
            steps: Steps over all games of all actors.
            stopped: Says whether to end early.
            at_rest: Is called after each chunk and the updates that are due for it.
        """
        left = steps
        while left > 0 and not stopped():
            most = self._pace.allowed * self._crew.steps_of_a_chunk
            left -= self._take_in(agent, None, most, at_rest, learns=True)

    def report(self) -> dict[str, float | None]:
        """Return how the cluster stands, and the mean age of the weights since it was last asked."""
        ages, self._ages = self._ages, []
        return {
            "actors_alive": self._crew.alive,
            "experience_in_flight": self._crew.steps_in_flight,
            "weight_age": float(np.mean(ages)) if ages else None,
        }

    def close(self) -> None:
        """End all actors, and leave the cluster."""
        self._crew.close()
        self._session.close()

    def _take_in(
        self, agent: Agent, exploration_rate: float | None, most: int,
        at_rest: Callable[[int], None], learns: bool,
    ) -> int:  # fmt: skip
        """Wait for a chunk, if one comes, and do all that is due for it; return how many steps it has."""
        with agent.ledger.section("wait"):
            self._ask(agent, exploration_rate, most)
            came = self._next(learns)
        if came is None:
            return 0
        post, chunk = came
        with agent.ledger.section("store"):
            self._remember(agent, post, chunk)
        agent.ledger.count(chunk.steps)
        rates = self._rates(agent, post.number, exploration_rate)
        self._statistics.on_chunk(chunk.steps, chunk.scores, float(np.mean(rates)))
        if learns:
            if chunk.version >= 0:  # else it was played at random
                self._ages.append(agent.network.updates - chunk.version)
            learn(agent, chunk.steps)
        at_rest(chunk.steps)
        return chunk.steps

    def _ask(self, agent: Agent, exploration_rate: float | None, most: int) -> None:
        """Ask every actor that has room for another chunk, until `most` steps are in flight."""
        needs_weights = exploration_rate != RANDOM
        if needs_weights:
            self._publish(agent)
        for post in self._crew.free():
            if self._crew.steps_in_flight >= most:
                return
            rates = self._rates(agent, post.number, exploration_rate)
            self._crew.ask(post, self._weights if needs_weights else None, self._version, rates)

    def _next(self, learns: bool) -> tuple[Post, Chunk] | None:
        """Wait for the next chunk, if one comes, and mind the pace of a learner that `learns`."""
        began = time.monotonic()
        came = self._crew.next()
        now = time.monotonic()
        self._waited += now - began
        if came is not None:
            if learns:
                self._pace.came(self._waited, now - self._last)
            self._last, self._waited = now, 0.0
        return came

    def _publish(self, agent: Agent) -> None:
        """Hand out new weights if it is time: they go to each machine once, and from there to its actors."""
        updates = agent.network.updates
        if self._weights is None or updates - self._version >= self._config.cluster.weights_every:
            self._weights, self._version = ray.put(agent.network.get_weights()), updates

    def _remember(self, agent: Agent, post: Post, chunk: Chunk) -> None:
        """Let the memory take in `chunk`, and how wrong the actor was about it."""
        piece, first = post.lane.take(unpack(chunk.packed)), agent.memory.taken
        for step in piece.steps():
            agent.memory.add(step)
        if chunk.errors is not None:
            begins = piece.begins
            numbers = first + np.flatnonzero(begins)
            agent.memory.update_priorities(numbers, chunk.errors[begins[piece.first : piece.end]])

    def _rates(self, agent: Agent, number: int, exploration_rate: float | None) -> float | ExplorationRates:
        """Return the ε of the games of actor `number`: what is given for all, or else each game's own.

        The actor has every N-th of all games, so that each has some that explore much.
        """
        if exploration_rate is not None:
            return exploration_rate
        actors = self._config.cluster.actors
        count = actors * self._config.environment.workers
        games = range(number, count, actors)
        return spread(agent.exploration_rate, agent.config.exploration_spread, games, count)


def learn(agent: Agent, steps: int) -> None:
    """Make the updates, and the copies to the target network, that are due while `steps` steps go by."""
    train_frequency, target_steps = agent.config.train_frequency, agent.config.target_steps
    for _ in range(steps):
        agent.total_train_steps += 1
        if agent.total_train_steps % train_frequency == 0:
            agent.learn()
        if target_steps and agent.total_train_steps % target_steps == 0:
            agent.network.update_target_network()
