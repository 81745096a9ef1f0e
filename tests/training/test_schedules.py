"""The schedules on tape: what is called, in which order and when; and threads against one thread."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pytest

from simple_dqn import schedules
from simple_dqn.agent import Agent
from simple_dqn.config import Config
from simple_dqn.errors import Interrupt
from simple_dqn.presets import PRESETS
from simple_dqn.run import Run, make_run
from simple_dqn.schedules import ConcurrentSchedule, OverlappedSchedule, SerialSchedule, play_period
from simple_dqn.verbs.settings import resolve
from tests.contents import contents_of
from tests.network.updates import assert_same
from tests.training.taped import make

CATCH = {
    "game": "catch", "environment": "catch", "screen_width": 36, "screen_height": 36, "replay_size": 400,
    "random_steps": 96, "train_steps": 96, "test_steps": 0, "epochs": 1, "batch_size": 8, "target_steps": 48,
    "exploration_decay_steps": 200, "backend": "cpu", "random_seed": 0, "network": "small",
    "threads": 1,  # sums depend on how many threads share them
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
    run = make_run(Config.from_flags({**CATCH, **flags}), Interrupt())
    agent, delays = run.agent, random.Random(0)
    parts = ((agent.network, "update"), (agent.network, "prepare"), (agent.player.environment, "step"))
    for owner, name in parts if late else ():
        watch(owner, name, lambda *_: time.sleep(delays.choice((0, 0, 0.0005, 0.002))))
    run.begin()
    return run


def assert_same_run(one: Run, other: Run) -> None:
    assert_same(one.agent.get_state(), other.agent.get_state())
    assert_same(asdict(contents_of(one.agent.memory)), asdict(contents_of(other.agent.memory)))


def train_in_sequence(agent: Agent, steps: int, play_first: bool = False) -> Iterator[int]:
    """Do the work of `ConcurrentSchedule` in one thread: first a period's updates, or first its steps."""
    for _ in range(0, steps, agent.config.target_steps):
        agent.network.update_target_network()
        steps_before = agent.total_train_steps
        played = play_period(agent, lambda: False) if play_first else []
        for _ in range(agent.config.updates_in(agent.config.target_steps)):
            agent.learn_from(agent.prepare(steps_before))
        played = played or play_period(agent, lambda: False)
        agent.update_priorities()
        for step in played:
            agent.memory.add(step)
        yield agent.config.target_steps


def watch(owner: Any, name: str, before: Callable[..., None]) -> None:
    """Call `before` before each call of a method, with its arguments."""
    call = getattr(owner, name)

    def watched(*arguments: Any) -> Any:
        before(*arguments)
        return call(*arguments)

    setattr(owner, name, watched)


LEARN = ["step"] * 4 + ["update"]


@pytest.mark.parametrize(("settings", "steps", "expected"), [
    ({"train_frequency": 4, "target_steps": 8}, 16, (LEARN + LEARN + ["copy"]) * 2),
    ({"train_frequency": 2, "train_repeat": 3, "target_steps": 0}, 4, (["step"] * 2 + ["update"] * 3) * 2),
], ids=str)  # fmt: skip
def test_the_serial_loop(settings: dict[str, Any], steps: int, expected: list[str]) -> None:
    agent, tape, listener = make(**settings)
    assert list(SerialSchedule().train(agent, steps)) == [1] * steps
    assert tape == expected
    agent.report_losses()
    assert listener.losses == [8.0] * tape.count("update")
    assert agent.total_train_steps == steps


def test_a_memory_with_priorities_hears_of_the_errors_of_each_update() -> None:
    agent, tape, listener = make(train_frequency=2, train_repeat=2, memory={"sampler": "prioritized"})
    samples: list[int] = []

    def heard(numbers: Any, errors: Any) -> None:
        tape.append("errors")
        np.testing.assert_array_equal(errors, agent.network.updates + numbers % 7)

    watch(agent.memory, "update_priorities", heard)
    watch(agent.memory, "sample", lambda _size, steps: samples.append(steps))
    list(SerialSchedule().train(agent, 4))
    assert tape == (["step"] * 2 + ["update", "errors"] * 2) * 2
    assert samples == [2, 2, 4, 4]
    assert listener.losses == [8.0] * 4


def test_exploration_falls_linearly_over_training_steps_only() -> None:
    agent, tape, listener = make(exploration_rate_end=0.2, exploration_decay_steps=8)
    list(SerialSchedule().fill(agent, 20))
    assert set(tape) == {"step"}
    assert agent.total_train_steps == 0
    list(SerialSchedule().train(agent, 12))
    assert listener.rates == pytest.approx([1.0] * 20 + [1.0 - 0.1 * step for step in range(8)] + [0.2] * 4)


def test_each_game_can_explore_less_than_the_one_before() -> None:
    same: dict[str, Any] = {"exploration_rate_start": 0.4, "exploration_rate_end": 0.4}
    agent, _, listener = make(5, **same, exploration_spread=7, train_frequency=1000)
    expected = [0.4 ** (1 + 7 * game / 4) for game in range(5)]  # Horgan et al. 2018, section 4.1
    assert agent.exploration_rates() == pytest.approx(expected)
    states = np.zeros((5, 4, 4, 4), np.uint8)
    taken = np.stack([agent.player.choose(expected, states=states) for _ in range(4000)])
    others = np.mean(taken != 1, axis=0)  # the best action is 1 of 3
    assert others == pytest.approx(np.array(expected) * 2 / 3, abs=0.03)
    list(SerialSchedule().train(agent, 5))
    assert listener.rates == pytest.approx([np.mean(expected)])
    assert list(make(1, **same, exploration_spread=7)[0].exploration_rates()) == [0.4]  # a game alone
    assert list(make(3, **same)[0].exploration_rates()) == [0.4] * 3


@pytest.mark.parametrize("flags", [
    {},
    {"workers": 3, "synchronize": False, "noisy": True, "dueling": True},
    {"workers": 2, "sampler": "prioritized", "n_step": 3, "priority_beta_steps": 300, "double": True},
    {"workers": 2, "munchausen": True, "distributional": "quantile", "quantiles": 10, "layer_norm": True},
    {"workers": 2, "distributional": "c51", "batch_norm": True},
], ids=str)  # fmt: skip
def test_concurrent_threads_equal_sequence(monkeypatch: pytest.MonkeyPatch, flags: dict[str, Any]) -> None:
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
def test_overlapped_threads_equal_one(monkeypatch: pytest.MonkeyPatch, flags: dict[str, Any]) -> None:
    monkeypatch.setattr(schedules, "SAFE_POINT_STEPS", 40)
    monkeypatch.setattr(schedules, "usable_cores", lambda: 2)
    two = run_catch(late=True, **{**OVERLAP, **flags})
    monkeypatch.setattr(schedules, "usable_cores", lambda: 1)
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
    agent, _, _ = make(schedule="concurrent", target_steps=16, train_frequency=4)
    calls: list[int] = []

    def break_at(*_: Any) -> None:
        calls.append(1)
        if len(calls) == at:
            raise BrokenError

    watch(agent.player.environment if part == "step" else agent.network, part, break_at)
    with pytest.raises(BrokenError):
        list(schedule().train(agent, 16_000))
    assert len(calls) <= at + schedules.MINIBATCHES_AHEAD


@pytest.mark.parametrize(("schedule", "safe_point"), [
    (SerialSchedule, 4), (ConcurrentSchedule, 8), (OverlappedSchedule, 256),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("moment", [1, 40])
def test_a_stop_leaves_no_thread_and_no_minibatch_in_flight(
    schedule: type[SerialSchedule], safe_point: int, moment: int
) -> None:
    agent, tape, _ = make(4, schedule="concurrent", target_steps=8, train_frequency=4)
    before, made = agent.memory.count, []
    for steps in schedule().train(agent, 4000):
        made.append(steps)
        if len(tape) >= moment:
            break
    assert set(made) == {safe_point}
    assert agent.memory.count - before == 4 * tape.count("step") == agent.total_train_steps == sum(made)
    assert tape.count("update") == agent.total_train_steps // 4


def test_an_overlapped_update_lags_one_round_and_none_is_left_at_a_safe_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With one thread the player's part of a round comes first, then the trainer's."""
    monkeypatch.setattr(schedules, "usable_cores", lambda: 1)
    monkeypatch.setattr(schedules, "SAFE_POINT_STEPS", 12)
    memory = {"sampler": "prioritized"}
    agent, tape, _ = make(4, memory, schedule="overlapped", target_steps=8, train_frequency=4)
    watch(agent.memory, "update_priorities", lambda *_: tape.append("errors"))
    for steps in OverlappedSchedule().train(agent, 24):
        tape.append(steps)
    learn = ["update", "errors"]
    first = ["step", "step", *learn, "copy", "step", *learn, *learn, 12]
    second = ["step", "copy", "step", *learn, "step", *learn, "copy", *learn, 12]
    assert tape == first + second


@pytest.mark.parametrize("given", [
    {"workers": 1}, {"train_frequency": 16}, {"concurrent": True}, {"cluster": "local", "actors": 2},
])  # fmt: skip
def test_a_preset_gives_way_where_nothing_can_overlap(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PRESETS, "quick", {**PRESETS["quick"], "schedule": "overlapped", "processes": 1})
    plain, serial = resolve({"game": "pong"}), resolve({"game": "pong", **given})
    assert (plain.agent.schedule, plain.environment.processes) == ("overlapped", 1)
    assert (serial.agent.schedule != "overlapped", serial.environment.processes) == (True, 0)
