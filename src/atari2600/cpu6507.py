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
def follow(m: Machine, g: int, pointer: int, low: int, high: int, x: int) -> int:
    """Return the address that a pointer in memory holds."""
    address = low | high << 8
    if pointer == opcodes.POINTER_X:
        address = zero_page(m, g, low + x) | zero_page(m, g, low + x + 1) << 8
    elif pointer == opcodes.POINTER_Y:
        address = zero_page(m, g, low) | zero_page(m, g, low + 1) << 8
    else:
        # The high byte comes from the same page: JMP ($10FF) reads $10FF and $1000.
        address = (
            peek(m, g, address) & 0xFF | (peek(m, g, (address & 0xFF00) | (address + 1 & 0xFF)) & 0xFF) << 8
        )
    return address


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
def pick(m: Machine, g: int, place: int, low: int, a: int, x: int, sp: int, p: int) -> int:
    """Return the value that a few instructions take from other places than memory, A, X and Y."""
    value = low & a  # ALR
    if place == opcodes.EW_SP:
        value = sp
    elif place == opcodes.EW_P:
        value = p | 0x30
    elif place == opcodes.EW_PULL:
        value = zero_page(m, g, sp + 1)
    elif place == opcodes.EW_AX:
        value = a & x
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
        target = peek(m, g, 0xFFFE) & 0xFFFF
    return target & 0xFFFF


@wp.func
def run(m: Machine, g: int, instructions: int) -> None:
    """Execute instructions until the frame is over, but `instructions` at most."""
    a, x, y, sp = int(m.cpu[g, CPU.A]), int(m.cpu[g, CPU.X]), int(m.cpu[g, CPU.Y]), int(m.cpu[g, CPU.SP])
    pc, p, cycles = int(m.cpu[g, CPU.PC]), int(m.cpu[g, CPU.P]), int(m.cpu[g, CPU.CYCLES])
    left = int(instructions)
    while left > 0:
        left -= 1
        bytes3 = peek(m, g, pc)
        low, high = bytes3 >> 8 & 0xFF, bytes3 >> 16
        first, second = m.decode[(bytes3 & 0xFF) * 2], m.decode[(bytes3 & 0xFF) * 2 + 1]
        pc += first >> opcodes.LENGTH & 3
        # Masks of all bits or none take the place of branches, which a processor would have to guess.
        address = low | high << 8 & -(first >> opcodes.WIDE & 1)
        pointer = first >> opcodes.POINTER & 3
        if pointer != opcodes.NO_POINTER:
            address = follow(m, g, pointer, low, high, x)
        noise = wp.where(first & 1 << opcodes.IN_ZERO_PAGE, low, address >> 8)
        index = (x & -(first >> opcodes.ADD_X & 1)) | (y & -(first >> opcodes.ADD_Y & 1))
        cycles += (first & 15) + ((address & 0xFF) + index >> 8 & first >> opcodes.PENALTY & 1)
        address = address + index & wp.where(first & 1 << opcodes.IN_ZERO_PAGE, 0xFF, 0xFFFF)
        value = (low & -(first >> opcodes.FROM_LOW & 1)) | (a & -(first >> opcodes.FROM_A & 1))
        value = value | (x & -(first >> opcodes.FROM_X & 1)) | (y & -(first >> opcodes.FROM_Y & 1))
        if first & 1 << opcodes.READS:
            value = read(m, g, address, cycles, noise)
        elif first & 7 << opcodes.FROM_ELSEWHERE:
            place = first >> opcodes.FROM_ELSEWHERE & 7
            value = pick(m, g, place, low, a, x, sp, p)
            if place == opcodes.EW_PULL:
                sp = (sp + 1) & 0xFF
        if first & 7 << opcodes.UNARY:
            value = alter(first >> opcodes.UNARY & 7, value, p & CARRY)
            p = (p & ~CARRY) | value >> 8
            value = value & 0xFF
        store = first >> opcodes.STORES & 3
        if store != opcodes.KEEP:
            if store == opcodes.PUSH:
                address = 0x100 | sp
                sp = (sp - 1) & 0xFF
            cycles += write(m, g, address, value, cycles)
            if m.cpu[g, CPU.RUNNING] == 0:
                left = 0
        # The second half: a register and the value.
        result, tested = value, value
        if second & 15:
            register = wp.where(
                second & 1 << opcodes.COMPARE_X, x, wp.where(second & 1 << opcodes.COMPARE_Y, y, a)
            )
            combined = combine(second & 15, register, value, p)
            result = combined & 0xFF
            p = (p & ~(CARRY | OVERFLOW)) | (combined >> 8 & (CARRY | OVERFLOW))
            tested = wp.where(second & 15 == opcodes.BIT, a & value, result)
        if second & 1 << opcodes.SETS_NZ:
            p = (p & ~(NEGATIVE | ZERO)) | (result & NEGATIVE) | wp.where(tested == 0, ZERO, 0)
        a = wp.where(second & opcodes.TO_A << opcodes.WRITES, result, a)
        x = wp.where(second & opcodes.TO_X << opcodes.WRITES, result, x)
        y = wp.where(second & opcodes.TO_Y << opcodes.WRITES, result, y)
        if second & (opcodes.TO_SP | opcodes.TO_P) << opcodes.WRITES:
            sp = wp.where(second & opcodes.TO_SP << opcodes.WRITES, result, sp)
            p = wp.where(second & opcodes.TO_P << opcodes.WRITES, result, p)
        flow = second >> opcodes.FLOW & 7
        mask, wanted = second >> opcodes.MASK & 0xFF, second >> opcodes.VALUE & 0xFF
        if flow == opcodes.NEXT:
            p = (p & ~mask) | wanted
        elif flow == opcodes.BRANCH:
            if p & mask == wanted:
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
        if first & 1 << opcodes.FAULTY:
            m.cpu[g, CPU.FAULT] = 256 + (bytes3 & 0xFF)
    m.cpu[g, CPU.A] = a
    m.cpu[g, CPU.X] = x
    m.cpu[g, CPU.Y] = y
    m.cpu[g, CPU.SP] = sp
    m.cpu[g, CPU.PC] = pc
    m.cpu[g, CPU.P] = p & 0xCF
    m.cpu[g, CPU.CYCLES] = cycles
