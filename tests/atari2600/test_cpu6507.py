"""The 6507's quirks, each in a few bytes of code (data sheet and instruction set manual)."""

from typing import Any

import pytest

from tests.atari2600.assembler import Run

CARRY, ZERO, DECIMAL, OVERFLOW, NEGATIVE = 0x01, 0x02, 0x08, 0x40, 0x80


def registers(console: Any) -> dict[str, int]:
    from atari2600.machine import CPU

    return {column.name: int(console.cpu[0, column]) for column in CPU if column < CPU.COUNT}


@pytest.mark.parametrize(
    ("source", "a", "flags"),
    [
        ("CLC\nLDA #$50\nADC #$50", 0xA0, NEGATIVE | OVERFLOW),
        ("CLC\nLDA #$D0\nADC #$90", 0x60, CARRY | OVERFLOW),
        ("SEC\nLDA #$50\nSBC #$B0", 0xA0, NEGATIVE | OVERFLOW),
        ("SEC\nLDA #$50\nSBC #$50", 0x00, CARRY | ZERO),
        ("SED\nCLC\nLDA #$58\nADC #$46", 0x04, CARRY | DECIMAL),
        ("SED\nSEC\nLDA #$12\nSBC #$21", 0x91, NEGATIVE | OVERFLOW | DECIMAL),
        ("SED\nCLC\nLDA #$99\nADC #$01", 0x00, CARRY | ZERO | DECIMAL),
        ("SEC\nLDA #$01\nROR", 0x80, CARRY | NEGATIVE),
        ("CLC\nLDA #$80\nROL", 0x00, CARRY | ZERO),
        ("LDA #$0F\nCMP #$10", 0x0F, NEGATIVE),
        ("LDA #$C0\nSTA $F0\nLDA #$3F\nBIT $F0", 0x3F, NEGATIVE | OVERFLOW | ZERO),
    ],
)
def test_arithmetic_and_flags(run: Run, source: str, a: int, flags: int) -> None:
    found = registers(run(source, source.count("\n") + 1))
    assert found["A"] == a
    assert found["P"] & (CARRY | ZERO | DECIMAL | OVERFLOW | NEGATIVE) == flags


@pytest.mark.parametrize(
    ("source", "cycles"),
    [
        ("LDX #$10\nLDA $1080,X", 2 + 4),
        ("LDX #$80\nLDA $1080,X", 2 + 5),  # a read over a page's end takes one more
        ("LDX #$10\nSTA $1080,X", 2 + 5),  # a write always does
        ("LDY #$80\nLDA ($F0),Y", 2 + 6),
        ("LDY #$00\nLDA ($F0),Y", 2 + 5),
        ("LDX #$00\nINC $00F0,X", 2 + 6),
        ("LDX #$00\nDEC $1080,X", 2 + 7),
        ("CLC\nBCS $80", 2 + 2),
        ("CLC\nBCC $80", 2 + 3),
        ("CLC\nBCC $100", 2 + 4),  # to another page
        ("JSR $1080", 6),
        ("PHA\nPLA", 3 + 4),
    ],
)
def test_cycles(run: Run, source: str, cycles: int) -> None:
    console = run(source, source.count("\n") + 1, ram={0xF0: 0x80, 0xF1: 0x10})
    assert registers(console)["CYCLES"] == cycles


def test_indirect_jump_does_not_cross_a_page(run: Run) -> None:
    rom = bytearray(4096)
    rom[0x0FF], rom[0x100], rom[0x000] = 0x34, 0x99, 0x12
    assert registers(run("JMP ($10FF)", 1, rom=bytes(rom)))["PC"] == 0x1234


def test_a_pointer_wraps_in_zero_page(run: Run) -> None:
    console = run("LDX #$FF\nLDA ($F1,X)", 2, ram={0xF0: 0xC0, 0xF1: 0x00, 0xC0: 0x77})
    assert registers(console)["A"] == 0x77


def test_a_subroutine_returns(run: Run) -> None:
    console = run("JSR sub\nLDX #1\nhere: JMP here\nsub: LDA #5\nRTS", 6)
    found = registers(console)
    assert (found["A"], found["X"], found["SP"]) == (5, 1, 0xFF)
    assert console.ram[0, 0x7E:0x80].tolist() == [0x82, 0x00]  # the last byte of JSR


def test_break_and_return_from_it(run: Run) -> None:
    rom = bytearray(4096)
    rom[0xFFE:0x1000] = 0x00, 0xF0
    rom[0] = 0x40  # RTI
    console = run("SEC\nBRK\n.byte 0\nLDA #7", 4, rom=bytes(rom))
    found = registers(console)
    assert (found["A"], found["P"] & CARRY, found["SP"]) == (7, CARRY, 0xFF)
    assert console.ram[0, 0x7D] & 0x30 == 0x30  # B is set in what is pushed


def test_the_status_that_is_pushed_has_bits_4_and_5(run: Run) -> None:
    console = run("SED\nSEC\nPHP", 3)
    assert console.ram[0, 0x7F] == 0x30 | DECIMAL | CARRY


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (".byte $A7 $F0", {"A": 0x81, "X": 0x81}),  # LAX
        ("LDA #$81\n.byte $C7 $F1", {"P": ZERO | CARRY}),  # DCP: 82 - 1 = 81
        ("SEC\nLDA #$10\n.byte $E7 $F2", {"A": 0x0C}),  # ISB: 3 + 1 = 4
        ("LDA #1\n.byte $07 $F0", {"A": 0x03}),  # SLO: 81 << 1 = 02
        (".byte $04 $F0", {"A": 0, "CYCLES": 3}),
    ],
)
def test_opcodes_that_no_manual_lists(run: Run, source: str, wanted: dict[str, int]) -> None:
    found = registers(run(source, source.count("\n") + 1, ram={0xF0: 0x81, 0xF1: 0x82, 0xF2: 0x03}))
    assert {name: found[name] & (0xFF if name != "P" else ZERO | CARRY) for name in wanted} == wanted


def test_an_opcode_that_is_not_emulated_is_reported(run: Run) -> None:
    assert registers(run(".byte $02", 1))["FAULT"] == 0x102


@pytest.mark.parametrize(
    "loop",
    [
        "LDX #200\nloop: DEX\nBNE loop",
        "LDY #90\nloop: DEY\nBPL loop",
        "LDA #30\nSTA TIM8T\nloop: LDA INTIM\nBNE loop",
        "LDA #2\nSTA TIM64T\nloop: LDY INTIM\nBPL loop",
        "LDX #250\nSTX TIM1T\nloop: LDX INTIM\nBNE loop",
    ],
)
@pytest.mark.parametrize("instructions", [10, 100, 700])
def test_loops_that_wait_end_in_the_same_cycle_as_step_by_step(
    run: Run, loop: str, instructions: int
) -> None:
    source = loop + "\nend: JMP end"
    console = run(source, 0)
    for _ in range(instructions):
        console.execute(1)
    assert registers(run(source, instructions)) == registers(console)
