"""The 6507's instructions as tables: how each of the 256 opcodes finds its operand and what it does to it.

One pass through the same small steps executes every instruction: find the address, take a value from
`source`, change it (`unary`), store it, combine it with a register (`binary`), write registers,
jump (`flow`).
An instruction is one choice for each step. The undocumented opcodes that games use fall out of the
same steps: DCP is DEC with CMP as its second half.
"""

import numpy as np
from numpy.typing import NDArray

# How the address is found. The names are the data sheet's.
MODES = (
    "implied", "immediate", "zp", "zp_x", "zp_y", "abs", "abs_x", "abs_y", "ind_x", "ind_y", "relative",
    "indirect",
)  # fmt: skip
IMPLIED, IMMEDIATE, ZP, ZP_X, ZP_Y, ABS, ABS_X, ABS_Y, IND_X, IND_Y, RELATIVE, INDIRECT = range(12)
LENGTHS = (1, 2, 2, 2, 2, 3, 3, 3, 2, 2, 2, 3)  # bytes of an instruction, by mode

SOURCE_NONE, SOURCE_MEMORY, SOURCE_A, SOURCE_X, SOURCE_Y, SOURCE_SP, SOURCE_P = range(7)
SOURCE_PULL, SOURCE_AX, SOURCE_AM = range(7, 10)
PASS, INC, DEC, ASL, LSR, ROL, ROR = range(7)
NONE, ORA, AND, EOR, ADC, SBC, CMP, BIT, ANC = range(9)
TO_A, TO_X, TO_Y, TO_SP, TO_P = 1, 2, 4, 8, 16  # may be added
KEEP, STORE, PUSH = range(3)
NEXT, BRANCH, JMP, JSR, RTS, RTI, BRK = range(7)

# mnemonic: source, unary, store, binary, register of the comparison, written registers, flags N and Z.
_A, _X, _Y = 0, 1, 2
_M = SOURCE_MEMORY
OPERATIONS: dict[str, tuple[int, int, int, int, int, int, bool]] = {
    "LDA": (_M, PASS, KEEP, NONE, _A, TO_A, True),
    "LDX": (_M, PASS, KEEP, NONE, _A, TO_X, True),
    "LDY": (_M, PASS, KEEP, NONE, _A, TO_Y, True),
    "LAX": (_M, PASS, KEEP, NONE, _A, TO_A + TO_X, True),
    "STA": (SOURCE_A, PASS, STORE, NONE, _A, 0, False),
    "STX": (SOURCE_X, PASS, STORE, NONE, _A, 0, False),
    "STY": (SOURCE_Y, PASS, STORE, NONE, _A, 0, False),
    "SAX": (SOURCE_AX, PASS, STORE, NONE, _A, 0, False),
    "TAX": (SOURCE_A, PASS, KEEP, NONE, _A, TO_X, True),
    "TAY": (SOURCE_A, PASS, KEEP, NONE, _A, TO_Y, True),
    "TXA": (SOURCE_X, PASS, KEEP, NONE, _A, TO_A, True),
    "TYA": (SOURCE_Y, PASS, KEEP, NONE, _A, TO_A, True),
    "TSX": (SOURCE_SP, PASS, KEEP, NONE, _A, TO_X, True),
    "TXS": (SOURCE_X, PASS, KEEP, NONE, _A, TO_SP, False),
    "PHA": (SOURCE_A, PASS, PUSH, NONE, _A, 0, False),
    "PHP": (SOURCE_P, PASS, PUSH, NONE, _A, 0, False),
    "PLA": (SOURCE_PULL, PASS, KEEP, NONE, _A, TO_A, True),
    "PLP": (SOURCE_PULL, PASS, KEEP, NONE, _A, TO_P, False),
    "ORA": (_M, PASS, KEEP, ORA, _A, TO_A, True),
    "AND": (_M, PASS, KEEP, AND, _A, TO_A, True),
    "EOR": (_M, PASS, KEEP, EOR, _A, TO_A, True),
    "ADC": (_M, PASS, KEEP, ADC, _A, TO_A, True),
    "SBC": (_M, PASS, KEEP, SBC, _A, TO_A, True),
    "CMP": (_M, PASS, KEEP, CMP, _A, 0, True),
    "CPX": (_M, PASS, KEEP, CMP, _X, 0, True),
    "CPY": (_M, PASS, KEEP, CMP, _Y, 0, True),
    "BIT": (_M, PASS, KEEP, BIT, _A, 0, True),
    "INC": (_M, INC, STORE, NONE, _A, 0, True),
    "DEC": (_M, DEC, STORE, NONE, _A, 0, True),
    "INX": (SOURCE_X, INC, KEEP, NONE, _A, TO_X, True),
    "INY": (SOURCE_Y, INC, KEEP, NONE, _A, TO_Y, True),
    "DEX": (SOURCE_X, DEC, KEEP, NONE, _A, TO_X, True),
    "DEY": (SOURCE_Y, DEC, KEEP, NONE, _A, TO_Y, True),
    "ASL": (_M, ASL, STORE, NONE, _A, 0, True),
    "LSR": (_M, LSR, STORE, NONE, _A, 0, True),
    "ROL": (_M, ROL, STORE, NONE, _A, 0, True),
    "ROR": (_M, ROR, STORE, NONE, _A, 0, True),
    "SLO": (_M, ASL, STORE, ORA, _A, TO_A, True),
    "RLA": (_M, ROL, STORE, AND, _A, TO_A, True),
    "SRE": (_M, LSR, STORE, EOR, _A, TO_A, True),
    "RRA": (_M, ROR, STORE, ADC, _A, TO_A, True),
    "DCP": (_M, DEC, STORE, CMP, _A, 0, True),
    "ISB": (_M, INC, STORE, SBC, _A, TO_A, True),
    "ANC": (_M, PASS, KEEP, ANC, _A, TO_A, True),
    "ALR": (SOURCE_AM, LSR, KEEP, NONE, _A, TO_A, True),
    "NOP": (SOURCE_NONE, PASS, KEEP, NONE, _A, 0, False),
    "NOPR": (_M, PASS, KEEP, NONE, _A, 0, False),  # an undocumented NOP that reads its operand
}
# Mnemonics that are a NOP with an effect of their own: one bit of the processor status, or a jump.
FLAGS = {
    "CLC": (0x01, 0), "SEC": (0x01, 1), "CLI": (0x04, 0), "SEI": (0x04, 1),
    "CLV": (0x40, 0), "CLD": (0x08, 0), "SED": (0x08, 1),
}  # fmt: skip
FLOWS = {"JMP": JMP, "JSR": JSR, "RTS": RTS, "RTI": RTI, "BRK": BRK}
BRANCHES = {
    "BPL": (0x80, 0), "BMI": (0x80, 1), "BVC": (0x40, 0), "BVS": (0x40, 1),
    "BCC": (0x01, 0), "BCS": (0x01, 1), "BNE": (0x02, 0), "BEQ": (0x02, 1),
}  # fmt: skip

# mnemonic: its opcodes, "mode opcode cycles", with + where a page crossed costs one cycle more; long
# rows go on in a row of the same name.
_OPCODES = """
LDA: imm A9 2, zp A5 3, zpx B5 4, abs AD 4, abx BD 4+, aby B9 4+, inx A1 6, iny B1 5+
LDX: imm A2 2, zp A6 3, zpy B6 4, abs AE 4, aby BE 4+
LDY: imm A0 2, zp A4 3, zpx B4 4, abs AC 4, abx BC 4+
STA: zp 85 3, zpx 95 4, abs 8D 4, abx 9D 5, aby 99 5, inx 81 6, iny 91 6
STX: zp 86 3, zpy 96 4, abs 8E 4
STY: zp 84 3, zpx 94 4, abs 8C 4
TAX: imp AA 2
TAY: imp A8 2
TXA: imp 8A 2
TYA: imp 98 2
TSX: imp BA 2
TXS: imp 9A 2
PHA: imp 48 3
PHP: imp 08 3
PLA: imp 68 4
PLP: imp 28 4
ORA: imm 09 2, zp 05 3, zpx 15 4, abs 0D 4, abx 1D 4+, aby 19 4+, inx 01 6, iny 11 5+
AND: imm 29 2, zp 25 3, zpx 35 4, abs 2D 4, abx 3D 4+, aby 39 4+, inx 21 6, iny 31 5+
EOR: imm 49 2, zp 45 3, zpx 55 4, abs 4D 4, abx 5D 4+, aby 59 4+, inx 41 6, iny 51 5+
ADC: imm 69 2, zp 65 3, zpx 75 4, abs 6D 4, abx 7D 4+, aby 79 4+, inx 61 6, iny 71 5+
SBC: imm E9 2, imm EB 2, zp E5 3, zpx F5 4, abs ED 4, abx FD 4+, aby F9 4+, inx E1 6, iny F1 5+
CMP: imm C9 2, zp C5 3, zpx D5 4, abs CD 4, abx DD 4+, aby D9 4+, inx C1 6, iny D1 5+
CPX: imm E0 2, zp E4 3, abs EC 4
CPY: imm C0 2, zp C4 3, abs CC 4
BIT: zp 24 3, abs 2C 4
INC: zp E6 5, zpx F6 6, abs EE 6, abx FE 7
DEC: zp C6 5, zpx D6 6, abs CE 6, abx DE 7
INX: imp E8 2
INY: imp C8 2
DEX: imp CA 2
DEY: imp 88 2
ASL: imp 0A 2, zp 06 5, zpx 16 6, abs 0E 6, abx 1E 7
LSR: imp 4A 2, zp 46 5, zpx 56 6, abs 4E 6, abx 5E 7
ROL: imp 2A 2, zp 26 5, zpx 36 6, abs 2E 6, abx 3E 7
ROR: imp 6A 2, zp 66 5, zpx 76 6, abs 6E 6, abx 7E 7
CLC: imp 18 2
SEC: imp 38 2
CLI: imp 58 2
SEI: imp 78 2
CLV: imp B8 2
CLD: imp D8 2
SED: imp F8 2
BPL: rel 10 2
BMI: rel 30 2
BVC: rel 50 2
BVS: rel 70 2
BCC: rel 90 2
BCS: rel B0 2
BNE: rel D0 2
BEQ: rel F0 2
JMP: abs 4C 3, ind 6C 5
JSR: abs 20 6
RTS: imp 60 6
RTI: imp 40 6
BRK: imp 00 7
NOP: imp EA 2, imp 1A 2, imp 3A 2, imp 5A 2, imp 7A 2, imp DA 2, imp FA 2
NOPR: imm 80 2, imm 82 2, imm 89 2, imm C2 2, imm E2 2, zp 04 3, zp 44 3, zp 64 3, zpx 14 4
NOPR: zpx 34 4, zpx 54 4, zpx 74 4, zpx D4 4, zpx F4 4, abs 0C 4, abx 1C 4+, abx 3C 4+, abx 5C 4+
NOPR: abx 7C 4+, abx DC 4+, abx FC 4+
LAX: zp A7 3, zpy B7 4, abs AF 4, aby BF 4+, inx A3 6, iny B3 5+
SAX: zp 87 3, zpy 97 4, abs 8F 4, inx 83 6
DCP: zp C7 5, zpx D7 6, abs CF 6, abx DF 7, aby DB 7, inx C3 8, iny D3 8
ISB: zp E7 5, zpx F7 6, abs EF 6, abx FF 7, aby FB 7, inx E3 8, iny F3 8
SLO: zp 07 5, zpx 17 6, abs 0F 6, abx 1F 7, aby 1B 7, inx 03 8, iny 13 8
RLA: zp 27 5, zpx 37 6, abs 2F 6, abx 3F 7, aby 3B 7, inx 23 8, iny 33 8
SRE: zp 47 5, zpx 57 6, abs 4F 6, abx 5F 7, aby 5B 7, inx 43 8, iny 53 8
RRA: zp 67 5, zpx 77 6, abs 6F 6, abx 7F 7, aby 7B 7, inx 63 8, iny 73 8
ANC: imm 0B 2, imm 2B 2
ALR: imm 4B 2
"""

_MODE_NAMES = ("imp", "imm", "zp", "zpx", "zpy", "abs", "abx", "aby", "inx", "iny", "rel", "ind")


def opcodes() -> dict[int, tuple[str, int, int, int]]:
    """Return for each opcode its mnemonic, mode, cycles, and the cycles more where a page is crossed."""
    found = {}
    for line in _OPCODES.strip().splitlines():
        mnemonic, ways = line.split(": ")
        for way in ways.split(", "):
            mode, code, cycles = way.split()
            found[int(code, 16)] = (
                mnemonic,
                _MODE_NAMES.index(mode),
                int(cycles[0]),
                int(cycles.endswith("+")),
            )
    return found


# The fields of a decoded opcode. First word:
LENGTH, PENALTY, ADD_X, ADD_Y, WIDE, IN_ZERO_PAGE, POINTER, READS = 4, 6, 7, 8, 9, 10, 11, 13
FROM_LOW, FROM_A, FROM_X, FROM_Y, FROM_ELSEWHERE, UNARY, STORES, FAULTY = 14, 15, 16, 17, 18, 21, 24, 26
# second word:
COMPARE_X, COMPARE_Y, WRITES, SETS_NZ, FLOW, MASK, VALUE = 4, 5, 6, 11, 12, 15, 23
NO_POINTER, POINTER_X, POINTER_Y, POINTER_JMP = range(4)
ELSEWHERE = {
    source: i + 1 for i, source in enumerate((SOURCE_SP, SOURCE_P, SOURCE_PULL, SOURCE_AX, SOURCE_AM))
}
EW_SP, EW_P, EW_PULL, EW_AX, EW_AM = range(1, 6)


def _address_fields(mode: int) -> int:
    """Return the bits of the first word that say how the address is found."""
    pointer = {IND_X: POINTER_X, IND_Y: POINTER_Y, INDIRECT: POINTER_JMP}.get(mode, NO_POINTER)
    return (
        LENGTHS[mode] << LENGTH
        | (mode in (ZP_X, ABS_X)) << ADD_X
        | (mode in (ZP_Y, ABS_Y, IND_Y)) << ADD_Y
        | (mode in (ABS, ABS_X, ABS_Y, INDIRECT)) << WIDE
        | (mode in (ZP, ZP_X, ZP_Y)) << IN_ZERO_PAGE
        | pointer << POINTER
    )


def decode_table() -> NDArray[np.int32]:
    """Return int32 [256 * 2]: two words for each opcode, in the fields that `cpu6507.run` takes apart.

    The lowest four bits are the cycles and what is done with a register (`binary`). `MASK` and `VALUE` are
    the condition of a branch, else the bits of the processor status that are cleared and set.
    """
    table = np.zeros((256, 2), np.int32)
    table[:, 0] = 2 | 1 << LENGTH | 1 << FAULTY
    for opcode, (mnemonic, mode, cycles, crossing) in opcodes().items():
        operation = OPERATIONS.get(mnemonic, OPERATIONS["NOP"])
        source, unary, store, binary, compared, written, flags = operation
        if mode == IMPLIED and source == SOURCE_MEMORY:  # a shift of the accumulator
            source, store, written = SOURCE_A, KEEP, TO_A
        reads = source == SOURCE_MEMORY and mode not in (IMPLIED, IMMEDIATE)
        places = {SOURCE_MEMORY: FROM_LOW, SOURCE_A: FROM_A, SOURCE_X: FROM_X, SOURCE_Y: FROM_Y}
        flow = BRANCH if mnemonic in BRANCHES else FLOWS.get(mnemonic, NEXT)
        mask, value = (BRANCHES | FLAGS).get(mnemonic, (0, 0))
        table[opcode, 0] = (
            cycles | crossing << PENALTY | _address_fields(mode) | reads << READS | unary << UNARY
            | store << STORES | ELSEWHERE.get(source, 0) << FROM_ELSEWHERE
            | (1 << places[source] if source in places else 0)
        )  # fmt: skip
        table[opcode, 1] = (
            binary | (compared == _X) << COMPARE_X | (compared == _Y) << COMPARE_Y | written << WRITES
            | flags << SETS_NZ | flow << FLOW | mask << MASK | (mask * value) << VALUE
        )  # fmt: skip
    return table.reshape(-1)
