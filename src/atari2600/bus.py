"""The 6507's bus: which chip answers at an address. Of 16 address lines the chip has 13.

A12 set: the cartridge. Else A7 clear: the TIA. Else A9 clear: the RIOT's RAM, set: its timer and ports.
"""

import warp as wp

from atari2600.cartridge import switch_bank
from atari2600.machine import CPU, Machine
from atari2600.riot import read_riot, write_riot
from atari2600.tia import read_tia, write_tia


@wp.func
def peek(m: Machine, g: int, address: int) -> int:
    """Return the byte at `address` in the lowest eight bits, and the two after it in the next ones.

    Programs lie in the cartridge or in RAM. Nothing is set off.
    """
    code = int(0)
    if address & 0x1000:
        code = m.code[m.cpu[g, CPU.BANK] + (address & 0xFFF)]
    else:
        ram = g * 256
        code = int(m.ram[ram + (address & 127)]) | int(m.ram[ram + (address + 1 & 127)]) << 8
        code = code | int(m.ram[ram + (address + 2 & 127)]) << 16
    return code


@wp.func
def read(m: Machine, g: int, address: int, now: int, noise: int) -> int:
    """Return what the bus holds when the 6507 reads `address`, in an instruction that ends in cycle `now`.

    Lines that no chip drives keep `noise`, the last byte on the bus.
    """
    value = int(0)
    if address & 0x1280 == 0x80:
        value = int(m.ram[g * 256 + (address & 127)])
    elif address & 0x1000:
        switch_bank(m, g, address)
        value = m.code[m.cpu[g, CPU.BANK] + (address & 0xFFF)] & 0xFF
    elif address & 0x80:
        value = read_riot(m, g, address, now)
    else:
        value = read_tia(m, g, address, now, noise)
    return value


@wp.func
def write(m: Machine, g: int, address: int, value: int, now: int) -> int:
    """Write `value` to `address` in an instruction that ends in cycle `now`; return the cycles of a halt."""
    halt = int(0)
    if address & 0x1280 == 0x80:
        m.ram[g * 256 + (address & 127)] = wp.uint8(value)
    elif address & 0x1280 == 0x280:
        write_riot(m, g, address, value, now)
    elif address & 0x1080 == 0:
        halt = write_tia(m, g, address, value, now)
    else:
        switch_bank(m, g, address)
    return halt
