"""The quirks of the 6507, the RIOT, cartridges and the TIA, each in a few bytes of code.

A program has an instruction a line, with labels before colons; a 6502 assembler is below.
"""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

pytest.importorskip("warp", reason="NVIDIA Warp is not installed")

from atari2600 import opcodes
from atari2600.cartridge import E0, F6, F8, FE, SUPERCHIP
from atari2600.console import Console
from atari2600.machine import CPU, LIMITS, TIA, check_columns

FORMS = [
    (re.compile(r"^#(\S+)$"), "immediate"),
    (re.compile(r"^\((\S+),X\)$"), "ind_x"),
    (re.compile(r"^\((\S+)\),Y$"), "ind_y"),
    (re.compile(r"^\((\S+)\)$"), "indirect"),
    (re.compile(r"^(\S+),X$"), "_x"),
    (re.compile(r"^(\S+)$"), ""),
]
MODES = (
    "implied", "immediate", "zp", "zp_x", "zp_y", "abs", "abs_x", "abs_y", "ind_x", "ind_y", "relative",
    "indirect",
)  # fmt: skip
CODES = {(name, MODES[mode]): code for code, (name, mode, *_) in reversed(opcodes.opcodes().items())}
TIA_REGISTERS = """
VSYNC VBLANK WSYNC RSYNC NUSIZ0 NUSIZ1 COLUP0 COLUP1 COLUPF COLUBK CTRLPF REFP0 REFP1 PF0 PF1 PF2 RESP0 RESP1
RESM0 RESM1 RESBL AUDC0 AUDC1 AUDF0 AUDF1 AUDV0 AUDV1 GRP0 GRP1 ENAM0 ENAM1 ENABL HMP0 HMP1 HMM0 HMM1 HMBL
VDELP0 VDELP1 VDELBL RESMP0 RESMP1 HMOVE HMCLR CXCLR
"""
RIOT_REGISTERS = {
    "SWCHA": 0x280, "SWACNT": 0x281, "SWCHB": 0x282, "INTIM": 0x284, "TIMINT": 0x285, "TIM1T": 0x294,
    "TIM8T": 0x295, "TIM64T": 0x296, "T1024T": 0x297,
}  # fmt: skip
CHIPS = {name: address for address, name in enumerate(TIA_REGISTERS.split())} | RIOT_REGISTERS


def assemble(source: str) -> bytes:
    """Return the machine code of `source` at $80: numbers are decimal, or hexadecimal after `$`."""
    labels: dict[str, int] = {}
    for _ in range(2):  # the second time every label is known
        code = bytearray()
        for line in source.splitlines():
            *label, instruction = line.split(":")
            at = 0x80 + len(code)
            labels |= dict.fromkeys(label, at)
            code += machine_code(*instruction.split(maxsplit=1), labels=labels, at=at)
    return bytes(code)


def number_of(text: str, labels: dict[str, int], at: int) -> int:
    if text.startswith("$"):
        return int(text[1:], 16)
    return int(text) if text.isdigit() else (CHIPS | labels).get(text, at)


def machine_code(name: str, operand: str = "", *, labels: dict[str, int], at: int) -> bytes:
    if name == ".byte":  # numbers as they are
        return bytes(number_of(text, labels, at) for text in operand.split())
    if not operand:
        return bytes([CODES[name, "implied"]])
    match, form = next((found, form) for pattern, form in FORMS if (found := pattern.match(operand)))
    value = number_of(match[1], labels, at)
    if (name, "relative") in CODES:
        return bytes([CODES[name, "relative"], (value - at - 2) & 0xFF])
    if form in ("", "_x"):
        form = ("zp" if value < 256 and (name, "zp" + form) in CODES else "abs") + form
    size = 2 if form in ("abs", "abs_x", "indirect") else 1
    return bytes([CODES[name, form]]) + value.to_bytes(size, "little")


def run(source: str, instructions: int = 1000, memory: Any = (), rom: bytes = b"") -> Any:
    """Assemble a program, put it at $80 and run some of its instructions; return its `Console`.

    `memory` has values by address, from $1000 on of the cartridge.
    """
    content = bytearray(rom.ljust(4096, b"\0"))
    values = dict(memory)
    for address in [one for one in values if one >= 0x1000]:
        content[address & 0xFFF] = values.pop(address)
    console = Console(bytes(content), games=1)
    code = assemble(source)
    console.ram[0, : len(code)] = list(code)
    for address, value in values.items():
        console.ram[0, address & 127] = value
    console.cpu[0, CPU.PC], console.cpu[0, CPU.SP] = 0x80, 0xFF
    console.execute(instructions)
    return console


CARRY, ZERO, DECIMAL, OVERFLOW, NEGATIVE = 0x01, 0x02, 0x08, 0x40, 0x80
FLAGS = CARRY | ZERO | DECIMAL | OVERFLOW | NEGATIVE
Memory = Mapping[int, int]


def registers(console: Any) -> dict[str, int]:
    return {column.name: int(console.cpu[0, column]) for column in CPU if column < CPU.COUNT}


def wait(cycles: int) -> str:
    """Return code that takes `cycles` cycles, none or at least two."""
    return "BIT $F0\n" * (cycles % 2) + "NOP\n" * ((cycles - 3 * (cycles % 2)) // 2)


ARITHMETIC = [  # A and the flags
    ("CLC\nLDA #$50\nADC #$50", 0xA0, NEGATIVE | OVERFLOW),
    ("CLC\nLDA #$D0\nADC #$90", 0x60, CARRY | OVERFLOW),
    ("SEC\nLDA #$50\nSBC #$B0", 0xA0, NEGATIVE | OVERFLOW),
    ("SEC\nLDA #$50\nSBC #$50", 0x00, CARRY | ZERO),
    ("SED\nCLC\nLDA #$58\nADC #$46", 0x04, CARRY | DECIMAL),
    ("SED\nSEC\nLDA #$12\nSBC #$21", 0x91, NEGATIVE | OVERFLOW | DECIMAL),
    ("SED\nCLC\nLDA #$99\nADC #$01", 0x00, CARRY | ZERO | DECIMAL),
    ("SEC\nLDA #$01\nROR", 0x80, CARRY | NEGATIVE), ("CLC\nLDA #$80\nROL", 0x00, CARRY | ZERO),
    ("LDA #$0F\nCMP #$10", 0x0F, NEGATIVE),
    ("LDA #$C0\nSTA $F0\nLDA #$3F\nBIT $F0", 0x3F, NEGATIVE | OVERFLOW | ZERO),
]  # fmt: skip
CYCLES = [
    ("LDX #$10\nLDA $1080,X", 2 + 4),
    ("LDX #$80\nLDA $1080,X", 2 + 5),  # a read over a page's end takes one more
    ("LDX #$10\nSTA $1080,X", 2 + 5),  # a write always does
    ("LDY #$80\nLDA ($F0),Y", 2 + 6), ("LDY #$00\nLDA ($F0),Y", 2 + 5), ("LDX #$00\nINC $00F0,X", 2 + 6),
    ("LDX #$00\nDEC $1080,X", 2 + 7), ("CLC\nBCS $80", 2 + 2), ("CLC\nBCC $80", 2 + 3),
    ("CLC\nBCC $100", 2 + 4),  # to another page
    ("JSR $1080", 6), ("PHA\nPLA", 3 + 4),
]  # fmt: skip
# Undocumented opcodes: LAX, DCP (82 - 1 = 81), ISB (3 + 1 = 4), SLO (81 << 1 = 02), a no-op, a fault.
UNDOCUMENTED: list[tuple[str, dict[str, int]]] = [
    (".byte $A7 $F0", {"A": 0x81, "X": 0x81}), ("LDA #$81\n.byte $C7 $F1", {"P": ZERO | CARRY}),
    ("SEC\nLDA #$10\n.byte $E7 $F2", {"A": 0x0C}), ("LDA #1\n.byte $07 $F0", {"A": 0x03}),
    (".byte $04 $F0", {"A": 0, "CYCLES": 3}), (".byte $02", {"FAULT": 0x102}),
    (".byte $A7 $F0", {"CYCLES": 4}),  # 3 on the hardware
]  # fmt: skip
OTHERS: list[tuple[str, Memory, Mapping[Any, int]]] = [
    ("JMP ($10FF)", {0x10FF: 0x34, 0x1100: 0x99, 0x1000: 0x12}, {"PC": 0x1234}),  # not across a page
    ("LDX #$FF\nLDA ($F1,X)", {0xF0: 0xC0, 0xF1: 0x00, 0xC0: 0x77}, {"A": 0x77}),  # a pointer in page zero
    # A subroutine, with the last byte of JSR on the stack.
    ("JSR sub\nLDX #1\nhere: JMP here\nsub: LDA #5\nRTS", {},
     {"A": 5, "X": 1, "SP": 0xFF, 0xFE: 0x82, 0xFF: 0}),
    # BRK, RTI; the pushed status has B set.
    ("SEC\nBRK\n.byte 0\nLDA #7", {0x1FFE: 0, 0x1FFF: 0xF0, 0x1000: 0x40},
     {"A": 7, "P": CARRY, "SP": 0xFF, 0xFD: 0x30 | CARRY}),
    ("SED\nSEC\nPHP", {}, {0xFF: 0x30 | DECIMAL | CARRY}),
]  # fmt: skip
TIMER = [  # the first step is one cycle after the write; LDA reads 4 cycles after it
    ("TIM1T", 20, 0, 16), ("TIM8T", 2, 0, 1), ("TIM8T", 2, 4, 1), ("TIM8T", 2, 5, 0), ("TIM8T", 2, 12, 0),
    ("TIM8T", 2, 13, 0xFF), ("TIM8T", 2, 14, 0xFE),  # past zero it counts cycles
    ("TIM64T", 2, 60, 1), ("TIM64T", 2, 61, 0),
]  # fmt: skip
START = "LDA #2\nSTA TIM8T\n"
RIOT: list[tuple[str, list[int]]] = [  # the bytes of RAM from $F1 on
    *((f"LDA #{value}\nSTA {timer}\n{wait(delay)}LDA INTIM\nSTA $F1", [found])
      for timer, value, delay, found in TIMER),
    # 13 lines of 76 cycles are less than 1,024 cycles, 14 are more.
    *(("LDA #2\nSTA T1024T\n" + lines * "STA WSYNC\n" + "LDA INTIM\nSTA $F1", [left])
      for lines, left in ((13, 1), (14, 0))),
    # The flag is set when the timer passes zero, and a read of it leaves it.
    *((f"{START}{wait(delay)}LDA TIMINT\nSTA $F1\nLDA TIMINT\nSTA $F2", found)
      for delay, found in ((10, [0, 0x80]), (20, [0x80, 0x80]))),
    # A read of the timer clears the flag, but not in the cycle that sets it.
    *((f"{START}{wait(delay)}LDA INTIM\nLDA TIMINT\nSTA $F1", [flag])
      for delay, flag in ((13, 0x80), (14, 0))),
    # A read past zero puts the timer back to its interval, 7 cycles apart; a write sets it anew.
    (f"LDA #1\nSTA TIM8T\n{wait(8)}LDA INTIM\nSTA $F1\nLDA INTIM\nSTA $F2", [0xFC, 0xFB]),
    (f"LDA #1\nSTA TIM1T\n{wait(8)}LDA #9\nSTA TIM64T\nLDA TIMINT\nSTA $F1", [0]),
    # A pull from the lower half of the stack's page reads the TIA; undriven lines keep the byte before it.
    ("LDA #$78\nSTA $FF\nPLA\nSTA $F1", [0x38]),
    ("LDA SWCHA\nSTA $F1\nLDA #$F0\nSTA SWACNT\nLDA #$50\nSTA SWCHA\nLDA SWCHA\nSTA $F2\nLDA SWCHB\nSTA $F3",
     [0xFF, 0x5F, 0x3F]),
]  # fmt: skip


@pytest.mark.parametrize(("source", "memory", "wanted"), [
    *((source, {}, {"A": a, "P": flags}) for source, a, flags in ARITHMETIC),
    *((source, {0xF0: 0x80, 0xF1: 0x10}, {"CYCLES": cycles}) for source, cycles in CYCLES),
    *((source, {0xF0: 0x81, 0xF1: 0x82, 0xF2: 0x03}, wanted) for source, wanted in UNDOCUMENTED),
    *OTHERS,
    *((source, {}, dict(enumerate(found, 0xF1))) for source, found in RIOT),
])  # fmt: skip
def test_registers_after_a_program(source: str, memory: Memory, wanted: Mapping[Any, int]) -> None:
    console = run(source, source.count("\n") + 1, memory=memory)
    found: dict[Any, int] = registers(console) | dict(enumerate(console.ram[0, :128].tolist(), 0x80))
    found["P"] &= FLAGS
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize("loop", [
    "LDX #200\nloop: DEX\nBNE loop",
    "LDY #90\nloop: DEY\nBPL loop",
    "LDA #30\nSTA TIM8T\nloop: LDA INTIM\nBNE loop",
    "LDA #2\nSTA TIM64T\nloop: LDY INTIM\nBPL loop",
    "LDX #250\nSTX TIM1T\nloop: LDX INTIM\nBNE loop",
])  # fmt: skip
@pytest.mark.parametrize("instructions", [10, 100, 700])
def test_loops_that_wait_end_in_the_same_cycle(loop: str, instructions: int) -> None:
    source = loop + "\nend: JMP end"
    console = run(source, 0)
    for _ in range(instructions):
        console.execute(1)
    assert registers(run(source, instructions)) == registers(console)


@pytest.mark.parametrize("source", ["end: JMP end", "JMP $FFFF"])  # with a NOP there; 0 comes after it
def test_a_program_that_hangs_has_a_state_that_can_be_restored(source: str) -> None:
    console = run(source, memory={0x1FFF: 0xEA})
    for _ in range(300):
        console.execute()
    for name, limits in LIMITS.items():
        check_columns(getattr(console, name), limits)


def cartridge(kind: int) -> bytes:
    """Return a random ROM with the number of each bank from $1300 on; in E0, in its first 256 bytes."""
    size = {F8: 2, F6: 4, E0: 2, FE: 2}[kind & 7]
    rom = np.random.default_rng(1).integers(1, 255, size * 4096).astype(np.uint8)
    if kind == E0:
        rom.reshape(8, 1024)[:, :256] = np.arange(8)[:, None]
        rom[:6] = [0xAD, 0xE1, 0x1F, 0x8D, 0xF7, 0x1F]
        return rom.tobytes()
    banks = rom.reshape(size, 4096)
    banks[:, 0x300:0x400] = np.arange(size)[:, None]
    if kind & SUPERCHIP:
        banks[:, :256] = 0xFF
    if kind & 7 in (F8, F6):
        banks[0, 0x500:0x506] = [0xAD, 0xF8, 0x1F, 0x2C, 0xF9, 0x1F]
    if kind == FE:
        banks[0, 0xFFD], banks[1, 0xFFD] = 0xF0, 0xD0
    return rom.tobytes()


@pytest.mark.parametrize(("kind", "source", "found"), [
    (F8, "LDA $1FF9\nLDA $1300", 1), (F8, "STA $FFF9\nLDA $1FF8\nLDA $F300", 0),
    (F6, "LDA $1FF8\nLDA $1300", 2), (F6, "LDA $1FF9\nLDA $1FFA\nLDA $1300", 3),
    (F6 | SUPERCHIP, "STA $1FF7\nLDA $1300", 1),
    (E0, "LDA $1FE2\nLDA $1010", 2), (E0, "LDA $1FE2\nLDA $1FEC\nLDA $1410", 4),
    (E0, "LDA $1FE2\nLDA $1FF5\nLDA $1FE3\nLDA $1810", 5), (E0, "LDA $1FE2\nLDA $1FF8\nLDA $1C10", 7),
    (FE, "LDA $D300", 1), (FE, "LDA $D300\nLDA $F300", 0),
    # Without a Superchip there is no RAM.
    *((kind, "LDA #0\nSTA $1005\nLDA $1085", cartridge(kind)[0x85]) for kind in (F8, F6)),
])  # fmt: skip
def test_accesses_switch_banks(kind: int, source: str, found: int) -> None:
    assert run(source, source.count("\n") + 1, rom=cartridge(kind)).cpu[0, CPU.A] == found


def test_a_console_starts_in_the_first_bank() -> None:
    assert Console(cartridge(FE), 1).cpu[0, CPU.PC] >> 8 == 0xF0


@pytest.mark.parametrize("kind", [F8 | SUPERCHIP, F6 | SUPERCHIP])
def test_a_superchip_has_ram_in_every_bank(kind: int) -> None:
    source = "LDA #$2A\nSTA $1005\nSTA $1FF9\nLDA #$17\nSTA $107F\nLDX $1085\nLDY $F0FF"
    console = run(source, 7, rom=cartridge(kind))
    assert console.cpu[0, [CPU.X, CPU.Y]].tolist() == [0x2A, 0x17]
    assert console.ram[0, [128 + 5, 255]].tolist() == [0x2A, 0x17]


COLOURS = "LDA #$22\nSTA COLUP0\nLDA #$44\nSTA COLUP1\nLDA #$66\nSTA COLUPF\n"
END = "STA WSYNC\nSTA WSYNC\nend: JMP end"
Spans = list[tuple[int, int, int]]  # stretches of color: first pixel, pixels, color


def place(register: str, cycle: int) -> str:
    """Return code that strobes `register` in an instruction that ends in `cycle` of a line of its own."""
    return f"STA WSYNC\n{wait(cycle - 3)}STA {register}\n"


def rows(picture: Any) -> list[Spans]:
    found = []
    for row in picture:
        edges = np.flatnonzero(np.diff(row, prepend=0, append=0)).tolist()
        spans = [(a, b - a, int(row[a])) for a, b in pairwise(edges) if row[a]]
        if spans:
            found.append(spans)
    return found


def draw(source: str) -> Any:
    return run("LDX #36\nlines: STA WSYNC\nDEX\nBNE lines\n" + COLOURS + source + END)


PLAYER, MISSILE, BALL = 0, 2, 4
PLACED = place("RESP0", 31)  # which puts the first player at pixel 30


def locked(copies: int) -> str:
    return PLACED + f"LDA #{copies}\nSTA NUSIZ0\nLDA #2\nSTA ENAM0\nSTA RESMP0\nSTA WSYNC\n"


UNLOCKED = "LDA #0\nSTA RESMP0\n"
MIDDLES = {0: 4, 5: 8, 7: 16}  # of a player, by its copies
MOTIONS = {  # by the cycle of HMOVE: HMP0 -> pixels
    3: {0x70: -7, 0x10: -1, 0x00: 0, 0xF0: 1, 0x80: 8},
    7: {0x70: -4, 0x10: -1, 0x80: 8},
    13: {0x70: 1, 0x00: 1, 0x80: 8},
    20: {0x70: 6, 0x00: 6, 0x80: 8},
    40: {0x70: 0, 0x00: 0, 0x80: 0},  # while the line is drawn nothing moves
    60: {0x70: -5, 0x40: -2, 0x00: 0, 0x80: 0},
    73: {0x70: -15, 0x00: -8, 0xF0: -7, 0x80: 0},
    75: {0x70: -7, 0x00: 0, 0x80: 8},  # as good as at the beginning of the next
}


@pytest.mark.parametrize(("source", "item", "pixel"), [
    *((place("RESP0", cycle), PLAYER, pixel) for cycle, pixel in ((31, 30), (20, 3), (75, 2))),
    *((place("RESM0", cycle), MISSILE, pixel) for cycle, pixel in ((31, 29), (20, 2))),
    *((place("RESBL", cycle), BALL, pixel) for cycle, pixel in ((31, 29), (20, 2))),
    *((f"{place('RESP0', 50)}LDA #{motion}\nSTA HMP0\n{place('HMOVE', cycle)}STA WSYNC\n", PLAYER,
       87 + pixels) for cycle, motions in MOTIONS.items() for motion, pixels in motions.items()),
    # A ball that is reset in the middle of an HMOVE moves on.
    *((f"STA WSYNC\nSTA HMOVE\n{wait(cycles)}STA RESBL\n", BALL, pixel)
      for cycles, pixel in ((0, 3), (3, 5), (4, 6), (10, 2))),
    *((locked(copies) + UNLOCKED, MISSILE, 30 + middle) for copies, middle in MIDDLES.items()),
])  # fmt: skip
def test_where_an_object_is(source: str, item: int, pixel: int) -> None:
    assert draw(source).tia[0, TIA.POS0 + item] == pixel


ALL, FIRST = slice(None), slice(1)
COPIES = {
    0: [(30, 8)], 1: [(30, 8), (46, 8)], 3: [(30, 8), (46, 8), (62, 8)], 4: [(30, 8), (94, 8)],
    5: [(31, 16)], 6: [(30, 8), (62, 8), (94, 8)], 7: [(31, 32)],
}  # fmt: skip
RESET_AGAIN: dict[tuple[int, int], list[Spans]] = {  # by a motion before, and the cycle of the reset
    (0, 31): [[(30, 8, 34)]],  # where it already was
    (0, 32): [[(33, 8, 34)]],  # a copy about to begin comes at the new place
    (0x10, 32): [[(29, 8, 34)]],  # one that has begun is drawn to its end
    (0xF0, 35): [[(31, 8, 34)]],
    (0, 35): [[(30, 7, 34)]],
    (0, 60): [[(30, 8, 34)]],
    (0, 20): [],  # else the first copy waits for the next line
}


@pytest.mark.parametrize(("source", "part", "wanted"), [
    # The playfield lies over the ball where it has the players' colors.
    (place("RESBL", 31) + "LDA #$32\nSTA CTRLPF\nLDA #$FF\nSTA ENABL\nSTA WSYNC\nSTA PF1\nSTA WSYNC\n",
     slice(1, 2), [[(16, 32, 34), (96, 32, 68)]]),
    # With the players' colors, the playfield's left half lies over the second player and its missile.
    (place("RESM1", 31) + "LDA #$30\nSTA NUSIZ1\nLDA #2\nSTA CTRLPF\nSTA ENAM1\nLDA #8\nSTA WSYNC\nSTA PF1\n"
     "STA WSYNC\n", slice(1, 2), [[(29, 3, 68), (32, 4, 34), (36, 1, 68), (112, 4, 68)]]),
    # HMOVE leaves a comb.
    ("LDA #$0E\nSTA WSYNC\nSTA COLUBK\nSTA WSYNC\nSTA HMOVE\nSTA WSYNC\n",
     slice(3), [[(0, 160, 14)], [(8, 152, 14)], [(0, 160, 14)]]),
    # At the end of two lines, it leaves one in each of the next two.
    ("LDA #$0E\nSTA WSYNC\nSTA COLUBK\nSTA WSYNC\n" + 2 * f"{wait(73)}STA HMOVE\n" + "STA WSYNC\n",
     slice(4), [[(0, 160, 14)]] * 2 + [[(8, 152, 14)]] * 2),
    # A player that is reset waits for the next line.
    *((PLACED + f"LDA #{motion}\nSTA HMP0\nSTA WSYNC\nSTA HMOVE\n{wait(40)}LDA #$FF\nSTA GRP0\n"
       + place("RESP0", cycle) + "STA WSYNC\nLDA #0\nSTA GRP0\n", ALL, wanted)
      for (motion, cycle), wanted in RESET_AGAIN.items()),
    # An HMOVE ends that wait, even if it moves nothing.
    ("STA WSYNC\nLDA #$FF\nSTA GRP0\nSTA RESP0\nSTA HMOVE\nSTA WSYNC\nLDA #0\nSTA GRP0\n",
     ALL, [[(8, 3, 34)]]),
    # So does a write to NUSIZ in ALE, even of the same value.
    (PLACED + "LDA #0\nSTA NUSIZ0\nSTA WSYNC\nLDX #$FF\nSTX GRP0\n" + place("RESP0", 20)
     + "STA NUSIZ0\nSTA WSYNC\nSTA GRP0\n", ALL, [[(30, 8, 34)], [(9, 2, 34)]]),
    *((PLACED + f"LDA #{copies}\nSTA NUSIZ0\nSTA WSYNC\nLDA #$FF\nSTA GRP0\nSTA WSYNC\n",
       FIRST, [[(first, width, 34) for first, width in spans]]) for copies, spans in COPIES.items()),
    # What runs over the right edge comes in at the left.
    (place("RESP0", 72) + "STA WSYNC\nLDA #$FF\nSTA GRP0\nSTA WSYNC\nSTA WSYNC\n",
     FIRST, [[(0, 1, 34), (153, 7, 34)]]),
    # The playfield is reflected from the middle of a line.
    *(("LDA #$F0\nSTA WSYNC\nSTA PF0\nLDA #1\nSTA CTRLPF\nLDA #0\n" + place("CTRLPF", cycle) + "STA WSYNC\n",
       slice(3), [[(0, 16, 102), (right, 16, 102)] for right in (144, second, 80)])
      for cycle, second in ((48, 80), (49, 144))),
    # Vertical delay shows the value written before the last one.
    ("LDA #0\nSTA GRP1\n" + PLACED + "LDA #1\nSTA VDELP0\nLDA #$FF\nSTA GRP0\nSTA WSYNC\nSTA WSYNC\n"
     "LDA #0\nSTA GRP1\nSTA WSYNC\nLDA #0\nSTA GRP1\n", ALL, [[(30, 8, 34)]] * 2),
    # A missile is locked to the middle of its player, and not seen meanwhile.
    *((locked(copies), ALL, []) for copies in MIDDLES),
    *((locked(copies) + UNLOCKED, slice(-1, None), [[(30 + middle, 1, 34)]])
      for copies, middle in MIDDLES.items()),
])  # fmt: skip
def test_what_is_seen(source: str, part: slice, wanted: list[Spans]) -> None:
    assert rows(draw(source).pictures[0, 1])[part] == wanted


def test_a_player_that_is_reset_above_the_picture_waits_for_the_second_row() -> None:
    lines = "LDX #40\nlines: STA WSYNC\nDEX\nBNE lines\n"
    picture = run(COLOURS + "LDA #$FF\nSTA GRP0\n" + PLACED + lines + "STA COLUP0\n" + END).pictures[0, 1]
    assert rows(picture[:3]) == [[(30, 8, 34)], [(30, 8, 34)]]


WIDE = "LDA #$37\nSTA NUSIZ0\nLDA #$30\nSTA CTRLPF\nLDA #$FF\n"


@pytest.mark.parametrize(("source", "pixel"), [
    # A player's graphic is seen a pixel later than a missile or the ball.
    *((place(reset, 31) + WIDE + place(register, 33) + "STA WSYNC\n", 33 * 3 - 68 + late)
      for reset, register, late in (("RESP0", "GRP0", 1), ("RESM0", "ENAM0", 0), ("RESBL", "ENABL", 0))),
    # The playfield changes between its bits.
    *(("LDA #$FF\n" + place("PF1", cycle) + "STA WSYNC\n", pixel)
      for cycle, pixel in ((29, 24), (30, 24), (31, 28), (32, 32), (33, 36))),
])  # fmt: skip
def test_where_what_is_seen_begins(source: str, pixel: int) -> None:
    assert rows(draw(source).pictures[0, 1])[0][0][0] == pixel


def test_collisions_are_recorded_except_in_the_vertical_blank() -> None:
    both = PLACED + place("RESP1", 32) + "LDA #$FF\nSTA WSYNC\nSTA GRP0\nSTA GRP1\nSTA WSYNC\n"
    reads = "LDA $07\nSTA $F1\nLDA $02\nSTA $F2\nSTA CXCLR\nLDA #0\nSTA GRP0\nLDA $07\nSTA $F3\n"
    assert draw(both + reads).ram[0, 0x71:0x74].tolist() == [0x80 | 0x07, 0x02, 0x07]
    both = "STA RESP0\nSTA RESP1\nLDA #$FF\nSTA GRP0\nSTA GRP1\nSTA WSYNC\nSTA WSYNC\n"
    assert draw("LDA #2\nSTA VBLANK\n" + both + "LDA $07\nSTA $F1\n").ram[0, 0x71] == 0x07


def test_wsync_waits_for_the_next_line_and_vsync_ends_a_frame() -> None:
    for cycle, lines in ((75, 1), (76, 1), (77, 2)):
        source = wait(cycle - 3) + "STA WSYNC"
        assert run(source, len(source.splitlines())).cpu[0, CPU.CYCLES] == 76 * lines
    # A frame ends with a long enough VSYNC, or after too many lines.
    sync = "LDA #2\nSTA VSYNC\n{}LDA #0\nSTA VSYNC\nLDA #7\nSTA $F1\nend: JMP end"
    assert run(sync.format("STA WSYNC\n" * 3)).ram[0, 0x71] == 0  # the frame has ended before
    assert run(sync.format("")).ram[0, 0x71] == 7
    assert run("loop: STA WSYNC\nJMP loop").cpu[0, CPU.RUNNING] == 0
