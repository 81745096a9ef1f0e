"""The order of a schedule's calls, threads against one thread, and learning from rollouts (PQN)."""

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from simple_dqn import schedules
from simple_dqn.agent import Agent
from simple_dqn.config import Config, MemoryConfig
from simple_dqn.dqn import UpdateOutcome, lambda_returns
from simple_dqn.errors import Interrupt, UserError
from simple_dqn.replay import ReplayMemory
from simple_dqn.run import Run, make_run
from simple_dqn.schedules import ConcurrentSchedule, OverlappedSchedule, RolloutSchedule, SerialSchedule
from simple_dqn.snapshot import Snapshot
from simple_dqn.snapshot.saver import Saver
from simple_dqn.types import Ids
from tests.command_line import CATCH, Patch, watch
from tests.network.updates import assert_same
from tests.replay_memory.test_replay import contents, first_step

Values: TypeAlias = NDArray[np.float32]
SETTINGS: dict[str, Any] = {
    **CATCH, "game": "catch", "environment": "catch", "replay_size": 400, "random_steps": 96,
    "train_steps": 96, "batch_size": 8, "target_steps": 48, "exploration_decay_steps": 200,
}  # fmt: skip
CONCURRENT: dict[str, Any] = {"schedule": "concurrent"}
OVERLAP = {"schedule": "overlapped", "workers": 4}


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def run_catch(late: bool = False, **flags: Any) -> Run:
    """Return a run to its end; if `late`, each part of the work may keep the others waiting."""
    run = make_run(Config.from_flags({**SETTINGS, **flags}), Interrupt())
    agent, delays = run.agent, random.Random(0)
    parts = ((agent.network, "update"), (agent.network, "prepare"), (agent.player.environment, "step"))
    for owner, name in parts if late else ():
        watch(owner, name, lambda *_: time.sleep(delays.choice((0, 0, 0.0005, 0.002))))
    run.begin()
    return run


def test_everything_is_closed_also_where_a_game_cannot_be(tmp_path: Path, monkeypatch: Patch) -> None:
    """As an environment of the user's own may be; closing the saver reports files that are not written."""
    closed: list[str] = []
    watch(Saver, "close", lambda _: closed.append("saver"), monkeypatch)
    run = run_catch(save_weights_prefix=str(tmp_path / "catch"), epochs=1, test_steps=20)
    assert run._tester
    watch(run._tester._player.environment, "close", lambda: closed.append("games of tests"))

    def fail() -> None:
        raise UserError("close() failed")

    monkeypatch.setattr(run.agent.player.environment, "close", fail)
    with pytest.raises(UserError, match=r"close\(\) failed"):
        run.close()
    assert sorted(closed) == ["games of tests", "saver"]


def assert_same_run(one: Run, other: Run) -> None:
    assert_same(one.agent.get_state(), other.agent.get_state())
    assert_same(contents(one.agent.memory)._asdict(), contents(other.agent.memory)._asdict())


def train_in_sequence(agent: Agent, steps: int, play_first: bool = False) -> Iterator[int]:
    """Do the work of `ConcurrentSchedule` in one thread: first a period's updates, or first its steps."""
    for _ in range(0, steps, agent.config.target_steps):
        agent.network.update_target_network()
        steps_before = agent.total_train_steps
        played = schedules.play_period(agent, lambda: False) if play_first else []
        for _ in range(agent.config.updates_in(agent.config.target_steps)):
            agent.learn_from(agent.prepare(steps_before))
        played = played or schedules.play_period(agent, lambda: False)
        agent.update_priorities()
        for step in played:
            agent.memory.add(step)
        yield agent.config.target_steps


LEARN = ["step"] * 4 + ["update"]


@pytest.mark.parametrize(("settings", "steps", "expected"), [
    ({"train_frequency": 4, "target_steps": 8}, 16, (LEARN + LEARN + ["copy"]) * 2),
    ({"train_frequency": 2, "train_repeat": 3, "target_steps": 0}, 4, (["step"] * 2 + ["update"] * 3) * 2),
], ids=str)  # fmt: skip
def test_the_serial_loop(settings: dict[str, Any], steps: int, expected: list[str]) -> None:
    (agent, tape), losses = make(**settings), list[float]()
    watch(agent._statistics, "on_train", losses.append)
    assert list(SerialSchedule().train(agent, steps)) == [1] * steps
    assert tape == expected
    agent.report_losses()
    assert len(losses) == tape.count("update")
    assert agent.total_train_steps == steps


def test_a_memory_with_priorities_hears_of_the_errors_of_each_update(monkeypatch: Patch) -> None:
    agent, tape = make(train_frequency=2, train_repeat=2, sampler="prioritized")
    samples, outcomes, take = list[int](), list[UpdateOutcome](), agent.network.take_outcomes

    def taken() -> list[UpdateOutcome]:
        outcomes.extend(found := take())
        return found

    def heard(numbers: Ids, errors: Values) -> None:
        np.testing.assert_array_equal(numbers, outcomes[-1].numbers)
        np.testing.assert_array_equal(errors, outcomes[-1].errors)

    monkeypatch.setattr(agent.network, "take_outcomes", taken)
    watch(agent.memory, "update_priorities", heard)
    watch(agent.memory, "sample", lambda _size, steps: samples.append(steps))
    list(SerialSchedule().train(agent, 4))
    assert tape == (["step"] * 2 + ["update", "errors"] * 2) * 2
    assert samples == [2, 2, 4, 4]


def test_exploration_falls_linearly_and_from_game_to_game() -> None:
    (agent, tape), rates = make(exploration_rate_end=0.2, exploration_decay_steps=8), list[float]()
    watch(agent._statistics, "on_step", lambda _step, rate: rates.append(rate))
    list(SerialSchedule().fill(agent, 20))
    assert set(tape) == {"step"}
    assert agent.total_train_steps == 0
    list(SerialSchedule().train(agent, 12))
    assert rates == pytest.approx([1.0] * 20 + [1.0 - 0.1 * step for step in range(8)] + [0.2] * 4)
    same: dict[str, Any] = {"exploration_rate_start": 0.4, "exploration_rate_end": 0.4}
    agent, _ = make(5, **same, exploration_spread=7, train_frequency=1000)
    expected = [0.4 ** (1 + 7 * game / 4) for game in range(5)]  # Horgan et al. 2018, section 4.1
    assert agent.exploration_rates() == pytest.approx(expected)
    qvalues = agent.player.predict()
    taken = np.stack([agent.player.choose(agent.exploration_rates(), qvalues) for _ in range(4000)])
    others = np.mean(taken != qvalues.argmax(axis=1), axis=0)  # the best of 3 actions is random, too
    assert others == pytest.approx(np.array(expected) * 2 / 3, abs=0.03)
    watch(agent._statistics, "on_step", lambda _step, rate: rates.append(rate))
    list(SerialSchedule().train(agent, 5))
    assert rates[-1] == pytest.approx(np.mean(expected))
    assert list(make(1, **same, exploration_spread=7)[0].exploration_rates()) == [0.4]  # a game alone
    assert list(make(3, **same)[0].exploration_rates()) == [0.4] * 3


@pytest.mark.parametrize("flags", [
    {},
    {"workers": 3, "synchronize": False, "noisy": True, "dueling": True},
    {"workers": 2, "sampler": "prioritized", "n_step": 3, "priority_beta_steps": 300, "double": True},
    {"workers": 2, "munchausen": True, "distributional": "quantile", "quantiles": 10, "layer_norm": True},
    {"workers": 2, "distributional": "c51", "batch_norm": True},
], ids=str)  # fmt: skip
def test_concurrent_threads_equal_sequence(monkeypatch: Patch, flags: dict[str, Any]) -> None:
    threads = run_catch(late=True, **CONCURRENT, **flags)
    assert threads.agent.network.updates == 96 // 4
    for play_first in [False] if flags else [False, True]:
        sequence = partial(train_in_sequence, play_first=play_first)
        monkeypatch.setattr(ConcurrentSchedule, "train", lambda _, *run, sequence=sequence: sequence(*run))
        assert_same_run(threads, run_catch(**CONCURRENT, **flags))
    if not flags:
        theirs, ours = (run.agent.network.get_weights() for run in (run_catch(), threads))
        assert any(not np.array_equal(ours[name], theirs[name]) for name in theirs)  # another algorithm


@pytest.mark.parametrize("flags", [
    {},
    {"workers": 8, "processes": 1, "train_repeat": 2},
    {"sampler": "prioritized", "n_step": 3, "priority_beta_steps": 300, "double": True, "noisy": True},
], ids=str)  # fmt: skip
def test_overlapped_threads_equal_one(monkeypatch: Patch, flags: dict[str, Any]) -> None:
    monkeypatch.setattr(schedules, "SAFE_POINT_STEPS", 40)
    monkeypatch.setattr(schedules, "usable_cores", lambda: 2)
    two = run_catch(late=True, **{**OVERLAP, **flags})
    monkeypatch.setattr(schedules, "usable_cores", lambda: 1)
    assert type(two._schedule) is OverlappedSchedule
    assert_same_run(two, run_catch(**{**OVERLAP, **flags}))
    assert two.agent.network.updates == 96 // 4 * flags.get("train_repeat", 1)


class BrokenError(Exception):
    pass


@pytest.mark.parametrize("at", [1, 9])
@pytest.mark.parametrize(("schedule", "part"), [
    (ConcurrentSchedule, "step"), (ConcurrentSchedule, "prepare"), (ConcurrentSchedule, "update"),
    (OverlappedSchedule, "step"),
], ids=str)  # fmt: skip
def test_an_error_in_one_thread_ends_all(schedule: type[SerialSchedule], part: str, at: int) -> None:
    agent, _ = make(target_steps=16)
    calls: list[int] = []

    def break_at(*_: Any) -> None:
        calls.append(1)
        if len(calls) == at:
            raise BrokenError

    watch(agent.player.environment if part == "step" else agent.network, part, break_at)
    with pytest.raises(BrokenError):
        list(schedule().train(agent, 16_000))
    assert len(calls) <= at + schedules.MINIBATCHES_AHEAD


def test_a_thread_that_failed_ends_the_period_of_the_others() -> None:
    agent, tape = make(target_steps=16)
    assert schedules.play_period(agent, lambda: True) == []
    failed: Future[Any] = Future()
    failed.set_exception(BrokenError())
    with ThreadPoolExecutor(1) as sampler:
        schedules.learn_period(agent, sampler, 0, failed)
    assert tape == []


@pytest.mark.parametrize(("schedule", "safe_point"), [
    (SerialSchedule, 4), (ConcurrentSchedule, 8), (OverlappedSchedule, 256),
], ids=str)  # fmt: skip
def test_a_stop_leaves_no_thread(schedule: type[SerialSchedule], safe_point: int) -> None:
    agent, tape = make(4, target_steps=8)
    before, made = agent.memory.count, []
    for steps in schedule().train(agent, 4000):
        made.append(steps)
        if len(tape) >= 40:
            break
    assert set(made) == {safe_point}
    assert agent.memory.count - before == 4 * tape.count("step") == agent.total_train_steps == sum(made)
    assert tape.count("update") == agent.total_train_steps // 4


def test_an_overlapped_update_lags_one_round(monkeypatch: Patch) -> None:
    """With one thread the trainer's part of a round comes first, then the player's."""
    monkeypatch.setattr(schedules, "usable_cores", lambda: 1)
    monkeypatch.setattr(schedules, "SAFE_POINT_STEPS", 12)
    agent, tape = make(4, sampler="prioritized", target_steps=8)
    samples: list[int] = []
    watch(agent.memory, "sample", lambda _size, steps: samples.append(steps))
    for steps in OverlappedSchedule().train(agent, 24):
        tape.append(steps)
    learn, both = ["update", "errors"], ["update", "step", "errors"]
    first = ["step", *both, "copy", *both, *learn, 12]
    second = ["step", "copy", *both, *both, "copy", *learn, 12]
    assert tape == first + second
    assert samples == [4, 8, 12, 16, 20, 24]


def make(games: int = 1, **flags: Any) -> tuple[Agent, list[Any]]:
    """Return an agent that has stored 8 steps of each game of Catch, and the empty tape of its calls."""
    agent = make_run(Config.from_flags({**SETTINGS, "workers": games, **flags}), Interrupt()).agent
    schedule, tape = SerialSchedule(), list[Any]()
    schedule.start(agent)
    list(schedule.fill(agent, 8 * games, 1.0))
    for owner, name, word in (
        (agent.player.environment, "step", "step"), (agent.network, "update", "update"),
        (agent.network, "update_target_network", "copy"), (agent.memory, "update_priorities", "errors"),
    ):  # fmt: skip
        watch(owner, name, lambda *_, word=word: tape.append(word))
    return agent, tape


class Rollout(NamedTuple):
    """The rewards, ends of episodes and starts of games [T, E] that `ReplayMemory.rollout` returns."""

    rewards: Values
    terminals: NDArray[np.bool_]
    starts: NDArray[np.bool_]


ROLLOUTS = {
    **SETTINGS, "replay_size": 1_000_000, "random_steps": 0, "train_steps": 192, "epochs": 2,
    "target_steps": 0, "workers": 4, "rollout_steps": 6, "train_frequency": 4,
}  # fmt: skip


def started(**flags: Any) -> Agent:
    agent = make_run(Config.from_flags({**ROLLOUTS, **flags}), Interrupt()).agent
    RolloutSchedule().start(agent)
    return agent


def random_rollout(seed: int, steps: int = 9, games: int = 5) -> tuple[Rollout, Values]:
    rng = np.random.default_rng(seed)
    starts = rng.random((steps, games)) < 0.15
    terminals = (rng.random((steps, games)) < 0.2) & ~starts
    rewards = np.where(starts, 0, rng.integers(-3, 4, (steps, games))).astype(np.float32)
    return Rollout(rewards, terminals, starts), rng.normal(size=(steps + 1, games)).astype(np.float32)


def slow_return(rollout: Rollout, values: Values, t: int, game: int, gamma: float, decay: float) -> float:
    """Return (1 - λ) Σ_n λ^(n-1) G^(n) + λ^(N-1) G^(N), where N steps are left in the episode or rollout."""
    if rollout.starts[t, game]:
        return float(values[t, game])
    n_step_returns, total, discount = [], 0.0, 1.0
    for k in range(t, len(rollout.rewards)):
        total += discount * float(rollout.rewards[k, game])
        discount *= gamma
        ends = bool(rollout.terminals[k, game])
        n_step_returns.append(total + (0.0 if ends else discount * float(values[k + 1, game])))
        if ends or (k + 1 < len(rollout.rewards) and rollout.starts[k + 1, game]):
            break
    *earlier, last = n_step_returns
    mixed = sum((1 - decay) * decay**n * value for n, value in enumerate(earlier))
    return mixed + decay ** len(earlier) * last


@pytest.mark.parametrize(("seed", "decay"), [(0, 0.0), (1, 0.65), (2, 0.65), (3, 1.0)])
def test_returns_equal_the_mean_of_n_step_returns(seed: int, decay: float) -> None:
    rollout, values = random_rollout(seed)
    returns = lambda_returns(*rollout, values, 0.9, decay)
    slow = [[slow_return(rollout, values, t, game, 0.9, decay) for game in range(5)] for t in range(9)]
    np.testing.assert_allclose(returns, slow, rtol=1e-5, atol=1e-5)


def test_rewards_are_clipped_in_the_returns() -> None:
    rollout, values = random_rollout(2)
    expected = lambda_returns(*rollout._replace(rewards=rollout.rewards.clip(-1, 1)), values, 0.8, 0.3)
    network = started(discount_rate=0.8, trace_decay=0.3).network
    np.testing.assert_array_equal(network.returns(*rollout, values), expected)


def test_each_transition_is_sampled_once_before_any_is_sampled_again() -> None:
    config = MemoryConfig(rollout_steps=8, history_length=3)
    memory = ReplayMemory(config, 4, (2, 2), 0.9, np.random.default_rng(0))
    starts = np.random.default_rng(3).random((30, 4)) < 0.2
    for t, started in enumerate(starts):
        step = first_step(np.zeros((4, 2, 2), np.uint8))
        step.actions[:] = 4 * t + np.arange(4)
        step.starts[:] = started
        memory.add(step)
    expected = [4 * t + e for t in range(22, 30) for e in range(4) if not starts[t, e]]
    batches = memory.sample_rollout(2 * len(expected) // 3 + 1, 3, np.zeros((8, 4), np.float32))
    places, actions, _ = (np.concatenate(values) for values in zip(*batches, strict=True))
    numbers = 4 * 22 + places
    np.testing.assert_array_equal(numbers, actions)
    for passed in (numbers[: len(expected)], numbers[len(expected) : 2 * len(expected)]):
        assert sorted(passed.tolist()) == expected
    assert not np.array_equal(numbers[: len(expected)], numbers[len(expected) : 2 * len(expected)])


def test_a_minibatch_has_the_states_that_were_played_and_their_returns() -> None:
    agent = started()
    for _ in range(3):
        agent.memory.add(agent.execute(agent.player.choose(agent.exploration_rates())))
    seen, starts = [], []
    for t in range(6):
        seen.append(agent.player.states.copy())
        agent.network.predict(seen[-1], keep=(t, 6))
        agent.memory.add(agent.execute(agent.player.choose(agent.exploration_rates())))
        starts.append(agent.memory.rollout()[2][-1])
    states, played = np.concatenate(seen), ~np.concatenate(starts)
    assert played.sum() < 24
    returns = np.arange(24, dtype=np.float32)
    (minibatch,) = agent.memory.sample_rollout(1, int(played.sum()), returns.reshape(6, 4))
    places = minibatch[0]
    assert sorted(places.tolist()) == np.flatnonzero(played).tolist()
    batch = agent.network.prepare_rollout(*minibatch)
    np.testing.assert_array_equal(batch.targets.flatten(), returns[places])
    np.testing.assert_array_equal(batch.actions[:, 0], minibatch[1])
    assert (batch.weights == 1).all()
    np.testing.assert_allclose(batch.prestates, states[places] / np.float32(255), rtol=1e-6)


def test_a_rollout_is_played_whole_before_its_updates() -> None:
    agent = started(train_repeat=2)
    tape, sizes = list[str](), set[int]()
    for owner, name in ((agent, "execute"), (agent.network, "returns"), (agent.network, "update")):
        watch(owner, name, lambda *_, name=name: tape.append(name))
    watch(agent.network, "prepare_rollout", lambda places, *_: sizes.add(len(places)))
    for steps in RolloutSchedule().train(agent, 48):
        tape += [str(steps)]
    assert tape == 2 * [*["execute"] * 6, "returns", *["update"] * 12, "24"]
    assert sizes == {8}


def test_snapshots_and_tests_use_the_mean_of_the_weights(tmp_path: Path) -> None:
    flags = {"epochs": 1, "average_updates": 64, "checkpoint_minutes": 0, "test_steps": 20}
    config = Config.from_flags({**ROLLOUTS, **flags, "save_weights_prefix": str(tmp_path / "catch")})
    run = make_run(config, Interrupt())
    run.begin()
    network = run.agent.network
    mean, latest = network.get_weights(average=True), network.get_weights()
    saved = Snapshot.load(tmp_path / "catch_1.pkl").weights
    assert all(np.array_equal(saved[name], mean[name]) for name in mean)
    assert any(not np.array_equal(saved[name], latest[name]) for name in latest)
    states = run.agent.player.states
    assert run._tester
    for player, average in ((run._tester._player, True), (run.agent.player, False)):
        np.testing.assert_array_equal(player._predict(states), network.predict(states, average=average))
    assert np.any(network.predict(states) != network.predict(states, average=True))
    run.close()
