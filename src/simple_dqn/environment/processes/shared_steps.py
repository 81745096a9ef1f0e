"""A step of E games in memory that several processes see."""

import mmap
import os
import sys
import tempfile
from typing import Any

import numpy as np

from simple_dqn.types import Actions, Step

# The arrays of a `Step` in the order in which they lie in memory, the widest type first.
TYPES: dict[str, type[np.generic]] = {
    "actions": np.int64,
    "rewards": np.float32,
    "terminals": np.bool_,
    "truncations": np.bool_,
    "resets": np.bool_,
    "starts": np.bool_,
    "screens": np.uint8,
}


class SharedSteps:
    """The step that is on its way from some processes to another; they agree elsewhere on when to look.

    The memory has no name, so nothing is left behind however its processes end.
    """

    def __init__(self, descriptor: int, games: int, screen_shape: tuple[int, int]) -> None:
        """See the memory of the open file `descriptor` as a step of `games` games.

        Args:
            descriptor: Of the file that `open_memory` returned; it may be closed afterwards.
            games: How many games there are in all processes together, E.
            screen_shape: Height and width of a screen in pixels, (H, W).
        """
        shapes = {name: (games, *screen_shape) if name == "screens" else (games,) for name in TYPES}
        sizes = {name: int(np.prod(shapes[name])) * np.dtype(kind).itemsize for name, kind in TYPES.items()}
        os.ftruncate(descriptor, sum(sizes.values()))
        memory = mmap.mmap(descriptor, sum(sizes.values()))
        self._arrays: dict[str, np.ndarray[Any, Any]] = {}
        offset = 0
        for name, kind in TYPES.items():
            self._arrays[name] = np.ndarray(shapes[name], kind, memory, offset)
            offset += sizes[name]

    def write_actions(self, actions: Actions) -> None:
        """Write the actions int64 [E] of a step that begins."""
        self._arrays["actions"][:] = actions

    def actions(self, games: slice) -> Actions:
        """Return a view of the actions of some of the games."""
        return self._arrays["actions"][games]

    def write(self, games: slice, step: Step) -> None:
        """Write what came of a step in some of the games."""
        for name, array in self._arrays.items():
            array[games] = getattr(step, name)

    def read(self) -> Step:
        """Return a copy of the step of all games."""
        return Step(**{name: array.copy() for name, array in self._arrays.items()})

    def close(self) -> None:
        """Give the memory back."""
        self._arrays.clear()


def open_memory() -> int:
    """Return the descriptor of an open file in memory that has no name."""
    if sys.platform == "linux":
        return os.memfd_create("simple_dqn games")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
