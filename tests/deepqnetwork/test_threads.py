import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.deepqnetwork.compute import threads
from simple_dqn.deepqnetwork.compute.threads import choose_threads, use_one_thread
from simple_dqn.types import CheckpointState, Minibatch
from tests.deepqnetwork.updates import train

MakeNetwork = Callable[..., DeepQNetwork]


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    monkeypatch.setattr(threads, "_choices", {})
    yield
    torch.set_num_threads(before)


def cores(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "usable_cores", lambda: number)


def arrays(state: CheckpointState) -> list[Any]:
    return [leaf for v in state.values() for leaf in (arrays(v) if isinstance(v, dict) else [v])]


@pytest.mark.parametrize(("milliseconds", "chosen"), [
    ({1: 10, 2: 6}, 2),
    ({1: 10, 2: 11}, 2),
    ({1: 10, 2: 12}, 1),
    ({1: 10, 2: 6, 4: 6.5}, 4),
    ({1: 10, 2: 6, 4: 7.5, 8: 6.8, 12: 7}, 8),
    ({1: 10, 2: 9, 3: 5}, 3),
    ({1: 300, 2: 200}, 2),
])  # fmt: skip
def test_the_fastest_number_is_chosen_and_the_larger_of_two_near_ones(
    milliseconds: dict[int, float], chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, current, tried = [0.0], [0], dict.fromkeys(milliseconds, 0)

    def work() -> None:
        first = tried[current[0]] == 0  # which takes long at every number
        tried[current[0]] += 1
        clock[0] += 9 if first else milliseconds[current[0]] / 1000

    monkeypatch.setattr(torch, "set_num_threads", lambda number: current.__setitem__(0, number))
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    assert choose_threads(work, max(milliseconds)) == chosen
    assert all(tried.values())


def test_the_choice_changes_nothing_that_learning_depends_on(
    make_network: MakeNetwork, make_minibatch: Callable[..., Minibatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    cores(2, monkeypatch)
    for settings in ({"datatype": "bfloat16"}, {"batch_norm": True, "optimizer": "adam"}):
        torch.manual_seed(0)
        chosen, stream = make_network(threads=0, **settings), torch.random.get_rng_state()
        torch.manual_seed(0)
        told = make_network(threads=1, **settings)
        assert torch.equal(torch.random.get_rng_state(), stream)
        for _ in range(2):
            for one, other in zip(arrays(chosen.get_state()), arrays(told.get_state()), strict=True):
                np.testing.assert_array_equal(one, other)
            assert train(chosen, make_minibatch(0)) == train(told, make_minibatch(0))
    assert len(threads._choices) == 2


def test_the_choice_is_made_once_in_a_process_and_said(
    make_network: MakeNetwork, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cores(8, monkeypatch)
    choices = iter([2, 1, 1])
    monkeypatch.setattr(threads, "choose_threads", lambda work, most: next(choices))
    caplog.set_level("INFO")
    for _ in range(2):
        make_network(threads=0)
        assert torch.get_num_threads() == 2
        assert caplog.messages.pop() == "the network uses 2 of 8 cores"
        caplog.clear()
    make_network(threads=0, datatype="bfloat16")
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize(("usable", "spare", "expected"), [(4, 1, 3), (2, 1, 1), (1, 0, 1), (1, 3, 1)])
def test_spare_cores_are_left_to_others(
    usable: int, spare: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cores(usable, monkeypatch)
    monkeypatch.setattr(threads, "choose_threads", lambda work, most: most)
    threads.use_threads(0, spare, "work", lambda: pytest.fail("one core needs no measurement"))
    assert torch.get_num_threads() == expected
    threads.use_threads(2, spare, "work", lambda: pytest.fail("a number that was given needs none"))
    assert torch.get_num_threads() == 2


def test_one_thread_may_compute_on_one_core_and_others_on_two() -> None:
    torch.set_num_threads(2)
    with ThreadPoolExecutor(1, initializer=use_one_thread) as actor:
        assert actor.submit(torch.get_num_threads).result() == 1
        assert torch.get_num_threads() == 2
