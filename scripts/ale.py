"""ALE as a black box: saved states, read as states of our consoles, and programs in place of the game's."""

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from ale_py import Action, ALEInterface, ALEState, LoggerMode
from ale_py.roms import get_rom_path
from numpy.typing import NDArray

from atari2600 import starts
from atari2600.console import Console
from atari2600.machine import CPU, RIOT, TIA
from atari2600.starts import Start, State
from atari2600.tables import NEVER, reversed_bits

COLORS = np.arange(256).astype(np.uint8) & np.uint8(0xFE)
TRUE = 0xFAB1FAB2  # how ALE writes booleans into its saved states
FALSE = 0xBAD1BAD2 - 2**32
# STA WSYNC; INX; TXA; LSR; STA VSYNC; BVC to the start: frames of eight lines that change nothing in RAM
LOOP = (0x85, 2, 0xE8, 0x8A, 0x4A, 0x85, 0, 0x50, 0xF7)
# Games that keep RAM in a reset, and what ALE holds in its frames; see `starts.HELD`.
RESETS = {
    "ice_hockey": 12 * "R",
    "kung_fu_master": 8 * "R",
    "surround": 4 * "R" + "SS-" + 8 * "R",
    "time_pilot": 8 * "R",
    "yars_revenge": 4 * "R" + 7 * "SS-" + 8 * "R" + "B",
}

Numbers: TypeAlias = NDArray[np.int64]  # [256], a number for each value of a byte
Values: TypeAlias = NDArray[np.bool_]  # [256], whether a value of a byte is meant


def open_ale(game: str) -> ALEInterface:
    """Return ALE at the start of `game`."""
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setInt("random_seed", 1)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(str(get_rom_path(game)))
    return ale


class Saved:
    """A state saved by ALE: chapters of 32-bit numbers, each preceded by its name."""

    def __init__(self, data: bytes) -> None:
        """Read `data`, the result of `ALEState.serialize`."""
        self.data = data

    def offset(self, chapter: str) -> int:
        """Return the position of the numbers of a chapter."""
        title = struct.pack("<i", len(chapter)) + chapter.encode()
        return self.data.index(title) + len(title)

    def numbers(self, chapter: str, count: int) -> list[int]:
        """Return the first `count` numbers of a chapter."""
        return list(struct.unpack_from(f"<{count}i", self.data, self.offset(chapter)))

    def cartridge(self) -> tuple[str, int, list[int]]:
        """Return the kind of the cartridge, its bank and the bytes of its RAM."""
        at = self.data.rindex(b"Cartridge")
        (length,) = struct.unpack_from("<i", self.data, at - 4)
        kind = self.data[at + len("Cartridge") : at + length].decode()
        if kind == "E0":  # the number of slots, then the bank of 1K in each
            first, second, third = self.numbers("CartridgeE0", 4)[1:]
            return kind, first | second << 3 | third << 6, []
        if kind.endswith("SC"):
            bank, count, *ram = self.numbers("Cartridge" + kind, 130)
            assert count == 128, count
            return kind, bank, ram
        return kind, 0 if kind == "FE" else self.numbers("Cartridge" + kind, 1)[0], []


def _true(number: int) -> int:
    return int(number & 0xFFFFFFFF == TRUE)


def _read_cpu(cpu: NDArray[np.int32], saved: list[int], cycles: int, bank: int) -> None:
    flags = (_true(saved[6]) << 7, _true(saved[7]) << 6, _true(saved[9]) << 3, _true(saved[10]) << 2)
    cpu[[CPU.A, CPU.X, CPU.Y, CPU.SP]] = saved[:4]
    cpu[CPU.PC] = saved[5]
    cpu[CPU.P] = sum(flags) | (1 - _true(saved[11])) << 1 | _true(saved[12])
    cpu[CPU.CYCLES] = cycles
    cpu[CPU.BANK] = 4096 * bank if cpu[CPU.CARTRIDGE] else 0


def _read_riot(riot: NDArray[np.int32], saved: list[int], past: int) -> None:
    riot[[RIOT.VALUE, RIOT.SHIFT]] = saved[129:131]
    riot[[RIOT.SET_AT, RIOT.READ_AT]] = np.array(saved[131:133]) - past
    riot[RIOT.CLEARED] = _true(saved[133])
    riot[RIOT.DDRA] = saved[134]


def _read_tia(tia: NDArray[np.int32], saved: list[int], past: int) -> None:
    tia[TIA.SYNC_UNTIL] = NEVER if saved[7] > 0x70000000 else saved[7] - saved[0]
    tia[[TIA.VBLANK, TIA.NUSIZ0, TIA.NUSIZ1]] = saved[10:13]
    tia[TIA.COLUP0 : TIA.COLUBK + 1] = [color & 0xFE for color in saved[13:17]]
    tia[TIA.CTRLPF] = tia[TIA.REFLECTED] = saved[17]
    tia[[TIA.REFP0, TIA.REFP1]] = [8 * _true(bit) for bit in saved[19:21]]
    tia[TIA.PF : TIA.OLD1 + 1] = saved[21:26]
    tia[TIA.PF] = saved[21] & 0xFF00F | reversed_bits()[saved[21] >> 4 & 0xFF] >> 2 << 4  # PF1's D7 is first
    tia[TIA.ENAM0 : TIA.OLDBL + 1] = [2 * _true(bit) for bit in saved[26:30]]
    tia[TIA.HMP0 : TIA.HMP0 + 5] = [motion & 15 for motion in saved[30:35]]
    tia[TIA.VDELP0 : TIA.VDELBL + 1] = [_true(bit) for bit in saved[35:38]]
    tia[[TIA.RESMP0, TIA.RESMP1]] = [2 * _true(bit) for bit in saved[38:40]]
    hits = [saved[40] >> bit & 1 for bit in range(15)]  # D7, then D6, of CXM0P to CXPPMM; CXBLPF has D7 alone
    lines = [*range(1, 12, 2), 13, 15, *range(0, 12, 2), 14]
    ordered = [*hits[0:12:2], *hits[12:14], *hits[1:12:2], hits[14]]
    tia[TIA.COLLISIONS] = sum(hit << line for hit, line in zip(ordered, lines, strict=True))
    tia[TIA.POS0 : TIA.POS0 + 5] = saved[41:46]
    tia[TIA.DUMPED_AT] = saved[53] - past
    tia[TIA.FIRST_LINE] = (saved[1] - saved[0]) // 228


def state_of(ale: ALEInterface, console: Console) -> State:
    """Return the state of `ale` at the start of a game, by way of a console; this plays one frame."""
    saved = Saved(ale.cloneState().serialize())
    screen = ale.getScreen().copy()
    system, processor = saved.numbers("System", 1)[0], saved.numbers("M6502Low", 14)
    riot, tia = saved.numbers("M6532", 137), saved.numbers("TIA", 54)
    # ALE counts from the start of the last frame; here a frame starts with the line in which ALE's does.
    clocks = system * 3 - tia[0]
    finished = processor[13] & 1
    cycles = (clocks % 228 if finished else clocks) // 3
    _, bank, chip = saved.cartridge()
    _read_cpu(console.cpu[0], processor, cycles, bank)
    _read_riot(console.riot[0], riot, system - cycles)
    _read_tia(console.tia[0], tia, system - cycles)
    console.tia[0, TIA.CLOCK] = cycles * 3 if finished else tia[3] - tia[0]
    console.tia[0, TIA.ROWS] = len(screen)
    ale.act(0)  # where this frame draws nothing, it shows the picture before the last
    return State(
        cpu=console.cpu[0].tolist(), riot=console.riot[0].tolist(), tia=console.tia[0].tolist(),
        ram=bytes(riot[1:129] + chip).hex(),
        pictures=starts.pack(np.stack([screen, ale.getScreen()]).tobytes()),
    )  # fmt: skip


def alike(state: State) -> State:
    """Return `state` without times of old events, which no longer matter."""
    riot, tia = list(state.riot), list(state.tia)
    riot[RIOT.READ_AT] = tia[TIA.DUMPED_AT] = 0
    return replace(state, riot=riot, tia=tia)


def twister() -> list[int]:
    """Return the state of ALE's Mersenne Twister before the first game, which draws one number."""
    saved = Saved(open_ale("pong").cloneState().serialize())
    at = saved.offset("System") + 4
    (length,) = struct.unpack_from("<i", saved.data, at)
    *words, position = (int(word) for word in saved.data[at + 4 : at + 4 + length].split())
    return [*words, position - 1]


def start_of(game: str, whole: bool) -> Start:
    """Return the start of a game without its combs.

    The game is started again until every timer value has occurred, or only once if not `whole`.
    """
    ale, rom = open_ale(game), Path(str(get_rom_path(game))).read_bytes()
    rows, timers, console = ale.getScreenDims()[0], starts.timers(), Console(rom, 1)
    states: list[State] = []
    found: dict[int, int] = {}
    timer = next(timers)
    while len(found) < (starts.TIMERS if whole else 1):
        state = state_of(ale, console)
        found[timer] = next(
            (i for i, known in enumerate(states) if alike(known) == alike(state)), len(states)
        )
        if found[timer] == len(states):
            states.append(state)
        ale.reset_game()
        timer = next(timers)
    return Start(
        md5=hashlib.md5(rom).hexdigest(), controller=controller_of(game),
        actions=[action.value for action in ale.getMinimalActionSet()], rows=rows, states=states,
        by_timer=[found.get(timer, 0) for timer in range(starts.TIMERS)],
        reset=RESETS.get(game, ""),
    )  # fmt: skip


def run_in_ram(game: str, program: list[int]) -> ALEInterface:
    """Return ALE after a frame of `program` at $80 in place of the game's program."""
    ale = open_ale(game)
    execute(ale, 0, program)
    ale.act(0)
    return ale


def paint(color: int) -> list[int]:
    """Return a program that fills the screen with a color, with an HMOVE in each line."""
    # LDA #color; STA COLUBK; LDA #0; STA VBLANK; loop: STA WSYNC; STA HMOVE; JMP loop
    return [0xA9, color, 0x85, 9, 0xA9, 0, 0x85, 1, 0x85, 2, 0x85, 0x2A, 0x4C, 0x88, 0]


def gray_levels() -> list[int]:
    """Return ALE's gray level of each color."""
    return [int(run_in_ram("pong", paint(color)).getScreenGrayscale()[100, 80]) for color in COLORS.tolist()]


def has_combs(game: str) -> int:
    """Return 1 if HMOVE blanks the left pixels of a line in this game in ALE, else 0."""
    return int(run_in_ram(game, paint(14)).getScreen()[100, 0] == 0)


def controller_of(game: str) -> str:
    """Return the controller that ALE's actions move, see `Start.controller`."""
    # loop: LDA SWCHA; STA $F0; STA WSYNC; INX; TXA; LSR; STA VSYNC; JMP loop
    program = [0xAD, 0x80, 2, 0x85, 0xF0, 0x85, 2, 0xE8, 0x8A, 0x4A, 0x85, 0, 0x4C, 0x80, 0]
    ale = run_in_ram(game, program)
    found = {(Action.UP, 0xFE): "joystick1", (Action.FIRE, 0x7F): "paddle0", (Action.FIRE, 0xBF): "paddle1"}
    for action in (Action.UP, Action.FIRE):
        for _ in range(2):
            ale.act(action)
        if port := found.get((action, int(ale.getRAM()[0x70]))):
            return port
    return "joystick"


def settle(ale: ALEInterface, state: ALEState) -> None:
    """Let `ale` continue from a saved state, which lacks whether the frame before was whole: it was."""
    ale.restoreState(state)
    ale.act(0)
    ale.restoreState(state)


def execute(ale: ALEInterface, byte: int, program: Sequence[int] = LOOP) -> None:
    """Let `ale` execute `program` in RAM, at `byte`, in place of the game's program."""
    saved = Saved(ale.cloneState().serialize())
    data, registers = bytearray(saved.data), saved.offset("M6502Low")
    struct.pack_into("<i", data, registers + 20, 0x80 + byte)
    struct.pack_into("<i", data, registers + 28, FALSE)  # the V flag
    ale.restoreState(ALEState(bytes(data)))
    for at, value in enumerate(program):
        ale.setRAM(byte + at, value)


class Effects(NamedTuple):
    """What a byte does in one state; [256, 256] from the value of the row to that of the column.

    Attributes:
        rewards, lives, over: Those of the frame with the second value.
        before: The lives with the first value, [256].
        whole: Whether the game goes on with the first value, [256]; if not, its row is empty.
    """

    rewards: Numbers
    lives: Numbers
    over: Values
    before: Numbers
    whole: Values


class Frozen:
    """A state of ALE in which no frame changes RAM."""

    def __init__(self, ale: ALEInterface, state: ALEState, loop: int) -> None:
        """Let `ale` execute `LOOP` at byte `loop`, from `state`."""
        self.ale, self._bytes = ale, range(loop, loop + len(LOOP))
        settle(ale, state)
        execute(ale, loop)
        self.ram = ale.getRAM().copy()
        for _ in range(2):
            ale.act(0)
        self._start = ale.cloneState()
        self.lives, self.over = ale.lives(), bool(ale.game_over())

    def has(self, byte: int) -> bool:
        """Return whether a byte may be set: it is none of the loop's."""
        return byte not in self._bytes

    def play(self, *frames: Mapping[int, int]) -> tuple[int, int, bool]:
        """Set some bytes in each frame; return the last frame's reward, lives and end."""
        self.ale.restoreState(self._start)
        reward = 0
        for changes in frames:
            for byte, value in changes.items():
                if self.has(byte):
                    self.ale.setRAM(byte, value)
            reward = int(self.ale.act(0))
        return reward, self.ale.lives(), bool(self.ale.game_over())

    def survey(self, byte: int) -> tuple[bool, bool, Values]:
        """Set `byte` to each value, and back; return whether rewards and lives changed, and the ends."""
        pays, counts, over = False, False, np.zeros(256, np.bool_)
        self.ale.restoreState(self._start)
        for value in range(256):
            self.ale.setRAM(byte, value)
            pays |= self.ale.act(0) != 0
            over[value] = self.ale.game_over()
            counts |= not over[value] and self.ale.lives() != self.lives
            if not over[value]:
                self.ale.setRAM(byte, int(self.ram[byte]))
                pays |= self.ale.act(0) != 0
                counts |= bool(self.ale.game_over()) or self.ale.lives() != self.lives
            if self.ale.game_over():
                self.ale.restoreState(self._start)
        return pays, counts, over

    def effects(self, byte: int) -> Effects:
        """Set `byte` from each value to each other one."""
        rewards, lives = np.zeros((256, 256), int), np.zeros((256, 256), int)
        over, before, whole = np.zeros((256, 256), bool), np.zeros(256, int), np.zeros(256, bool)
        for old in range(256):
            _, before[old], ended = self.play({byte: old})
            whole[old] = not ended
            if ended:
                continue
            state = self.ale.cloneState()
            for new in range(256):
                self.ale.setRAM(byte, new)
                rewards[old, new], lives[old, new] = self.ale.act(0), self.ale.lives()
                over[old, new] = self.ale.game_over()
                if not over[old, new]:
                    self.ale.setRAM(byte, old)
                    self.ale.act(0)
                if self.ale.game_over() or self.ale.lives() != before[old]:
                    self.ale.restoreState(state)
        return Effects(rewards, lives, over, before, whole)
