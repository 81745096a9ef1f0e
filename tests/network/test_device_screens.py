"""Screens on the network's device against those in the host's memory; the CPU stands in for the GPU."""

from typing import Any

import numpy as np
import pytest
import torch

from simple_dqn.config import MemoryConfig
from simple_dqn.device import CPU, Device, DeviceScreens
from simple_dqn.random_streams import stream
from simple_dqn.replay import ReplayMemory, rows_for
from simple_dqn.types import Step
from tests.contents import contents_of

SHAPE = (9, 7)


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
    feed(device, 2, 25)  # not yet round the ring: what lies first is the oldest
    host.set_state(device.get_state(), [contents_of(device)])
    back = memories(2, 60)[1]
    back.set_state(host.get_state(), [contents_of(host)])
    for _ in range(5):
        ours, theirs = host.sample(8), back.sample(8)
        np.testing.assert_array_equal(ours.prestates, np.asarray(theirs.prestates))
        np.testing.assert_array_equal(ours.rewards, theirs.rewards)


def test_screens_come_to_a_device_only_where_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Device(CPU, "float32").make_screens(100, 1, (84, 84)) is None
    there: dict[str, Any] = {}

    def free(device: torch.device) -> tuple[int, int]:
        there["device"] = device
        return 3 * 10**9, 8 * 10**9

    monkeypatch.setattr(torch.cuda, "mem_get_info", free)
    meta = torch.device("meta")  # tensors without memory
    assert Device(meta, "float32").make_screens(200_000, 1, (84, 84)) is None
    fitting = Device(meta, "float32").make_screens(100_000, 1, (84, 84))
    assert fitting is not None
    assert fitting.nbytes == 100_000 * 84 * 84
    assert there["device"] == meta
