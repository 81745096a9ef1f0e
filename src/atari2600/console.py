"""E consoles with the same cartridge; each thread of the kernel plays one of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from atari2600 import tables
from atari2600.cartridge import BANK_BYTES, load_rom, with_the_next_two
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

LONG_AGO = -60_000  # color clocks, a frame
FRAME_INSTRUCTIONS = 25_000  # more than any frame has: the limit for a program that never ends its frame


class Console:
    """E consoles, as arrays that callers may read and write between two frames.

    Attributes:
        cpu, riot, tia: int32 [E, columns], numbered by `CPU`, `RIOT` and `TIA`.
        ram: uint8 [E, RAM_SHARE], the 128 bytes at $80 first.
        seen: uint8 [E, 2 * RAM_BYTES], RAM after the last frame, and after the one before.
        game: int32 [E, GAME.COUNT], score, lives, end and the last call's reward.
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
            device: Warp's name of the device. For a GPU, the arrays are copied there and back at each call.
            frames: The largest number of frames per call of `play`.
            rules: The rules of the game, by which `game` stands.

        Raises:
            ValueError: The cartridge is not supported.
        """
        cartridge = load_rom(rom)
        colours = np.arange(256) & 0xFE if palette is None else palette
        self.games, self.rules = games, rules
        self._machine, self._device = Machine(), device
        self._mirrors: list[tuple[NDArray[Any], Any]] = []  # on a GPU: pairs of arrays, here and there
        self._install(cartridge.banks, colours)
        self.cpu = self._state("cpu", (games, CPU.COUNT), np.int32)
        self.riot = self._state("riot", (games, RIOT.COUNT), np.int32)
        self.tia = self._state("tia", (games, TIA.COUNT), np.int32)
        self._machine.tias = wp.array(ptr=self._machine.tia.ptr, dtype=Tia, shape=(games,), device=device)
        self.ram = self._state("ram", (games * RAM_SHARE,), np.uint8).reshape(games, RAM_SHARE)
        screen = self._state("screen", (games * 2 * MOST_ROWS * ROW_WORDS,), np.uint64)
        self.pictures = screen.view(np.uint8).reshape(games, 2, MOST_ROWS, 8 * ROW_WORDS)
        self._bus = self._state("bus", (games, BUS.COUNT), np.int32)
        self._state("held", (games, 64), np.int16)
        self.inputs = self._state("inputs", (games, frames, INPUT.COUNT), np.int32)
        self._state("sums", (games, SUM.COUNT), np.int32)
        self.game = self._state("game", (games, GAME.COUNT), np.int32)
        self.seen = self._state("seen", (games, 2 * RAM_BYTES), np.uint8)
        self._state("log", (games, LOG_LENGTH), np.uint32)
        self._cartridge = cartridge
        self.switch_on(slice(None), int(colours[0]))
        # A recorded launch takes 5 microseconds instead of 25.
        self._command = wp.launch(
            play_frames, games, [self._machine, FRAME_INSTRUCTIONS, 0, 1], device=device, record_cmd=True
        )

    def _install(self, banks: NDArray[np.uint8], colours: NDArray[Any]) -> None:
        """Pass the tables, the rules and the cartridge to the kernel."""
        rules, offsets, options = table(self.rules)
        for name, values in {
            "patterns": tables.patterns(),
            "copies": tables.copies(),
            "reversed": tables.reversed_bits(),
            "palette": colours.astype(np.int32),
            "code": with_the_next_two(banks),
            "rules": rules,
            "offsets": offsets,
            "options": options,
        }.items():
            setattr(self._machine, name, wp.array(values, device=self._device))

    def _state(self, name: str, shape: tuple[int, ...], kind: type) -> NDArray[Any]:
        """Return the array `name` of the consoles' state, which the kernel reads and writes, too."""
        there = wp.array(np.zeros(shape, kind), ndim=len(shape), device=self._device)
        setattr(self._machine, name, there)
        here: NDArray[Any] = there.numpy()  # on the CPU the same memory
        if self._device != "cpu":
            self._mirrors.append((here, there))
        return here

    def switch_on(self, games: int | slice, black: int) -> None:
        """Switch on some games, which keep their RAM; `black` is the pixel of color 0."""
        for chip in (self.cpu, self.riot, self.tia):
            chip[games] = 0
        bank = self._cartridge.bank * BANK_BYTES
        start = self._cartridge.banks.reshape(-1)[bank + BANK_BYTES - 4 :][:2].tolist()
        self.cpu[games, CPU.PC] = start[0] | start[1] << 8
        self.cpu[games, CPU.SP] = 0xFF
        self.cpu[games, CPU.CARTRIDGE], self.cpu[games, CPU.BANK] = self._cartridge.kind, bank
        self.cpu[games, CPU.PLAYS] = 1
        self.riot[games, RIOT.SWCHA], self.riot[games, RIOT.SWCHB] = 0xFF, 0x3F
        self.tia[games, TIA.BLACK] = black
        self.tia[games, TIA.COMBS] = self.tia[games, TIA.DRAWS] = 1
        self.tia[games, TIA.COMB] = -1
        self.tia[games, TIA.FIRST_LINE], self.tia[games, TIA.ROWS] = 34, 210
        self.tia[games, TIA.SYNC_UNTIL] = tables.NEVER
        self.tia[games, TIA.MOVED_AT] = LONG_AGO
        self.tia[games, TIA.PADDLE0 : TIA.PADDLE0 + 4] = tables.NEVER
        self.tia[games, TIA.INPT4 : TIA.INPT5 + 1] = 0x80

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return copies of everything that determines how the games continue."""
        names = ("cpu", "riot", "tia", "ram", "seen", "game", "pictures")
        return {name: getattr(self, name).copy() for name in names}

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `get_state` returned."""
        for name, values in state.items():
            getattr(self, name)[...] = values

    def execute(self, instructions: int = FRAME_INSTRUCTIONS) -> None:
        """Play each game whose `CPU.PLAYS` is 1 to the end of its frame, for at most `instructions`."""
        self._bus[:, BUS.FRAMES] = 1
        self._launch(instructions, follow_inputs=0, drawn=1)

    def play(self, frames: NDArray[np.int64]) -> NDArray[np.int32]:
        """Play `frames` [E] frames of each game whose `CPU.PLAYS` is 1, or fewer if the game ends.

        `inputs` int32 [E, frames, INPUT.COUNT] holds the state of the controllers. Only the last two frames
        are drawn.

        Returns:
            The number of frames played, int32 [E]; undefined for games whose `CPU.PLAYS` is 0.
        """
        plays = self.cpu[:, CPU.PLAYS].copy()
        whole = self.cpu, self.riot, self.tia, self.ram, self.seen, self.game
        before = [array.copy() for array in whole]
        self._bus[:, BUS.FRAMES] = frames
        self._launch(FRAME_INSTRUCTIONS, follow_inputs=1, drawn=2)
        again = (self._bus[:, BUS.UNDRAWN] & plays).astype(np.bool_) & (frames > 2)
        if again.any():  # the rows that a short frame leaves unchanged were drawn two frames ago
            for array, old in zip(whole, before, strict=True):
                array[again] = old[again]
            self.cpu[:, CPU.PLAYS] = again
            self._launch(FRAME_INSTRUCTIONS, follow_inputs=1, drawn=len(self.inputs[0]))
            self.cpu[:, CPU.PLAYS] = plays
        return self._bus[:, BUS.FRAMES].copy()

    def _launch(self, instructions: int, follow_inputs: int, drawn: int) -> None:
        for here, there in self._mirrors:
            there.assign(here)
        for place, value in enumerate((instructions, follow_inputs, drawn), 1):
            self._command.set_param_at_index(place, value)
        self._command.launch()
        for here, there in self._mirrors:
            here[...] = there.numpy()
