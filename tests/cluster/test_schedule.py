"""The learner's side of a cluster, with actors in this process, and the limit of trajectories in flight."""

from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from simple_dqn.cluster import schedule as under_test
from simple_dqn.cluster.actor import Actor, ActorSettings
from simple_dqn.cluster.actor_pool import IN_FLIGHT, WorkerSlot
from simple_dqn.cluster.schedule import BUSY, ClusterSchedule, InFlightLimit
from simple_dqn.cluster.trajectory import Trajectory, TrajectoryStream
from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.run import make_agent, make_environment, make_network
from simple_dqn.statistics import Statistics
from tests.cluster.test_actor import CATCH


class LocalPool:
    """Actors that play when the next trajectory is asked for."""

    def __init__(self, config: Config) -> None:
        self.slots = [WorkerSlot(number) for number in range(config.cluster.actors)]
        self.most = self.resumes = 0
        self.requests: list[tuple[int, int, Any]] = []
        self.trajectory_steps = config.cluster.chunk_steps * config.environment.workers
        for slot in self.slots:
            slot.actor, slot.stream = (
                Actor(),
                TrajectoryStream(config.memory.history_length, config.memory.n_step),
            )
            slot.actor.start(ActorSettings(config, slot.number, 0))

    alive = property(lambda self: len(self.slots))
    steps_in_flight = property(
        lambda self: self.trajectory_steps * sum(slot.requested for slot in self.slots)
    )

    def free_slots(self) -> Iterator[WorkerSlot]:
        yield from [
            slot
            for slot in self.slots
            if slot.requested < IN_FLIGHT
            for _ in range(IN_FLIGHT - slot.requested)
        ]

    def request(self, slot: WorkerSlot, weights: Any, version: int, rate: Any) -> None:
        slot.pending.append(("play", (weights, version, rate)))
        self.requests.append((slot.number, version, rate))
        self.most = max(self.most, slot.requested)

    def next(self) -> tuple[WorkerSlot, Trajectory] | None:
        self.slots = self.slots[1:] + self.slots[:1]
        slot = self.slots[0]
        if not slot.pending:
            return None
        return slot, slot.actor.play(*slot.pending.popleft()[1])

    def close(self) -> None:
        self.slots = []


@pytest.fixture(autouse=True)
def _no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "ray", SimpleNamespace(put=lambda weights: weights))


def made(**flags: Any) -> tuple[ClusterSchedule, LocalPool, Any, Config]:
    given = {**CATCH, "cluster": "local", "actors": 3, "target_steps": 50, "weights_every": 7, **flags}
    config = Config.from_flags(given)
    environment = make_environment(config, training=False)
    network, statistics = make_network(config, environment), Statistics([])
    agent = make_agent(config, environment, network, statistics)
    pool: Any = LocalPool(config)
    schedule = ClusterSchedule(config, pool, SimpleNamespace(close=deque), statistics)  # type: ignore[arg-type]
    statistics.on_phase_start("train", 1, 0)
    return schedule, pool, agent, config


def run(loop: Iterator[int], stopped: Callable[[], bool] = lambda: False) -> None:
    """Run a schedule's loop to its end, or until `stopped` at a safe point."""
    for _ in loop:
        if stopped():
            return


def test_a_resumed_run_plays_other_games() -> None:
    schedule, pool, _, config = made()
    resumes = [pool.resumes]
    for _ in range(2):
        schedule.set_state(schedule.get_state())
        resumes.append(pool.resumes)
    settings = [
        ActorSettings(config, number, generation, count)
        for number in (0, 1)
        for generation in (0, 1)
        for count in resumes
    ]
    assert len({one.stream_index for one in settings}) == 12
    with pytest.raises(UserError, match="earlier version"):
        schedule.set_state({})


@pytest.mark.parametrize(("train_frequency", "train_repeat"), [(4, 1), (1, 1), (3, 2), (64, 1)])
def test_updates_per_step_are_those_of_one_machine(train_frequency: int, train_repeat: int) -> None:
    schedule, pool, agent, _ = made(train_frequency=train_frequency, train_repeat=train_repeat)
    run(schedule.fill(agent, 200, 1.0))
    assert agent.network.updates == agent.total_train_steps == 0
    rounds: list[int] = []
    for steps in schedule.train(agent, 300):
        rounds.append(steps)
        assert agent.network.updates == sum(rounds) // train_frequency * train_repeat
        assert agent.total_train_steps == sum(rounds)
    assert [steps for steps in rounds if steps] == [40] * 8  # whole trajectories
    assert pool.most == IN_FLIGHT


def test_random_play_requests_no_more_than_it_needs() -> None:
    schedule, pool, agent, _ = made()
    run(schedule.fill(agent, 130, 1.0))
    assert len(pool.requests) == 4  # of 40 steps
    assert pool.steps_in_flight == 0
    assert {rate for _, _, rate in pool.requests} == {1.0}


def test_new_weights_are_sent_when_due_and_their_age_is_reported() -> None:
    schedule, pool, agent, _ = made()
    run(schedule.fill(agent, 100, 1.0))
    schedule.report()
    run(schedule.train(agent, 800))
    versions = [version for _, version, _ in pool.requests if version >= 0]
    assert versions == sorted(versions)
    assert set(versions) >= {0, 10, 20}  # ten updates a trajectory; a version is 7 updates old at least
    report = schedule.report()
    age = report["weight_age"]
    assert age is not None
    assert 0 < age < 10 * 3 * IN_FLIGHT + 7 + 10
    assert report["actors_alive"] == 3
    assert report["experience_in_flight"] == pool.steps_in_flight <= 3 * IN_FLIGHT * 40
    assert schedule.report()["weight_age"] is None  # nothing was played since


def test_no_more_is_in_flight_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule, pool, agent, _ = made()
    run(schedule.fill(agent, 100, 1.0))
    heard: list[tuple[float, float]] = []
    limit = SimpleNamespace(trajectories=2, on_trajectory=lambda waited, since: heard.append((waited, since)))
    monkeypatch.setattr(schedule, "_limit", limit)
    in_flight = [pool.steps_in_flight for _ in schedule.train(agent, 400)]
    assert max(in_flight) <= 2 * 40
    assert len(heard) == 10
    assert all(0 < waited <= since for waited, since in heard)


def test_games_have_the_exploration_rates_of_one_machine() -> None:
    schedule, pool, agent, _ = made(
        exploration_rate_start=0.4, exploration_rate_end=0.4, exploration_spread=7
    )
    run(schedule.fill(agent, 100, 1.0))
    run(schedule.train(agent, 400))
    rates = {number: rate for number, version, rate in pool.requests if version >= 0}
    # Two games of each of three actors: every third of the six.
    assert {number: list(rate) for number, rate in rates.items()} == {
        actor: pytest.approx([0.4 ** (1 + 7 * game / 5) for game in (actor, actor + 3)]) for actor in range(3)
    }


def test_the_exploration_rate_falls() -> None:
    schedule, pool, agent, _ = made(exploration_decay_steps=400)
    run(schedule.fill(agent, 100, 1.0))
    run(schedule.train(agent, 400))
    rates = [list(rate) for _, version, rate in pool.requests if version >= 0]
    assert rates[0] == [1.0, 1.0]
    assert rates == sorted(rates, reverse=True)
    assert max(rates[-1]) < 0.5


def test_td_errors_of_actors_are_the_first_priorities() -> None:
    schedule, _, agent, config = made(prioritized=True, n_step=2, train_frequency=10_000)
    run(schedule.fill(agent, 100, 1.0))
    masses = agent.memory._sampler._up_to_date().masses
    assert set(masses[masses > 0].tolist()) == {1.0}  # of random play no error is known
    before = agent.memory.taken
    run(schedule.train(agent, 200))
    new = agent.memory._sampler._up_to_date().masses[before : agent.memory.taken]
    assert len(set(new[new > 0].tolist())) > 20
    assert config.memory.sampler == "prioritized"


def test_it_stops_early() -> None:
    schedule, _, agent, _ = made()
    run(schedule.fill(agent, 100, 1.0), lambda: agent.memory.count > 0)
    assert 0 < agent.memory.count <= 60
    run(schedule.train(agent, 400), lambda: agent.total_train_steps > 0)
    assert agent.total_train_steps == 40


def settle(limit: InFlightLimit, needed: int, trajectories: int) -> list[int]:
    """Return the limit after each of `trajectories`, for a learner that waits if it is below `needed`."""
    allowed = []
    for _ in range(trajectories):
        limit.on_trajectory(0.5 if limit.trajectories < needed else 0.0, since=1.0)
        allowed.append(limit.trajectories)
    return allowed


def test_at_first_all_may_be_in_flight() -> None:
    assert InFlightLimit(5).trajectories == 5 * IN_FLIGHT


def test_a_learner_that_never_waits_needs_one() -> None:
    assert settle(InFlightLimit(4), needed=0, trajectories=8 * IN_FLIGHT * BUSY)[-1] == 1


def test_the_limit_stays_near_what_is_needed() -> None:
    for actors, needed in ((2, 2), (8, 5), (1000, 90)):
        allowed = settle(InFlightLimit(actors), needed, trajectories=100 * BUSY)[-20 * BUSY :]
        assert needed - max(1, needed // 4) <= min(allowed)
        assert max(allowed) <= needed + max(1, needed // 4)


def test_the_learner_waits_for_few_trajectories() -> None:
    allowed = settle(InFlightLimit(2), needed=2, trajectories=100 * BUSY)
    assert sum(one < 2 for one in allowed) <= len(allowed) / BUSY


def test_a_learner_that_always_waits_has_all_in_flight() -> None:
    limit = InFlightLimit(3)
    settle(limit, needed=0, trajectories=10 * BUSY)
    assert settle(limit, needed=100, trajectories=10)[-1] == 3 * IN_FLIGHT


def test_a_short_wait_does_not_count() -> None:
    limit = InFlightLimit(1)
    for _ in range(BUSY):
        limit.on_trajectory(waited=0.01, since=1.0)
    assert limit.trajectories == IN_FLIGHT - 1
