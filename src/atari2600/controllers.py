"""Joysticks, paddles and the actions that move them."""

import numpy as np
from numpy.typing import NDArray

from atari2600.console import Console
from atari2600.machine import RIOT, TIA

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
# A paddle's resistance as ALE has it: one step each frame that it is turned, between the two ends.
MIDDLE, STEP, LEAST, MOST = 408_823, 23_000, 27_450, 790_196
CYCLES = 1.6e-8 * 1.19e6  # that the capacitor takes, for each ohm

_HAS = {letter: np.array([letter in action for action in ACTIONS]) for letter in "FURLD"}
_PORT = np.array([0xFF - sum(LINES[letter] for letter in action if letter in LINES) for action in ACTIONS])


class Controllers:
    """What is plugged into E consoles, and how far the first player's paddles are turned."""

    def __init__(self, console: Console, kind: str) -> None:
        """Plug `kind`, as `Start.controller` names it, into all of `console`."""
        self._console = console
        self._paddle = None if kind == "joystick" else int(kind[-1])
        self.turned = np.full(console.games, MIDDLE)  # [E], ohms of the first player's paddle

    def release(self) -> None:
        """Put the paddles back to their middle."""
        self.turned[:] = MIDDLE

    def hold(self, actions: NDArray[np.int64], games: NDArray[np.bool_]) -> None:
        """Hold `actions` [E], ALE's codes, for the next frame of those `games` [E] that are played."""
        riot, tia = self._console.riot, self._console.tia
        if self._paddle is None:
            riot[games, RIOT.SWCHA] = _PORT[actions[games]]
            tia[games, TIA.INPT4] = np.where(_HAS["F"][actions[games]], 0, 0x80)
            return
        step = STEP * (_HAS["L"][actions].astype(np.int64) - _HAS["R"][actions])
        self.turned = np.where(games, np.clip(self.turned + step, LEAST, MOST), self.turned)
        fire = 0x80 >> self._paddle
        riot[games, RIOT.SWCHA] = np.where(_HAS["F"][actions[games]], 0xFF - fire, 0xFF)
        self.charge(games)

    def charge(self, games: NDArray[np.bool_]) -> None:
        """Tell the consoles for how long the paddles' capacitors charge."""
        assert self._paddle is not None
        tia = self._console.tia
        tia[games, TIA.PADDLE0 + self._paddle] = (self.turned[games] * CYCLES).astype(np.int32)
        tia[games, TIA.PADDLE0 + 1 - self._paddle] = int(MIDDLE * CYCLES)
