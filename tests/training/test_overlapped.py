"""The overlapped schedule: threads against one thread, and how far actions lag behind updates."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, TypeAlias

import numpy as np
import pytest

from simple_dqn import rules
from simple_dqn.config import Config
from simple_dqn.errors import UserError
from simple_dqn.training import OverlappedSchedule, overlapped
from simple_dqn.verbs.settings import settings_for
from tests.contents import contents_of
from tests.training.test_concurrent import assert_same, run_catch

Make: TypeAlias = Callable[..., Any]
CATCH = {"concurrent": False, "overlap": True, "workers": 4}


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"workers": 8, "processes": 1, "train_repeat": 2},
        {"double": True, "noisy": True, "slip_probability": 0.1},
        {"prioritized": True, "n_step": 3, "priority_beta_steps": 300},
        {"batch_norm": True, "workers": 6},
    ],
    ids=str,
)
def test_two_threads_equal_one_bit_for_bit(monkeypatch: pytest.MonkeyPatch, flags: dict[str, Any]) -> None:
    monkeypatch.setattr(overlapped, "REST", 40)
    monkeypatch.setattr(overlapped, "usable_cores", lambda: 2)
    two = run_catch(**{**CATCH, **flags})
    monkeypatch.setattr(overlapped, "usable_cores", lambda: 1)
    one = run_catch(**{**CATCH, **flags})
    assert_same(two.agent.get_state(), one.agent.get_state())
    assert_same(asdict(contents_of(two.agent.memory)), asdict(contents_of(one.agent.memory)))
    assert two.agent.network.updates == 2 * 192 // 4 * flags.get("train_repeat", 1)


def test_an_update_lags_one_round_and_none_is_left_at_rest(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one thread the player's part of a round comes first, then the trainer's."""
    monkeypatch.setattr(overlapped, "usable_cores", lambda: 1)
    monkeypatch.setattr(overlapped, "REST", 12)
    agent, tape, _ = make(4, schedule="overlapped", target_steps=8, train_frequency=4)
    OverlappedSchedule().train(agent, 24, lambda: False, lambda steps: tape.append(steps))
    first = ["step", "step", "update", "copy", "step", "update", "update", 12]
    second = ["step", "copy", "step", "update", "step", "update", "copy", "update", 12]
    assert tape == first + second


def test_actions_of_a_round_know_the_updates_of_the_one_before_the_last(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlapped, "usable_cores", lambda: 1)
    agent, _, _ = make(4, schedule="overlapped", target_steps=1000, train_frequency=2)
    known, choose = [], agent.choose

    def watched() -> Any:
        known.append(agent.network.updates)
        return choose()

    agent.choose = watched
    OverlappedSchedule().train(agent, 24, lambda: False)
    assert known == [0, 0, 2, 4, 6, 8]
    assert agent.network.updates == 12


def test_it_stops_with_no_minibatch_in_flight(make: Make) -> None:
    agent, tape, _ = make(4, schedule="overlapped", target_steps=8, train_frequency=4)
    rests: list[int] = []
    OverlappedSchedule().train(agent, 4000, lambda: agent.total_train_steps >= 40, rests.append)
    assert agent.total_train_steps == overlapped.REST
    assert rests == [overlapped.REST]
    assert tape.count("update") == overlapped.REST // 4


def test_a_failure_of_the_player_ends_the_training(make: Make) -> None:
    agent, _, _ = make(4, schedule="overlapped", target_steps=8, train_frequency=4)
    steps, step = [], agent.player.environment.step

    def failing(actions: Any) -> Any:
        steps.append(1)
        if len(steps) == 5:
            raise RuntimeError("the game is gone")
        return step(actions)

    agent.player.environment.step = failing
    with pytest.raises(RuntimeError, match="the game is gone"):
        OverlappedSchedule().train(agent, 4000, lambda: False)


@pytest.mark.parametrize(("flags", "words"), [
    ({"concurrent": True, "target_steps": 1000}, "exclude each other"),
    ({"target_steps": 0}, "needs a target network"),
    ({"workers": 3}, "give --workers 4 or more"),
    ({"cluster": "local"}, "exclude each other"),
])  # fmt: skip
def test_what_it_cannot_do_is_refused(flags: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        rules.check(Config.from_flags({"game": "catch", "overlap": True, "workers": 8, **flags}))


@pytest.mark.parametrize("given", [
    {"workers": 1}, {"train_frequency": 16}, {"concurrent": True}, {"cluster": "local", "actors": 2},
])  # fmt: skip
def test_a_preset_gives_way_where_nothing_can_overlap(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from simple_dqn.presets import PRESETS

    monkeypatch.setitem(PRESETS, "quick", {**PRESETS["quick"], "schedule": "overlapped", "processes": 1})
    plain, serial = settings_for("train", {"game": "pong"}), settings_for("train", {"game": "pong", **given})
    assert (plain.agent.schedule, plain.environment.processes) == ("overlapped", 1)
    assert (serial.agent.schedule != "overlapped", serial.environment.processes) == (True, 0)


def test_a_checkpoint_continues_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights after an epoch are the same whether or not games and memory were saved and restored before."""
    monkeypatch.setattr(overlapped, "REST", 48)
    whole, half = run_catch(**CATCH), run_catch(**{**CATCH, "epochs": 1})
    state = half.agent.get_state()
    continued = run_catch(**{**CATCH, "epochs": 1, "random_seed": 5})
    continued.agent.set_state(state, [contents_of(half.agent.memory)])
    continued._schedule.train(continued.agent, 192, lambda: False)
    for name, values in whole.agent.network.get_weights().items():
        np.testing.assert_array_equal(continued.agent.network.get_weights()[name], values)
