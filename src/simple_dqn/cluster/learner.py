"""The learner: requests trajectories from actors, stores them, and makes the updates that are due."""

import logging
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayError, RayTaskError

from simple_dqn.agent import Agent
from simple_dqn.cluster.actor import Actor, Trajectory, TrajectoryStream
from simple_dqn.cluster.session import Session, machine_facts
from simple_dqn.config import Config
from simple_dqn.environment import own_code_of
from simple_dqn.errors import UserError
from simple_dqn.networks import NETWORKS, uniform_by_inputs
from simple_dqn.schedules import SerialSchedule
from simple_dqn.snapshot.checkpoint import unpack
from simple_dqn.statistics import Statistics
from simple_dqn.types import CheckpointState, ExplorationRates

logger = logging.getLogger(__name__)

IN_FLIGHT = 2  # trajectories requested of an actor: it plays one while the other travels or waits
POLL_SECONDS = 0.2  # the longest that `ActorPool.next` blocks
RESTART_SECONDS = 5.0  # before an actor is replaced that failed before its first trajectory
ATTEMPTS = 3  # at starting an actor, as long as no actor of the run has sent anything
WAITING_SHARE = 0.05  # share of the learner's time above which it counts as waiting
BUSY_TRAJECTORIES = 32  # trajectories in a row without waiting, after which the limit is lowered


class ActorSlot:
    """One of the N slots of a pool, each for one actor."""

    actor: Any = None  # Ray's handle; None: the slot is empty
    stream: TrajectoryStream  # set together with `actor`
    generation = -1  # how many actors had this slot before the present one
    host = ""  # the actor's machine; empty until it has answered for the first time
    process = ""  # the id of its process on that machine
    received = 0  # how many trajectories of this actor have arrived
    failures = 0  # how many actors in a row failed before their first trajectory
    not_before = 0.0  # when the next actor may start, in seconds of the monotonic clock

    def __init__(self, number: int) -> None:
        self.number = number  # from 0
        self.pending = deque[tuple[str, Any]]()  # unanswered calls: method, Ray's reference

    @property
    def requested(self) -> int:
        """Trajectories that the actor was asked for and has not sent."""
        return sum(method == "play" for method, _ in self.pending)

    def call(self, method: str, *arguments: Any) -> None:
        """Call a method of the actor, whose answer comes later."""
        self.pending.append((method, getattr(self.actor, method).remote(*arguments)))

    def clear(self) -> None:
        """Kill the actor, if there is one, and forget its pending calls."""
        if self.actor:
            ray.kill(self.actor)
        self.actor, self.host = None, ""
        self.pending.clear()


class ActorPool:
    """N actor slots, and the calls that are in flight.

    An actor answers its calls in their order. After any failure it is given up with all its pending calls, so
    no trajectory is used twice or without the one before it, and a new actor takes the slot.
    """

    def __init__(self, config: Config, rom_md5: str | None) -> None:
        """Make slots for `config.cluster.actors` actors; their game has the ROM with `rom_md5`, or none."""
        self._config, self._rom_md5 = config, rom_md5
        self.resumes = 0  # of the run, so that its games differ from those of its start
        self._slots = [ActorSlot(number) for number in range(config.cluster.actors)]
        self._remote_class = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Actor)
        self._code = own_code_of(config.environment)
        self._spec = NETWORKS[config.network.network]  # may be registered here alone
        if not self._spec.initializer.__module__.startswith("simple_dqn."):
            # The actor's machine may not know it, and the learner's weights replace the initial ones.
            self._spec = replace(self._spec, initializer=uniform_by_inputs)
        self._received_any = False  # whether any actor has sent a trajectory
        self.trajectory_steps = config.cluster.chunk_steps * config.environment.workers  # over all its games

    @property
    def alive(self) -> int:
        """Actors that have answered and have not failed since."""
        return sum(bool(slot.host) for slot in self._slots)

    @property
    def steps_in_flight(self) -> int:
        """Steps that actors were asked for and have not sent."""
        return sum(slot.requested for slot in self._slots) * self.trajectory_steps

    def free_slots(self) -> Iterator[ActorSlot]:
        """Yield the slots that have room for another request, those with the fewest requests first.

        An actor that has not answered yet is left out, since it may wait for a free core forever.
        """
        for requested in range(IN_FLIGHT):
            yield from [slot for slot in self._slots if slot.host and slot.requested == requested]

    def next(self) -> tuple[ActorSlot, Trajectory] | None:
        """Return the next trajectory and its slot; None: none arrived within `POLL_SECONDS`.

        Raises:
            UserError: No actor can be started, or an actor's machine has another version or lacks the game.
        """
        self._fill_slots()
        waiting = {slot.pending[0][1]: slot for slot in self._slots if slot.pending}
        if not waiting:
            time.sleep(POLL_SECONDS)
            return None
        ready, _ = ray.wait(list(waiting), num_returns=1, timeout=POLL_SECONDS)
        if not ready:
            return None
        slot = waiting[ready[0]]
        # To the end of the list, so that all actors take turns where several are ready.
        self._slots.remove(slot)
        self._slots.append(slot)
        method, reference = slot.pending.popleft()
        try:
            answer = ray.get(reference)
            if method != "play":
                self._check(slot, method, answer)
                return None
        except (RayError, UserError) as error:
            self._give_up(slot, error)
            return None
        assert answer.number == slot.received, "a trajectory was lost, or arrived twice"
        slot.received, slot.failures, self._received_any = slot.received + 1, 0, True
        return slot, answer

    def close(self) -> None:
        """Kill all actors."""
        for slot in self._slots:
            slot.clear()

    def _fill_slots(self) -> None:
        """Start an actor in each empty slot; Ray runs it once a machine has a free core."""
        memory = self._config.memory
        for slot in self._slots:
            if slot.actor or time.monotonic() < slot.not_before:
                continue
            slot.generation += 1
            slot.received, slot.stream = 0, TrajectoryStream(memory.history_length, memory.n_step)
            slot.actor = self._remote_class.remote()
            index = (self.resumes << 40) + (slot.generation << 20) + slot.number
            slot.call("describe_machine")
            slot.call("start", self._config, index, self._spec, self._code)

    def _check(self, slot: ActorSlot, method: str, answer: Any) -> None:
        """Raise UserError if the actor's machine, or the ROM of its games, differs from that here."""
        if method == "start":
            if answer != self._rom_md5:
                raise UserError(
                    f"{slot.host} has another ROM of this game (MD5 {answer}, here {self._rom_md5}): put the "
                    "same file on every machine of the cluster"
                )
            return
        for what in ("Python", "project"):
            if answer[what] != (ours := machine_facts()[what]):
                raise UserError(
                    f"{answer['host']} has {what} {answer[what]} and this machine {ours}: install the same "
                    "version of Python and of this project on every machine of the cluster"
                )
        slot.host, slot.process = answer["host"], answer["process"]

    def _give_up(self, slot: ActorSlot, error: Exception) -> None:
        """Kill the actor in `slot`; raise UserError if no actor has sent anything and another would fail."""
        cause = error.cause if isinstance(error, RayTaskError) else error
        reason = f"{type(cause).__name__}: {str(cause).strip().partition(chr(10))[0][:200]}"
        if isinstance(cause, UserError):
            reason = str(cause)
        elif "No module named 'simple_dqn'" in str(cause):
            reason = "its machine has no such project: install it, or put it on the PYTHONPATH of `ray start`"
        name = f"actor {slot.number}" + (f" on {slot.host} (process {slot.process})" if slot.host else "")
        if not slot.received:
            slot.failures += 1
            slot.not_before = time.monotonic() + RESTART_SECONDS
        if not self._received_any and (isinstance(cause, UserError) or slot.failures >= ATTEMPTS):
            raise UserError(f"{name} cannot play: {reason}")
        logger.warning("Starting another actor, as %s died (%s)", name, reason)
        slot.clear()


class InFlightLimit:
    """The limit of trajectories in flight: lowered while the learner never waits, raised when it does.

    With more in flight, trajectories would wait for the learner, and would be played by older weights.
    """

    def __init__(self, actors: int) -> None:
        """Allow as many as `actors` can have in flight."""
        self._most = self.trajectories = actors * IN_FLIGHT
        self._busy = 0

    def on_trajectory(self, waited: float, since: float) -> None:
        """Adjust the limit: the learner `waited` seconds for a trajectory, `since` seconds after the last."""
        step = max(1, self.trajectories // 8)  # so that a thousand actors also slow down soon
        self._busy = 0 if waited > WAITING_SHARE * since else self._busy + 1
        if not self._busy:
            self.trajectories = min(self._most, self.trajectories + step)
        elif self._busy == BUSY_TRAJECTORIES:
            self._busy = 0
            self.trajectories = max(1, self.trajectories - step)


class ClusterSchedule(SerialSchedule):
    """A schedule in which actors play, and the agent stores and learns.

    Actors begin with new games, also after a resume: their games are not saved.
    """

    def __init__(self, config: Config, pool: ActorPool, session: Session, statistics: Statistics) -> None:
        self._config, self._pool, self._session, self._statistics = config, pool, session, statistics
        self._weights: Any = None  # Ray's reference to the weights that were sent out last
        self._version = -1  # the number of updates that produced them
        self._limit = InFlightLimit(config.cluster.actors)
        self._last, self._waited = time.monotonic(), 0.0  # the latest trajectory; seconds of waiting since
        self._ages: list[int] = []  # in updates, of the weights that played this phase's trajectories

    def start(self, agent: Agent) -> None:
        """Do nothing; see the class."""

    def fill(self, agent: Agent, steps: int, exploration_rate: float | None = None) -> Iterator[int]:
        """Store `steps` steps that actors play, without learning, and request no more."""
        return self._play(agent, steps, exploration_rate, learns=False)

    def train(self, agent: Agent, steps: int) -> Iterator[int]:
        """Store `steps` steps in whole trajectories, and make the updates due for them."""
        return self._play(agent, steps, None, learns=True)

    def _play(self, agent: Agent, left: int, exploration_rate: float | None, learns: bool) -> Iterator[int]:
        while left > 0:
            most = self._limit.trajectories * self._pool.trajectory_steps if learns else left
            self._request(agent, exploration_rate, most)
            made = self._take(agent, exploration_rate, learns)
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
        """Return how often the run was resumed."""
        return {"resumes": self._pool.resumes}

    def set_state(self, state: CheckpointState) -> None:
        """Count one more resume than `state` has."""
        self._pool.resumes = state["resumes"] + 1

    def close(self) -> None:
        """End all actors, and leave the cluster."""
        self._pool.close()
        self._session.close()

    def _request(self, agent: Agent, exploration_rate: float | None, most: int) -> None:
        """Request a trajectory of each actor that has room for one, until `most` steps are in flight."""
        weights, updates = None, agent.network.updates
        if exploration_rate != 1:  # all actions would be random, and need no prediction
            if self._weights is None or updates - self._version >= self._config.cluster.weights_every:
                # Once to each machine, for all its actors.
                self._weights, self._version = ray.put(agent.network.get_weights()), updates
            weights = self._weights
        for slot in self._pool.free_slots():
            if self._pool.steps_in_flight >= most:
                return
            slot.call("play", weights, self._version, self._rates(agent, slot.number, exploration_rate))

    def _take(self, agent: Agent, exploration_rate: float | None, learns: bool) -> int:
        """Wait for a trajectory, store it, make its updates, and return its steps; 0: none came in time."""
        began = time.monotonic()
        received = self._pool.next()
        now = time.monotonic()
        self._waited += now - began
        if received is None:
            return 0
        slot, trajectory = received
        if learns:
            self._limit.on_trajectory(self._waited, now - self._last)
        self._last, self._waited = now, 0.0
        self._store(agent, slot, trajectory)
        rates = self._rates(agent, slot.number, exploration_rate)
        self._statistics.on_steps(self._pool.trajectory_steps, trajectory.scores, float(np.mean(rates)))
        if learns:
            if trajectory.version >= 0:  # otherwise it was played at random
                self._ages.append(agent.network.updates - trajectory.version)
            for _ in range(self._pool.trajectory_steps):
                agent.total_train_steps += 1
                agent.learn(1)
        return self._pool.trajectory_steps

    def _store(self, agent: Agent, slot: ActorSlot, trajectory: Trajectory) -> None:
        """Add `trajectory` to the memory, with the actor's TD errors as first priorities."""
        rows, begins, inside = slot.stream.append(unpack(trajectory.packed))
        numbers = agent.memory.added + np.flatnonzero(begins)
        for step in rows:
            agent.memory.add(step)
        if trajectory.errors is not None:
            agent.memory.update_priorities(numbers, trajectory.errors[begins[inside]])

    def _rates(self, agent: Agent, number: int, exploration_rate: float | None) -> float | ExplorationRates:
        """Return `exploration_rate`, or if it is None the ε of each game of the actor in slot `number`.

        The games of all actors are numbered in turns, so that each actor has some that explore much.
        """
        actors = self._config.cluster.actors
        count = actors * self._config.environment.workers
        rates = agent.exploration_rates(range(number, count, actors), count)
        return rates if exploration_rate is None else exploration_rate
