"""The kinds of cartridges: how a ROM's kind is recognized, and what switches its banks."""

import numpy as np
import pytest

pytest.importorskip("warp", reason="NVIDIA Warp is not installed")

from atari2600.cartridge import E0, F6, F8, FE, PLAIN, SUPERCHIP, load_rom
from atari2600.console import Console
from atari2600.machine import CPU
from tests.atari2600.assembler import assemble


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


def after(rom: bytes, source: str) -> Console:
    """Return a console with the cartridge `rom` after it has run `source` in its RAM."""
    console = Console(rom, games=1)
    code = assemble(source)
    console.ram[0, : len(code)] = list(code)
    console.cpu[0, CPU.PC], console.cpu[0, CPU.SP] = 0x80, 0xFF
    console.execute(source.count("\n") + 1)
    return console


@pytest.mark.parametrize("kind", [PLAIN, F8, F8 | SUPERCHIP, F6, F6 | SUPERCHIP, E0, FE])
def test_a_rom_shows_its_kind(kind: int) -> None:
    assert load_rom(cartridge(kind)).kind == kind


def test_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="10495 bytes is not supported"):
        load_rom(bytes(10495))


@pytest.mark.parametrize(
    ("kind", "source", "found"),
    [
        (F8, "LDA $1FF9\nLDA $1300", 1),
        (F8, "STA $FFF9\nLDA $1FF8\nLDA $F300", 0),
        (F6, "LDA $1FF8\nLDA $1300", 2),
        (F6, "LDA $1FF9\nLDA $1FFA\nLDA $1300", 3),
        (F6 | SUPERCHIP, "STA $1FF7\nLDA $1300", 1),
        (E0, "LDA $1FE2\nLDA $1010", 2),
        (E0, "LDA $1FE2\nLDA $1FEC\nLDA $1410", 4),
        (E0, "LDA $1FE2\nLDA $1FF5\nLDA $1FE3\nLDA $1810", 5),
        (E0, "LDA $1FE2\nLDA $1FF8\nLDA $1C10", 7),
        (FE, "LDA $D300", 1),
        (FE, "LDA $D300\nLDA $F300", 0),
    ],
)
def test_accesses_switch_banks(kind: int, source: str, found: int) -> None:
    assert after(cartridge(kind), source).cpu[0, CPU.A] == found


@pytest.mark.parametrize("kind", [F8 | SUPERCHIP, F6 | SUPERCHIP])
def test_a_superchip_has_ram_in_every_bank(kind: int) -> None:
    source = "LDA #$2A\nSTA $1005\nSTA $1FF9\nLDA #$17\nSTA $107F\nLDX $1085\nLDY $F0FF"
    console = after(cartridge(kind), source)
    assert console.cpu[0, [CPU.X, CPU.Y]].tolist() == [0x2A, 0x17]
    assert console.ram[0, [128 + 5, 255]].tolist() == [0x2A, 0x17]
