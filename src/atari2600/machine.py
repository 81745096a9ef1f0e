"""What one Atari 2600 holds, as arrays over E games; everything that a saved state must keep is here.

A register is a column of an int32 array. `CPU`, `RIOT` and `TIA` number the columns.
"""

import enum

import warp as wp

RAM_BYTES = 128
MOST_ROWS = 256  # that a picture may have
ROW_WORDS = 20  # words of eight pixels in a row of 160
LOG_LENGTH = 512  # writes to the TIA that are drawn at once
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
    HMP0 = 23  # 0 to 15
    HMP1 = 24
    HMM0 = 25
    HMM1 = 26
    HMBL = 27
    VDELP0 = 28
    VDELP1 = 29
    VDELBL = 30
    RESMP0 = 31
    RESMP1 = 32
    POS0 = 33  # pixels, 0 to 159, of the left edge
    POS1 = 34
    POSM0 = 35
    POSM1 = 36
    POSBL = 37
    SKIP0 = 38  # 1: the first copy of P0 is not drawn on this line
    SKIP1 = 39
    UNUSED = 40
    NEXT_LINE = 41  # objects whose masks change when the line ends
    COLLISIONS = 42  # two bits for each of CXM0P to CXPPMM
    COMB = 43  # the row whose left 8 pixels HMOVE has blanked
    DUMPED_AT = 44  # the cycle at which the paddles' capacitors began to charge
    PADDLE0 = 45  # how many cycles they need
    PADDLE1 = 46
    PADDLE2 = 47
    PADDLE3 = 48
    INPT4 = 49  # 128 where the joystick's button is not pressed
    INPT5 = 50
    FIRST_LINE = 51  # of the picture
    ROWS = 52  # of the picture
    DRAWS = 53  # 0: only collisions are wanted
    COMBS = 54  # 1: HMOVE leaves a comb of black pixels; ALE leaves it out in some games
    BUFFER = 55  # which of the two pictures is drawn: they take turns
    MOVED_AT = 56  # the colour clock of the last HMOVE
    COUNT = 57


class BUS(enum.IntEnum):
    """What the 6507 and the TIA tell each other within a frame."""

    LOGGED = 0  # writes to the TIA that it has not seen yet
    LEFT = 1  # instructions that may still be executed
    SEEN = 2  # the cycle up to which the 6507 needs, or has, the collisions
    GROUNDED = 3  # 128 while the program grounds the paddles' capacitors
    WRITTEN = 4  # the cycle of the last write to the TIA
    FRAMES = 5  # how many frames are to be played; then how many were
    UNDRAWN = 6  # 1: some of the two pictures lack rows that a frame left out had drawn
    COUNT = 7


class INPUT(enum.IntEnum):
    """What is pushed and turned in a frame: the columns of the chips that it goes to."""

    SWCHA = 0
    INPT4 = 1
    PADDLE0 = 2
    PADDLE1 = 3
    COUNT = 4


# The columns of `TIA` as a struct of their names in small letters: the kernel works on a copy of its own.
Tia = wp.struct(
    type("Tia", (), {"__annotations__": {c.name.lower(): wp.int32 for c in TIA if c != TIA.COUNT}})
)


@wp.struct
class Mask:
    """The pixels of an object on a line, the leftmost in the lowest bit: 64, 64 and 32 of them."""

    a: wp.uint64
    b: wp.uint64
    c: wp.uint64


@wp.struct
class Objects:
    """A mask for each object."""

    p0: Mask
    p1: Mask
    m0: Mask
    m1: Mask
    bl: Mask
    pf: Mask


@wp.struct
class Line:
    """The line that the TIA is in.

    Attributes:
        whole: The objects as their registers say now.
        seen: What is on this line: an object that changes has its old pixels up to there.
        dirty: Objects, as bits, whose masks are out of date since before this line's pixels.
        touched: Objects that have changed within the line.
        start: The colour clock at which the line begins.
        row: Of the picture; `visible` says whether there is such a row.
        done: Up to which pixel the line is drawn and its collisions are found.
        same: 1: nothing has changed since the last row was drawn, all at once.
        combed: 1: that row had a comb.
        draws: 0: only collisions are wanted.
    """

    whole: Objects
    seen: Objects
    dirty: wp.int32
    touched: wp.int32
    start: wp.int32
    row: wp.int32
    visible: wp.int32
    done: wp.int32
    same: wp.int32
    combed: wp.int32
    draws: wp.int32


@wp.struct
class Machine:
    """E consoles that play the same cartridge."""

    patterns: wp.array(dtype=wp.uint32)  # [4096], see `tables.py`
    copies: wp.array(dtype=wp.int32)  # [8]
    reversed: wp.array(dtype=wp.int32)  # [1024]
    palette: wp.array(dtype=wp.int32)  # [256], what the picture holds for each colour
    code: wp.array(dtype=wp.int32)  # whole banks of 4,096 bytes, each with the two after it
    ram: wp.array(dtype=wp.uint8)  # [E * RAM_SHARE]
    cpu: wp.array2d(dtype=wp.int32)  # [E, CPU.COUNT]
    riot: wp.array2d(dtype=wp.int32)  # [E, RIOT.COUNT]
    bus: wp.array2d(dtype=wp.int32)  # [E, BUS.COUNT]
    log: wp.array2d(dtype=wp.uint32)  # [E, LOG_LENGTH]: cycle << 14 | register << 8 | value
    tia: wp.array2d(dtype=wp.int32)  # [E, TIA.COUNT]
    tias: wp.array(dtype=Tia)  # [E], the same memory
    held: wp.array2d(
        dtype=wp.int16
    )  # [E, 64], what this frame's program has last written to the TIA's registers
    inputs: wp.array3d(dtype=wp.int32)  # [E, frames, INPUT.COUNT]
    over: wp.array2d(dtype=wp.int32)  # [4, 2], see `games.Condition`
    played: wp.array3d(dtype=wp.uint8)  # [E, frames, RAM_BYTES], RAM after each frame
    screen: wp.array(dtype=wp.uint64)  # [E * 2 * MOST_ROWS * ROW_WORDS], 8 pixels in each
