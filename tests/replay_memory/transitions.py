"""A replay memory's experience and transitions, where screens and the rest show the experience's number."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from simple_dqn.config import MemoryConfig
from simple_dqn.device import Device, DeviceScreens
from simple_dqn.replay import ReplayMemory, on_host, rows_for
from simple_dqn.types import Experience, Ids, Minibatch

DISCOUNT = 0.9


def make_memory(
    games: int, size: int, shape: tuple[int, int], kind: str = "none", seed: int = 0, **settings: Any
) -> ReplayMemory:
    """Return a memory whose screens are plain (none), compressed (lz4), or on the device cpu or cuda."""
    compression = "lz4" if kind == "lz4" else "none"
    config, screens = MemoryConfig(replay_size=size, replay_compression=compression, **settings), None
    if kind in ("cpu", "cuda"):
        device = Device(torch.device(kind), "float32")
        screens = DeviceScreens(rows_for(config, games), games, shape, device)
    return ReplayMemory(config, games, shape, DISCOUNT, np.random.default_rng(seed), screens)


@dataclass
class Transition:
    prestate: list[int]  # numbers of the screens
    rewards: list[float]
    poststate: list[int]
    terminal: bool
    discount: float


def as_transitions(minibatch: Minibatch) -> Iterator[tuple[int, Transition]]:
    both = (np.asarray(states, int) for states in (minibatch.prestates, minibatch.poststates))
    pre, post = (states[..., 0, 0] * 256 + states[..., 0, 1] for states in both)
    columns = (minibatch.actions, pre, minibatch.rewards, post, minibatch.terminals, minibatch.discounts)
    for number, *values in zip(*(column.tolist() for column in columns), strict=True):
        yield number, Transition(*values)


def transitions_of(memory: ReplayMemory, numbers: Ids) -> Minibatch:
    sampler: Any = SimpleNamespace(draw=lambda *_: (numbers, np.ones(len(numbers), np.float32)))
    return memory.sample(len(numbers), sampler=sampler)


def contents(memory: ReplayMemory) -> Experience:
    """Return a copy of what `memory` holds, by rows of its ring: oldest first until the ring is full."""
    ring, screens = memory._ring, memory._screens
    held, indices = ring.held, np.arange(ring.held * ring.games)
    shown = np.array(on_host(screens.gather(indices[:, np.newaxis], None)))
    return Experience(
        screens=shown.reshape(held, ring.games, *memory._screen_shape),
        actions=memory._actions[:held].copy(),
        rewards=memory._rewards[:held].copy(),
        terminals=ring.terminals[:held].copy(),
        starts=ring.starts[:held].copy(),
    )


def oldest_first(memory: ReplayMemory) -> Experience:
    """Return what `memory` holds as a log of it would have it."""
    held, position = contents(memory), memory._ring.written % memory._ring.rows
    return Experience(*(np.roll(getattr(held, field.name), -position, axis=0) for field in fields(held)))
