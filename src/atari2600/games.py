"""The addresses in RAM of each game's score and lives, and the condition for its end.

The addresses are from published RAM maps, and count from $80. The rules were found by playing: rewards, lives
and ends equal ALE's in every frame that `scripts/emulator.py` and the tests have compared.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ram: TypeAlias = NDArray[np.int64]  # [..., 128]
Values: TypeAlias = NDArray[np.int64]  # [...]
Mask: TypeAlias = NDArray[np.bool_]  # [...]


def decimal(*addresses: int) -> Callable[[Ram], Values]:
    """Return a function that reads a number with two decimal digits per byte, the highest byte first."""

    def read(ram: Ram) -> Values:
        number = np.zeros(ram.shape[:-1], np.int64)
        for address in addresses:
            byte = ram[..., address]
            number = number * 100 + (byte >> 4) * 10 + (byte & 15)
        return number

    return read


def byte(address: int, more: int = 0) -> Callable[[Ram], Values]:
    """Return a function that reads a byte and adds `more`, modulo 256."""
    return lambda ram: (ram[..., address] + more) & 0xFF


@dataclass(frozen=True)
class Condition:
    """A condition on bytes of RAM.

    Attributes:
        pairs: Up to two alternatives, each of one or two (address, bits, value) that must all match: the byte
            at the address, with only these bits of it, has the value.
    """

    pairs: tuple[tuple[tuple[int, int, int], ...], ...]

    def __call__(self, ram: Ram) -> Mask:
        """Return whether the condition holds, for each `ram`."""
        return np.logical_or.reduce(
            [
                np.logical_and.reduce([(ram[..., at] & bits) == value for at, bits, value in pair])
                for pair in self.pairs
            ]
        )

    def __or__(self, other: "Condition") -> "Condition":
        """Return the condition that one of the two holds."""
        return Condition(self.pairs + other.pairs)

    def table(self) -> NDArray[np.int32]:
        """Return int32 [4, 3]: two (address, bits, value) per alternative; the value -1 never matches."""
        rows = [row for pair in self.pairs for row in (pair[0], pair[-1])]
        return np.array(rows + [(0, 0xFF, -1)] * (4 - len(rows)), np.int32)


def holds(**values: int) -> Condition:
    """Return the condition that all these bytes have these values, such as `holds(ram73=0)`."""
    return Condition((tuple((int(name.removeprefix("ram")), 0xFF, value) for name, value in values.items()),))


def bit(address: int, number: int) -> Condition:
    """Return the condition that bit `number` of a byte is set."""
    return Condition((((address, 1 << number, 1 << number),),))


def _pong_score(ram: Ram) -> Values:
    return ram[..., 14] - ram[..., 13]


def _enduro_score(ram: Ram) -> Values:
    """Return the cars passed: the goal is 200 on the first day and 300 on the others; RAM has those left."""
    day, left = ram[..., 45], decimal(44, 43)(ram)
    return np.where(day == 0, 0, np.where(day == 1, 200, 300 * day - 100) - left)


def _never(ram: Ram) -> Mask:
    return np.zeros(ram.shape[:-1], np.bool_)


def _no_lives(ram: Ram) -> Values:
    return np.zeros(ram.shape[:-1], np.int64)


@dataclass(frozen=True)
class Game:
    """One game's rules.

    Attributes:
        score: Game points; a reward is the difference between two frames.
        over: Whether the game is over; the number of lives is then 0.
        lives: The number of lives left before the end.
        first_lives: The number of lives before the first frame.
        unsure: Whether the byte of the lives is invalid for a while, so that their last number counts.
    """

    score: Callable[[Ram], Values]
    over: Condition
    lives: Callable[[Ram], Values] = _no_lives
    first_lives: int = 0
    unsure: Callable[[Ram], Mask] = _never


GAMES = {
    "asterix": Game(decimal(94, 95, 96), holds(ram71=1, ram83=1), byte(83), 3),
    # While the ship explodes, the byte of the lives changes back and forth.
    "beam_rider": Game(decimal(11, 10, 9), holds(ram5=255), byte(5, 1), 3, unsure=holds(ram12=5)),
    "breakout": Game(decimal(76, 77), holds(ram57=0), byte(57), 5),
    "enduro": Game(_enduro_score, holds(ram47=255)),
    "freeway": Game(decimal(103), holds(ram22=1)),
    "ms_pacman": Game(decimal(122, 121, 120), holds(ram123=0, ram39=83), byte(123, 1), 3),
    "pong": Game(_pong_score, holds(ram13=21) | holds(ram14=21)),
    # In the first frame, RAM is not initialised yet.
    "qbert": Game(decimal(89, 90, 91), holds(ram8=254), byte(8, 2), 4, unsure=holds(ram1=0)),
    "seaquest": Game(decimal(56, 57, 58), holds(ram35=255), byte(59, 1), 4),
    # The second condition: the invaders have landed.
    "space_invaders": Game(decimal(102, 104), holds(ram73=0) | bit(24, 7), byte(73), 3),
}
