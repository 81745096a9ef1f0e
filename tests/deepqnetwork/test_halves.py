"""An update computed by two threads against the same update by one."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import Any, TypeAlias

import numpy as np
import pytest

from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.types import Minibatch
from tests.deepqnetwork.test_network_state import assert_same

MakeNetwork: TypeAlias = Callable[..., DeepQNetwork]
MakeMinibatch: TypeAlias = Callable[..., Minibatch]


def at_once(work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
    """Stand in for a thread that is free: it has done its half before this thread begins."""
    done: Future[Any] = Future()
    done.set_result(work(*arguments))
    return done


def never(_work: Callable[..., Any], *_arguments: Any) -> "Future[Any]":
    """Stand in for a thread that is busy all the time."""
    return Future()


def weighted(minibatch: Minibatch) -> Minibatch:
    return replace(minibatch, weights=np.linspace(0.2, 1, len(minibatch.weights), dtype=np.float32))


@pytest.mark.parametrize("size", [2, 7, 8])
@pytest.mark.parametrize(
    "settings",
    [{}, {"double": True, "noisy": True}, {"distributional": "quantile", "optimizer": "adam"}],
    ids=str,
)
def test_two_halves_are_the_whole(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch, size: int, settings: dict[str, Any]
) -> None:
    halved, whole = (make_network(datatype="float64", batch_size=size, **settings) for _ in range(2))
    for seed in range(3):
        minibatch = weighted(make_minibatch(seed, size))
        halved.update(halved.prepare(minibatch), at_once)
        whole.update(whole.prepare(minibatch))
    for one, other in zip(halved.take_outcomes(), whole.take_outcomes(), strict=True):
        np.testing.assert_allclose(one.loss, other.loss, rtol=1e-12)
        np.testing.assert_allclose(one.errors, other.errors, rtol=1e-6)
        np.testing.assert_array_equal(one.numbers, other.numbers)
    for name, values in whole.get_weights().items():
        np.testing.assert_allclose(halved.get_weights()[name], values, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("datatype", ["float32", "bfloat16", "float16"])
def test_it_does_not_matter_which_thread_computes_a_half(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch, datatype: str
) -> None:
    results = []
    with ThreadPoolExecutor(1, initializer=DeepQNetwork.use_one_thread) as pool:
        for submit in (at_once, never, pool.submit):
            network = make_network(datatype=datatype, batch_size=8, noisy=True)
            for seed in range(5):
                network.update(network.prepare(make_minibatch(seed)), submit)
            outcomes = {str(number): asdict(one) for number, one in enumerate(network.take_outcomes())}
            results.append({"state": network.get_state(), "outcomes": outcomes})
    assert_same(results[1], results[0])
    assert_same(results[2], results[0])


@pytest.mark.parametrize(("settings", "size"), [({"batch_norm": True}, 8), ({}, 1)], ids=str)
def test_what_cannot_be_halved_is_computed_by_one_thread(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch, settings: dict[str, Any], size: int
) -> None:
    asked, alone = (make_network(batch_size=size, **settings) for _ in range(2))
    minibatch = make_minibatch(0, size)
    asked.update(asked.prepare(minibatch), never)
    alone.update(alone.prepare(minibatch))
    assert_same(asked.get_state(), alone.get_state())


def test_an_error_of_the_other_thread_is_raised(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    def failing(_work: Callable[..., Any], *_arguments: Any) -> "Future[Any]":
        failed: Future[Any] = Future()
        failed.set_exception(MemoryError("no memory"))
        return failed

    network = make_network(batch_size=8)
    before = network.get_state()
    with pytest.raises(MemoryError):
        network.update(network.prepare(make_minibatch(0)), failing)
    assert_same(network.get_state(), before)
