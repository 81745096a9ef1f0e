"""The concurrent schedule: threads against sequence, and everything that can go wrong at its barriers."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, TypeAlias

import numpy as np
import pytest

from simple_dqn.config import Config
from simple_dqn.interrupt import Interrupt
from simple_dqn.training import ConcurrentSchedule, Epochs, concurrent
from simple_dqn.wiring import make_run
from tests.contents import contents_of
from tests.training.sequence import train_in_sequence

Make: TypeAlias = Callable[..., Any]
Train: TypeAlias = Callable[..., None]

CATCH = {
    "game": "catch", "environment": "catch", "screen_width": 36, "screen_height": 36, "replay_size": 400,
    "random_steps": 96, "train_steps": 192, "test_steps": 0, "epochs": 2, "batch_size": 8, "target_steps": 48,
    "exploration_decay_steps": 200, "backend": "cpu", "random_seed": 0, "concurrent": True,
    "threads": 1,  # sums depend on how many threads share them
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def play_first(agent: Any, steps: int, stopped: Callable[[], bool], at_rest: Callable[[int], None]) -> None:
    """Do in sequence what `ConcurrentSchedule.train` does at once, in the other order."""
    for _ in range(0, steps, agent.config.target_steps):
        agent.network.update_target_network()
        steps_before = agent.total_train_steps
        experience = concurrent.act(agent, stopped)
        for _ in range(concurrent.updates_due(agent)):
            agent.update(agent.prepare(steps_before))
        concurrent.store(agent, experience)
        at_rest(agent.config.target_steps)


def run_catch(**flags: Any) -> Epochs:
    run = make_run(Config.from_flags({**CATCH, **flags}), Interrupt())
    run.begin()
    return run


def assert_same(a: Any, b: Any) -> None:
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    else:
        assert np.array_equal(a, b)


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"workers": 4},
        {"workers": 3, "synchronize": False},
        {"workers": 2, "prioritized": True, "n_step": 3, "priority_beta_steps": 300},
    ],
    ids=str,
)
@pytest.mark.parametrize("sequence", [train_in_sequence, play_first])
def test_threads_equal_sequence_bit_for_bit(
    monkeypatch: pytest.MonkeyPatch, flags: dict[str, Any], sequence: Train
) -> None:
    threads = run_catch(**flags)
    monkeypatch.setattr(ConcurrentSchedule, "train", staticmethod(sequence))
    plain = run_catch(**flags)
    assert_same(threads.agent.get_state(), plain.agent.get_state())
    assert_same(asdict(contents_of(threads.agent.memory)), asdict(contents_of(plain.agent.memory)))
    assert threads.agent.network.updates == 2 * 192 // 4


def test_it_is_another_algorithm_than_the_serial_one() -> None:
    concurrent_weights = run_catch().agent.network.get_weights()
    serial_weights = run_catch(concurrent=False).agent.network.get_weights()
    assert any(not np.array_equal(concurrent_weights[name], serial_weights[name]) for name in serial_weights)


def test_the_memory_holds_still_while_the_trainer_reads_it(make: Make) -> None:
    agent, tape, _ = make(4, concurrent=True, target_steps=16, train_frequency=4)
    before, counts = agent.memory.count, []

    def count(_: object) -> float:
        counts.append(agent.memory.count)
        return 0.0

    agent.network.prepare = agent.network.update = count
    ConcurrentSchedule().train(agent, 64, stopped=lambda: False)
    assert sorted(counts) == [before + 16 * period for period in range(4) for _ in range(8)]
    assert agent.memory.count == before + 64
    assert tape.count("copy") == 4


def test_priorities_change_between_periods_alone(make: Make) -> None:
    agent, tape, _ = make(concurrent=True, target_steps=8, train_frequency=4, memory={"prioritized": True})
    told, tell = [], agent.memory.update_priorities

    def watched(numbers: Any, errors: Any) -> None:
        tape.append("errors")
        told.append((numbers, errors))
        tell(numbers, errors)

    agent.memory.update_priorities = watched
    train_in_sequence(agent, 24, stopped=lambda: False)
    period = ["copy", "update", "update", *["step"] * 8, "errors"]
    assert tape == period * 3
    for number, (numbers, errors) in enumerate(told):
        updates = np.repeat([2 * number + 1, 2 * number + 2], 8)  # in their order
        np.testing.assert_array_equal(errors, updates + numbers % 7)


def test_each_period_is_played_by_the_copy_made_at_its_start(make: Make) -> None:
    agent, tape, _ = make(concurrent=True, target_steps=8, train_frequency=4)
    train_in_sequence(agent, 24, stopped=lambda: False)
    period = ["copy", "update", "update", *["step"] * 8]
    assert tape == period * 3


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_the_times_at_which_threads_meet_change_nothing(make: Make, seed: int, prioritized: bool) -> None:
    settings = {"concurrent": True, "target_steps": 12, "train_frequency": 3}
    memory = {"prioritized": prioritized, "priority_beta_steps": 50}
    agent, _, listener = make(3, memory, **settings)
    quiet, _, quiet_listener = make(3, memory, **settings)
    train_in_sequence(quiet, 60, stopped=lambda: False)
    delays = random.Random(seed)
    for owner, name in (
        (agent.network, "update"),
        (agent.network, "prepare"),
        (agent.player.environment, "step"),
        (agent.memory, "add"),
    ):
        delay(owner, name, delays)
    ConcurrentSchedule().train(agent, 60, stopped=lambda: False)
    assert_same(contents_of(agent.memory).actions, contents_of(quiet.memory).actions)
    assert_same(agent.memory.get_state(), quiet.memory.get_state())
    assert listener.rates == quiet_listener.rates
    agent.report_losses()
    quiet.report_losses()
    assert listener.losses == quiet_listener.losses
    assert len(listener.losses) == 20


def delay(owner: Any, name: str, delays: random.Random) -> None:
    call = getattr(owner, name)

    def delayed(*arguments: Any) -> Any:
        time.sleep(delays.choice((0, 0, 0.0005, 0.002)))
        return call(*arguments)

    setattr(owner, name, delayed)


class BrokenError(Exception):
    pass


@pytest.mark.parametrize("at", [1, 2, 5, 9])
@pytest.mark.parametrize("part", ["actor", "sampler", "trainer"])
def test_an_error_in_one_thread_ends_all(make: Make, part: str, at: int) -> None:
    agent, _, _ = make(concurrent=True, target_steps=16, train_frequency=4)
    parts = {
        "actor": (agent.player.environment, "step"),
        "sampler": (agent.network, "prepare"),
        "trainer": (agent.network, "update"),
    }
    owner, name = parts[part]
    call, calls = getattr(owner, name), 0

    def break_at(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at:
            raise BrokenError
        return call(*arguments)

    setattr(owner, name, break_at)
    start = time.monotonic()
    with pytest.raises(BrokenError):
        ConcurrentSchedule().train(agent, 16_000, stopped=lambda: False)
    assert time.monotonic() - start < 5
    assert calls <= at + concurrent.MINIBATCHES_AHEAD


@pytest.mark.parametrize("moment", range(0, 40, 3))
def test_a_stop_at_any_moment_ends_with_a_whole_period(make: Make, moment: int) -> None:
    agent, tape, _ = make(concurrent=True, target_steps=8, train_frequency=4)
    before, rests = agent.memory.count, [0]
    ConcurrentSchedule().train(agent, 80, lambda: len(tape) >= moment, rests.append)
    assert agent.memory.count - before == tape.count("step") == agent.total_train_steps == sum(rests)
    assert tape.count("update") == agent.total_train_steps // 4


def test_the_memory_after_some_periods_equals_a_plain_list(make: Make) -> None:
    agent, _, _ = make(2, concurrent=True, target_steps=8, train_frequency=2)
    seen = [contents_of(agent.memory).screens.copy()]
    step = agent.player.environment.step

    def watched(actions: Any) -> Any:
        result = step(actions)
        seen.append(result.screens[np.newaxis].copy())
        return result

    agent.player.environment.step = watched
    ConcurrentSchedule().train(agent, 40, stopped=lambda: False)
    assert np.array_equal(contents_of(agent.memory).screens, np.concatenate(seen))
