"""Joysticks and paddles, and their states for each action."""

import numpy as np
from numpy.typing import NDArray

from atari2600.console import Console
from atari2600.machine import INPUT, RIOT, TIA
from atari2600.tables import NEVER

# ALE's 18 actions, each with the letters of Fire, Up, Right, Left and Down.
ACTIONS = (
    "",
    "F",
    "U",
    "R",
    "L",
    "D",
    "UR",
    "UL",
    "DR",
    "DL",
    "UF",
    "RF",
    "LF",
    "DF",
    "URF",
    "ULF",
    "DRF",
    "DLF",
)
LINES = {"U": 0x10, "D": 0x20, "L": 0x40, "R": 0x80}  # of port A
# A paddle's resistance in ALE, in ohms: it changes by one step per frame between two limits.
MIDDLE, STEP, LEAST, MOST = 408_823, 23_000, 27_450, 790_196
CYCLES = 1.6e-8 * 1.19e6  # per ohm, to charge the capacitor

_HAS = {letter: np.array([letter in action for action in ACTIONS]) for letter in "FURLD"}
_TURNS = STEP * (_HAS["L"].astype(np.int64) - _HAS["R"])
_BUTTON = np.where(_HAS["F"], 0, 0x80)
_PORT = np.array([0xFF - sum(LINES[letter] for letter in action if letter in LINES) for action in ACTIONS])


class Controllers:
    """The controllers of E consoles, and the positions of the first player's paddles."""

    def __init__(self, console: Console, kind: str) -> None:
        """Connect a controller of `kind`, see `Start.controller`, to every game of `console`."""
        self._console = console
        self._paddle = None if kind == "joystick" else int(kind[-1])
        self.turned = np.full(console.games, MIDDLE)  # [E], ohms of the first player's paddle
        console.inputs[..., INPUT.INPT4] = 0x80
        at = int(MIDDLE * CYCLES) if self._paddle is not None else NEVER
        console.inputs[..., INPUT.PADDLE0 : INPUT.PADDLE1 + 1] = at

    def release(self, games: NDArray[np.bool_]) -> None:
        """Reset the paddles of some `games` [E] to the middle."""
        self.turned[games] = MIDDLE

    def hold(self, actions: NDArray[np.int64], games: NDArray[np.bool_]) -> None:
        """Apply `actions` [E], ALE's codes, to the next frame of the `games` [E] that are played."""
        self.plan(actions[:, np.newaxis], games)
        console, inputs = self._console, self._console.inputs[games, 0]
        console.riot[games, RIOT.SWCHA] = inputs[:, INPUT.SWCHA]
        console.tia[games, TIA.INPT4] = inputs[:, INPUT.INPT4]
        console.tia[games, TIA.PADDLE0 : TIA.PADDLE1 + 1] = inputs[:, INPUT.PADDLE0 : INPUT.PADDLE1 + 1]

    def plan(self, actions: NDArray[np.int64], games: NDArray[np.bool_]) -> None:
        """Set `Console.inputs` for the next frames from `actions` [E, frames], ALE's codes.

        Only the paddles of the `games` [E] that are played turn.
        """
        inputs = self._console.inputs
        frames = actions.shape[1]
        if self._paddle is None:
            inputs[:, :frames, INPUT.SWCHA] = _PORT[actions]
            inputs[:, :frames, INPUT.INPT4] = _BUTTON[actions]
            return
        inputs[:, :frames, INPUT.SWCHA] = np.where(_HAS["F"][actions], 0xFF - (0x80 >> self._paddle), 0xFF)
        step = _TURNS[actions]
        for frame in range(frames):
            turned = np.clip(self.turned + step[:, frame], LEAST, MOST)
            self.turned = np.where(games, turned, self.turned)
            inputs[:, frame, INPUT.PADDLE0 + self._paddle] = self.turned * CYCLES
