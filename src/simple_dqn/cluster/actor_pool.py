"""The actors of a run: started anywhere on the cluster, asked for trajectories, replaced when they fail."""

import logging
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from simple_dqn.cluster.actor import Actor, ActorSettings
from simple_dqn.cluster.session import machine_facts
from simple_dqn.cluster.trajectory import Trajectory, TrajectoryStream
from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.networks import NETWORKS, NetworkSpec, uniform_by_inputs
from simple_dqn.types import ExplorationRates

logger = logging.getLogger(__name__)

IN_FLIGHT = 2  # trajectories requested of an actor: it plays one while the other travels or waits
POLL_SECONDS = 0.2  # the longest that `ActorPool.next` blocks
RESTART_SECONDS = 5.0  # before an actor is replaced that failed before its first trajectory
ATTEMPTS = 3  # at starting an actor, as long as no actor of the run has sent anything


@dataclass(eq=False)
class WorkerSlot:
    """One of the pool's N places for an actor.

    Attributes:
        number: Which slot, from 0.
        generation: How many actors had this slot before the present one.
        actor: Ray's handle of the actor; None: the slot is empty.
        host: The actor's machine; empty until the actor has answered for the first time.
        process: The id of the actor's process on that machine.
        pending: Calls without an answer yet, oldest first: the method's name and Ray's reference.
        received: How many trajectories of this actor have arrived.
        stream: Their order.
        failures: How many actors in a row failed before their first trajectory.
        not_before: When the next actor may start, in seconds of the monotonic clock.
    """

    number: int
    generation: int = -1
    actor: Any = None
    host: str = ""
    process: int = 0
    pending: deque[tuple[str, Any]] = field(default_factory=deque)
    received: int = 0
    stream: TrajectoryStream = None  # type: ignore[assignment] # set together with `actor`
    failures: int = 0
    not_before: float = 0.0

    @property
    def requested(self) -> int:
        """Trajectories that the actor was asked for and has not sent."""
        return sum(method == "play" for method, _ in self.pending)

    def clear(self) -> None:
        """Kill the actor, if there is one, and forget its pending calls."""
        if self.actor:
            ray.kill(self.actor)
        self.actor, self.host = None, ""
        self.pending.clear()


class ActorPool:
    """N worker slots, and the calls that are in flight.

    An actor answers its calls in their order. After any failure it is given up with all its pending calls, so
    no trajectory is used twice or without the one before it. A new actor, with new games, then takes the
    slot, on whichever machine of the cluster has a free core.
    """

    def __init__(self, config: Config, rom_md5: str | None) -> None:
        """Make slots for `config.cluster.actors` actors; their game has the ROM with `rom_md5`, or none."""
        self._config, self._rom_md5 = config, rom_md5
        self.resumes = 0  # how often the run was resumed, so that its games differ from those of its start
        self._slots = [WorkerSlot(number) for number in range(config.cluster.actors)]
        self._remote_class = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Actor)
        self._spec = _sendable(NETWORKS[config.network.network])
        self._received_any = False  # whether any actor has sent a trajectory

    @property
    def alive(self) -> int:
        """Actors that have answered and have not failed since."""
        return sum(bool(slot.host) for slot in self._slots)

    @property
    def steps_in_flight(self) -> int:
        """Steps that actors were asked for and have not sent."""
        return sum(slot.requested for slot in self._slots) * self.trajectory_steps

    @property
    def trajectory_steps(self) -> int:
        """Steps of one trajectory, over all games of the actor."""
        return self._config.cluster.chunk_steps * self._config.environment.workers

    def free_slots(self) -> Iterator[WorkerSlot]:
        """Yield the slots that have room for another request, those with the fewest requests first.

        An actor that has not answered yet is left out: it may wait for a free core forever, and its requests
        would use up the limit of steps in flight.
        """
        for requested in range(IN_FLIGHT):
            yield from [slot for slot in self._slots if slot.host and slot.requested == requested]

    def request(
        self, slot: WorkerSlot, weights: Any, version: int, exploration_rate: float | ExplorationRates
    ) -> None:
        """Ask for a trajectory; `weights` is Ray's reference to them, or None. See `Actor.play`."""
        slot.pending.append(("play", slot.actor.play.remote(weights, version, exploration_rate)))

    def next(self) -> tuple[WorkerSlot, Trajectory] | None:
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
            if method == "play":
                trajectory: Trajectory = answer
                assert trajectory.number == slot.received, "a trajectory was lost, or arrived twice"
                slot.received, slot.failures, self._received_any = slot.received + 1, 0, True
                return slot, trajectory
            check = self._check_machine if method == "describe_machine" else self._check_rom
            check(slot, answer)
        except (RayError, UserError) as error:
            self._give_up(slot, error)
        return None

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
            slot.pending.append(("describe_machine", slot.actor.describe_machine.remote()))
            settings = ActorSettings(self._config, slot.number, slot.generation, self.resumes, self._spec)
            slot.pending.append(("start", slot.actor.start.remote(settings)))

    def _check_machine(self, slot: WorkerSlot, theirs: dict[str, str]) -> None:
        host, ours = theirs["host"], machine_facts()
        for what in ("Python", "project"):
            if theirs[what] != ours[what]:
                raise UserError(
                    f"{host} has {what} {theirs[what]} and this machine {ours[what]}: install the same "
                    "version of Python and of this project on every machine of the cluster"
                )
        slot.host, slot.process = host, int(theirs["process"])

    def _check_rom(self, slot: WorkerSlot, rom: str | None) -> None:
        ours = self._rom_md5
        if rom != ours:
            raise UserError(
                f"{slot.host} has another ROM of this game (MD5 {rom}, here {ours}): put the same file "
                "on every machine of the cluster"
            )

    def _give_up(self, slot: WorkerSlot, error: Exception) -> None:
        """Kill the actor in `slot` because of `error`, and drop its pending calls.

        Raises:
            UserError: No actor has sent anything yet, and the next attempt would fail too.
        """
        reason = cause_of(error)
        name = f"actor {slot.number}" + (f" on {slot.host} (process {slot.process})" if slot.host else "")
        if not slot.received:
            slot.failures += 1
            slot.not_before = time.monotonic() + RESTART_SECONDS
        is_final = isinstance(error, UserError) or isinstance(getattr(error, "cause", None), UserError)
        if not self._received_any and (is_final or slot.failures >= ATTEMPTS):
            raise UserError(f"{name} cannot play: {reason}")
        logger.warning("%s died (%s): starting another", name.capitalize(), reason)
        slot.clear()


def cause_of(error: Exception) -> str:
    """Return the cause of `error` in one line."""
    cause = error.cause if isinstance(error, RayTaskError) else error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    if "No module named 'simple_dqn'" in str(cause):
        return "its machine has no such project: install it, or put it on the PYTHONPATH of `ray start`"
    if isinstance(cause, UserError) or not lines:
        return str(cause) or type(cause).__name__
    return f"{type(cause).__name__}: {lines[0][:200]}"


def _sendable(spec: NetworkSpec) -> NetworkSpec:
    """Return a network that another machine can build, also one that was registered here alone.

    Its initial weights do not matter, as the learner's take their place, and a function of the user's may be
    unknown there.
    """
    ours = spec.initializer.__module__.startswith("simple_dqn.")
    return spec if ours else replace(spec, initializer=uniform_by_inputs)
