"""The number of CPU threads: a rule, the machine it looks at, and what depends on it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from simple_dqn import device, machine
from simple_dqn.device import CPU, Device, use_threads
from simple_dqn.dqn import DeepQNetwork

HERE, GPU = Device(CPU, "float32"), Device(torch.device("cuda", 0), "float32")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


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


def test_one_core_needs_no_look_at_the_others(
    make_network: Callable[..., DeepQNetwork],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(device, "idle_cores", lambda: pytest.fail("this takes time"))
    for usable, threads in ((1, 0), (8, 2)):
        monkeypatch.setattr(device, "usable_cores", lambda usable=usable: usable)
        assert make_network(threads=threads).threads == max(threads, 1)
        assert caplog.messages[-1] == f"the network uses {max(threads, 1)} of {usable} cores"


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


def test_one_thread_may_compute_on_one_core_and_others_on_two() -> None:
    torch.set_num_threads(2)
    with ThreadPoolExecutor(1, initializer=DeepQNetwork.use_one_thread) as actor:
        assert actor.submit(torch.get_num_threads).result() == 1
        assert torch.get_num_threads() == 2
