"""Generates `src/atari2600/starts.json` from ale-py, and compares the two emulators frame by frame.

    python scripts/emulator.py make              the initial state of each supported game, and the gray levels
    python scripts/emulator.py check [GAME ...]  10,000 frames from each of three seeds, as a table; 1,000
                                                 frames of games that are not supported
    python scripts/emulator.py inject [GAME ...] the rules of supported games, by setting bytes of RAM

`check` and `inject` write what they found into docs/data/roms.csv; `make tables` updates docs/emulator.md.
"""

import csv
import hashlib
import struct
import sys
from collections.abc import Iterable, Iterator, Set
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from ale_py import ALEInterface, ALEState, LoggerMode
from ale_py.roms import get_all_rom_ids, get_rom_path
from numpy.typing import NDArray

from atari2600 import starts
from atari2600.console import Console
from atari2600.controllers import Controllers
from atari2600.machine import CPU, GAME, RIOT, TIA
from atari2600.rules import BEFORE, NO_RULES, RULES, Check, Rules, table
from atari2600.starts import Start, State, Timers
from atari2600.tables import NEVER

TABLE = Path(__file__).resolve().parents[1] / "docs" / "data" / "roms.csv"
COLUMNS = ("ROM", "cartridge", "frames", "rules", "warp")
COLOURS = np.arange(256).astype(np.uint8) & np.uint8(0xFE)
TRUE = 0xFAB1FAB2  # how ALE writes booleans into its saved states
FALSE = 0xBAD1BAD2 - 2**32
# STA WSYNC; INX; TXA; LSR; STA VSYNC; BVC to the start: frames of eight lines that change nothing in RAM
LOOP = (0x85, 2, 0xE8, 0x8A, 0x4A, 0x85, 0, 0x50, 0xF7)
TwinState: TypeAlias = tuple[ALEState, dict[str, NDArray[Any]], NDArray[np.int64]]
Judgement: TypeAlias = tuple[int, int, int]  # reward, lives, 1 at the end of the game
CONTROLLERS = ("joystick", "paddle0", "paddle1")
KINDS = ("2K", "4K", "F8", "F8SC", "F6", "F6SC", "E0", "FE")
# Games that keep RAM in a reset, and the frames for which ALE holds the switch.
RESETS = {"ice_hockey": 12, "kung_fu_master": 8, "time_pilot": 8}
FRAMES, SEEDS, TRIAL = 10_000, (1, 2, 3), 1000
STATES, FOLLOWED = 20, 6  # of `inject`: the states of each game, and the frames played after a byte was set


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
        if kind == "FE":
            return kind, 0, []
        if kind.endswith("SC"):
            bank, count, *ram = self.numbers("Cartridge" + kind, 130)
            assert count == 128, count
            return kind, bank, ram
        return kind, self.numbers("Cartridge" + kind, 1)[0], []


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
    tia[TIA.COLUP0 : TIA.COLUBK + 1] = [colour & 0xFE for colour in saved[13:17]]
    tia[TIA.CTRLPF] = tia[TIA.REFLECTED] = saved[17]
    tia[[TIA.REFP0, TIA.REFP1]] = [8 * _true(bit) for bit in saved[19:21]]
    tia[TIA.PF : TIA.OLD1 + 1] = saved[21:26]
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
    """Return the start of a game without its controller and combs.

    The game is started again until every timer value has occurred, or only once if not `whole`.
    """
    ale, rom = open_ale(game), Path(str(get_rom_path(game))).read_bytes()
    rows, timers, console = ale.getScreenDims()[0], Timers(), Console(rom, 1)
    states: list[State] = []
    found: dict[int, int] = {}
    timer = timers.draw()
    while len(found) < (starts.TIMERS if whole else 1):
        state = state_of(ale, console)
        found[timer] = next(
            (i for i, known in enumerate(states) if alike(known) == alike(state)), len(states)
        )
        if found[timer] == len(states):
            states.append(state)
        ale.reset_game()
        timer = timers.draw()
    return Start(
        md5=hashlib.md5(rom).hexdigest(), controller="joystick",
        actions=[action.value for action in ale.getMinimalActionSet()], rows=rows, states=states,
        by_timer=[found.get(timer, 0) for timer in range(starts.TIMERS)],
        reset_frames=RESETS.get(game, 0),
    )  # fmt: skip


def run_in_ram(game: str, program: list[int]) -> ALEInterface:
    """Return ALE after a frame of `program` at $80 in place of the game's program."""
    ale = open_ale(game)
    saved = Saved(ale.cloneState().serialize())
    data = bytearray(saved.data)
    struct.pack_into(f"<{len(program)}i", data, saved.offset("M6532") + 4, *program)
    struct.pack_into("<i", data, saved.offset("M6502Low") + 20, 0x80)
    ale.restoreState(ALEState(bytes(data)))
    ale.act(0)
    return ale


def paint(colour: int) -> list[int]:
    """Return a program that fills the screen with a color, with an HMOVE in each line."""
    # LDA #color; STA COLUBK; LDA #0; STA VBLANK; loop: STA WSYNC; STA HMOVE; JMP loop
    return [0xA9, colour, 0x85, 9, 0xA9, 0, 0x85, 1, 0x85, 2, 0x85, 0x2A, 0x4C, 0x88, 0]


def grey_levels() -> list[int]:
    """Return ALE's gray level of each color."""
    return [
        int(run_in_ram("pong", paint(colour)).getScreenGrayscale()[100, 80]) for colour in COLOURS.tolist()
    ]


def has_combs(game: str) -> int:
    """Return 1 if HMOVE blanks the left pixels of a line in this game in ALE, else 0."""
    return int(run_in_ram(game, paint(14)).getScreen()[100, 0] == 0)


class Twins:
    """A game in both emulators."""

    def __init__(self, game: str, start: Start) -> None:
        """Start `game`."""
        self.ale, self.start = open_ale(game), start
        rom = Path(str(get_rom_path(game))).read_bytes()
        self.console = Console(rom, 1, rules=RULES.get(game, NO_RULES))
        self._timers = Timers()
        self._begin()

    def restart(self) -> None:
        """Start a new game."""
        self.ale.reset_game()
        self._begin()

    def _begin(self) -> None:
        timer = self._timers.draw()
        self.start.begin(self.console, 0, COLOURS, timer, first=self._timers.begun == 1)
        self._controllers = Controllers(self.console, self.start.controller)

    def act(self, action: int) -> Judgement:
        """Play a frame in both; return ALE's reward, lives and end."""
        reward = self.ale.act(action)
        self._controllers.hold(np.array([action]), np.ones(1, np.bool_))
        self.console.execute()
        return int(reward), self.ale.lives(), int(self.ale.game_over())

    def judged(self) -> Judgement:
        """Return our reward, lives and end of the last frame."""
        reward, lives, over = self.console.game[0, [GAME.REWARD, GAME.LIVES, GAME.OVER]].tolist()
        return reward, lives, over

    def difference(self) -> str | None:
        """Return the first difference of RAM or of the picture, or None."""
        unequal = self.console.ram[0, :128] != self.ale.getRAM()
        if unequal.any():
            return f"RAM ${0x80 + int(np.argmax(unequal)):02X}"
        picture = self.console.pictures[0, self.console.tia[0, TIA.BUFFER], : self.start.rows]
        if (picture != self.ale.getScreen()).any():
            row, column = np.argwhere(picture != self.ale.getScreen())[0]
            return f"line {row}, pixel {column}"
        return None

    def set_ram(self, byte: int, value: int) -> None:
        """Set a byte of RAM in both."""
        self.ale.setRAM(byte, value)
        self.console.ram[0, byte] = value

    def get_state(self) -> TwinState:
        """Return the state of both, between two whole frames."""
        return self.ale.cloneState(), self.console.get_state(), self._controllers.turned.copy()

    def set_state(self, state: TwinState) -> None:
        """Continue from what `get_state` returned."""
        self.ale.restoreState(state[0])
        self.ale.act(0)  # a saved state lacks whether the frame before was whole: now it is
        self.ale.restoreState(state[0])
        self.console.set_state(state[1])
        self._controllers.turned[:] = state[2]

    def trap(self, byte: int) -> None:
        """Let both execute `LOOP` in RAM, at `byte`, in place of the game's program: no frame changes RAM."""
        saved = Saved(self.ale.cloneState().serialize())
        data, registers = bytearray(saved.data), saved.offset("M6502Low")
        struct.pack_into("<i", data, registers + 20, 0x80 + byte)
        struct.pack_into("<i", data, registers + 28, FALSE)  # the V flag
        self.ale.restoreState(ALEState(bytes(data)))
        self.console.cpu[0, CPU.PC] = 0x80 + byte
        self.console.cpu[0, CPU.P] &= 0xBF
        for at, value in enumerate(LOOP):
            self.set_ram(byte + at, value)

    def see(self) -> tuple[Judgement, Judgement]:
        """Play a frame of the loop; return what ALE and we make of RAM."""
        self.console.execute()
        return (int(self.ale.act(0)), self.ale.lives(), int(self.ale.game_over())), self.judged()


def places(read: Set[int]) -> list[int]:
    """Return the bytes at which `LOOP` overwrites none of those that rules read."""
    return [at for at in range(129 - len(LOOP)) if not read & set(range(at, at + len(LOOP)))]


def edges(rules: Rules) -> dict[int, list[int]]:
    """Return the bytes that some rules read, each with values at which one of their checks changes."""
    found: dict[int, list[int]] = {int(row[1]) % BEFORE: [0, 255] for row in table(rules)[0]}
    others = rules.no_score, rules.life_kept, rules.lives_kept, rules.all_lives, rules.begins
    for check in (part for part in chain(*rules.over, *others) if isinstance(part, Check)):
        some = [check.equals] if isinstance(check.equals, int) else [min(check.equals), max(check.equals)]
        near = [
            near for one in some for near in (one, one - 1, one + 1, one ^ 0x80, one ^ 8, one | ~check.mask)
        ]
        found[check.byte % BEFORE] += [value & 0xFF for value in near]
    return found


def misread(twins: Twins, bytes_: Iterable[int], read: Set[int]) -> str | None:
    """Set one byte after the other to each value; return the first frame that we judge otherwise than ALE."""
    loops, keep = places(read), twins.get_state()
    for byte in bytes_:
        away = [at for at in (loops[0], loops[-1]) if byte not in range(at, at + len(LOOP))]
        twins.set_state(keep)
        twins.trap(away[0])
        trapped = twins.get_state()
        for value in range(256):
            twins.set_ram(byte, value)
            theirs, ours = twins.see()
            if theirs != ours:
                return f"RAM {byte} = {value}: {theirs} in place of {ours}"
            if theirs[2]:
                twins.set_state(trapped)
    twins.set_state(keep)
    return None


def misjudged(twins: Twins, rules: Rules, random: np.random.Generator, frames: int) -> str | None:
    """Set bytes at random in every frame; return the first frame that we judge otherwise than ALE."""
    values, keep = edges(rules), twins.get_state()
    bytes_ = sorted(values)
    loop = int(random.choice(np.array(places(set(bytes_)))))
    twins.trap(loop)
    trapped = twins.get_state()
    for number in range(frames):
        if number % 25 == 0 or twins.ale.game_over():
            twins.set_state(trapped)
        if number % 100 == 99:  # a RAM that no game has
            for byte in set(range(128)) - set(range(loop, loop + len(LOOP))):
                twins.set_ram(byte, int(random.integers(256)))
        for byte in random.choice(bytes_, random.integers(1, 4)).tolist():
            old = int(twins.console.ram[0, byte])
            choices = [int(random.integers(256)), (old - 1) & 0xFF, (old + 1) & 0xFF, *values[byte]]
            twins.set_ram(byte, int(random.choice(choices)))
        theirs, ours = twins.see()
        if theirs != ours:
            ram = {byte: int(twins.console.ram[0, byte]) for byte in bytes_}
            return f"RAM {ram}: {theirs} in place of {ours}"
    twins.set_state(keep)
    return None


def misplayed(twins: Twins, rules: Rules, random: np.random.Generator, values: int) -> tuple[int, str | None]:
    """Set each byte that rules read to some random values, and play on for some frames.

    Returns:
        The number of trials in which the program itself went on otherwise than in ALE, and the first frame
        that was equal, but that we judge otherwise than ALE.
    """
    keep, parted = twins.get_state(), 0
    for byte in sorted(edges(rules)):
        for value in random.choice(256, values, replace=False).tolist():
            twins.set_state(keep)
            twins.set_ram(byte, value)
            for frame in range(FOLLOWED):
                theirs = twins.act(int(random.choice(twins.start.actions)))
                if (twins.console.ram[0, :128] != twins.ale.getRAM()).any():
                    parted += 1
                    break
                if theirs != twins.judged():
                    text = f"{frame} frames after RAM {byte} = {value}: {theirs} in place of {twins.judged()}"
                    return parted, text
                if theirs[2]:
                    break
    twins.set_state(keep)
    return parted, None


def play(twins: Twins, random: np.random.Generator, frames: int) -> None:
    """Play random actions, and new games when one ends."""
    for _ in range(frames):
        if twins.act(int(random.choice(twins.start.actions)))[2]:
            twins.restart()


def inject(names: list[str]) -> None:
    """Compare the rules of each game with ALE by setting bytes of RAM, in several states of random play."""
    for game in names or sorted(RULES):
        twins, rules, parted = Twins(game, starts.find(game)), RULES[game], 0
        found = None
        for number in range(STATES):
            random = np.random.default_rng(number)
            play(twins, random, 1 if number == 0 else int(random.integers(100, 1000)))
            every = range(128) if number == STATES - 1 else sorted(edges(rules))
            assert not twins.difference(), number
            found = misread(twins, every, set(edges(rules))) or misjudged(twins, rules, random, 1000)
            if not found:
                more, found = misplayed(twins, rules, random, 32)
                parted += more
            if found:
                found = f"state {number}, {found}"
                break
        outcome = f"{found or 'equal'}; {parted} trials went on otherwise"
        note(game, rules=outcome)
        print(f"{game}: {outcome}", flush=True)


def differences(game: str, start: Start, frames: int, seed: int) -> str | None:
    """Play random actions in both emulators; return the first difference, or None."""
    twins, random = Twins(game, start), np.random.default_rng(seed)
    actions = [action.value for action in twins.ale.getMinimalActionSet()]
    for frame in range(frames):
        if twins.ale.game_over():
            if game not in RULES:
                return None  # the state of its restart is unknown
            twins.restart()
        judgement = twins.act(int(random.choice(actions)))
        if game in RULES and judgement != twins.judged():
            return f"frame {frame}, {judgement} in place of {twins.judged()}"
        if found := twins.difference():
            return f"frame {frame}, {found}"
    return None


def known_roms(names: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each game of ale-py, or of `names`, that ALE supports, with the kind of its cartridge."""
    for game in names or sorted(get_all_rom_ids()):
        if ALEInterface.isSupportedROM(Path(str(get_rom_path(game)))):
            yield game, Saved(open_ale(game).cloneState().serialize()).cartridge()[0]


def best_start(game: str, whole: bool = True) -> Start:
    """Return the start of a game, with the first controller that matches ALE for 120 frames."""
    plain = start_of(game, whole)
    tries = []
    combs = has_combs(game)
    for controller, right in product(CONTROLLERS, (NEVER, -1)):
        states = []
        for state in plain.states:
            tia = list(state.tia)
            tia[TIA.COMBS] = combs
            tia[TIA.PADDLE0 + 2 : TIA.PADDLE0 + 4] = [right] * 2  # the second player's: none, or at the end
            states.append(replace(state, tia=tia))
        tries.append(replace(plain, controller=controller, states=states))
    for one in tries:
        if differences(game, one, 120, 0) is None:
            return one
    return tries[0]


def make() -> None:
    """Write `starts.json`."""
    starts.save(grey_levels(), twister(), {})
    found = {game: best_start(game) for game in RULES}
    starts.save(grey_levels(), twister(), found)


def note(game: str, **cells: str) -> None:
    """Write cells of a game's row into the table."""
    lines = TABLE.read_text().splitlines(keepends=True)
    head = [line for line in lines if line[0] == "#"]
    rows = {row["ROM"]: row for row in csv.DictReader(lines[len(head) :])}
    rows[game] = dict.fromkeys(COLUMNS, "") | rows.get(game, {}) | {"ROM": game} | cells
    with TABLE.open("w") as file:
        file.writelines(head)
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[name] for name in sorted(rows))


def check(names: list[str]) -> None:
    """Print how well each game matches, and write it into the table."""
    for game, kind in known_roms(names):
        found = "not emulated"
        if kind in KINDS:
            offered = game in RULES
            start = starts.find(game) if offered else best_start(game, whole=False)
            frames, seeds = (FRAMES, SEEDS) if offered else (TRIAL, SEEDS[:1])
            exact = f"{len(seeds)} x {frames:,}" if offered else f"the first {TRIAL:,}"
            found = next(filter(None, (differences(game, start, frames, seed) for seed in seeds)), exact)
        note(game, cartridge=kind, frames=found, warp="yes" if game in RULES else "no")
        print(f"{game}: {found}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["make"]:
        make()
    elif sys.argv[1:2] == ["check"]:
        check(sys.argv[2:])
    elif sys.argv[1:2] == ["inject"]:
        inject(sys.argv[2:])
    else:
        sys.exit(__doc__)
