"""What a minibatch says of each transition, where screens and the rest show the experience's number."""

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from simple_dqn.config import MemoryConfig
from simple_dqn.device import Device, DeviceScreens
from simple_dqn.replay import ReplayMemory, rows_for
from simple_dqn.types import Ids, Minibatch

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
    """Return the samples of `minibatch` with their numbers."""
    both = (np.asarray(states, int) for states in (minibatch.prestates, minibatch.poststates))
    pre, post = (states[..., 0, 0] * 256 + states[..., 0, 1] for states in both)
    columns = (minibatch.actions, pre, minibatch.rewards, post, minibatch.terminals, minibatch.discounts)
    for number, *values in zip(*(column.tolist() for column in columns), strict=True):
        yield number, Transition(*values)


def transitions_of(memory: ReplayMemory, numbers: Ids) -> Minibatch:
    """Return the transitions of `memory` with these `numbers`."""
    sampler: Any = SimpleNamespace(draw=lambda *_: (numbers, np.ones(len(numbers), np.float32)))
    return memory.sample(len(numbers), sampler=sampler)
