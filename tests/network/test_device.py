"""The device: whether there is one, its threads, and screens on it; the CPU stands in for a GPU."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from simple_dqn import device, machine
from simple_dqn.config import BackendConfig
from simple_dqn.device import Device, use_threads
from simple_dqn.dqn import DeepQNetwork
from simple_dqn.errors import UserError
from tests.network.updates import make_network

HERE, GPU, META = (Device(torch.device(*name), "float32") for name in (("cpu",), ("cuda", 0), ("meta",)))


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_without_a_gpu_the_cpu_is_used_and_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
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
    where: Device, asked: int, usable: int, idle: int, spare: int, used: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "usable_cores", lambda: usable)
    monkeypatch.setattr(device, "idle_cores", lambda: idle)
    assert use_threads(asked, where, spare) == used
    assert torch.get_num_threads() == used


def test_one_core_needs_no_look_at_the_others_and_threads_may_have_other_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device, "idle_cores", lambda: pytest.fail("this takes time"))
    for usable, threads in ((1, 0), (8, 2)):
        monkeypatch.setattr(device, "usable_cores", lambda usable=usable: usable)
        assert make_network(threads=threads).threads == max(threads, 1)
    with ThreadPoolExecutor(1, initializer=DeepQNetwork.use_one_thread) as actor:
        assert actor.submit(torch.get_num_threads).result() == 1
        assert torch.get_num_threads() == 2


def test_a_core_that_is_busy_for_most_of_the_time_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([{0: 5.0, 1: 7.0, 2: 1.0}, {0: 5.15, 1: 7.05, 2: 1.0}])
    monkeypatch.setattr(machine, "busy_seconds", lambda: next(looks))
    monkeypatch.setattr(machine, "usable_cores", lambda: 3)
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert machine.idle_cores(0.2) == 2


@pytest.mark.parametrize(("limits", "usable"), [
    ({"": "max 100000"}, 4),
    ({"outer": "250000 100000"}, 2),  # two and a half cores' worth of time
    ({"outer": "300000 100000", "outer/inner": "50000 100000"}, 1),
    ({"other": "100000 100000"}, 4),
])  # fmt: skip
def test_a_container_may_have_fewer_cores_than_it_sees(
    limits: dict[str, str], usable: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    membership, groups = tmp_path / "cgroup", tmp_path / "groups"
    membership.write_text("0::/outer/inner\n")
    for name, limit in limits.items():
        (groups / name).mkdir(parents=True, exist_ok=True)
        (groups / name / "cpu.max").write_text(limit + "\n")
    cores = machine.control_group_cores
    monkeypatch.setattr(machine, "control_group_cores", lambda: cores(membership, groups))
    monkeypatch.setattr(machine, "core_numbers", lambda: {0, 1, 2, 3})
    assert machine.usable_cores() == usable


def test_screens_come_to_a_device_only_where_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert HERE.make_screens(100, 1, (84, 84)) is None
    free = {META.torch_device: (3 * 10**9, 8 * 10**9)}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda where: free[where])
    assert META.make_screens(200_000, 1, (84, 84)) is None  # tensors without memory
    fitting = META.make_screens(100_000, 1, (84, 84))
    assert fitting is not None
    assert fitting.nbytes == 100_000 * 84 * 84
