"""The device: whether there is one, its threads, and screens on it; the CPU stands in for a GPU."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from simple_dqn import device, machine
from simple_dqn.config import BackendConfig, MemoryConfig
from simple_dqn.device import CPU, Device, DeviceScreens, use_threads
from simple_dqn.dqn import DeepQNetwork
from simple_dqn.errors import UserError
from simple_dqn.random_streams import stream
from simple_dqn.replay import ReplayMemory, rows_for
from simple_dqn.types import Step
from tests.contents import contents_of
from tests.network.updates import make_network

HERE, GPU, META = (Device(torch.device(*name), "float32") for name in (("cpu",), ("cuda", 0), ("meta",)))
SHAPE = (9, 7)


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


@pytest.mark.parametrize(
    ("where", "asked", "usable", "idle", "spare", "used"),
    [
        (HERE, 0, 2, 2, 0, 2),
        (HERE, 0, 2, 1, 0, 1),  # another program computes on one core
        (HERE, 0, 2, 0, 0, 1),
        (HERE, 0, 4, 4, 1, 3),  # an actor or a sampler of this program will
        (HERE, 0, 4, 2, 3, 1),
        (HERE, 0, 64, 60, 0, 8),
        (HERE, 3, 2, 0, 1, 3),
        (GPU, 0, 16, 16, 0, 1),
        (GPU, 4, 16, 16, 0, 4),
    ],
)
def test_as_many_threads_as_cores_are_idle(
    where: Device, asked: int, usable: int, idle: int, spare: int, used: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "usable_cores", lambda: usable)
    monkeypatch.setattr(device, "idle_cores", lambda: idle)
    assert use_threads(asked, where, spare) == used
    assert torch.get_num_threads() == used


def test_one_core_needs_no_look_at_the_others_and_threads_may_have_other_numbers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(device, "idle_cores", lambda: pytest.fail("this takes time"))
    for usable, threads in ((1, 0), (8, 2)):
        monkeypatch.setattr(device, "usable_cores", lambda usable=usable: usable)
        assert make_network(threads=threads).threads == max(threads, 1)
        assert caplog.messages[-1] == f"the network uses {max(threads, 1)} of {usable} cores"
    with ThreadPoolExecutor(1, initializer=DeepQNetwork.use_one_thread) as actor:
        assert actor.submit(torch.get_num_threads).result() == 1
        assert torch.get_num_threads() == 2


def test_a_core_that_is_busy_for_most_of_the_time_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([{0: 5.0, 1: 7.0, 2: 1.0}, {0: 5.15, 1: 7.05, 2: 1.0}])
    monkeypatch.setattr(machine, "busy_seconds", lambda: next(looks))
    monkeypatch.setattr(machine, "usable_cores", lambda: 3)
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert machine.idle_cores(0.2) == 2


@pytest.mark.parametrize(
    ("limits", "usable"),
    [
        ({}, 4),
        ({"": "max 100000"}, 4),
        ({"outer": "250000 100000"}, 2),  # two and a half cores' worth of time
        ({"outer": "300000 100000", "outer/inner": "50000 100000"}, 1),
        ({"other": "100000 100000"}, 4),
    ],
)
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


def memories(games: int, size: int, **settings: Any) -> tuple[ReplayMemory, ReplayMemory]:
    """Return a memory on the host, and one whose screens lie on a device, fed and seeded alike."""
    config = MemoryConfig(**{"replay_size": size, "history_length": 4, **settings})
    on_device = DeviceScreens(rows_for(config, games), games, SHAPE, Device(CPU, "float32"))
    return (
        ReplayMemory(config, games, SHAPE, 0.99, stream(1, "sampling")),
        ReplayMemory(config, games, SHAPE, 0.99, stream(1, "sampling"), on_device),
    )


def feed(memory: ReplayMemory, games: int, steps: int) -> None:
    rng = np.random.default_rng(7)
    for number in range(steps):
        resets = rng.random(games) < 0.1
        memory.add(
            Step(
                screens=rng.integers(1, 256, (games, *SHAPE), dtype=np.uint8),
                actions=rng.integers(0, 3, games),
                rewards=rng.random(games, np.float32),
                terminals=resets | (rng.random(games) < 0.1),
                truncations=np.zeros(games, np.bool_),
                resets=resets,
                starts=np.full(games, number == 0) | (rng.random(games) < 0.1),
            )
        )


@pytest.mark.parametrize(("games", "steps"), [(1, 30), (1, 150), (3, 20), (3, 70)])
@pytest.mark.parametrize(
    "settings", [{}, {"n_step": 3, "sampler": "prioritized"}, {"history_length": 2}], ids=str
)
def test_minibatches_are_the_same(games: int, steps: int, settings: dict[str, Any]) -> None:
    host, device = memories(games, 99, **settings)
    for memory in (host, device):
        feed(memory, games, steps)
    for _ in range(20):
        ours, theirs = host.sample(16), device.sample(16)
        for name in ("prestates", "actions", "rewards", "poststates", "terminals", "discounts"):
            np.testing.assert_array_equal(getattr(ours, name), np.asarray(getattr(theirs, name)), name)
        assert isinstance(theirs.prestates, torch.Tensor)
    np.testing.assert_array_equal(host.sample_states(5), device.sample_states(5))
    assert host.nbytes == device.nbytes


def test_what_is_held_passes_from_one_to_the_other() -> None:
    host, device = memories(2, 60)
    feed(device, 2, 25)  # the ring is not full yet: its first row is the oldest
    host.set_state(device.get_state(), [contents_of(device)])
    back = memories(2, 60)[1]
    back.set_state(host.get_state(), [contents_of(host)])
    for _ in range(5):
        ours, theirs = host.sample(8), back.sample(8)
        np.testing.assert_array_equal(ours.prestates, np.asarray(theirs.prestates))
        np.testing.assert_array_equal(ours.rewards, theirs.rewards)


def test_screens_come_to_a_device_only_where_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert HERE.make_screens(100, 1, (84, 84)) is None
    free = {META.torch_device: (3 * 10**9, 8 * 10**9)}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda where: free[where])
    assert META.make_screens(200_000, 1, (84, 84)) is None  # tensors without memory
    fitting = META.make_screens(100_000, 1, (84, 84))
    assert fitting is not None
    assert fitting.nbytes == 100_000 * 84 * 84
