"""The TIA's registers and patterns as tables."""

import numpy as np
from numpy.typing import NDArray

VSYNC, VBLANK, WSYNC, RSYNC, NUSIZ0, NUSIZ1, COLUP0, COLUP1, COLUPF, COLUBK, CTRLPF, REFP0, REFP1 = range(13)
PF0, PF1, PF2, RESP0, RESP1, RESM0, RESM1, RESBL = range(13, 21)
GRP0, GRP1, ENAM0, ENAM1, ENABL, HMP0, HMP1, HMM0, HMM1, HMBL = range(27, 37)
VDELP0, VDELP1, VDELBL, RESMP0, RESMP1, HMOVE, HMCLR, CXCLR = range(37, 45)

NEVER = 0x7FFFFFFF
LINE = 228  # color clocks of a line, of which the first 68 are blank
BLANK = 68
P0, P1, M0, M1, BL, PF = 1, 2, 4, 8, 16, 32  # objects, as bits
# Copies of players and missiles by NUSIZ: the pixels between the first and the others.
COPIES = [(0,), (0, 16), (0, 32), (0, 16, 32), (0, 64), (0,), (0, 32, 64), (0,)]


def patterns() -> NDArray[np.uint32]:
    """Return a player's pixels by (REFP, NUSIZ, GRP), uint32 [4096], the leftmost in the lowest bit."""
    found = np.zeros((2, 8, 256), np.uint32)
    for reflected in range(2):
        for copies in range(8):
            width = {5: 2, 7: 4}.get(copies, 1)
            for graphic in range(256):
                bits = [graphic >> i & 1 for i in range(8)][:: 1 if reflected else -1]
                found[reflected, copies, graphic] = sum(
                    bit << i * width + j for i, bit in enumerate(bits) for j in range(width)
                )
    return found.reshape(-1)


def copies() -> NDArray[np.int32]:
    """Return the distances of `COPIES`, int32 [8], each distance in a byte with bit 7 set."""
    return np.array([sum((0x80 | at) << 8 * i for i, at in enumerate(row)) for row in COPIES], np.int32)


def reversed_bits() -> NDArray[np.int32]:
    """Return each number of ten bits with its bits in reverse order, int32 [1024]."""
    return np.array([int(f"{number:010b}"[::-1], 2) for number in range(1024)], np.int32)
