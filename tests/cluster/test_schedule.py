"""The learner's side of a cluster, with actors in this process: who waits for whom."""

from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from simple_dqn.cluster import RemoteGames
from simple_dqn.cluster import schedule as under_test
from simple_dqn.cluster.actor import Actor
from simple_dqn.cluster.chunk import Chunk, Task
from simple_dqn.cluster.crew import IN_FLIGHT, Post
from simple_dqn.cluster.lane import Lane
from simple_dqn.cluster.schedule import ClusterSchedule
from simple_dqn.config import Config
from simple_dqn.ledger import Ledger
from simple_dqn.statistics import Statistics
from simple_dqn.wiring import make_agent, make_environment, make_network
from tests.cluster.test_actor import CATCH


class CrewHere:
    """Actors that play when they are listened to."""

    def __init__(self, config: Config) -> None:
        self.posts = [Post(number) for number in range(config.cluster.actors)]
        self.most = 0
        self.asked: list[tuple[int, int, Any]] = []
        self.steps_of_a_chunk = config.cluster.chunk_steps * config.environment.workers
        for post in self.posts:
            post.actor, post.lane = Actor(), Lane(config.memory.history_length, config.memory.n_step)
            post.actor.begin(Task(config, post.number, 0))

    alive = property(lambda self: len(self.posts))
    steps_in_flight = property(lambda self: self.steps_of_a_chunk * sum(post.ordered for post in self.posts))

    def free(self) -> Iterator[Post]:
        yield from [
            post for post in self.posts if post.ordered < IN_FLIGHT for _ in range(IN_FLIGHT - post.ordered)
        ]

    def ask(self, post: Post, weights: Any, version: int, rate: Any) -> None:
        post.asked.append(("play", (weights, version, rate)))
        self.asked.append((post.number, version, rate))
        self.most = max(self.most, post.ordered)

    def next(self) -> tuple[Post, Chunk] | None:
        self.posts = self.posts[1:] + self.posts[:1]
        post = self.posts[0]
        if not post.asked:
            return None
        return post, post.actor.play(*post.asked.popleft()[1])

    def close(self) -> None:
        self.posts = []


@pytest.fixture(autouse=True)
def _no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "ray", SimpleNamespace(put=lambda weights: weights))


def made(**flags: Any) -> tuple[ClusterSchedule, CrewHere, Any, Config]:
    given = {**CATCH, "cluster": "local", "actors": 3, "target_steps": 50, "weights_every": 7, **flags}
    config = Config.from_flags(given)
    environment = make_environment(config, training=False)
    network, statistics = make_network(config, environment), Statistics([])
    agent = make_agent(config, RemoteGames(environment), network, statistics, Ledger())
    crew: Any = CrewHere(config)
    schedule = ClusterSchedule(config, crew, SimpleNamespace(close=deque), statistics)  # type: ignore[arg-type]
    statistics.on_phase_start("train", 1, 0)
    return schedule, crew, agent, config


@pytest.mark.parametrize(("train_frequency", "train_repeat"), [(4, 1), (1, 1), (3, 2), (64, 1)])
def test_updates_per_step_are_those_of_one_machine(train_frequency: int, train_repeat: int) -> None:
    schedule, crew, agent, _ = made(train_frequency=train_frequency, train_repeat=train_repeat)
    schedule.fill(agent, 200, 1.0, lambda: False)
    assert agent.network.updates == agent.total_train_steps == 0
    rests: list[int] = []

    def at_rest(steps: int) -> None:
        rests.append(steps)
        assert agent.network.updates == sum(rests) // train_frequency * train_repeat
        assert agent.total_train_steps == sum(rests)

    schedule.train(agent, 300, lambda: False, at_rest)
    assert rests == [40] * 8  # whole chunks
    assert crew.most == IN_FLIGHT


def test_random_play_asks_for_no_more_than_it_wants() -> None:
    schedule, crew, agent, _ = made()
    schedule.fill(agent, 130, 1.0, lambda: False)
    assert len(crew.asked) == 4  # of 40 steps
    assert crew.steps_in_flight == 0
    assert {rate for _, _, rate in crew.asked} == {1.0}


def test_new_weights_are_handed_out_when_it_is_time_and_their_age_is_told() -> None:
    schedule, crew, agent, _ = made()
    schedule.fill(agent, 100, 1.0, lambda: False)
    schedule.report()
    schedule.train(agent, 800, lambda: False)
    versions = [version for _, version, _ in crew.asked if version >= 0]
    assert versions == sorted(versions)
    assert set(versions) >= {0, 10, 20}  # ten updates a chunk; a version is 7 updates old at least
    report = schedule.report()
    age = report["weight_age"]
    assert age is not None
    assert 0 < age < 10 * 3 * IN_FLIGHT + 7 + 10
    assert report["actors_alive"] == 3
    assert report["experience_in_flight"] == crew.steps_in_flight <= 3 * IN_FLIGHT * 40
    assert schedule.report()["weight_age"] is None  # nothing was played since


def test_no_more_is_in_flight_than_the_pace_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule, crew, agent, _ = made()
    schedule.fill(agent, 100, 1.0, lambda: False)
    heard: list[tuple[float, float]] = []
    pace = SimpleNamespace(allowed=2, came=lambda waited, since: heard.append((waited, since)))
    monkeypatch.setattr(schedule, "_pace", pace)
    in_flight: list[int] = []

    def stopped() -> bool:
        in_flight.append(crew.steps_in_flight)
        return False

    schedule.train(agent, 400, stopped)
    assert max(in_flight) <= 2 * 40
    assert len(heard) == 10
    assert all(0 < waited <= since for waited, since in heard)


def test_games_explore_as_unlike_as_if_one_machine_played_them_all() -> None:
    schedule, crew, agent, _ = made(
        exploration_rate_start=0.4, exploration_rate_end=0.4, exploration_spread=7
    )
    schedule.fill(agent, 100, 1.0, lambda: False)
    schedule.train(agent, 400, lambda: False)
    rates = {number: rate for number, version, rate in crew.asked if version >= 0}
    # Two games of each of three actors: every third of the six.
    assert {number: list(rate) for number, rate in rates.items()} == {
        actor: pytest.approx([0.4 ** (1 + 7 * game / 5) for game in (actor, actor + 3)]) for actor in range(3)
    }


def test_how_much_they_explore_falls() -> None:
    schedule, crew, agent, _ = made(exploration_decay_steps=400)
    schedule.fill(agent, 100, 1.0, lambda: False)
    schedule.train(agent, 400, lambda: False)
    rates = [list(rate) for _, version, rate in crew.asked if version >= 0]
    assert rates[0] == [1.0, 1.0]
    assert rates == sorted(rates, reverse=True)
    assert max(rates[-1]) < 0.5


def test_errors_of_actors_are_the_first_priorities() -> None:
    schedule, _, agent, config = made(prioritized=True, n_step=2, train_frequency=10_000)
    schedule.fill(agent, 100, 1.0, lambda: False)
    masses = agent.memory._sampler._tree.masses
    assert set(masses[masses > 0].tolist()) == {1.0}  # of random play no error is known
    before = agent.memory.taken
    schedule.train(agent, 200, lambda: False)
    new = agent.memory._sampler._tree.masses[before : agent.memory.taken]
    assert len(set(new[new > 0].tolist())) > 20
    assert config.memory.prioritized


def test_what_it_is_told_to_stop_it_stops() -> None:
    schedule, _, agent, _ = made()
    schedule.fill(agent, 100, 1.0, lambda: agent.memory.count > 0)
    assert 0 < agent.memory.count <= 60
    schedule.train(agent, 400, lambda: agent.total_train_steps > 0)
    assert agent.total_train_steps == 40
