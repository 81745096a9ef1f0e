"""Joysticks and paddles, and their states for each action."""

import numpy as np
from numpy.typing import NDArray

from atari2600.console import Console
from atari2600.machine import INPUT, RIOT, TIA
from atari2600.tables import NEVER

# ALE's 18 actions, each with the letters of Fire, Up, Right, Left and Down.
ACTIONS = (
    "", "F", "U", "R", "L", "D", "UR", "UL", "DR", "DL", "UF", "RF", "LF", "DF", "URF", "ULF", "DRF", "DLF",
)  # fmt: skip
LINES = {"U": 0x10, "D": 0x20, "L": 0x40, "R": 0x80}  # of port A
# A paddle's resistance in ALE, in ohms: it changes by one step per frame between two limits.
MIDDLE, STEP, LEAST, MOST = 408_823, 23_000, 27_450, 790_196
CYCLES = 1.6e-8 * 1.19e6  # per ohm, to charge the capacitor

_HAS = {letter: np.array([letter in action for action in ACTIONS]) for letter in "FURLD"}
TURNS = STEP * (_HAS["L"].astype(np.int64) - _HAS["R"])  # [18], ohms that a paddle turns in a frame
_PORT = np.array([0xFF - sum(LINES[letter] for letter in action if letter in LINES) for action in ACTIONS])


def paddle_of(controller: str) -> int:
    """Return the number of the paddle that `Start.controller` names, or -1: a joystick."""
    return -1 if controller.startswith("joystick") else int(controller[-1])


def port(controller: str) -> NDArray[np.int64]:
    """Return port A for each action, int64 [18]."""
    if (paddle := paddle_of(controller)) >= 0:
        return np.where(_HAS["F"], 0xFF - (0x80 >> paddle), 0xFF)
    return _PORT if controller == "joystick" else _PORT >> 4 | 0xF0


def buttons(controller: str) -> NDArray[np.int64]:
    """Return INPT4 and INPT5 for each action, int64 [2, 18]."""
    found = np.full((2, len(ACTIONS)), 0x80)
    if paddle_of(controller) < 0:
        found[int(controller == "joystick1")] = np.where(_HAS["F"], 0, 0x80)
    return found


class Controllers:
    """The controllers of E consoles, and the positions of the first player's paddles."""

    def __init__(self, console: Console, kind: str) -> None:
        """Connect a controller of `kind`, see `Start.controller`, to every game of `console`."""
        self._console = console
        self._paddle = paddle_of(kind)
        self._port, self._buttons = port(kind), buttons(kind)
        self.turned = np.full(console.games, MIDDLE)  # [E], ohms of the first player's paddle
        console.inputs[..., INPUT.INPT4 : INPUT.INPT5 + 1] = 0x80
        at = int(MIDDLE * CYCLES) if self._paddle >= 0 else NEVER
        console.inputs[..., INPUT.PADDLE0 : INPUT.PADDLE1 + 1] = at

    def hold(self, actions: NDArray[np.int64], games: NDArray[np.bool_]) -> None:
        """Apply `actions` [E], ALE's codes, to the next frame of the `games` [E] that are played."""
        console, held = self._console, actions[games]
        console.riot[games, RIOT.SWCHA] = self._port[held]
        if self._paddle < 0:
            console.tia[games, TIA.INPT4 : TIA.INPT5 + 1] = self._buttons[:, held].T
            return
        console.tia[games, TIA.PADDLE0 : TIA.PADDLE1 + 1] = int(MIDDLE * CYCLES)
        self.turned[games] = np.clip(self.turned[games] + TURNS[held], LEAST, MOST)
        console.tia[games, TIA.PADDLE0 + self._paddle] = self.turned[games] * CYCLES

    def idle(self, frames: int) -> None:
        """Play `frames` frames of every game without pressing a button."""
        every = np.ones(self._console.games, np.bool_)
        for _ in range(frames):
            self.hold(np.zeros(self._console.games, np.int64), every)
            self._console.execute()
