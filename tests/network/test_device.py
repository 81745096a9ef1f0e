"""The device: threads, screens, graphs; tensors without values and a list of calls stand in for a GPU.

What mixes tensors of the CPU and of PyTorch's meta device fails here as it would on a GPU, or is caught by
hooks on each module. Not covered: Adam's fused kernel and loss scaling (float16), which that device lacks.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from simple_dqn import device, dqn, machine
from simple_dqn.config import BackendConfig
from simple_dqn.device import WARM_UPS, CapturedGraph, Device, Work, capture_graph, use_threads
from simple_dqn.dqn import RATES, DeepQNetwork
from simple_dqn.errors import UserError
from simple_dqn.networks import NETWORKS
from tests.command_line import Logs, Patch
from tests.network.updates import assert_same, assert_same_weights, make_minibatch, make_network, train

PREDICTIONS: list[dict[str, Any]] = [
    {"explore": True, **one} for one in ({}, {"target": True}, {"average": True})
]

HERE, GPU, META = (Device(torch.device(*name), "float32") for name in (("cpu",), ("cuda", 0), ("meta",)))


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_without_a_gpu_the_cpu_is_used_and_one_line_says_so(monkeypatch: Patch, caplog: Logs) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    device._warn.cache_clear()
    for _ in range(2):
        assert device.choose_device(BackendConfig(backend="gpu", device_id=3)).is_cpu
    device.choose_device(BackendConfig(backend="cpu", device_id=3))
    assert make_network(backend="gpu").predict(np.zeros((1, 3, 20, 17), np.uint8)).shape == (1, 5)
    here, there, again = caplog.messages
    assert "--device_id 3 names no GPU, as no GPU that PyTorch can use was found" in here
    assert "--device_id 3 does nothing with --backend cpu" in there
    assert again.startswith("no GPU that PyTorch can use was found")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UserError, match=r"--device_id 2 .* give 0 to 1"):
        device.choose_device(BackendConfig(backend="gpu", device_id=2))


@pytest.mark.parametrize(("where", "asked", "usable", "idle", "spare", "used"), [
    (HERE, 0, 2, 2, 0, 2),
    (HERE, 0, 2, 1, 0, 1),  # another program computes on one core
    (HERE, 0, 2, 0, 0, 1),
    (HERE, 0, 4, 4, 1, 3),  # an actor or a sampler of this program will
    (HERE, 0, 64, 60, 0, 8),
    (HERE, 3, 2, 0, 1, 3),
    (GPU, 0, 16, 16, 0, 1),
    (GPU, 4, 16, 16, 0, 4),
])  # fmt: skip
def test_as_many_threads_as_cores_are_idle(
    where: Device, asked: int, usable: int, idle: int, spare: int, used: int, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(device, "usable_cores", lambda: usable)
    monkeypatch.setattr(device, "idle_cores", lambda: idle)
    assert use_threads(asked, where, spare) == used
    assert torch.get_num_threads() == used


def test_idle_cores_are_counted_only_if_there_are_several(monkeypatch: Patch) -> None:
    monkeypatch.setattr(device, "idle_cores", lambda: pytest.fail("this takes time"))
    for usable, threads in ((1, 0), (8, 2)):
        monkeypatch.setattr(device, "usable_cores", lambda usable=usable: usable)
        assert make_network(threads=threads).threads == max(threads, 1)
    with ThreadPoolExecutor(1, initializer=DeepQNetwork.use_one_thread) as actor:
        assert actor.submit(torch.get_num_threads).result() == 1
        assert torch.get_num_threads() == 2
    monkeypatch.setattr("psutil.cpu_percent", lambda _seconds, percpu: [75.0, 25.0, 0.0, 0.0])
    monkeypatch.setattr(machine, "core_numbers", lambda: {0, 1, 2})
    monkeypatch.setattr(machine, "usable_cores", lambda: 3)
    assert machine.idle_cores(0.2) == 2


def test_screens_come_to_a_device_only_where_they_fit(monkeypatch: Patch) -> None:
    assert HERE.make_screens(100, 1, (84, 84)) is None
    free = {META.torch_device: (3 * 10**9, 8 * 10**9)}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda where: free[where])
    assert META.make_screens(200_000, 1, (84, 84)) is None  # tensors without memory
    fitting = META.make_screens(100_000, 1, (84, 84))
    assert isinstance(fitting, device.DeviceScreens)
    assert fitting._on_device.nbytes == 100_000 * 84 * 84


class Tape:
    """Captures as a CUDA graph does: the work is not done meanwhile, and its result lies at one place."""

    def __init__(self) -> None:
        self.captures = self.replays = self.runs = 0

    def run(self, work: Work, inputs: tuple[Tensor, ...]) -> Tensor:
        self.runs += 1
        return work(*inputs)

    def capture(self, work: Callable[[], Tensor], _gpu: torch.device) -> Callable[[], Tensor]:
        self.captures += 1
        results: list[Tensor] = []

        def replay() -> Tensor:
            self.replays += 1
            result = work()
            if not results:
                results.append(result.clone())
            return results[0].copy_(result)

        return replay


def capturing(monkeypatch: Patch) -> Tape:
    """Let the CPU capture updates, on a tape."""
    tape = Tape()
    monkeypatch.setattr(Device, "captures", True)
    monkeypatch.setattr(device, "on_side_stream", tape.run)
    monkeypatch.setattr(device, "capture_graph", tape.capture)
    return tape


def test_every_call_does_the_work_once_on_its_own_inputs(monkeypatch: Patch) -> None:
    tape, done, results = capturing(monkeypatch), list[float](), list[tuple[Tensor, Tensor]]()

    def work(a: Tensor, b: Tensor) -> Tensor:
        done.append(float(a.sum()))
        return a @ b

    graph = CapturedGraph(work)
    for number in range(WARM_UPS + 4):
        a, b = torch.full((2, 3), float(number)), torch.ones(3, 2)
        results.append((graph(a, b), a @ b))
        a.zero_()  # the caller's inputs are the caller's again
    assert done == [6.0 * number for number in range(WARM_UPS + 4)]
    for result, expected in results:  # none was written over by a later call
        torch.testing.assert_close(result, expected)
    assert (tape.runs, tape.captures, tape.replays) == (WARM_UPS, 1, 4)
    for _ in range(WARM_UPS + 1):  # other shapes are captured anew
        assert graph(torch.ones(5, 3), torch.ones(3, 1)).shape == (5, 1)
    assert tape.captures == 2


def test_one_thread_at_a_time_captures_on_the_tensors_gpu(monkeypatch: Patch) -> None:
    """PyTorch captures on the first GPU unless it is told; a capture waits for the whole GPU."""
    gpu, current, capturing_now, seen = torch.device("cuda", 1), list[Any](), list[Any](), list[Any]()

    @contextmanager
    def inside(stack: list[Any], what: Any = None) -> Iterator[None]:
        stack.append(what)
        stream()
        time.sleep(0.01)
        yield
        stack.pop()

    def stream(*_: Any) -> Any:
        seen.append((*current, len(capturing_now)))
        return SimpleNamespace(wait_stream=lambda _: None)

    doubles = {
        "device": lambda where: inside(current, where), "graph": lambda *_, **__: inside(capturing_now),
        "stream": lambda _: nullcontext(), "CUDAGraph": SimpleNamespace,
        "current_stream": stream, "Stream": stream,
    }  # fmt: skip
    for name, double in doubles.items():
        monkeypatch.setattr(torch.cuda, name, double)
    values: Any = SimpleNamespace(device=gpu, record_stream=lambda _: None)
    device.on_side_stream(lambda given: given, (values,))
    with ThreadPoolExecutor(4) as threads:
        for _ in range(8):
            threads.submit(capture_graph, lambda: values, gpu)
    assert seen == [*[(gpu, 0)] * 3, *[(gpu, 0), (gpu, 1)] * 8]


@pytest.mark.parametrize("settings", [
    {"optimizer": "adadelta", "steps": 4},
    {"optimizer": "adam", "double": True, "dueling": True, "noisy": True, "distributional": "c51"},
    {"munchausen": True, "distributional": "quantile", "layer_norm": True, "datatype": "bfloat16"},
    {"double": True, "batch_norm": True},
], ids=str)  # fmt: skip
def test_a_network_learns_the_same_by_captured_graphs(settings: dict[str, Any], monkeypatch: Patch) -> None:
    settings = {"average_updates": 32, **settings}
    steps = settings.pop("steps", 1)
    plain, tape, taped = make_network(**settings), capturing(monkeypatch), make_network(**settings)
    for seed in range(WARM_UPS + 18):
        batch = make_minibatch(seed, steps=steps)
        assert train(plain, batch) == train(taped, batch)
        for kind in PREDICTIONS:
            one, other = (each.predict(batch.prestates, **kind) for each in (plain, taped))
            assert_same(one, other)
        if seed == WARM_UPS + 3:
            taped.set_state(taped.get_state())  # gives the optimizer new tensors
            plain.update_target_network()
            taped.update_target_network()
    assert tape.captures == 2 * (6 if settings.get("double") else 5)
    assert_same_weights(plain, taped)


def test_a_graph_is_captured_again_with_a_new_rate(monkeypatch: Patch) -> None:
    tape, rates, updates = capturing(monkeypatch), 4, WARM_UPS + 2
    network = make_network(learning_rate_decay_updates=RATES * updates)
    for seed in range(rates * updates):
        train(network, make_minibatch(seed))
    assert tape.captures == rates + 1  # and once the work on targets


NOWHERE = torch.device("meta")
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
def test_an_update_stays_on_the_device(extension: str, datatype: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(dqn, "choose_device", lambda _config: Device(NOWHERE, datatype))
    fetched, ran = list[torch.Size](), set[nn.Module]()

    def fetch(values: Tensor) -> Tensor:
        """Stand in for the copy to the host, which a tensor without values does not have."""
        assert values.device == NOWHERE
        fetched.append(values.shape)
        return torch.zeros(values.shape, dtype=values.dtype)

    def check(module: nn.Module, inputs: Any, output: Any) -> None:
        ran.add(module)
        assert {value.device for value in (*inputs, output) if isinstance(value, Tensor)} == {NOWHERE}, module

    monkeypatch.setattr(Tensor, "cpu", fetch)
    network = make_network(**EXTENSIONS[extension])
    for module in (*network._online.modules(), *network._target.modules()):
        module.register_forward_hook(check)
    for seed in range(3):
        network.update(network.prepare(make_minibatch(seed)))
    network.update_target_network()
    states = make_minibatch(0).prestates
    for options in ({}, *PREDICTIONS):
        assert network.predict(states, **options).shape == (len(states), 5)
    assert len(fetched) == 1 + len(PREDICTIONS)
    assert all(ran & set(each.modules()) for each in (network._online, network._target))
    assert [outcome.errors.shape for outcome in network.take_outcomes()] == [(8,)] * 3
    for tensors in (network._master.tensors(), dict(network._target.state_dict())):
        assert {values.device for values in tensors.values()} == {NOWHERE}


def test_a_rollout_is_kept_and_learned_from_on_the_device(monkeypatch: Patch) -> None:
    monkeypatch.setattr(dqn, "choose_device", lambda _config: Device(NOWHERE, "bfloat16"))
    monkeypatch.setattr(Tensor, "cpu", lambda values: torch.zeros(values.shape, dtype=values.dtype))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (3 * 10**9, 8 * 10**9))
    network, states = make_network(optimizer="radam"), make_minibatch(0).prestates
    with pytest.raises(UserError, match=r"--rollout_steps 100000 need .* 1 GB: lower"):
        network.predict(states, keep=(0, 100_000))
    for t in range(2):
        network.predict(states, keep=(t, 2))
    batch = network.prepare_rollout(np.array([9, 0, 15]), np.zeros(3, np.int64), np.zeros(3, np.float32))
    assert (batch.prestates.shape[0], batch.targets.shape) == (3, (3, 1, 1))
    assert {values.device for values in (batch.prestates, batch.targets, batch.weights)} == {NOWHERE}
    assert batch.targets.dtype == torch.float32
    network.update(batch)
    assert network.updates == 1
