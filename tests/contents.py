"""The experience in a replay memory, for comparisons."""

from dataclasses import fields

import numpy as np

from simple_dqn.replay import ReplayMemory, on_host
from simple_dqn.types import Experience


def contents_of(memory: ReplayMemory) -> Experience:
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
    held, position = contents_of(memory), memory._ring.written % memory._ring.rows
    return Experience(*(np.roll(getattr(held, field.name), -position, axis=0) for field in fields(held)))
