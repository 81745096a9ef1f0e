"""What one Atari 2600 holds, as arrays over E games; everything that a saved state must keep is here.

A register is a column of an int32 array. `CPU`, `RIOT` and `TIA` number the columns.
"""

import enum

import warp as wp

RAM_BYTES = 128
MOST_ROWS = 256  # that a picture may have
ROW_WORDS = 20  # words of eight pixels in a row of 160
RAM_SHARE = 256  # bytes of `ram` for each game: the console's 128, then the cartridge's own


class CPU(enum.IntEnum):
    """The 6507, the clock and the cartridge's bank."""

    A = 0
    X = 1
    Y = 2
    SP = 3
    PC = 4
    P = 5  # processor status, N V 1 B D I Z C
    CYCLES = 6  # since the frame began
    BANK = 7  # offset into the ROM
    RUNNING = 8  # 0: the frame is over
    FAULT = 9  # 0, or 256 + an opcode that is not emulated
    CARTRIDGE = 10  # its kind, see `cartridge.py`
    PLAYS = 11  # 0: the game stands still
    COUNT = 12


class RIOT(enum.IntEnum):
    """The 6532: the timer and the ports."""

    VALUE = 0  # written to the timer
    SHIFT = 1  # one step of the timer is 2**SHIFT cycles
    SET_AT = 2  # the cycle of the write
    READ_AT = 3  # the cycle at which a read cleared the interrupt flag
    CLEARED = 4  # whether one has
    DDRA = 5  # direction of port A; 1 is output
    OUT_A = 6  # what the program drives out of port A
    SWCHA = 7  # the joysticks, 0 where one is pushed
    SWCHB = 8  # the switches of the console
    COUNT = 9


class TIA(enum.IntEnum):
    """The picture chip: the registers that a program writes, and where in the frame it is."""

    CLOCK = 0  # colour clocks of the frame that are drawn
    SYNC_UNTIL = 1  # VSYNC ends the frame from this colour clock on
    VBLANK = 2
    NUSIZ0 = 3
    NUSIZ1 = 4
    COLUP0 = 5  # palette entries
    COLUP1 = 6
    COLUPF = 7
    COLUBK = 8
    BLACK = 9
    CTRLPF = 10
    REFLECTED = 11  # CTRLPF as the right half of this line has it
    REFP0 = 12
    REFP1 = 13
    PF = 14  # 20 bits, the leftmost lowest
    GRP0 = 15
    GRP1 = 16
    OLD0 = 17  # GRP0 at the last write of GRP1, and so on: what vertical delay shows
    OLD1 = 18
    ENAM0 = 19
    ENAM1 = 20
    ENABL = 21
    OLDBL = 22
    HMP0 = 23  # 0 to 15; then HMP1, HMM0, HMM1, HMBL
    VDELP0 = 28
    VDELP1 = 29
    VDELBL = 30
    RESMP0 = 31
    RESMP1 = 32
    POS0 = 33  # pixels, 0 to 159, of the left edge; then P1, M0, M1, BL
    SKIP0 = 38  # 1: the first copy of P0 is not drawn on this line
    SKIP1 = 39
    CHANGED = 40  # objects whose masks are out of date
    NEXT_LINE = 41  # objects whose masks change when the line ends
    COLLISIONS = 42  # two bits for each of CXM0P to CXPPMM
    COMB = 43  # the row whose left 8 pixels HMOVE has blanked
    DUMPED_AT = 44  # the cycle at which the paddles' capacitors began to charge
    PADDLE0 = 45  # how many cycles they need; four of them
    INPT4 = 49  # 128 where the joystick's button is not pressed
    INPT5 = 50
    FIRST_LINE = 51  # of the picture
    ROWS = 52  # of the picture
    DRAWS = 53  # 0: only collisions are wanted
    COMBS = 54  # 1: HMOVE leaves a comb of black pixels; ALE leaves it out in some games
    BUFFER = 55  # which of the two pictures is drawn: they take turns
    MOVED_AT = 56  # the colour clock of the last HMOVE
    COUNT = 57


@wp.struct
class Machine:
    """E consoles that play the same cartridge."""

    decode: wp.array(dtype=wp.int32)  # [256 * 2]
    delays: wp.array(dtype=wp.int32)  # [64], see `tables.py`
    changes: wp.array(dtype=wp.int32)  # [64]
    columns: wp.array(dtype=wp.int32)  # [64]
    patterns: wp.array(dtype=wp.uint32)  # [4096]
    copies: wp.array(dtype=wp.int32)  # [8]
    reversed: wp.array(dtype=wp.int32)  # [1024]
    palette: wp.array(dtype=wp.int32)  # [256], what the picture holds for each colour
    code: wp.array(dtype=wp.int32)  # whole banks of 4,096 bytes, each with the two after it
    ram: wp.array(dtype=wp.uint8)  # [E * RAM_SHARE]
    cpu: wp.array2d(dtype=wp.int32)  # [E, CPU.COUNT]
    riot: wp.array2d(dtype=wp.int32)  # [E, RIOT.COUNT]
    tia: wp.array2d(dtype=wp.int32)  # [E, TIA.COUNT]
    masks: wp.array2d(dtype=wp.uint64)  # [E, 6 * 3]
    screen: wp.array2d(dtype=wp.uint64)  # [E, 2 * MOST_ROWS * 20], 8 pixels in each
