"""The 6507's instructions as tables: the addressing mode and the operation of each of the 256 opcodes.

`instructions` and `phases` turn them into C++, for a CPU and for a GPU, with names that `bus.py` and
`cpu6507.py` define: the registers `a x y sp pc`, the flags `n z c v di` (N is bit 7 of `n`, Z is set if `z`
is 0, `di` has D and I), the operand's bytes `lo` and `hi`, the address `ea`, and the cycle `now` in which the
instruction ends.
"""

# Addressing modes, named as in the data sheet.
IMPLIED, IMMEDIATE, ZP, ZP_X, ZP_Y, ABS, ABS_X, ABS_Y, IND_X, IND_Y, RELATIVE, INDIRECT = range(12)
LENGTHS = (1, 2, 2, 2, 2, 3, 3, 3, 2, 2, 2, 3)  # bytes of an instruction, by mode
ZERO_PAGE = (ZP, ZP_X, ZP_Y)

# Pointers in zero page must be in RAM. `noise` is the value of bus lines that no chip drives.
ADDRESSES = {
    IMMEDIATE: "value = lo;",
    ZP: "ea = noise = lo;",
    ZP_X: "ea = (lo + x) & 255; noise = lo;",
    ZP_Y: "ea = (lo + y) & 255; noise = lo;",
    ABS: "ea = lo | hi << 8; noise = hi;",
    ABS_X: "ea = ((lo | hi << 8) + x) & 0xFFFF; noise = hi; crossed = (lo + x) >> 8;",
    ABS_Y: "ea = ((lo | hi << 8) + y) & 0xFFFF; noise = hi; crossed = (lo + y) >> 8;",
    IND_X: "ea = ram[(lo + x) & 127] | ram[(lo + x + 1) & 127] << 8; noise = ea >> 8;",
    IND_Y: "noise = ram[(lo + 1) & 127]; ea = ram[lo & 127] + y; crossed = ea >> 8; "
    "ea = (ea + (noise << 8)) & 0xFFFF;",
}
# Instructions that read `value`.
READERS = {
    "LDA": "a = n = z = value;",
    "LDX": "x = n = z = value;",
    "LDY": "y = n = z = value;",
    "LAX": "a = x = n = z = value;",
    "ORA": "a = n = z = a | value;",
    "AND": "a = n = z = a & value;",
    "EOR": "a = n = z = a ^ value;",
    "ADC": "ADD(value)",
    "SBC": "SUBTRACT(value)",
    "CMP": "COMPARE(a, value)",
    "CPX": "COMPARE(x, value)",
    "CPY": "COMPARE(y, value)",
    "BIT": "n = value; z = a & value; v = value >> 6 & 1;",
    "ANC": "a = n = z = a & value; c = a >> 7;",
    "ALR": "value &= a; c = value & 1; a = n = z = value >> 1;",
    "NOPR": "",  # an undocumented NOP that reads its operand
}
WRITERS = {"STA": "a", "STX": "x", "STY": "y", "SAX": "a & x"}
# Instructions that change a byte of memory, or A.
_INC, _DEC = "value = (value + 1) & 255;", "value = (value - 1) & 255;"
_ASL, _LSR = "c = value >> 7; value = value << 1 & 255;", "c = value & 1; value >>= 1;"
_ROL = "value = value << 1 | c; c = value >> 8; value &= 255;"
_ROR = "value |= c << 8; c = value & 1; value >>= 1;"
ALTERERS = {"INC": _INC, "DEC": _DEC, "ASL": _ASL, "LSR": _LSR, "ROL": _ROL, "ROR": _ROR}
# Undocumented instructions: one of the above, then a reader.
BOTH = {
    "SLO": ("ASL", "ORA"), "RLA": ("ROL", "AND"), "SRE": ("LSR", "EOR"), "RRA": ("ROR", "ADC"),
    "DCP": ("DEC", "CMP"), "ISB": ("INC", "SBC"),
}  # fmt: skip
# Instructions without an operand in memory; jumps set `pc` themselves.
OTHERS = {
    "TAX": "x = n = z = a;", "TAY": "y = n = z = a;", "TXA": "a = n = z = x;", "TYA": "a = n = z = y;",
    "TSX": "x = n = z = sp;", "TXS": "sp = x;",
    "INX": "x = n = z = (x + 1) & 255;", "INY": "y = n = z = (y + 1) & 255;",
    "DEX": "x = n = z = (x - 1) & 255;", "DEY": "y = n = z = (y - 1) & 255;",
    "PHA": "value = a; ea = sp; sp = (sp - 1) & 255;",
    "PHP": "value = STATUS | 0x30; ea = sp; sp = (sp - 1) & 255;",
    "PLA": "PULL; a = n = z = value;",
    "PLP": "PULL; SET_STATUS(value)",
    "CLC": "c = 0;", "SEC": "c = 1;", "CLV": "v = 0;", "CLI": "di &= ~4;", "SEI": "di |= 4;",
    "CLD": "di &= ~8;", "SED": "di |= 8;", "NOP": "",
    "JMP": "pc = lo | hi << 8;",
    "JSR": "STACK(0, (pc + 2) >> 8) STACK(1, pc + 2) sp = (sp - 2) & 255; pc = lo | hi << 8;",
    "RTS": "pc = (ram[(sp + 1) & 127] + (ram[(sp + 2) & 127] << 8) + 1) & 0xFFFF; sp = (sp + 2) & 255;",
    "RTI": "SET_STATUS(ram[(sp + 1) & 127]) pc = ram[(sp + 2) & 127] + (ram[(sp + 3) & 127] << 8); "
    "sp = (sp + 3) & 255;",
    "BRK": "STACK(0, (pc + 2) >> 8) STACK(1, pc + 2) STACK(2, STATUS | 0x30) di |= 4; sp = (sp - 3) & 255; "
    "pc = FETCH(0xFFFE) & 0xFFFF;",
}  # fmt: skip
PUSHES = ("PHA", "PHP")  # they write `value` to the stack
JUMPS = ("JMP", "JSR", "RTS", "RTI", "BRK")
# The high byte of an indirect jump comes from the same page: JMP ($10FF) reads $10FF and $1000.
INDIRECT_JUMP = (
    "ea = lo | hi << 8; pc = (FETCH(ea) & 255) | (FETCH((ea & 0xFF00) | ((ea + 1) & 255)) & 255) << 8;"
)
BRANCHES = {
    "BPL": "!(n & 128)", "BMI": "n & 128", "BVC": "!v", "BVS": "v", "BCC": "!c", "BCS": "c", "BNE": "z",
    "BEQ": "!z",
}  # fmt: skip
LOOPS = ("BNE", "BPL")  # the branches of waiting loops

# mnemonic: its opcodes as "mode opcode cycles", with + if crossing a page takes one cycle more. Long rows
# continue in a row with the same name. LAX zp takes 4 cycles in ALE, and so here; the 6507 takes 3.
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
LAX: zp A7 4, zpy B7 4, abs AF 4, aby BF 4+, inx A3 6, iny B3 5+
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
    """Return for each opcode its mnemonic, mode, cycles, and the additional cycles for crossing a page."""
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


def parts(mnemonic: str, mode: int) -> tuple[bool, str, bool]:
    """Return whether an instruction reads `value` from `ea`, its C++, and whether it writes `value` back."""
    if mnemonic in BRANCHES:
        return False, f"{'LOOP' if mnemonic in LOOPS else 'BRANCH'}({BRANCHES[mnemonic]})", False
    if mode == INDIRECT:
        return False, INDIRECT_JUMP, False
    if mnemonic in ALTERERS and mode == IMPLIED:
        return False, f"value = a; {ALTERERS[mnemonic]} a = n = z = value;", False
    if mnemonic in ALTERERS:
        return True, f"{ALTERERS[mnemonic]} n = z = value;", True
    if mnemonic in BOTH:
        first, second = BOTH[mnemonic]
        return True, f"{ALTERERS[first]} {READERS[second]}", True
    if mnemonic in WRITERS:
        return False, f"value = {WRITERS[mnemonic]};", True
    if mnemonic in READERS:
        return mode != IMMEDIATE, READERS[mnemonic], False
    return False, OTHERS[mnemonic], mnemonic in PUSHES


def labels() -> str:
    """Return the addresses of the labels of `instructions`, in the order of the opcodes."""
    known = opcodes()
    return ", ".join(f"&&OP_{opcode if opcode in known else 'UNKNOWN'}" for opcode in range(256))


def instructions() -> str:
    """Return the C++ of each instruction behind its label; fast on a CPU."""
    cases = []
    for opcode, (mnemonic, mode, cycles, crossing) in sorted(opcodes().items()):
        reads, does, writes = parts(mnemonic, mode)
        narrow = "_ZP" if mode in ZERO_PAGE or mnemonic in PUSHES else ""
        jumps = mnemonic in JUMPS
        steps = [
            f"now = t + {cycles};",
            "" if jumps else ADDRESSES.get(mode, ""),
            "now += crossed;" if crossing else "",
            f"READ{narrow};" if reads else "",
            does,
            f"WRITE{narrow}(value)" if writes else "",
            "" if jumps else f"pc += {LENGTHS[mode]};",
        ]
        cases.append(f"OP_{opcode}: {' '.join(filter(None, steps))} t = now; NEXT")
    return "\n".join([*cases, "OP_UNKNOWN: UNKNOWN NEXT"])


# How `phases` packs an opcode into a word of its table: the bit where each field begins.
OPERATION, MODE, READS, WRITES, CROSSING, LENGTH, CYCLES, KNOWN = 0, 8, 12, 13, 14, 16, 20, 31


def phases() -> tuple[str, str]:
    """Return a table of all opcodes and the C++ that executes one: decode, address, read, operate, write.

    The threads of a warp on a GPU share each phase, whatever their opcodes. The code has a third of the size
    of `instructions`, and is slower on a CPU.
    """
    operations: dict[str, int] = {}
    rows = [0] * 256
    for opcode, (mnemonic, mode, cycles, crossing) in opcodes().items():
        reads, does, writes = parts(mnemonic, mode)
        jumps = mnemonic in JUMPS
        rows[opcode] = (
            operations.setdefault(does, len(operations)) << OPERATION
            | (IMPLIED if jumps else mode) << MODE
            | reads << READS
            | writes << WRITES
            | crossing << CROSSING
            | (0 if jumps else LENGTHS[mode]) << LENGTH
            | cycles << CYCLES
            | 1 << KNOWN
        )
    modes = " ".join(f"case {mode}: {text} break;" for mode, text in ADDRESSES.items())
    cases = "\n".join(f"case {number}: {does} break;" for does, number in operations.items())
    code = f"""
    const unsigned row = DECODE[word & 255];
    if (!row) {{ UNKNOWN continue; }}
    now = t + (row >> {CYCLES} & 15);
    switch (row >> {MODE} & 15) {{ {modes} default: break; }}
    if (row >> {CROSSING} & 1) now += crossed;
    if (row >> {READS} & 1) READ;
    switch (row & 255) {{
    {cases}
    }}
    if (row >> {WRITES} & 1) {{ WRITE(value) }}
    pc += row >> {LENGTH} & 3;
    t = now;"""
    return ", ".join(f"{row}u" for row in rows), code
