"""The 6507: a 6502 with 13 address lines and no interrupts (data sheet: MOS Technology, 1975).

`run` executes instructions until the frame is over. Each goes through the same few steps, chosen by
the tables of `opcodes.py`, so that the kernel stays small: its compiler meets no 256 branches, and
the threads of a GPU, each at an instruction of its own, run the same code.
"""

import warp as wp

from atari2600 import opcodes
from atari2600.bus import peek, read, write
from atari2600.machine import CPU, Machine

CARRY, ZERO, INTERRUPT, DECIMAL, OVERFLOW, NEGATIVE = 0x01, 0x02, 0x04, 0x08, 0x40, 0x80
# By how many bytes each flow moves the stack pointer, plus 8, in four bits each.
_MOVES = {opcodes.JSR: -2, opcodes.RTS: 2, opcodes.RTI: 3, opcodes.BRK: -3}
STACK_MOVES = sum(8 + _MOVES.get(flow, 0) << 4 * flow for flow in range(7))


@wp.func
def zero_page(m: Machine, g: int, address: int) -> int:
    """Return the byte of RAM at `address` & 255: pointers lie there, and nowhere else in zero page."""
    return int(m.ram[g * 256 + (address & 127)])


@wp.func
def locate(m: Machine, g: int, mode: int, low: int, high: int, x: int, y: int) -> int:
    """Return an instruction's address, with bit 16 set where adding the index crosses a page."""
    address = low
    index = int(0)
    if mode == opcodes.ZP_X:
        address = (low + x) & 0xFF
    elif mode == opcodes.ZP_Y:
        address = (low + y) & 0xFF
    elif mode >= opcodes.ABS:
        address = low | high << 8
        if mode == opcodes.ABS_X:
            index = x
        elif mode == opcodes.ABS_Y:
            index = y
        elif mode == opcodes.IND_X:
            address = zero_page(m, g, low + x) | zero_page(m, g, low + x + 1) << 8
        elif mode == opcodes.IND_Y:
            address = zero_page(m, g, low) | zero_page(m, g, low + 1) << 8
            index = y
        elif mode == opcodes.INDIRECT:
            # The high byte comes from the same page: JMP ($10FF) reads $10FF and $1000.
            address = peek(m, g, address) | peek(m, g, (address & 0xFF00) | ((address + 1) & 0xFF)) << 8
    crossed = ((address & 0xFF) + index) >> 8
    return ((address + index) & 0xFFFF) | crossed << 16


@wp.func
def alter(unary: int, value: int, carry: int) -> int:
    """Return `value` stepped or shifted, with bit 8 the new carry."""
    result = value | carry << 8
    if unary == opcodes.INC:
        result = ((value + 1) & 0xFF) | carry << 8
    elif unary == opcodes.DEC:
        result = ((value - 1) & 0xFF) | carry << 8
    elif unary == opcodes.ASL:
        result = value << 1
    elif unary == opcodes.LSR:
        result = value >> 1 | (value & 1) << 8
    elif unary == opcodes.ROL:
        result = value << 1 | carry
    elif unary == opcodes.ROR:
        result = value >> 1 | carry << 7 | (value & 1) << 8
    return result


@wp.func
def from_decimal(value: int) -> int:
    """Return the number that two decimal digits stand for."""
    return (value >> 4) * 10 + (value & 15)


@wp.func
def to_decimal(number: int) -> int:
    """Return the last two decimal digits of a number."""
    return (number // 10 % 10) << 4 | number % 10


@wp.func
def add(left: int, right: int, p: int) -> int:
    """Return left + right + carry, with the flags C and V in bits 8 and 14.

    In decimal mode the data sheet leaves N, V and Z open; here they follow from the result, as in ALE.
    """
    carry = p & CARRY
    total = left + right + carry
    if p & DECIMAL:
        number = from_decimal(left) + from_decimal(right) + carry
        total = to_decimal(number & 0xFF) | wp.where(number > 99, 0x100, 0)
    overflow = (left ^ total) & (right ^ total) & 0x80
    return total | overflow << 7


@wp.func
def subtract(left: int, right: int, p: int) -> int:
    """Return left - right - (1 - carry), with the flags C and V in bits 8 and 14; see `add`."""
    borrow = 1 - (p & CARRY)
    total = left - right - borrow
    no_borrow = wp.where(total >= 0, 0x100, 0)
    overflow = (left ^ right) & (left ^ total) & 0x80
    if p & DECIMAL:
        number = from_decimal(left) - from_decimal(right) - borrow
        total = to_decimal(wp.where(number < 0, number + 100, number) & 0xFF)
        overflow = (left ^ total) & (right ^ total) & 0x80
    return (total & 0xFF) | no_borrow | overflow << 7


@wp.func
def combine(binary: int, left: int, right: int, p: int) -> int:
    """Return what an instruction makes of a register and a value, with new flags C and V in bits 8 and 14.

    Other instructions leave the flags as they are in `p`, the processor status.
    """
    flags = (p & CARRY) << 8 | (p & OVERFLOW) << 8
    result = right | flags
    if binary == opcodes.ORA:
        result = left | right | flags
    elif binary == opcodes.AND:
        result = left & right | flags
    elif binary == opcodes.EOR:
        result = left ^ right | flags
    elif binary == opcodes.ADC:
        result = add(left, right, p)
    elif binary == opcodes.SBC:
        result = subtract(left, right, p)
    elif binary == opcodes.CMP:
        result = ((left - right) & 0xFF) | wp.where(left >= right, 0x100, 0) | (p & OVERFLOW) << 8
    elif binary == opcodes.BIT:
        result = right | (p & CARRY) << 8 | (right & OVERFLOW) << 8
    elif binary == opcodes.ANC:
        result = left & right
        result = result | (result & 0x80) << 1 | (p & OVERFLOW) << 8
    return result


@wp.func
def pick(m: Machine, g: int, source: int, low: int, a: int, x: int, y: int, sp: int, p: int) -> int:
    """Return the value that an instruction takes from a register, the stack or the byte after the opcode."""
    value = low
    if source == opcodes.SOURCE_A:
        value = a
    elif source == opcodes.SOURCE_X:
        value = x
    elif source == opcodes.SOURCE_Y:
        value = y
    elif source == opcodes.SOURCE_SP:
        value = sp
    elif source == opcodes.SOURCE_P:
        value = p | 0x30
    elif source == opcodes.SOURCE_PULL:
        value = zero_page(m, g, sp)
    elif source == opcodes.SOURCE_AX:
        value = a & x
    elif source == opcodes.SOURCE_AM:
        value = a & low
    return value


@wp.func
def jump(m: Machine, g: int, flow: int, pc: int, address: int, sp: int, p: int) -> int:
    """Return where JMP, JSR, RTS, RTI and BRK go; what they push is pushed. SP is the caller's to move."""
    target = address
    stack = g * 256
    if flow == opcodes.JSR:
        m.ram[stack + (sp & 127)] = wp.uint8((pc - 1) >> 8)
        m.ram[stack + ((sp - 1) & 127)] = wp.uint8(pc - 1)
    elif flow == opcodes.RTS:
        target = zero_page(m, g, sp + 1) + (zero_page(m, g, sp + 2) << 8) + 1
    elif flow == opcodes.RTI:
        target = zero_page(m, g, sp + 2) + (zero_page(m, g, sp + 3) << 8)
    elif flow == opcodes.BRK:
        m.ram[stack + (sp & 127)] = wp.uint8((pc + 1) >> 8)
        m.ram[stack + ((sp - 1) & 127)] = wp.uint8(pc + 1)
        m.ram[stack + ((sp - 2) & 127)] = wp.uint8(p | 0x30)
        target = peek(m, g, 0xFFFE) | peek(m, g, 0xFFFF) << 8
    return target & 0xFFFF


@wp.func
def run(m: Machine, g: int, instructions: int) -> None:
    """Execute instructions until the frame is over, but `instructions` at most."""
    a, x, y, sp = int(m.cpu[g, CPU.A]), int(m.cpu[g, CPU.X]), int(m.cpu[g, CPU.Y]), int(m.cpu[g, CPU.SP])
    pc, p, cycles = int(m.cpu[g, CPU.PC]), int(m.cpu[g, CPU.P]), int(m.cpu[g, CPU.CYCLES])
    left = int(instructions)
    while left > 0:
        left -= 1
        opcode = peek(m, g, pc)
        low, high = peek(m, g, pc + 1), peek(m, g, pc + 2)
        first, second, third = m.decode[opcode * 3], m.decode[opcode * 3 + 1], m.decode[opcode * 3 + 2]
        mode, source = first & 15, second & 15
        pc += first >> 14 & 3
        located = locate(m, g, mode, low, high, x, y)
        address = located & 0xFFFF
        cycles += (first >> 4 & 15) + (located >> 16 & first >> 8 & 1)
        if source == opcodes.SOURCE_PULL:
            sp = (sp + 1) & 0xFF
        value = pick(m, g, source, low, a, x, y, sp, p)
        if first & 0x10000:
            value = read(m, g, address, cycles, wp.where(mode < opcodes.ABS, low, address >> 8))
        altered = alter(second >> 4 & 7, value, p & 1)
        value = altered & 0xFF
        p = (p & 0xFE) | altered >> 8
        store = first >> 12 & 3
        if store != opcodes.KEEP:
            if store == opcodes.PUSH:
                address = 0x100 | sp
                sp = (sp - 1) & 0xFF
            cycles += write(m, g, address, value, cycles)
            if m.cpu[g, CPU.RUNNING] == 0:
                left = 0
        # The second half: a register and the value.
        compared = second >> 11 & 3
        register = wp.where(compared == 0, a, wp.where(compared == 1, x, y))
        combined = combine(second >> 7 & 15, register, value, p)
        result = combined & 0xFF
        p = (p & 0xBE) | (combined >> 8 & 1) | (combined >> 8 & OVERFLOW)
        if second & 0x40000:
            tested = wp.where(second >> 7 & 15 == opcodes.BIT, a & value, result)
            p = (p & 0x7D) | (result & 0x80) | wp.where(tested == 0, ZERO, 0)
        a = wp.where(second & 0x2000, result, a)
        x = wp.where(second & 0x4000, result, x)
        y = wp.where(second & 0x8000, result, y)
        sp = wp.where(second & 0x10000, result, sp)
        p = wp.where(second & 0x20000, result, p)
        flow = first >> 9 & 7
        if flow == opcodes.NEXT:
            p = (p & ~(third & 0xFF)) | third >> 8
        elif flow == opcodes.BRANCH:
            if p & third & 0xFF == third >> 8:
                target = pc + low - (low & 0x80) * 2
                cycles += 1 + wp.where((target ^ pc) & 0xFF00, 1, 0)
                pc = target & 0xFFFF
        else:
            pc = jump(m, g, flow, pc, address, sp, p)
            if flow == opcodes.RTI:
                p = zero_page(m, g, sp + 1) & 0xCF
            elif flow == opcodes.BRK:
                p = p | INTERRUPT
            sp = (sp + (STACK_MOVES >> flow * 4 & 15) - 8) & 0xFF
        if first & 0x20000:
            m.cpu[g, CPU.FAULT] = 256 + opcode
    m.cpu[g, CPU.A] = a
    m.cpu[g, CPU.X] = x
    m.cpu[g, CPU.Y] = y
    m.cpu[g, CPU.SP] = sp
    m.cpu[g, CPU.PC] = pc
    m.cpu[g, CPU.P] = p & 0xCF
    m.cpu[g, CPU.CYCLES] = cycles
