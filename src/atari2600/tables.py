"""The TIA's registers and patterns as tables."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from atari2600.machine import TIA

VSYNC, VBLANK, WSYNC, RSYNC, NUSIZ0, NUSIZ1, COLUP0, COLUP1, COLUPF, COLUBK, CTRLPF, REFP0, REFP1 = range(13)
PF0, PF1, PF2, RESP0, RESP1, RESM0, RESM1, RESBL = range(13, 21)
GRP0, GRP1, ENAM0, ENAM1, ENABL, HMP0, HMP1, HMM0, HMM1, HMBL = range(27, 37)
VDELP0, VDELP1, VDELBL, RESMP0, RESMP1, HMOVE, HMCLR, CXCLR = range(37, 45)

PLAYFIELD_DELAY, RESET_DELAY = 100, 101
NEVER = 0x7FFFFFFF
CHANGES_PLAYFIELD = 0b100000

# register: colour clocks until a write is seen; 0 for the others.
DELAYS = {
    VBLANK: 1, NUSIZ0: 8, NUSIZ1: 8, REFP0: 1, REFP1: 1, GRP0: 1, GRP1: 1, RESM0: 8, RESM1: 8,
    PF0: PLAYFIELD_DELAY, PF1: PLAYFIELD_DELAY, PF2: PLAYFIELD_DELAY, RESP0: RESET_DELAY, RESP1: RESET_DELAY,
}  # fmt: skip
# register: the objects whose pixels a write can change, bits in the order P0, P1, M0, M1, BL, PF.
CHANGES = {
    NUSIZ0: 0b000101, NUSIZ1: 0b001010, CTRLPF: 0b110000, REFP0: 1, REFP1: 2, PF0: 32, PF1: 32, PF2: 32,
    RESP0: 1, RESP1: 2, RESM0: 4, RESM1: 8, RESBL: 16, GRP0: 3, GRP1: 19, ENAM0: 4, ENAM1: 8, ENABL: 16,
    VDELP0: 1, VDELP1: 2, VDELBL: 16, RESMP0: 4, RESMP1: 8, HMOVE: 31,
}  # fmt: skip
COLUMNS = {
    VBLANK: TIA.VBLANK, NUSIZ0: TIA.NUSIZ0, NUSIZ1: TIA.NUSIZ1, CTRLPF: TIA.CTRLPF, REFP0: TIA.REFP0,
    REFP1: TIA.REFP1, ENAM0: TIA.ENAM0, ENAM1: TIA.ENAM1, ENABL: TIA.ENABL, VDELP0: TIA.VDELP0,
    VDELP1: TIA.VDELP1, VDELBL: TIA.VDELBL,
}  # fmt: skip
# Copies of players and missiles by NUSIZ: the pixels between the first and the others.
COPIES = [(0,), (0, 16), (0, 32), (0, 16, 32), (0, 64), (0,), (0, 32, 64), (0,)]


def by_register(values: Mapping[int, int], other: int) -> NDArray[np.int32]:
    """Return int32 [64], a value for each register."""
    return np.array([values.get(register, other) for register in range(64)], np.int32)


def patterns() -> NDArray[np.uint32]:
    """Return uint32 [4096]: a player's pixels, the leftmost in the lowest bit, by (REFP, NUSIZ, GRP)."""
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
    """Return int32 [8]: the distances of `COPIES`, each in a byte with bit 7 set."""
    return np.array([sum((0x80 | at) << 8 * i for i, at in enumerate(row)) for row in COPIES], np.int32)


def reversed_bits() -> NDArray[np.int32]:
    """Return int32 [1024]: ten bits in reverse order."""
    return np.array([int(f"{number:010b}"[::-1], 2) for number in range(1024)], np.int32)
