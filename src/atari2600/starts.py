"""The initial states of games: those after ALE's reset, in a table that `scripts/emulator.py` makes.

ALE plays some frames before a game begins. In some games the state after them depends on the RIOT's timer at
power-on, which ALE draws from the same random numbers in every run.
"""

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atari2600.console import Console
from atari2600.machine import CPU, GAME, RAM_BYTES, RIOT, TIA

TABLE = Path(__file__).with_name("starts.json")
TIMERS, LEAST_TIMER = 75, 25  # possible values of the timer at power-on, and the least
WAITING = 60  # frames that ALE plays before it holds the reset switch
# The console's switches and the button in a frame of a reset: nothing, reset, select, the button.
HELD = {"-": (0x3F, 0x80), "R": (0x3E, 0x80), "S": (0x3D, 0x80), "B": (0x3F, 0)}


@dataclass(frozen=True)
class State:
    """The state of a console at the start of a game.

    Attributes:
        cpu, riot, tia: Rows of `Console`'s arrays.
        ram: 128 bytes in hexadecimal; 256 with a Superchip.
        pictures: The last two frames, uint8 [2, rows, 160] of TIA colors, compressed by `pack`.
    """

    cpu: list[int]
    riot: list[int]
    tia: list[int]
    ram: str
    pictures: str


@dataclass(frozen=True)
class Start:
    """The start of one game.

    Attributes:
        md5: The MD5 of the ROM.
        controller: `joystick`, or `joystick1` at the second port, or the first player's paddle: `paddle0` or
            `paddle1`.
        actions: The minimal action set, as codes of ALE's 18 actions.
        rows: The number of lines in the picture.
        states: The possible initial states.
        by_timer: For each value of the timer, the index of the state.
        reset: Empty: every game begins in one of `states`. Else only the first does, and the others depend on
            RAM before; it has a letter of `HELD` for each frame after ALE's `WAITING`.
    """

    md5: str
    controller: str
    actions: list[int]
    rows: int
    states: list[State]
    by_timer: list[int]
    reset: str = ""

    def begin(self, console: Console, game: int, timer: int, first: bool = True) -> None:
        """Set one game of a console to its initial state.

        Args:
            console: The console.
            game: The index of the game there.
            timer: The value that `timers` drew.
            first: Whether it is the first game since the console was switched on.
        """
        state = self.states[self.by_timer[timer]]
        ram = np.frombuffer(bytes.fromhex(state.ram), np.uint8)
        if self.reset and not first:
            ram = console.ram[game].copy()
        console.cpu[game] = state.cpu
        console.riot[game] = state.riot
        console.tia[game] = state.tia
        console.tia[game, TIA.COLUP0 : TIA.BLACK + 1] = console.palette[state.tia[TIA.COLUP0 : TIA.BLACK + 1]]
        console.ram[game] = 0
        console.ram[game, : len(ram)] = ram
        pictures = np.frombuffer(unpack(state.pictures), np.uint8)
        console.pictures[game, :, : self.rows] = console.palette[pictures].reshape(2, self.rows, 160)
        if self.reset and not first:
            self._reset(console, game, timer)
        console.seen[game, :RAM_BYTES] = console.ram[game, :RAM_BYTES]
        console.game[game] = 0
        console.game[game, GAME.LIVES] = console.rules.first_lives
        console.game[game, GAME.SCORE] = console.rules.first_points

    def _reset(self, console: Console, game: int, timer: int) -> None:
        """Play what ALE does before a game: the program from its start, and at last the reset switch."""
        kept = [*range(TIA.FIRST_LINE, TIA.ROWS + 1), TIA.COMBS, *range(TIA.PADDLE0, TIA.PADDLE3 + 1)]
        tia = console.tia[game].copy()
        console.switch_on(game)
        console.tia[game, kept] = tia[kept]
        console.cpu[game, CPU.P] = 0x24  # bit 5, and interrupts disabled
        console.riot[game, [RIOT.VALUE, RIOT.SHIFT]] = LEAST_TIMER + timer, 6
        plays = console.cpu[:, CPU.PLAYS].copy()
        console.cpu[:, CPU.PLAYS] = np.arange(console.games) == game
        for held in "-" * WAITING + self.reset:
            console.riot[game, RIOT.SWCHB], console.tia[game, TIA.INPT4] = HELD[held]
            console.execute()
        console.riot[game, RIOT.SWCHB], console.tia[game, TIA.INPT4] = HELD["-"]
        console.cpu[:, CPU.PLAYS] = plays
        console.cpu[game, CPU.PLAYS] = 1


def timers() -> Iterator[int]:
    """Yield the timer's value at power-on of each new game, from 0 to `TIMERS` - 1, as ALE draws it."""
    random, words = np.random.MT19937(), _table()["random"]
    key = {"key": np.array(words[:-1], np.uint32), "pos": words[-1]}
    state: Any = {"bit_generator": "MT19937", "state": key}
    random.state = state
    while True:
        yield int(random.random_raw() % TIMERS)


def pack(data: bytes) -> str:
    """Return `data` as text: zlib, then base 64."""
    return base64.b64encode(zlib.compress(data, 9)).decode()


def unpack(text: str) -> bytes:
    """Return what `pack` made `text` of."""
    return zlib.decompress(base64.b64decode(text))


@cache
def _table() -> dict[str, Any]:
    return json.loads(TABLE.read_text())


def gray_levels() -> NDArray[np.uint8]:
    """Return ALE's gray level of each TIA color, uint8 [256]."""
    return np.array(_table()["gray"], np.uint8)


@cache
def find(game: str) -> Start:
    """Return the start of `game`, or raise KeyError if it is not in the table."""
    row = dict(_table()["games"][game])
    return Start(**row | {"states": [State(**state) for state in json.loads(unpack(row["states"]))]})


def save(gray: list[int], random: list[int], starts: dict[str, Start]) -> None:
    """Write the table; `random` is the Mersenne Twister before the first game, 624 words and the position."""
    rows = {name: asdict(start) for name, start in sorted(starts.items())}
    for row in rows.values():  # the states of a game are alike
        row["states"] = pack(json.dumps(row["states"]).encode())
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    head = f'"gray": {json.dumps(gray)},\n"random": {json.dumps(random)}'
    TABLE.write_text(f'{{{head},\n"games": {{\n{text}\n}}}}\n')
    _table.cache_clear()
    find.cache_clear()
