"""The 6507: a 6502 with 13 address lines and no interrupts (data sheet: MOS Technology, 1975).

`execute` is C++ generated from the tables of `opcodes.py`, whose registers and flags are local variables: on
a CPU a label for each opcode, on a GPU the phases of an instruction, which all threads share.
Writes to the TIA are logged with their cycle, and applied later.
"""

import warp as wp

from atari2600 import opcodes
from atari2600.bus import WORDS
from atari2600.machine import Machine

_TABLE, _PHASES = opcodes.phases()
_CODE = (
    WORDS
    + r"""
#define STATUS ((n & 128) | v << 6 | di | (z == 0) << 1 | c)
#define SET_STATUS(P) { int p = P; n = p; v = p >> 6 & 1; di = p & 12; z = ~p & 2; c = p & 1; }
#define COMPARE(R, V) { n = z = ((R) - (V)) & 255; c = (R) >= (V); }
#define STACK(I, V) ram[(sp - I) & 127] = (unsigned char)(V);
// In the lower half of the stack's page the TIA responds; undriven lines keep the byte at the old pointer.
#define PULL { ea = (sp + 1) & 255; noise = ram[sp & 127]; READ_ZP; sp = ea; }
#define UNKNOWN pc += 1; t += 2; cpu[CPU_FAULT] = 256 + (word & 255);
#define DIGITS(V) (((V) >> 4) * 10 + ((V) & 15))
#define DECIMAL(N) ((N) / 10 % 10 << 4 | (N) % 10)
// In decimal mode the data sheet leaves N, V and Z undefined; here they follow from the result, as in ALE.
#define ADD(V) { \
    int sum = a + (V) + c; \
    if (di & 8) { \
        int number = DIGITS(a) + DIGITS(V) + c; \
        sum = DECIMAL(number & 255) | (number > 99) << 8; \
    } \
    v = ((a ^ sum) & ((V) ^ sum)) >> 7 & 1; \
    c = sum >> 8; a = n = z = sum & 255; }
#define SUBTRACT(V) { \
    int borrow = 1 - c, rest = a - (V) - borrow; \
    c = rest >= 0; \
    if (di & 8) { \
        int number = DIGITS(a) - DIGITS(V) - borrow; \
        rest = (number < 0 ? number + 100 : number) & 255; \
        rest = DECIMAL(rest); \
        v = ((a ^ rest) & ((V) ^ rest)) >> 7 & 1; \
    } else v = ((a ^ (V)) & (a ^ rest)) >> 7 & 1; \
    a = n = z = rest & 255; }
#define BRANCH(CONDITION) if (CONDITION) { \
    int next = pc + 2, target = next + lo - (lo & 128) * 2; \
    now += 1 + (((target ^ next) & 0xFF00) != 0); \
    pc = (target & 0xFFFF) - 2; }
// Waiting loops: `LDA INTIM, BNE` or `DEX, BPL`. All iterations except the last are skipped at once; the last
// sets registers and flags.
#define SKIP(PASSES, CYCLES) if ((PASSES) > 0 && left > 2 * (PASSES) + 2) { \
    left -= 2 * (PASSES); now += (PASSES) * (CYCLES); }
#define COUNT_DOWN(R) { if (R > 1 && left > 2 * R + 2) { \
    left -= 2 * (R - 1); now += (R - 1) * (now - t + 2); R = n = z = 1; } }
#define LOOP(CONDITION) if (CONDITION) { \
    int next = pc + 2, target = next + lo - (lo & 128) * 2; \
    now += 1 + (((target ^ next) & 0xFF00) != 0); \
    pc = (target & 0xFFFF) - 2; \
    if (lo >= 0xFB) { \
        int back = FETCH(target); \
        if (lo == 0xFD) { \
            if ((back & 255) == 0xCA) COUNT_DOWN(x) else if ((back & 255) == 0x88) COUNT_DOWN(y) \
        } else if (lo == 0xFB && back >> 8 == 0x0284 && (back & 0xFC) == 0xAC && (back & 255) != 0xAF) { \
            int until = riot[RIOT_SET_AT] + ((riot[RIOT_VALUE] - 1) << riot[RIOT_SHIFT]) - now - 4; \
            int cycles = now - t + 4; \
            if (until > 0) SKIP(until / cycles, cycles) \
        } } }
int a = cpu[CPU_A], x = cpu[CPU_X], y = cpu[CPU_Y], sp = cpu[CPU_SP], pc = cpu[CPU_PC], t = cpu[CPU_CYCLES];
int n, z, c, v, di, lo, hi, ea = 0, noise = 0, crossed = 0, now, value;
SET_STATUS(cpu[CPU_P])
int left = instructions, bank = cpu[CPU_BANK];
const int* page = code + bank;
#define FETCH_NEXT { word = FETCH(pc); lo = word >> 8 & 255; hi = word >> 16; }
int word;
#ifdef __CUDA_ARCH__
for (; left > 0; --left) {
    FETCH_NEXT
    static __constant__ unsigned DECODE[256] = { """
    + _TABLE
    + " };"
    + _PHASES
    + r"""
}
#else
// Each instruction ends with a jump to the next: the processor predicts these better than one jump for all.
#define DISPATCH { if (left <= 0) goto out; FETCH_NEXT goto *LABELS[word & 255]; }
#define NEXT { --left; DISPATCH }
static const void* const LABELS[256] = { """
    + opcodes.labels()
    + r""" };
DISPATCH
"""
    + opcodes.instructions()
    + r"""
#endif
out:
cpu[CPU_A] = a; cpu[CPU_X] = x; cpu[CPU_Y] = y; cpu[CPU_SP] = sp; cpu[CPU_PC] = pc & 0xFFFF;
cpu[CPU_P] = STATUS; cpu[CPU_CYCLES] = t; cpu[CPU_BANK] = bank;
bus[BUS_LOGGED] = logged; bus[BUS_LEFT] = left + spare;
return status;
"""
)


@wp.func_native(_CODE)
def execute(m: wp.ref[Machine], g: int, instructions: int) -> int:  # type: ignore[empty-body]
    """Execute at most `instructions` instructions; return `DONE`, `LOG_FULL` or `COLLISIONS`."""
    ...
