"""The learner's side of a cluster, with actors in this process, and the limit of trajectories in flight."""

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from simple_dqn.cluster import learner as under_test
from simple_dqn.cluster.actor import Actor
from simple_dqn.cluster.learner import BUSY_TRAJECTORIES, IN_FLIGHT, ActorPool, ClusterSchedule, InFlightLimit
from simple_dqn.cluster.session import machine_facts
from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.run import make_agent, make_environment, make_network
from simple_dqn.statistics import Statistics
from tests.cluster.test_actor import CATCH
from tests.command_line import Patch


class Remote:
    """An actor in this process; each call is carried out when its answer is fetched."""

    def __init__(self) -> None:
        self.actor = Actor()
        self.plays: list[tuple[int, Any]] = []  # of each request to play: the version and ε

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            if name == "play":
                self.plays.append(arguments[1:])
            return lambda: getattr(self.actor, name)(*arguments)

        return SimpleNamespace(remote=call)


@pytest.fixture(autouse=True)
def _no_ray(monkeypatch: Patch) -> None:
    ray = SimpleNamespace(
        put=lambda weights: weights,
        remote=lambda **_: lambda _: SimpleNamespace(remote=Remote),
        wait=lambda calls, **_: (calls[:1], calls[1:]),
        get=lambda call: call(),
    )
    monkeypatch.setattr(under_test, "ray", ray)


def made(**flags: Any) -> tuple[ClusterSchedule, ActorPool, Any]:
    given = {**CATCH, "cluster": "local", "actors": 3, "target_steps": 50, "weights_every": 7, **flags}
    config = Config.from_flags(given)
    environment = make_environment(config, training=False)
    network, statistics = make_network(config, environment), Statistics([])
    agent = make_agent(config, environment, network, statistics)
    pool, session = ActorPool(config, None), SimpleNamespace(close=deque)
    schedule = ClusterSchedule(config, pool, session, statistics)  # type: ignore[arg-type]
    statistics.on_phase_start("train", 1, 0)
    while not all(slot.host for slot in pool._slots) or any(slot.pending for slot in pool._slots):
        assert pool.next() is None  # the actors say what their machine is, and start
    return schedule, pool, agent


def requests(pool: ActorPool) -> list[tuple[int, int, Any]]:
    """Return the slot, the version and ε of each request to play, in each slot's order."""
    return [(slot.number, *play) for slot in pool._slots for play in slot.actor.plays]


@pytest.mark.parametrize(("train_frequency", "train_repeat"), [(4, 1), (3, 2)])
def test_updates_per_step_are_those_of_one_machine(train_frequency: int, train_repeat: int) -> None:
    schedule, pool, agent = made(train_frequency=train_frequency, train_repeat=train_repeat)
    list(schedule.fill(agent, 200, 1.0))
    assert agent.network.updates == agent.total_train_steps == 0
    rounds: list[int] = []
    for steps in schedule.train(agent, 300):
        rounds.append(steps)
        assert agent.network.updates == sum(rounds) // train_frequency * train_repeat
        assert agent.total_train_steps == sum(rounds)
        assert all(slot.requested <= IN_FLIGHT for slot in pool._slots)
    assert [steps for steps in rounds if steps] == [40] * 8  # whole trajectories


def test_new_weights_are_sent_when_due_and_their_age_is_reported() -> None:
    schedule, pool, agent = made()
    list(schedule.fill(agent, 100, 1.0))
    schedule.report()
    list(schedule.train(agent, 800))
    for slot in pool._slots:
        versions = [version for version, _ in slot.actor.plays]
        assert versions == sorted(versions)
    assert {version for _, version, _ in requests(pool)} >= {0, 10, 20}  # ten updates a trajectory
    report = schedule.report()
    age = report["weight_age"]
    assert age is not None
    assert 0 < age < 10 * 3 * IN_FLIGHT + 7 + 10
    assert report["actors_alive"] == 3
    assert report["experience_in_flight"] == pool.steps_in_flight <= 3 * IN_FLIGHT * 40
    assert schedule.report()["weight_age"] is None  # nothing was played since


def test_no_more_is_in_flight_than_the_limit(monkeypatch: Patch) -> None:
    schedule, pool, agent = made()
    list(schedule.fill(agent, 100, 1.0))
    heard: list[tuple[float, float]] = []
    limit = SimpleNamespace(trajectories=2, on_trajectory=lambda waited, since: heard.append((waited, since)))
    monkeypatch.setattr(schedule, "_limit", limit)
    in_flight = [pool.steps_in_flight for _ in schedule.train(agent, 400)]
    assert max(in_flight) <= 2 * 40
    assert len(heard) == 10
    assert all(0 < waited <= since for waited, since in heard)


def test_games_have_the_exploration_rates_of_one_machine() -> None:
    flags = {"exploration_rate_start": 0.4, "exploration_rate_end": 0.1, "exploration_decay_steps": 400}
    schedule, pool, agent = made(**flags, exploration_spread=7)
    list(schedule.fill(agent, 130, 1.0))
    assert [rate for _, _, rate in requests(pool)] == [1.0] * 4  # of 40 steps, and no more
    assert pool.steps_in_flight == 0
    list(schedule.train(agent, 400))
    # Two games of each of three actors: every third of the six.
    first: dict[int, list[float]] = {}
    for number, version, rate in requests(pool):
        if version >= 0:
            assert list(rate) <= first.setdefault(number, list(rate))
    for actor in range(3):
        assert first[actor] == pytest.approx([0.4 ** (1 + 7 * game / 5) for game in (actor, actor + 3)])
    assert max(rate) < 0.2


def test_td_errors_of_actors_are_the_first_priorities() -> None:
    schedule, _, agent = made(sampler="prioritized", n_step=2, train_frequency=10_000)
    list(schedule.fill(agent, 100, 1.0))
    masses = agent.memory._sampler._up_to_date().masses
    assert set(masses[masses > 0].tolist()) == {1.0}  # of random play no error is known
    before = agent.memory.taken
    list(schedule.train(agent, 200))
    new = agent.memory._sampler._up_to_date().masses[before : agent.memory.taken]
    assert len(set(new[new > 0].tolist())) > 20


def test_a_resumed_run_plays_other_games(monkeypatch: Patch) -> None:
    indices: list[int] = []
    monkeypatch.setattr(Actor, "start", lambda _self, _config, index, *_: indices.append(index))
    schedule, pool, _ = made()
    for resumes in (1, 2):
        schedule.set_state(schedule.get_state())
        assert schedule.get_state() == {"resumes": resumes}
        for slot in pool._slots:
            slot.actor = None
        for _ in range(6):
            assert pool.next() is None
    assert len(indices) == len(set(indices)) == 9


def test_another_version_or_rom_is_a_line(monkeypatch: Patch) -> None:
    theirs = machine_facts()
    for ours, rom, words in (
        ({"Python": "0"}, None, f"has Python {theirs['Python']} and this machine 0"),
        ({"project": "0"}, None, f"has project {theirs['project']} and this machine 0"),
        ({}, "another", "another ROM of this game"),
    ):
        monkeypatch.setattr(under_test, "machine_facts", lambda ours=ours: {**theirs, **ours})
        pool = ActorPool(Config.from_flags(CATCH), rom)
        with pytest.raises(UserError, match=f"actor 0.* cannot play: .*{words}"):
            list(iter(pool.next, "never"))


def settle(actors: int, needed: int) -> list[int]:
    limit, allowed = InFlightLimit(actors), []
    assert limit.trajectories == actors * IN_FLIGHT
    for _ in range(100 * BUSY_TRAJECTORIES):
        limit.on_trajectory(0.5 if limit.trajectories < needed else 0.01, since=1.0)
        allowed.append(limit.trajectories)
    return allowed[-20 * BUSY_TRAJECTORIES :]


@pytest.mark.parametrize(("actors", "needed"), [(4, 0), (2, 2), (8, 5), (1000, 90), (3, 100)])
def test_the_limit_follows_the_learner(actors: int, needed: int) -> None:
    allowed, most = settle(actors, needed), actors * IN_FLIGHT
    assert max(1, needed - max(1, needed // 4)) <= min(allowed) or min(allowed) == most
    assert max(allowed) <= min(most, needed + max(1, needed // 4))
    if actors == 2:  # it waits for few
        assert sum(one < needed for one in allowed) <= len(allowed) / BUSY_TRAJECTORIES
