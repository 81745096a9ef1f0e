"""What a minibatch says of each transition, where screens and the rest show the experience's number."""

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from simple_dqn.replay import ReplayMemory
from simple_dqn.types import Ids, Minibatch


@dataclass
class Transition:
    prestate: list[int]  # numbers of the screens
    rewards: list[float]
    poststate: list[int]
    terminal: bool
    discount: float


def as_transitions(minibatch: Minibatch) -> Iterator[tuple[int, Transition]]:
    """Return the samples of `minibatch` with their numbers."""
    pre, post = (
        states[..., 0, 0].astype(int) * 256 + states[..., 0, 1]
        for states in (minibatch.prestates, minibatch.poststates)
    )
    columns = (minibatch.actions, pre, minibatch.rewards, post, minibatch.terminals, minibatch.discounts)
    for number, *values in zip(*(column.tolist() for column in columns), strict=True):
        yield number, Transition(*values)


def transitions_of(memory: ReplayMemory, numbers: Ids) -> Minibatch:
    """Return the transitions of `memory` with these `numbers`."""
    sampler: Any = SimpleNamespace(draw=lambda *_: (numbers, np.ones(len(numbers), np.float32)))
    return memory.sample(len(numbers), sampler=sampler)
