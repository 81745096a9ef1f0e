"""Cartridges: 2K and 4K of plain ROM, and F8, two banks of 4K (Stella Programmer's Guide; published maps)."""

import numpy as np
from numpy.typing import NDArray

BANK_BYTES = 4096
PLAIN, F8 = range(2)


def load_rom(rom: bytes) -> tuple[NDArray[np.uint8], int]:
    """Return a cartridge's bytes, uint8 [whole banks], and its kind.

    Raises:
        ValueError: The kind of cartridge is not supported.
    """
    kinds = {2048: PLAIN, 4096: PLAIN, 8192: F8}
    if len(rom) not in kinds:
        raise ValueError(f"a cartridge of {len(rom)} bytes is not supported: it is not 2K, 4K or F8")
    banks = np.frombuffer(rom, np.uint8)
    return np.tile(banks, max(1, BANK_BYTES // len(rom))), kinds[len(rom)]


def with_the_next_two(banks: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return each byte combined with the two after it in its bank, so that one read gets an instruction."""
    rows = banks.reshape(-1, BANK_BYTES).astype(np.int32)
    return (rows | np.roll(rows, -1, axis=1) << 8 | np.roll(rows, -2, axis=1) << 16).reshape(-1)
