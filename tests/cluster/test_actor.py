"""An actor and the learner, without Ray: trajectories, rows in a shared memory, and the number in flight."""

import pickle
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lz4.frame
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simple_dqn.cluster import learner as under_test
from simple_dqn.cluster import session
from simple_dqn.cluster.actor import Actor, TrajectoryStream
from simple_dqn.cluster.learner import BUSY_TRAJECTORIES, IN_FLIGHT, ActorPool, ClusterSchedule, InFlightLimit
from simple_dqn.cluster.session import machine_facts
from simple_dqn.config import Config
from simple_dqn.environment import make
from simple_dqn.errors import UserError
from simple_dqn.networks import NETWORKS
from simple_dqn.random_streams import stream
from simple_dqn.replay import ReplayMemory
from simple_dqn.run import make_agent, make_environment, make_network
from simple_dqn.samplers import LEAST_PRIORITY
from simple_dqn.snapshot.checkpoint import pack, unpack
from simple_dqn.statistics import Statistics
from simple_dqn.types import Step
from tests.command_line import Patch, watch
from tests.replay_memory.test_replay import Transition, as_transitions, make_memory, transitions_of

CATCH: dict[str, Any] = {
    "game": "catch", "environment": "catch", "screen_width": 36, "screen_height": 36, "history_length": 2,
    "replay_size": 2000, "random_seed": 0, "workers": 2, "chunk_steps": 20, "backend": "cpu", "threads": 1,
    "network": "small", "batch_size": 8,
}  # fmt: skip


def actor(index: int = 0, **flags: Any) -> tuple[Actor, Config]:
    config = Config.from_flags({**CATCH, **flags})
    made = Actor()
    made.start(config, index, NETWORKS["small"], None)
    return made, config


def test_a_screen_is_sent_once_and_little_else() -> None:
    """The compressed new screens are at least five sixths of what an actor sends."""
    config = Config.from_flags({"game": "pong", "network": "small", "workers": 2, "random_seed": 0})
    weights = make_network(config, make_environment(config, training=True)).get_weights()
    pong = Actor()
    pong.start(config, 0, NETWORKS["small"], None)
    pong.play(None, 0, 1.0)
    for version in (1, 2):
        trajectory = pong.play(weights, version, 0.5)
        screens = unpack(trajectory.packed).screens
        assert screens.shape == (config.cluster.chunk_steps, 2, 84, 84)
        compressed = lz4.frame.compress(np.ascontiguousarray(screens.swapaxes(0, 1)))
        assert len(pickle.dumps(trajectory)) <= 1.2 * len(compressed)


def test_actors_play_games_of_their_own_and_random_play_has_no_errors() -> None:
    packed = {actor(index)[0].play(None, 0, 1.0).packed for index in (0, 1, 1 << 20, 1 << 40)}
    assert len(packed) == 4
    assert actor(1 << 20)[0].play(None, 0, 1.0).packed in packed  # by the seed
    one, config = actor(sampler="prioritized", n_step=3)
    weights = make_network(config, make_environment(config, training=True)).get_weights()
    errors = [one.play(*given).errors for given in ((None, 0, 1.0), (weights, 0, 0.5), (weights, 0, 0.5))]
    assert [known is None for known in errors] == [True, True, False]


def test_an_actor_ignores_the_learners_own_rule_and_sampler() -> None:
    mine, config = actor(target_rule="mine", sampler="mine", chunk_steps=20)
    weights = make_network(Config.from_flags(CATCH), make_environment(config, training=True)).get_weights()
    rows = unpack(mine.play(weights, 1, 0.1).packed)
    assert rows.actions.shape == (1 + 20, 2)  # after the first screens


def test_its_games_and_scores_are_those_of_training() -> None:
    one, config = actor()
    streams = [stream(0, f"actor environment {game}") for game in range(2)]
    games = make(config.environment, streams, training=True)
    trajectories = [one.play(None, 0, 1.0) for _ in range(6)]
    rows = [unpack(trajectory.packed) for trajectory in trajectories]
    np.testing.assert_array_equal(rows[0].screens[0], games.reset().screens)
    for row in range(1, 21):
        np.testing.assert_array_equal(rows[0].screens[row], games.step(rows[0].actions[row]).screens)
    rewards, starts = (
        np.concatenate([getattr(part, name) for part in rows]) for name in ("rewards", "starts")
    )
    expected = []
    for game in range(2):
        bounds = np.flatnonzero(starts[:, game]).tolist()
        expected += [float(rewards[first:end, game].sum()) for first, end in pairwise(bounds)]
    assert sorted(score for trajectory in trajectories for score in trajectory.scores) == sorted(expected)


@dataclass(frozen=True)
class Setting:
    games: int
    history_length: int
    n_step: int
    length: int  # rows of a trajectory
    order: list[int]  # which of three actors' trajectory comes next
    rows: int  # of the shared memory
    seed: int

    def memory(self, rows: int) -> ReplayMemory:
        return make_memory(
            self.games, rows * self.games, (1, 2), seed=self.seed, history_length=self.history_length,
            n_step=self.n_step, sampler="prioritized" if self.seed % 2 else "uniform",
        )  # fmt: skip

    def trajectories(self) -> Iterator[tuple[int, list[Step]]]:
        """Return each trajectory's actor and rows; action, reward and screen are the transition's number."""
        rng, number, none = np.random.default_rng(self.seed), 0, np.zeros(self.games, np.bool_)
        begun = set[int]()
        for actor in self.order:
            rows = []
            for row in range(self.length + (actor not in begun)):
                numbers = 1 + number + np.arange(self.games)
                number += self.games
                screens = np.stack([numbers // 256, numbers % 256], -1)[:, None].astype(np.uint8)
                terminals = rng.random(self.games) < 0.1
                starts = ~none if actor not in begun and row == 0 else rng.random(self.games) < 0.1
                rows.append(Step(screens, numbers, numbers.astype(np.float32), terminals, none, none, starts))
            begun.add(actor)
            yield actor, rows


@st.composite
def all_settings(draw: st.DrawFn) -> Setting:
    history_length, n_step = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    length = history_length + n_step + draw(st.integers(0, 6))
    order = draw(st.lists(st.integers(0, 2), min_size=1, max_size=8))
    rows = draw(st.integers(2, 8)) * (length + history_length + n_step)
    games, seed = draw(st.integers(1, 3)), draw(st.integers(0, 999))
    return Setting(games, history_length, n_step, length, order, rows, seed)


def drawn(memory: ReplayMemory) -> dict[int, Transition]:
    numbers = memory._ring.transitions()
    return dict(as_transitions(transitions_of(memory, numbers))) if len(numbers) else {}


@given(all_settings())
@settings(max_examples=100)
def test_a_shared_memory_holds_the_transitions_of_each_actor_once(setting: Setting) -> None:
    memory, logged, begun = setting.memory(setting.rows), list[Step](), set[int]()
    streams = [TrajectoryStream(setting.history_length, setting.n_step) for _ in range(3)]
    for actor, sent in setting.trajectories():
        first = memory.added
        stored, begins, _ = streams[actor].append(unpack(pack(sent)))
        for step in stored:
            memory.add(step)
        logged += stored
        begun |= set((first + np.flatnonzero(begins)).tolist())
    expected: dict[int, Transition] = {}
    for actor in set(setting.order):
        rows = [row for whose, rows in setting.trajectories() if whose == actor for row in rows]
        own = setting.memory(len(rows) + setting.history_length + setting.n_step)
        for row in rows:
            own.add(row)
        expected |= drawn(own)
    numbers, transitions = memory._ring.transitions(), drawn(memory)
    assert len(transitions) == len(numbers)  # none is there twice
    if memory._ring.written < setting.rows:  # nothing is overwritten yet
        assert transitions == expected
        assert begun == set(numbers.tolist())
    assert all(transition == expected[number] for number, transition in transitions.items())
    if len(numbers):
        assert {number for number, _ in as_transitions(memory.sample(500))} <= set(transitions)
    again = setting.memory(setting.rows)
    again.set_state(memory.get_state(), [unpack(pack(logged[-memory._ring.held :]))])
    assert drawn(again) == transitions
    if len(numbers):
        np.testing.assert_array_equal(again.sample(64).prestates, memory.sample(64).prestates)


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
    schedule, pool, agent = made(weights_every=15)
    list(schedule.fill(agent, 100, 1.0))
    schedule.report()
    ages: list[int] = []
    watch(schedule, "_store", lambda agent, _, told: ages.append(agent.network.updates - told.version))
    list(schedule.train(agent, 800))
    for slot in pool._slots:
        versions = [version for version, _ in slot.actor.plays]
        assert versions == sorted(versions)
    # Ten updates a trajectory: fifteen have passed at every second.
    assert {version for _, version, _ in requests(pool)} == {-1, *range(0, 200, 20)}
    report = schedule.report()
    assert report["weight_age"] == pytest.approx(np.mean(ages))
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
    first: dict[int, Any] = {}
    for number, version, rate in requests(pool):
        if version >= 0:
            assert (rate <= first.setdefault(number, rate)).all()
    for actor in range(3):
        assert first[actor] == pytest.approx([0.4 ** (1 + 7 * game / 5) for game in (actor, actor + 3)])
    assert max(rate) < 0.2


@pytest.mark.parametrize(("n_step", "distributional"), [(1, "quantile"), (2, "none"), (3, "none")])
def test_td_errors_of_actors_are_the_first_priorities(n_step: int, distributional: str) -> None:
    """If both networks of the learner have the same weights, they are those of an update."""
    flags: dict[str, Any] = {"n_step": n_step, "distributional": distributional, "quantiles": 8}
    schedule, _, agent = made(**flags, sampler="prioritized", train_frequency=10_000)
    list(schedule.fill(agent, 100, 1.0))
    masses = agent.memory._sampler._up_to_date().masses
    assert set(masses[masses > 0].tolist()) == {1.0}  # of random play no error is known
    before = agent.memory.added
    list(schedule.train(agent, 200))
    masses = agent.memory._sampler._up_to_date().masses
    config = Config.from_flags({**CATCH, **flags})
    numbers = agent.memory._ring.transitions()
    known = numbers[(numbers >= before) & (masses[numbers] != 1.0)].tolist()
    assert len(known) > 20
    for number in known:
        learner = make_network(config, agent.player.environment)
        learner.set_weights(agent.network.get_weights())
        learner.update_target_network()
        learner.update(learner.prepare(transitions_of(agent.memory, np.array([number]))))
        (outcome,) = learner.take_outcomes()
        mass = (outcome.errors[0] + LEAST_PRIORITY) ** config.memory.priority_exponent
        assert masses[number] == pytest.approx(mass, rel=1e-3, abs=1e-4)


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


def test_machines_with_another_emulator_are_another_version(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(session, "__file__", str(tmp_path / "simple_dqn" / "cluster" / "session.py"))
    (file := tmp_path / "atari2600" / "games.py").parent.mkdir()
    versions = {file.write_text(code) and machine_facts.__wrapped__()["project"] for code in ("a", "b")}
    assert len(versions) == 2


@pytest.mark.parametrize(("actors", "needed"), [(4, 0), (2, 2), (8, 5), (1000, 90), (3, 100)])
def test_the_limit_follows_the_learner(actors: int, needed: int) -> None:
    limit, most, allowed = InFlightLimit(actors), actors * IN_FLIGHT, list[int]()
    assert limit.trajectories == most
    for _ in range(100 * BUSY_TRAJECTORIES):
        limit.on_trajectory(0.5 if limit.trajectories < needed else 0.01, since=1.0)
        allowed.append(limit.trajectories)
    allowed = allowed[-20 * BUSY_TRAJECTORIES :]
    assert max(1, needed - max(1, needed // 4)) <= min(allowed) or min(allowed) == most
    assert max(allowed) <= min(most, needed + max(1, needed // 4))
    if actors == 2:  # it waits for few
        assert sum(one < needed for one in allowed) <= len(allowed) / BUSY_TRAJECTORIES
