"""The cluster's schedule: store what actors played, make the updates due for it, send out new weights."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import ray

from simple_dqn.agent import Agent
from simple_dqn.cluster.actor_pool import IN_FLIGHT, ActorPool, WorkerSlot
from simple_dqn.cluster.session import Session
from simple_dqn.cluster.trajectory import Trajectory
from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.schedules import SerialSchedule
from simple_dqn.snapshot import unpack
from simple_dqn.statistics import Statistics
from simple_dqn.types import CheckpointState, ExplorationRates

RANDOM = 1.0  # the ε at which no prediction is needed
WAITING = 0.05  # share of the learner's time above which it counts as waiting
BUSY = 32  # trajectories in a row without waiting, after which the limit is lowered


class InFlightLimit:
    """The most trajectories in flight: lowered while the learner never waits, raised when it does.

    More than the learner needs would wait for it, and their weights would be older when it stores them.
    """

    trajectories: int  # at least one

    def __init__(self, actors: int) -> None:
        """Allow as many as `actors` can have in flight."""
        self._most = self.trajectories = actors * IN_FLIGHT
        self._busy = 0

    def on_trajectory(self, waited: float, since: float) -> None:
        """Adjust the limit after a trajectory.

        Args:
            waited: Seconds that the learner waited for it.
            since: Seconds since the one before.
        """
        step = max(1, self.trajectories // 8)  # so that a thousand actors slow down soon, too
        if waited > WAITING * since:
            self._busy = 0
            self.trajectories = min(self._most, self.trajectories + step)
            return
        self._busy += 1
        if self._busy == BUSY:
            self._busy = 0
            self.trajectories = max(1, self.trajectories - step)


class ClusterSchedule(SerialSchedule):
    """A schedule in which actors play, and the agent stores and learns."""

    def __init__(self, config: Config, pool: ActorPool, session: Session, statistics: Statistics) -> None:
        self._config, self._pool, self._session, self._statistics = config, pool, session, statistics
        self._weights: Any = None  # Ray's reference to the weights that were sent out last
        self._version = -1  # the number of updates that produced them
        self._limit = InFlightLimit(config.cluster.actors)
        self._last = time.monotonic()  # when the latest trajectory arrived
        self._waited = 0.0  # seconds of waiting since
        self._ages: list[int] = []  # in updates, of the weights that played this phase's trajectories

    def start(self, agent: Agent) -> None:
        """Do nothing: actors begin with new games."""

    def fill(self, agent: Agent, steps: int, exploration_rate: float | None = None) -> Iterator[int]:
        """Store `steps` steps that actors play, without learning, and request no more."""
        left = steps
        while left > 0:
            made = self._take(agent, exploration_rate, left, learns=False)
            left -= made
            yield made

    def train(self, agent: Agent, steps: int) -> Iterator[int]:
        """Store `steps` steps in whole trajectories, and make the updates due for them."""
        left = steps
        while left > 0:
            most = self._limit.trajectories * self._pool.trajectory_steps
            made = self._take(agent, None, most, learns=True)
            left -= made
            yield made

    def report(self) -> dict[str, float | None]:
        """Return the CSV's columns of the cluster; `weight_age` is the mean since the last report."""
        ages, self._ages = self._ages, []
        return {
            "actors_alive": self._pool.alive,
            "experience_in_flight": self._pool.steps_in_flight,
            "weight_age": float(np.mean(ages)) if ages else None,
        }

    def get_state(self) -> CheckpointState:
        """Return how often the run was resumed; actors play on, and their games are not saved."""
        return {"resumes": self._pool.resumes}

    def set_state(self, state: CheckpointState) -> None:
        """Count one more resume than `state` has: actors begin new games.

        Raises:
            UserError: The checkpoint is from a version that counted elsewhere.
        """
        if "resumes" not in state:
            raise UserError(
                "the checkpoint of this cluster is from an earlier version: move its folder away, and "
                "./resume.sh will continue from a snapshot's weights"
            )
        self._pool.resumes = state["resumes"] + 1

    def close(self) -> None:
        """End all actors, and leave the cluster."""
        self._pool.close()
        self._session.close()

    def _take(self, agent: Agent, exploration_rate: float | None, most: int, learns: bool) -> int:
        """Wait for a trajectory while at most `most` steps are in flight, store it, and make its updates.

        Returns:
            The number of steps of the trajectory; 0: none arrived in time.
        """
        self._request(agent, exploration_rate, most)
        received = self._next(learns)
        if received is None:
            return 0
        slot, trajectory = received
        self._store(agent, slot, trajectory)
        rates = self._rates(agent, slot.number, exploration_rate)
        self._statistics.on_steps(trajectory.steps, trajectory.scores, float(np.mean(rates)))
        if learns:
            if trajectory.version >= 0:  # otherwise it was played at random
                self._ages.append(agent.network.updates - trajectory.version)
            for _ in range(trajectory.steps):
                agent.total_train_steps += 1
                agent.learn(1)
        return trajectory.steps

    def _request(self, agent: Agent, exploration_rate: float | None, most: int) -> None:
        """Request a trajectory of each actor that has room for one, until `most` steps are in flight."""
        needs_weights = exploration_rate != RANDOM
        if needs_weights:
            self._publish(agent)
        for slot in self._pool.free_slots():
            if self._pool.steps_in_flight >= most:
                return
            rates = self._rates(agent, slot.number, exploration_rate)
            self._pool.request(slot, self._weights if needs_weights else None, self._version, rates)

    def _next(self, learns: bool) -> tuple[WorkerSlot, Trajectory] | None:
        """Wait for the next trajectory; if the learner `learns`, adjust the limit to its waiting."""
        began = time.monotonic()
        received = self._pool.next()
        now = time.monotonic()
        self._waited += now - began
        if received is not None:
            if learns:
                self._limit.on_trajectory(self._waited, now - self._last)
            self._last, self._waited = now, 0.0
        return received

    def _publish(self, agent: Agent) -> None:
        """Send out new weights every `weights_every` updates: once to each machine, for all its actors."""
        updates = agent.network.updates
        if self._weights is None or updates - self._version >= self._config.cluster.weights_every:
            self._weights, self._version = ray.put(agent.network.get_weights()), updates

    def _store(self, agent: Agent, slot: WorkerSlot, trajectory: Trajectory) -> None:
        """Add `trajectory` to the memory, with the actor's TD errors as first priorities."""
        rows, first = slot.stream.append(unpack(trajectory.packed)), agent.memory.taken
        for step in rows.steps():
            agent.memory.add(step)
        if trajectory.errors is not None:
            begins = rows.begins
            numbers = first + np.flatnonzero(begins)
            agent.memory.update_priorities(numbers, trajectory.errors[begins[rows.first : rows.end]])

    def _rates(self, agent: Agent, number: int, exploration_rate: float | None) -> float | ExplorationRates:
        """Return `exploration_rate`, or if it is None the ε of each game of the actor in slot `number`.

        The games of all actors are numbered in turns, so that each actor has some that explore much.
        """
        if exploration_rate is not None:
            return exploration_rate
        actors = self._config.cluster.actors
        count = actors * self._config.environment.workers
        games = range(number, count, actors)
        return agent.exploration_rates(games, count)
