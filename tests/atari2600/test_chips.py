"""The quirks of the 6507, the RIOT and cartridges, each in a few bytes of code, after their data sheets."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from atari2600.cartridge import E0, F6, F8, FE, PLAIN, SUPERCHIP, load_rom
from atari2600.machine import CPU
from tests.atari2600.conftest import Run

pytest.importorskip("warp", reason="NVIDIA Warp is not installed")


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
# What no manual lists: LAX, DCP (82 - 1 = 81), ISB (3 + 1 = 4), SLO (81 << 1 = 02), a no-op, and a fault.
UNLISTED: list[tuple[str, dict[str, int]]] = [
    (".byte $A7 $F0", {"A": 0x81, "X": 0x81}), ("LDA #$81\n.byte $C7 $F1", {"P": ZERO | CARRY}),
    ("SEC\nLDA #$10\n.byte $E7 $F2", {"A": 0x0C}), ("LDA #1\n.byte $07 $F0", {"A": 0x03}),
    (".byte $04 $F0", {"A": 0, "CYCLES": 3}), (".byte $02", {"FAULT": 0x102}),
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
    ("TIM64T", 1, 20, 0), ("T1024T", 1, 20, 0),
]  # fmt: skip
START = "LDA #2\nSTA TIM8T\n"
RIOT: list[tuple[str, list[int]]] = [  # the bytes of RAM from $F1 on
    *((f"LDA #{value}\nSTA {timer}\n{wait(delay)}LDA INTIM\nSTA $F1", [found])
      for timer, value, delay, found in TIMER),
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
    *((source, {0xF0: 0x81, 0xF1: 0x82, 0xF2: 0x03}, wanted) for source, wanted in UNLISTED),
    *OTHERS,
    *((source, {}, dict(enumerate(found, 0xF1))) for source, found in RIOT),
])  # fmt: skip
def test_registers_after_a_program(run: Run, source: str, memory: Memory, wanted: Mapping[Any, int]) -> None:
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
def test_loops_that_wait_end_in_the_same_cycle(run: Run, loop: str, instructions: int) -> None:
    source = loop + "\nend: JMP end"
    console = run(source, 0)
    for _ in range(instructions):
        console.execute(1)
    assert registers(run(source, instructions)) == registers(console)


pytest.importorskip("warp", reason="NVIDIA Warp is not installed")


def cartridge(kind: int) -> bytes:
    """Return a random ROM with the number of each bank from $1300 on; in E0, in its first 256 bytes."""
    size = {PLAIN: 1, F8: 2, F6: 4, E0: 2, FE: 2}[kind & 7]
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


@pytest.mark.parametrize("kind", [PLAIN, F8, F8 | SUPERCHIP, F6, F6 | SUPERCHIP, E0, FE])
def test_a_rom_shows_its_kind(kind: int) -> None:
    assert load_rom(cartridge(kind)).kind == kind


@pytest.mark.parametrize(("kind", "source", "found"), [
    (F8, "LDA $1FF9\nLDA $1300", 1), (F8, "STA $FFF9\nLDA $1FF8\nLDA $F300", 0),
    (F6, "LDA $1FF8\nLDA $1300", 2), (F6, "LDA $1FF9\nLDA $1FFA\nLDA $1300", 3),
    (F6 | SUPERCHIP, "STA $1FF7\nLDA $1300", 1),
    (E0, "LDA $1FE2\nLDA $1010", 2), (E0, "LDA $1FE2\nLDA $1FEC\nLDA $1410", 4),
    (E0, "LDA $1FE2\nLDA $1FF5\nLDA $1FE3\nLDA $1810", 5), (E0, "LDA $1FE2\nLDA $1FF8\nLDA $1C10", 7),
    (FE, "LDA $D300", 1), (FE, "LDA $D300\nLDA $F300", 0),
])  # fmt: skip
def test_accesses_switch_banks(run: Run, kind: int, source: str, found: int) -> None:
    assert run(source, source.count("\n") + 1, rom=cartridge(kind)).cpu[0, CPU.A] == found


@pytest.mark.parametrize("kind", [F8 | SUPERCHIP, F6 | SUPERCHIP])
def test_a_superchip_has_ram_in_every_bank(run: Run, kind: int) -> None:
    source = "LDA #$2A\nSTA $1005\nSTA $1FF9\nLDA #$17\nSTA $107F\nLDX $1085\nLDY $F0FF"
    console = run(source, 7, rom=cartridge(kind))
    assert console.cpu[0, [CPU.X, CPU.Y]].tolist() == [0x2A, 0x17]
    assert console.ram[0, [128 + 5, 255]].tolist() == [0x2A, 0x17]
