"""Small programs on the emulator; a 6502 assembler for them: an instruction a line, labels before colons."""

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from atari2600 import opcodes

# Assembles a program, runs it, and returns its `Console`: the fixture `run`.
Run: TypeAlias = Callable[..., Any]
_FORMS = [
    (re.compile(r"^#(\S+)$"), "immediate"),
    (re.compile(r"^\((\S+),X\)$"), "ind_x"),
    (re.compile(r"^\((\S+)\),Y$"), "ind_y"),
    (re.compile(r"^\((\S+)\)$"), "indirect"),
    (re.compile(r"^(\S+),X$"), "_x"),
    (re.compile(r"^(\S+)$"), ""),
]
_MODES = (
    "implied", "immediate", "zp", "zp_x", "zp_y", "abs", "abs_x", "abs_y", "ind_x", "ind_y", "relative",
    "indirect",
)  # fmt: skip
_CODES = {(name, _MODES[mode]): code for code, (name, mode, *_) in reversed(opcodes.opcodes().items())}
_TIA = """
VSYNC VBLANK WSYNC RSYNC NUSIZ0 NUSIZ1 COLUP0 COLUP1 COLUPF COLUBK CTRLPF REFP0 REFP1 PF0 PF1 PF2 RESP0 RESP1
RESM0 RESM1 RESBL AUDC0 AUDC1 AUDF0 AUDF1 AUDV0 AUDV1 GRP0 GRP1 ENAM0 ENAM1 ENABL HMP0 HMP1 HMM0 HMM1 HMBL
VDELP0 VDELP1 VDELBL RESMP0 RESMP1 HMOVE HMCLR CXCLR
"""
_RIOT = {
    "SWCHA": 0x280, "SWACNT": 0x281, "SWCHB": 0x282, "INTIM": 0x284, "TIMINT": 0x285, "TIM1T": 0x294,
    "TIM8T": 0x295, "TIM64T": 0x296, "T1024T": 0x297,
}  # fmt: skip
CHIPS = {name: address for address, name in enumerate(_TIA.split())} | _RIOT


def assemble(source: str) -> bytes:
    """Return the machine code of `source` at $80: numbers are decimal, or hexadecimal after `$`."""
    labels: dict[str, int] = {}
    for _ in range(2):  # the second time every label is known
        code = bytearray()
        for line in source.splitlines():
            *label, instruction = line.split(":")
            at = 0x80 + len(code)
            labels |= dict.fromkeys(label, at)
            code += _instruction(*instruction.split(maxsplit=1), labels=labels, at=at)
    return bytes(code)


def _number(text: str, labels: dict[str, int], at: int) -> int:
    if text.startswith("$"):
        return int(text[1:], 16)
    return int(text) if text.isdigit() else (CHIPS | labels).get(text, at)


def _instruction(name: str, operand: str = "", *, labels: dict[str, int], at: int) -> bytes:
    if name == ".byte":  # numbers as they are
        return bytes(_number(text, labels, at) for text in operand.split())
    if not operand:
        return bytes([_CODES[name, "implied"]])
    match, form = next((found, form) for pattern, form in _FORMS if (found := pattern.match(operand)))
    value = _number(match[1], labels, at)
    if (name, "relative") in _CODES:
        return bytes([_CODES[name, "relative"], (value - at - 2) & 0xFF])
    if form in ("", "_x"):
        form = ("zp" if value < 256 and (name, "zp" + form) in _CODES else "abs") + form
    size = 2 if form in ("abs", "abs_x", "indirect") else 1
    return bytes([_CODES[name, form]]) + value.to_bytes(size, "little")


@pytest.fixture
def run() -> Run:
    """Return a function that assembles a program, puts it at $80 and runs some of its instructions.

    `memory` has values by address, from $1000 on of the cartridge.
    """
    from atari2600.console import Console
    from atari2600.machine import CPU

    def run(source: str, instructions: int = 1000, memory: Any = (), rom: bytes = b"") -> Any:
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

    return run
