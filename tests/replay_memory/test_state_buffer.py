"""The current states, event by event."""

import numpy as np
import pytest

from simple_dqn.replay_memory import StateBuffer
from simple_dqn.types import Step


def step(number: int, *, terminal: bool = False, reset: bool = False, start: bool = False) -> Step:
    """Return a step of one game whose screen is one pixel of grey level `number`."""
    return Step(
        screens=np.full((1, 1, 1), number, np.uint8),
        actions=np.zeros(1, np.int64),
        rewards=np.zeros(1, np.float32),
        terminals=np.array([terminal]),
        truncations=np.array([reset and not terminal]),
        resets=np.array([reset]),
        starts=np.array([start]),
    )


def shown(buffer: StateBuffer) -> list[int]:
    return [int(level) for level in buffer.states[0, :, 0, 0]]


def test_game_from_start_to_start() -> None:
    buffer = StateBuffer(1, 3, (1, 1))
    expected = [
        (step(1, start=True), [0, 0, 1]),
        (step(2), [0, 1, 2]),
        (step(3), [1, 2, 3]),
        (step(4), [2, 3, 4]),
        (step(5, terminal=True), [0, 0, 5]),  # a lost life: the next episode begins on its screen
        (step(6), [0, 5, 6]),
        (step(7, terminal=True, reset=True), [5, 6, 7]),  # game over: nobody acts on this state
        (step(8, start=True), [0, 0, 8]),
        (step(9, reset=True), [0, 8, 9]),  # cut off
        (step(10, start=True), [0, 0, 10]),
    ]
    for now, state in expected:
        buffer.update(now)
        assert shown(buffer) == state


def test_states_are_for_reading() -> None:
    buffer = StateBuffer(1, 3, (1, 1))
    with pytest.raises(ValueError, match="read-only"):
        buffer.states[0] = 1


def test_saved_and_restored_buffer_goes_on_as_the_first() -> None:
    first, second = StateBuffer(1, 3, (1, 1)), StateBuffer(1, 3, (1, 1))
    first.update(step(1, start=True))
    second.set_state(first.get_state())
    for buffer in (first, second):
        buffer.update(step(2))
    assert shown(second) == shown(first) == [0, 1, 2]
