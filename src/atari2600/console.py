"""E consoles with the same cartridge; each thread of the kernel plays one of them."""

from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from atari2600 import tables
from atari2600.cartridge import BANK_BYTES, FE, load_rom, with_the_next_two
from atari2600.frame import play_frames
from atari2600.machine import (
    BUS,
    CPU,
    GAME,
    INPUT,
    LOG_LENGTH,
    MOST_ROWS,
    RAM_BYTES,
    RAM_SHARE,
    RIOT,
    ROW_WORDS,
    TIA,
    Machine,
    Tia,
)
from atari2600.rules import NO_RULES, SUM, Rules, table

STATE = ("cpu", "riot", "tia", "game", "ram", "seen")  # the arrays of a state, without pictures
LONG_AGO = -60_000  # color clocks, a frame
FRAME_INSTRUCTIONS = 25_000  # more than any frame has: the limit for a program that never ends its frame


class Console:
    """E consoles, as arrays that callers may read and write between two frames, on the CPU.

    Attributes:
        cpu, riot, tia: int32 [E, columns], numbered by `CPU`, `RIOT` and `TIA`.
        ram: uint8 [E, RAM_SHARE], the 128 bytes at $80 first.
        seen: uint8 [E, 2 * RAM_BYTES], RAM after the last frame, and after the one before.
        game: int32 [E, GAME.COUNT], score, lives, end and the last call's reward.
        machine: The same arrays on the device.
        palette: The pixel value of each TIA color, [256].
        pictures: uint8 [E, 2, MOST_ROWS, 160], the last two frames in the values of `palette`. `TIA.BUFFER`
            is the index of the latest. A short frame leaves the rest of its picture unchanged.
    """

    def __init__(
        self,
        rom: bytes,
        games: int,
        palette: NDArray[np.uint8] | None = None,
        device: str = "cpu",
        frames: int = 1,
        rules: Rules = NO_RULES,
    ) -> None:
        """Switch on `games` consoles.

        Args:
            rom: A cartridge of 2, 4, 8 or 16 KiB.
            games: The number of games, E.
            palette: uint8 [256], the pixel value of each TIA color; None: the colors themselves.
            device: Warp's name of the device. A GPU has the arrays of `machine`; see `upload`.
            frames: The largest number of frames that `inputs` holds.
            rules: The rules of the game, by which `game` stands.

        Raises:
            ValueError: The cartridge is not supported.
        """
        cartridge = load_rom(rom)
        self.palette = np.arange(256) & 0xFE if palette is None else palette
        self.games, self.rules = games, rules
        self.machine, self.device = Machine(), device
        self._mirrors: list[tuple[NDArray[Any], Any]] = []  # on a GPU: pairs of arrays, here and there
        self._install(cartridge.banks)
        self.cpu = self._state("cpu", (games, CPU.COUNT), np.int32)
        self.riot = self._state("riot", (games, RIOT.COUNT), np.int32)
        self.tia = self._state("tia", (games, TIA.COUNT), np.int32)
        self.machine.tias = wp.array(ptr=self.machine.tia.ptr, dtype=Tia, shape=(games,), device=device)
        self.ram = self._state("ram", (games * RAM_SHARE,), np.uint8).reshape(games, RAM_SHARE)
        screen = self._state("screen", (games * 2 * MOST_ROWS * ROW_WORDS,), np.uint64)
        self.pictures = screen.view(np.uint8).reshape(games, 2, MOST_ROWS, 8 * ROW_WORDS)
        self._bus = self._state("bus", (games, BUS.COUNT), np.int32)
        self._state("held", (games, 64), np.int16)
        self.inputs = self._state("inputs", (games, frames, INPUT.COUNT), np.int32)
        self._state("sums", (games, SUM.COUNT), np.int32)
        self.game = self._state("game", (games, GAME.COUNT), np.int32)
        self.seen = self._state("seen", (games, 2 * RAM_BYTES), np.uint8)
        self._state("log", (games * LOG_LENGTH,), np.int32)
        self._cartridge = cartridge
        self.switch_on(slice(None))
        if device == "cpu":  # see `execute`; a recorded launch takes 5 microseconds instead of 25
            arguments = [self.machine, FRAME_INSTRUCTIONS, 0, 1]
            self._command = wp.launch(play_frames, games, arguments, device=device, record_cmd=True)

    def _install(self, banks: NDArray[np.uint8]) -> None:
        """Pass the tables, the rules and the cartridge to the kernel."""
        rules, offsets, options = table(self.rules)
        for name, values in {
            "patterns": tables.patterns().view(np.int32),
            "copies": tables.copies(),
            "reversed": tables.reversed_bits(),
            "palette": self.palette.astype(np.int32),
            "code": with_the_next_two(banks),
            "rules": rules,
            "offsets": offsets,
            "options": options,
        }.items():
            setattr(self.machine, name, wp.array(values, device=self.device))

    def _state(self, name: str, shape: tuple[int, ...], kind: type) -> NDArray[Any]:
        """Return the array `name` of the consoles' state, which the kernel reads and writes, too."""
        there = wp.array(np.zeros(shape, kind), ndim=len(shape), device=self.device)
        setattr(self.machine, name, there)
        here: NDArray[Any] = there.numpy()  # on the CPU the same memory
        if self.device != "cpu":
            self._mirrors.append((here, there))
        return here

    def switch_on(self, games: int | slice) -> None:
        """Switch on some games, which keep their RAM."""
        for chip in (self.cpu, self.riot, self.tia):
            chip[games] = 0
        bank = self._cartridge.bank * BANK_BYTES
        vector = bank + (0x2FFC if self._cartridge.kind == FE else 0x0FFC)  # FE's first bank comes last
        low, high = self._cartridge.banks[vector : vector + 2].tolist()
        self.cpu[games, CPU.PC] = low | high << 8
        self.cpu[games, CPU.SP] = 0xFF
        self.cpu[games, CPU.CARTRIDGE], self.cpu[games, CPU.BANK] = self._cartridge.kind, bank
        self.cpu[games, CPU.PLAYS] = 1
        self.riot[games, RIOT.SWCHA], self.riot[games, RIOT.SWCHB] = 0xFF, 0x3F
        self.tia[games, TIA.BLACK] = self.palette[0]
        self.tia[games, TIA.COMBS] = self.tia[games, TIA.DRAWS] = 1
        self.tia[games, TIA.COMB] = -1
        self.tia[games, TIA.FIRST_LINE], self.tia[games, TIA.ROWS] = 34, 210
        self.tia[games, TIA.SYNC_UNTIL] = tables.NEVER
        self.tia[games, TIA.MOVED_AT] = LONG_AGO
        self.tia[games, TIA.PADDLE0 : TIA.PADDLE0 + 4] = tables.NEVER
        self.tia[games, TIA.INPT4 : TIA.INPT5 + 1] = 0x80

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return copies of everything that determines how the games continue."""
        return {name: getattr(self, name).copy() for name in (*STATE, "pictures")}

    def execute(self, instructions: int = FRAME_INSTRUCTIONS) -> None:
        """Play each game whose `CPU.PLAYS` is 1 to the end of its frame, for at most `instructions`.

        The consoles must be on the CPU.
        """
        self._bus[:, BUS.FRAMES] = 1
        self._command.set_param_at_index(1, instructions)
        self._command.launch()

    def upload(self) -> None:
        """Copy the arrays to those of `machine`; on the CPU they are the same."""
        for here, there in self._mirrors:
            there.assign(here)
