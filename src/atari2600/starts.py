"""How a game begins: the states in which ALE hands a console over, made into tables by `scripts/emulator.py`.

ALE plays some frames of its own before a game begins. What the RIOT's timer holds at power-on decides in some
games in which of a few states they begin; ALE draws it, from the same random numbers in every run.
"""

import base64
import json
import zlib
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atari2600.console import Console
from atari2600.machine import RAM_BYTES, TIA

TABLE = Path(__file__).with_name("starts.json")
TIMERS = 75  # how many different values the timer may have at power-on


@dataclass(frozen=True)
class State:
    """One console at the beginning of a game.

    Attributes:
        cpu, riot, tia: The columns of `Console`'s arrays.
        ram: 128 bytes in hexadecimal.
        pictures: The last two, uint8 [2, rows, 160] of the TIA's colours; zlib, base 64.
    """

    cpu: list[int]
    riot: list[int]
    tia: list[int]
    ram: str
    pictures: str


@dataclass(frozen=True)
class Start:
    """How one game begins.

    Attributes:
        md5: What the ROM is known by.
        controller: `joystick`, or the paddle that the first player turns: `paddle0` or `paddle1`.
        actions: Those of ALE's 18 that do something in this game.
        rows: How many lines of the frame are the picture.
        states: In which it may begin.
        by_timer: For each value of the timer the state, one digit each.
    """

    md5: str
    controller: str
    actions: list[int]
    rows: int
    states: list[State]
    by_timer: str

    def begin(self, console: Console, game: int, palette: NDArray[np.uint8], timer: int) -> None:
        """Begin game number `game`.

        Args:
            console: Plays it.
            game: Its number there.
            palette: uint8 [256], a pixel for each of the TIA's colours.
            timer: What `Timers` drew.
        """
        state = self.states[int(self.by_timer[timer])]
        console.cpu[game] = state.cpu
        console.riot[game] = state.riot
        console.tia[game] = state.tia
        console.tia[game, TIA.COLUP0 : TIA.BLACK + 1] = palette[state.tia[TIA.COLUP0 : TIA.BLACK + 1]]
        console.ram[game] = 0
        console.ram[game, :RAM_BYTES] = np.frombuffer(bytes.fromhex(state.ram), np.uint8)
        console.pictures[game, :, : self.rows] = palette[unpack(state.pictures, self.rows)]


class Timers:
    """The timer's values at power-on, one for each game that is begun, in ALE's order."""

    def __init__(self, begun: int = 0) -> None:
        """Go on after `begun` games."""
        self._random = np.random.MT19937()
        words = _table()["random"]
        key = {"key": np.array(words[:-1], np.uint32), "pos": words[-1]}
        state: Any = {"bit_generator": "MT19937", "state": key}
        self._random.state = state
        self.begun = 0
        while self.begun < begun:
            self.draw()

    def draw(self) -> int:
        """Return the next value, 0 to `TIMERS` - 1."""
        self.begun += 1
        return int(self._random.random_raw() % TIMERS)


def pack(pictures: NDArray[np.uint8]) -> str:
    """Return pictures as text."""
    return base64.b64encode(zlib.compress(pictures.tobytes(), 9)).decode()


def unpack(text: str, rows: int) -> NDArray[np.uint8]:
    """Return the pictures, uint8 [2, rows, 160], of a text that `pack` made."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).reshape(2, rows, 160)


@cache
def _table() -> dict[str, Any]:
    return json.loads(TABLE.read_text()) if TABLE.exists() else {"grey": [], "games": {}}


def grey_levels() -> NDArray[np.uint8]:
    """Return uint8 [256]: the grey level of each of the TIA's colours, as ALE has them."""
    return np.array(_table()["grey"], np.uint8)


def games() -> list[str]:
    """Return the names of all games whose beginning is known."""
    return sorted(_table()["games"])


@cache
def find(game: str) -> Start:
    """Return how `game` begins.

    Raises:
        KeyError: It is not in the table.
    """
    row = dict(_table()["games"][game])
    return Start(**row | {"states": [State(**state) for state in row["states"]]})


def save(grey: list[int], random: list[int], starts: dict[str, Start]) -> None:
    """Write the table; `random` is the Mersenne Twister before the first game, 624 words and the position."""
    rows = {name: asdict(start) for name, start in sorted(starts.items())}
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    head = f'"grey": {json.dumps(grey)},\n"random": {json.dumps(random)}'
    TABLE.write_text(f'{{{head},\n"games": {{\n{text}\n}}}}\n')
    _table.cache_clear()
    find.cache_clear()
