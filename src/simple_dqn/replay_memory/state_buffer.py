"""The current states of E games, which the agent acts on."""

import numpy as np

from simple_dqn.types import State, States, Step


class StateBuffer:
    """The S latest screens of each of E games, without those from before its episode.

    They show what the prestate of the next transition in the replay memory will show, bit for
    bit; the rule stands at the top of `ring.py`.
    """

    def __init__(self, games: int, history_length: int, screen_shape: tuple[int, int]) -> None:
        self._states = np.zeros((games, history_length, *screen_shape), np.uint8)
        self._readable = self._states.view()
        self._readable.flags.writeable = False

    @property
    def states(self) -> States:
        """The current states, uint8 [E, S, H, W]: a view to read, valid until the next `update`."""
        return self._readable

    def update(self, step: Step) -> None:
        """Append the screens of `step`, and forget those before where an episode begins.

        An episode begins with a game, and after a terminal: a lost life ends an episode on the
        same screen on which the next begins. A game that ended keeps its last state to be looked
        at, since the next step starts another.
        """
        states = self._states
        states[:, :-1] = states[:, 1:]
        states[:, -1] = step.screens
        begins = step.starts | (step.terminals & ~step.resets)
        if begins.any():
            states[begins, :-1] = 0

    def get_state(self) -> State:
        """Return all that is needed to go on: a view, valid until the next `update`."""
        return {"states": self._readable}

    def set_state(self, state: State) -> None:
        """Go on from what `get_state` of a buffer of the same shape returned."""
        self._states[...] = state["states"]
