"""Stand-ins for a GPU: a list of calls for a CUDA graph, and tensors without values for those on the device.

What mixes tensors of the CPU and of PyTorch's meta device fails here as it would on a GPU, or is caught by
hooks on each module. Not covered: Adam's fused kernel and loss scaling (float16), which that device lacks.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from simple_dqn import device, dqn
from simple_dqn.device import WARM_UPS, Device, Recorded, Replay, Work, record_graph, run_beside
from simple_dqn.dqn import RATES
from simple_dqn.networks import NETWORKS
from tests.network.updates import assert_same, assert_same_weights, make_minibatch, make_network, train


class Tape:
    """Records as a CUDA graph does: the work is not done meanwhile, and its result lies at one place."""

    def __init__(self) -> None:
        self.recordings = self.replays = self.runs = 0

    def run(self, work: Work, inputs: tuple[Tensor, ...]) -> Tensor:
        self.runs += 1
        return work(*inputs)

    def record(self, work: Replay, _gpu: torch.device) -> Replay:
        self.recordings += 1
        results: list[Tensor] = []

        def replay() -> Tensor:
            self.replays += 1
            result = work()
            if not results:
                results.append(result.clone())
            return results[0].copy_(result)

        return replay


def record_on(tape: Tape, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the CPU record updates, on `tape`."""
    monkeypatch.setattr(Device, "records", True)
    monkeypatch.setattr(device, "run_beside", tape.run)
    monkeypatch.setattr(device, "record_graph", tape.record)


def test_every_call_does_the_work_once_on_its_own_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    tape, done = Tape(), []
    record_on(tape, monkeypatch)

    def work(a: Tensor, b: Tensor) -> Tensor:
        done.append(float(a.sum()))
        return a @ b

    recorded = Recorded(work)
    results = []
    for number in range(WARM_UPS + 4):
        a, b = torch.full((2, 3), float(number)), torch.ones(3, 2)
        results.append((recorded(a, b), a @ b))
        a.zero_()  # the caller's inputs are the caller's again
    assert done == [6.0 * number for number in range(WARM_UPS + 4)]
    for result, expected in results:  # none was written over by a later call
        torch.testing.assert_close(result, expected)
    assert (tape.runs, tape.recordings, tape.replays) == (WARM_UPS, 1, 4)
    for _ in range(WARM_UPS + 1):  # other shapes are recorded anew
        assert recorded(torch.ones(5, 3), torch.ones(3, 1)).shape == (5, 1)
    assert tape.recordings == 2


def test_one_thread_at_a_time_records_on_the_gpu_that_holds_the_tensors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PyTorch records on the first GPU unless it is told; a recording waits for the whole GPU."""
    gpu, current, recording, seen = torch.device("cuda", 1), list[Any](), list[Any](), list[Any]()

    @contextmanager
    def inside(stack: list[Any], what: Any = None) -> Iterator[None]:
        stack.append(what)
        stream()
        time.sleep(0.01)
        yield
        stack.pop()

    def stream(*_: Any) -> Any:
        seen.append((*current, len(recording)))
        return SimpleNamespace(wait_stream=lambda _: None)

    doubles = {
        "device": lambda where: inside(current, where), "graph": lambda *_, **__: inside(recording),
        "stream": lambda _: nullcontext(), "CUDAGraph": SimpleNamespace,
        "current_stream": stream, "Stream": stream,
    }  # fmt: skip
    for name, double in doubles.items():
        monkeypatch.setattr(torch.cuda, name, double)
    values: Any = SimpleNamespace(device=gpu, record_stream=lambda _: None)
    run_beside(lambda given: given, (values,))
    with ThreadPoolExecutor(4) as threads:
        for _ in range(8):
            threads.submit(record_graph, lambda: values, gpu)
    assert seen == [*[(gpu, 0)] * 3, *[(gpu, 0), (gpu, 1)] * 8]


@pytest.mark.parametrize("settings", [
    {"optimizer": "adadelta", "steps": 4},
    {"optimizer": "adam", "double": True, "dueling": True, "noisy": True, "distributional": "c51"},
    {"munchausen": True, "distributional": "quantile", "layer_norm": True, "datatype": "bfloat16"},
    {"double": True, "batch_norm": True},
], ids=str)  # fmt: skip
def test_a_network_learns_and_predicts_the_same_recorded(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"average_updates": 32, **settings}
    steps, tape = settings.pop("steps", 1), Tape()
    plain = make_network(**settings)
    record_on(tape, monkeypatch)
    taped = make_network(**settings)
    for seed in range(WARM_UPS + 18):
        batch = make_minibatch(seed, steps=steps)
        assert train(plain, batch) == train(taped, batch)
        for kind in ({}, {"target": True}, {"average": True}):
            one, other = (each.predict(batch.prestates, explore=True, **kind) for each in (plain, taped))
            assert_same(one, other)
        if seed == WARM_UPS + 3:
            taped.set_state(taped.get_state())  # gives the optimizer new tensors
            plain.update_target_network()
            taped.update_target_network()
    assert tape.recordings == 2 * (6 if settings.get("double") else 5)
    assert_same_weights(plain, taped)


def test_a_recording_is_renewed_with_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    tape, rates, updates = Tape(), 4, WARM_UPS + 2
    record_on(tape, monkeypatch)
    network = make_network(learning_rate_decay_updates=RATES * updates)
    for seed in range(rates * updates):
        train(network, make_minibatch(seed))
    assert tape.recordings == rates + 1  # and once the work on targets


META = torch.device("meta")
EXTENSIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "mse": {"loss": "mse", "optimizer": "adadelta"},
    "batch_norm": {"batch_norm": True, "learning_rate_decay_updates": 2},
    "munchausen": {"munchausen": True, "distributional": "quantile", "quantiles": 5},
    "rainbow": {"double": True, "dueling": True, "noisy": True, "distributional": "c51"},
    "residual": {"spec": NETWORKS["impala"], "layer_norm": True, "optimizer": "radam"},
}


@pytest.mark.parametrize("datatype", ["float32", "bfloat16"])
@pytest.mark.parametrize("extension", EXTENSIONS)
def test_an_update_stays_on_the_device(
    extension: str, datatype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dqn, "choose_device", lambda _config: Device(META, datatype))
    fetched, ran = list[torch.Size](), set[nn.Module]()

    def fetch(values: Tensor) -> Tensor:
        """Stand in for the copy to the host, which a tensor without values does not have."""
        assert values.device == META
        fetched.append(values.shape)
        return torch.zeros(values.shape, dtype=values.dtype)

    def check(module: nn.Module, inputs: Any, output: Any) -> None:
        ran.add(module)
        assert {value.device for value in (*inputs, output) if isinstance(value, Tensor)} == {META}, module

    monkeypatch.setattr(Tensor, "cpu", fetch)
    network = make_network(**EXTENSIONS[extension])
    for module in (*network._online.modules(), *network._target.modules()):
        module.register_forward_hook(check)
    for seed in range(3):
        network.update(network.prepare(make_minibatch(seed)))
    network.update_target_network()
    states = make_minibatch(0).prestates
    for options in ({}, {"explore": True}, {"explore": True, "target": True}):
        assert network.predict(states, **options).shape == (len(states), 5)
    assert len(fetched) == 3
    assert all(ran & set(each.modules()) for each in (network._online, network._target))
    assert [outcome.errors.shape for outcome in network.take_outcomes()] == [(8,)] * 3
    for tensors in (network._master.tensors(), dict(network._target.state_dict())):
        assert {values.device for values in tensors.values()} == {META}


def test_the_returns_of_a_rollout_become_targets_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dqn, "choose_device", lambda _config: Device(META, "bfloat16"))
    network, minibatch = make_network(optimizer="radam"), make_minibatch(0)
    batch = network.prepare(replace(minibatch, returns=np.zeros(len(minibatch.actions), np.float32)))
    assert batch.targets.shape == (len(minibatch.actions), 1, 1)
    assert (batch.targets.device, batch.targets.dtype) == (META, torch.float32)
    network.update(batch)
    assert network.updates == 1
