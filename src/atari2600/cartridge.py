"""Cartridges: which byte of the ROM is at an address, and what switches banks (published maps of the kinds).

| kind | size | banks | switched by an access to |
|---|---|---|---|
| 2K, 4K | 2K, 4K | one of 4K | |
| F8 | 8K | two of 4K | $1FF8, $1FF9 |
| F6 | 16K | four of 4K | $1FF6 to $1FF9 |
| E0 | 8K | eight of 1K, in four slots | $1FE0 to $1FF7: eight addresses for each of the first three slots |
| FE | 8K | two of 4K | nothing: bit 13 of the address, which the 6507 drives but has no pin for |

F8 and F6 may have a Superchip (F8SC, F6SC): 128 bytes of RAM, written at $1000 and read at $1080.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BANK_BYTES = 4096
PLAIN, F8, F6, E0, FE = range(5)
SUPERCHIP = 8  # a bit, beside F8 or F6
RAM_WINDOWS = 256  # bytes of a bank that a Superchip hides: 128 to write its RAM, 128 to read it
SLOTS = 512  # combinations of the banks in E0's first three slots
ABSOLUTE = (0x2C, 0x8D, 0xAD, 0xAC, 0xAE)  # BIT, STA, LDA, LDY, LDX with an absolute address


class Cartridge(NamedTuple):
    """A cartridge as `Console` needs it.

    Attributes:
        banks: uint8 [whole banks of 4K]; E0 has one for each combination of the banks in its slots.
        kind: `PLAIN`, `F8`, `F6`, `E0` or `FE`, with or without `SUPERCHIP`.
        bank: The bank at power-on.
    """

    banks: NDArray[np.uint8]
    kind: int
    bank: int = 0


def load_rom(rom: bytes) -> Cartridge:
    """Return the cartridge with the bytes `rom`.

    A ROM does not say its kind. A Superchip hides bytes that are therefore all equal. E0 is recognized by
    the addresses that switch its slots, and FE by its reset vectors: its first bank is at $F000, its second
    at $D000.

    Raises:
        ValueError: The kind of cartridge is not supported.
    """
    banks = np.frombuffer(rom, np.uint8)
    if len(rom) in (2048, 4096):
        return Cartridge(np.tile(banks, BANK_BYTES // len(rom)), PLAIN)
    if len(rom) not in (8192, 16384):
        raise ValueError(f"a cartridge of {len(rom)} bytes is not supported: it is not 2K, 4K, 8K or 16K")
    if len(rom) == 8192:
        if accesses(rom, 0x1FE0, 0x1FF7) > accesses(rom, 0x1FF8, 0x1FF9):
            return Cartridge(all_slots(banks), E0, SLOTS - 1)
        if not accesses(rom, 0x1FF8, 0x1FF9) and rom[0x0FFD] & 0x20 > rom[0x1FFD] & 0x20:
            second, first = banks[BANK_BYTES:], banks[:BANK_BYTES]
            return Cartridge(np.concatenate((second, second, first)), FE)
    windows = banks.reshape(-1, BANK_BYTES)[:, :RAM_WINDOWS]
    chip = SUPERCHIP if (windows == windows[:, :1]).all() else 0
    return Cartridge(banks, (F8 if len(rom) == 8192 else F6) | chip)


def accesses(rom: bytes, first: int, last: int) -> int:
    """Return how often a program seems to access an address from `first` to `last` of 13 bits."""
    code = np.frombuffer(rom, np.uint8).astype(np.int32)
    address = (code[1:-1] | code[2:] << 8) & 0x1FFF
    return int((np.isin(code[:-2], ABSOLUTE) & (first <= address) & (address <= last)).sum())


def all_slots(banks: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a bank of 4K for each combination of the eight `banks` of 1K in the first three slots.

    The first slot's bank is in the lowest three bits of the combination's index.
    """
    eight = banks.reshape(8, BANK_BYTES // 4)
    combinations = np.arange(SLOTS)[:, None] >> np.array([0, 3, 6]) & 7
    slots = np.column_stack((combinations, np.full(SLOTS, 7)))  # the last slot has the last bank
    return eight[slots].reshape(-1)


def with_the_next_two(banks: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return each byte combined with the two after it in its bank, so that one read gets an instruction."""
    rows = banks.reshape(-1, BANK_BYTES).astype(np.int32)
    return (rows | np.roll(rows, -1, axis=1) << 8 | np.roll(rows, -2, axis=1) << 16).reshape(-1)


# C++ for `bus.py`. `lines` are the address lines that select a byte of `code`; the places below `chip` are
# the Superchip's RAM, and those from `hot` on may switch the bank.
CARTRIDGE = r"""
const int kind = cpu[CPU_CARTRIDGE] & 7, chip = cpu[CPU_CARTRIDGE] & SUPERCHIP ? RAM_WINDOWS : 0;
const int hot = kind == E0 ? 0xFE0 : kind == F6 ? 0xFF6 : kind == F8 ? 0xFF8 : 0x1000;
const int lines = kind == FE ? 0x2FFF : 0xFFF;
// The bank after an access to `place`, from `hot` on.
auto switch_bank = [=](int place, int bank) -> int {
    if (kind == E0 && place < 0xFF8) {
        int slot = 12 + ((place - 0xFE0) >> 3) * 3;
        return (bank & ~(7 << slot)) | (place & 7) << slot;
    }
    if ((kind == F8 || kind == F6) && place <= 0xFF9) return (place - hot) * 4096;
    return bank;
};
"""
