"""E consoles with the same cartridge; the kernel plays one of them in each thread."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from atari2600 import tables
from atari2600.bus import COLLISIONS, DONE, LOG_FULL
from atari2600.cartridge import load_rom, with_the_next_two
from atari2600.cpu6507 import execute
from atari2600.machine import BUS, CPU, LOG_LENGTH, MOST_ROWS, RAM_SHARE, RIOT, ROW_WORDS, TIA, Line, Machine, Tia
from atari2600.tia import drain, open_line, see

LONG_AGO = -60_000  # colour clocks, a frame
FRAME_INSTRUCTIONS = 25_000  # more than any frame has: what a program gets that does not end its frame


@wp.func
def rebase(m: Machine, g: int) -> None:
    """Let the clocks count from the line in which the frame has ended."""
    past = m.cpu[g, CPU.CYCLES] // 76 * 76
    m.cpu[g, CPU.CYCLES] = m.cpu[g, CPU.CYCLES] - past
    m.riot[g, RIOT.SET_AT] = m.riot[g, RIOT.SET_AT] - past
    m.riot[g, RIOT.READ_AT] = m.riot[g, RIOT.READ_AT] - past
    m.tia[g, TIA.DUMPED_AT] = m.tia[g, TIA.DUMPED_AT] - past
    m.tia[g, TIA.MOVED_AT] = m.tia[g, TIA.MOVED_AT] - past * 3
    if m.tia[g, TIA.SYNC_UNTIL] != tables.NEVER:
        m.tia[g, TIA.SYNC_UNTIL] = m.tia[g, TIA.SYNC_UNTIL] - past * 3
    m.tia[g, TIA.CLOCK] = m.cpu[g, CPU.CYCLES] * 3
    m.tia[g, TIA.COMB] = wp.where(m.tia[g, TIA.COMB] >= m.tia[g, TIA.ROWS], 0, -1)


@wp.func
def run(m: wp.ref[Machine], g: int, instructions: int) -> None:
    """Play to the end of the frame."""
    t, line = m.tias[g], Line()
    open_line(t, line)
    m.bus[g, BUS.GROUNDED] = t.vblank & 128
    m.bus[g, BUS.SEEN] = -1
    m.bus[g, BUS.WRITTEN] = 0
    left = int(instructions)
    status = int(LOG_FULL)
    while left > 0 and status != DONE:
        status = execute(m, g, left)
        left = m.bus[g, BUS.LEFT]
        drain(m, g, t, line)
        if status == COLLISIONS:
            see(m, g, t, line, m.bus[g, BUS.SEEN] * 3)
            m.tia[g, TIA.COLLISIONS] = t.collisions
    see(m, g, t, line, m.bus[g, BUS.WRITTEN] * 3)
    t.sync_until = m.tia[g, TIA.SYNC_UNTIL]  # these two are the 6507's
    t.dumped_at = m.tia[g, TIA.DUMPED_AT]
    m.tias[g] = t


@wp.kernel(enable_backward=False)
def play_frame(m: Machine, instructions: int) -> None:
    """Play each game to the end of its frame, but for `instructions` instructions at most."""
    g = wp.tid()
    if m.cpu[g, CPU.PLAYS]:
        m.cpu[g, CPU.RUNNING] = 1
        m.tia[g, TIA.BUFFER] = 1 - m.tia[g, TIA.BUFFER]
        run(m, g, instructions)
        if m.cpu[g, CPU.RUNNING] == 0:
            rebase(m, g)


class Console:
    """E consoles, as arrays that anyone may read and write between two frames.

    Attributes:
        cpu, riot, tia: int32 [E, columns], numbered by `CPU`, `RIOT` and `TIA`.
        ram: uint8 [E, RAM_SHARE], the 128 bytes at $80 first.
        pictures: uint8 [E, 2, MOST_ROWS, 160], what `palette` makes of the colours of the last two frames.
            `TIA.BUFFER` says which is the last; a frame that is short leaves the rest of its own as it was.
    """

    def __init__(
        self, rom: bytes, games: int, palette: NDArray[np.uint8] | None = None, device: str = "cpu"
    ) -> None:
        """Switch on `games` consoles.

        Args:
            rom: A cartridge of 2, 4 or 8 KiB.
            games: How many.
            palette: uint8 [256]: a pixel for each of the TIA's colours; None: the colours themselves.
            device: Warp's name of it. Arrays of a GPU are copied to and from it at each frame.

        Raises:
            ValueError: There is no such cartridge.
        """
        banks, kind = load_rom(rom)
        colours = np.arange(256) & 0xFE if palette is None else palette
        self.games = games
        self._machine, self._device = Machine(), device
        self._mirrors: list[tuple[NDArray[Any], Any]] = []  # on a GPU: what is copied, here and there
        self._install(banks, colours)
        self.cpu = self._state("cpu", (games, CPU.COUNT), np.int32)
        self.riot = self._state("riot", (games, RIOT.COUNT), np.int32)
        self.tia = self._state("tia", (games, TIA.COUNT), np.int32)
        self._machine.tias = wp.array(ptr=self._machine.tia.ptr, dtype=Tia, shape=(games,), device=device)
        self.ram = self._state("ram", (games * RAM_SHARE,), np.uint8).reshape(games, RAM_SHARE)
        screen = self._state("screen", (games * 2 * MOST_ROWS * ROW_WORDS,), np.uint64)
        self.pictures = screen.view(np.uint8).reshape(games, 2, MOST_ROWS, 8 * ROW_WORDS)
        self._state("bus", (games, BUS.COUNT), np.int32)
        self._state("log", (games, LOG_LENGTH), np.uint32)
        self._switch_on(kind, int(colours[0]))
        # A recorded launch takes 5 microseconds in place of 25.
        self._command = wp.launch(
            play_frame, games, [self._machine, FRAME_INSTRUCTIONS], device=device, record_cmd=True
        )

    def _install(self, banks: NDArray[np.uint8], colours: NDArray[Any]) -> None:
        """Put the tables and the cartridge where the kernel finds them."""
        for name, values in {
            "patterns": tables.patterns(),
            "copies": tables.copies(),
            "reversed": tables.reversed_bits(),
            "palette": colours.astype(np.int32),
            "code": with_the_next_two(banks),
        }.items():
            setattr(self._machine, name, wp.array(values, device=self._device))

    def _state(self, name: str, shape: tuple[int, ...], kind: type) -> NDArray[Any]:
        """Return the array `name` of the consoles' state, which the kernel reads and writes too."""
        there = wp.array(np.zeros(shape, kind), ndim=len(shape), device=self._device)
        setattr(self._machine, name, there)
        here: NDArray[Any] = there.numpy()  # on the CPU the same memory
        if self._device != "cpu":
            self._mirrors.append((here, there))
        return here

    def _switch_on(self, kind: int, black: int) -> None:
        self.cpu[:, CPU.CARTRIDGE] = kind
        self.cpu[:, CPU.PLAYS] = 1
        self.riot[:, RIOT.SWCHA] = 0xFF
        self.riot[:, RIOT.SWCHB] = 0x3F
        self.tia[:, TIA.BLACK] = black
        self.tia[:, TIA.COMBS] = 1
        self.tia[:, TIA.COMB] = -1
        self.tia[:, TIA.DRAWS] = 1
        self.tia[:, TIA.FIRST_LINE], self.tia[:, TIA.ROWS] = 34, 210
        self.tia[:, TIA.SYNC_UNTIL] = tables.NEVER
        self.tia[:, TIA.MOVED_AT] = LONG_AGO
        self.tia[:, TIA.PADDLE0 : TIA.PADDLE0 + 4] = tables.NEVER
        self.tia[:, TIA.INPT4 : TIA.INPT5 + 1] = 0x80

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return copies of all that decides how the games go on."""
        return {name: getattr(self, name).copy() for name in ("cpu", "riot", "tia", "ram", "pictures")}

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `get_state` returned."""
        for name, values in state.items():
            getattr(self, name)[...] = values

    def execute(self, instructions: int = FRAME_INSTRUCTIONS) -> None:
        """Play each game whose `CPU.PLAYS` is 1 to the end of its frame, but for `instructions` at most."""
        for here, there in self._mirrors:
            there.assign(here)
        self._command.set_param_at_index(1, instructions)
        self._command.launch()
        for here, there in self._mirrors:
            here[...] = there.numpy()
