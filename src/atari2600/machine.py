"""The state of an Atari 2600, as arrays over E games; a saved state needs nothing else.

A register is a column of an int32 array. `CPU`, `RIOT` and `TIA` number the columns.
"""

import enum
from collections.abc import Mapping

import numpy as np
import warp as wp
from numpy.typing import NDArray

RAM_BYTES = 128
MOST_ROWS = 256  # rows of a picture, at most
ROW_WORDS = 20  # words of eight pixels in a row of 160
LOG_LENGTH = 512  # writes to the TIA in the log
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
    BANK = 7  # offset into `Machine.code`
    RUNNING = 8  # 0: the frame is over
    FAULT = 9  # 0, or 256 + an opcode that is not emulated
    CARTRIDGE = 10  # the kind of cartridge, see `cartridge.py`
    PLAYS = 11  # 0: the game is paused
    COUNT = 12


class RIOT(enum.IntEnum):
    """The 6532: the timer and the ports."""

    VALUE = 0  # written to the timer
    SHIFT = 1  # one step of the timer is 2**SHIFT cycles
    SET_AT = 2  # the cycle of the write
    READ_AT = 3  # the cycle at which a read cleared the interrupt flag
    CLEARED = 4  # whether a read has cleared it
    DDRA = 5  # direction of port A; 1 is output
    OUT_A = 6  # the program's output to port A
    SWCHA = 7  # the joysticks, a 0 bit for each direction pushed
    SWCHB = 8  # the switches of the console
    COUNT = 9


class TIA(enum.IntEnum):
    """The picture chip: the registers that a program writes, and the position in the frame."""

    CLOCK = 0  # color clocks of the frame that have passed
    SYNC_UNTIL = 1  # VSYNC ends the frame from this color clock on
    VBLANK = 2
    NUSIZ0 = 3
    NUSIZ1 = 4
    COLUP0 = 5  # palette entries
    COLUP1 = 6
    COLUPF = 7
    COLUBK = 8
    BLACK = 9
    CTRLPF = 10
    REFLECTED = 11  # CTRLPF for the right half of this line
    REFP0 = 12
    REFP1 = 13
    PF = 14  # 20 bits, the leftmost in the lowest
    GRP0 = 15
    GRP1 = 16
    OLD0 = 17  # GRP0 at the last write of GRP1, and so on: shown with vertical delay
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
    UNUSED = 40  # kept so that saved states and `starts.json` keep their columns
    NEXT_LINE = 41  # objects whose masks change when the line ends
    COLLISIONS = 42  # two bits for each of CXM0P to CXPPMM
    COMB = 43  # the row whose left 8 pixels HMOVE blanks
    DUMPED_AT = 44  # the cycle at which the paddles' capacitors began to charge
    PADDLE0 = 45  # the cycles that charging takes
    PADDLE1 = 46
    PADDLE2 = 47
    PADDLE3 = 48
    INPT4 = 49  # 128 while the joystick's button is not pressed
    INPT5 = 50
    FIRST_LINE = 51  # of the picture
    ROWS = 52  # of the picture
    DRAWS = 53  # 0: only collisions are computed
    COMBS = 54  # 1: HMOVE leaves a comb of black pixels; in some games ALE omits it
    BUFFER = 55  # the index of the picture being drawn; the two alternate
    MOVED_AT = 56  # the color clock of the last HMOVE
    COUNT = 57


class BUS(enum.IntEnum):
    """Values that the 6507 and the TIA exchange within a frame."""

    LOGGED = 0  # writes in the log that the TIA has not applied yet
    LEFT = 1  # instructions that may still be executed
    SEEN = 2  # the cycle up to which the 6507 needs, or has, the collisions
    GROUNDED = 3  # 128 while the program grounds the paddles' capacitors
    WRITTEN = 4  # the cycle of the last write to the TIA
    FRAMES = 5  # the number of frames to play; afterward the number played
    UNDRAWN = 6  # 1: one of the two pictures lacks rows that an undrawn frame would have drawn
    COUNT = 7


class INPUT(enum.IntEnum):
    """The state of the controllers in a frame, named after the chips' columns that receive it."""

    SWCHA = 0
    INPT4 = 1
    INPT5 = 2
    PADDLE0 = 3
    PADDLE1 = 4
    COUNT = 5


class GAME(enum.IntEnum):
    """How a game stands by its rules."""

    SCORE = 0
    LIVES = 1
    OVER = 2
    REWARD = 3  # the sum of the last call's frames
    BEGUN = 4  # whether `Rules.begins` has held
    COUNT = 5


# The first and the last value of those columns of a state that do not hold a byte, by the name of the array:
# with other values, the kernel could leave its arrays or its loops. `None`: any value.
LIMITS: dict[str, dict[int, tuple[int, int] | None]] = {
    "cpu": {CPU.PC: (0, 0xFFFF), CPU.CYCLES: None, CPU.BANK: (0, 1 << 21), CPU.FAULT: (0, 511)},
    "riot": {RIOT.SHIFT: (0, 10), RIOT.SET_AT: None, RIOT.READ_AT: None},
    "tia": {
        TIA.PF: (0, 0xFFFFF),
        **dict.fromkeys(range(TIA.POS0, TIA.POSBL + 1), (0, 159)),
        TIA.COLLISIONS: (0, 0xFFFF),
        TIA.ROWS: (0, MOST_ROWS),
        TIA.BUFFER: (0, 1),
        **dict.fromkeys((TIA.CLOCK, TIA.SYNC_UNTIL, TIA.UNUSED, TIA.COMB, TIA.DUMPED_AT, TIA.MOVED_AT), None),
        **dict.fromkeys(range(TIA.PADDLE0, TIA.PADDLE3 + 1), None),
    },
    "game": dict.fromkeys(range(GAME.COUNT), None),
}  # fmt: skip


def check_columns(values: NDArray[np.int32], limits: Mapping[int, tuple[int, int] | None]) -> None:
    """Raise ValueError if a column of a state's array [E, columns] is outside its `limits`; see `LIMITS`."""
    for column in range(values.shape[1]):
        allowed = limits.get(column, (0, 255))
        if allowed and not allowed[0] <= values[:, column].min() <= values[:, column].max() <= allowed[1]:
            raise ValueError(f"column {column} has values outside {allowed[0]} to {allowed[1]}")


# A struct with the columns of `TIA`, in lower case; the kernel works on a copy.
Tia = wp.struct(
    type("Tia", (), {"__annotations__": {c.name.lower(): wp.int32 for c in TIA if c != TIA.COUNT}})
)


@wp.struct
class Mask:
    """The pixels of an object on a line, in words of 64, 64 and 32, the leftmost in the lowest bit."""

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
    """The line that the TIA is drawing.

    Attributes:
        whole: The masks of the objects for the current registers.
        seen: The masks on this line: an object that changed has its old pixels up to the change.
        dirty: Objects, as bits, whose masks have been outdated since before this line's first pixel.
        touched: Objects, as bits, that have changed within the line.
        start: The color clock at which the line begins.
        row: The row of the picture.
        visible: 1 if the picture has this row.
        done: The pixel up to which the line is drawn and its collisions are latched.
        same: 1: the last row was drawn at once, and nothing has changed since.
        combed: 1: the last row had a comb.
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


@wp.struct
class Machine:
    """E consoles that play the same cartridge."""

    patterns: wp.array(dtype=wp.int32)  # [4096], see `tables.py`
    copies: wp.array(dtype=wp.int32)  # [8]
    reversed: wp.array(dtype=wp.int32)  # [1024]
    palette: wp.array(dtype=wp.int32)  # [256], the pixel value of each color
    code: wp.array(dtype=wp.int32)  # whole banks of 4,096 bytes, each byte with the two after it
    ram: wp.array(dtype=wp.uint8)  # [E * RAM_SHARE]
    cpu: wp.array2d(dtype=wp.int32)  # [E, CPU.COUNT]
    riot: wp.array2d(dtype=wp.int32)  # [E, RIOT.COUNT]
    bus: wp.array2d(dtype=wp.int32)  # [E, BUS.COUNT]
    log: wp.array(dtype=wp.int32)  # [E * LOG_LENGTH]: cycle << 14 | register << 8 | value
    tia: wp.array2d(dtype=wp.int32)  # [E, TIA.COUNT]
    tias: wp.array(dtype=Tia)  # [E], the same memory
    held: wp.array2d(dtype=wp.int16)  # [E, 64], the last value written to each TIA register in this frame
    inputs: wp.array3d(dtype=wp.int32)  # [E, frames, INPUT.COUNT]
    rules: wp.array2d(dtype=wp.int32)  # these three: see `rules.table`
    offsets: wp.array(dtype=wp.int32)
    options: wp.array(dtype=wp.int32)
    sums: wp.array2d(dtype=wp.int32)  # [E, SUM.COUNT], see `rules.SUM`
    game: wp.array2d(dtype=wp.int32)  # [E, GAME.COUNT]
    seen: wp.array2d(dtype=wp.uint8)  # [E, 2 * RAM_BYTES], RAM after the last frame, and after the one before
    screen: wp.array(dtype=wp.uint64)  # [E * 2 * MOST_ROWS * ROW_WORDS], 8 pixels in each


# Native access, without Warp's handling of negative indices and strides, is several times faster.
@wp.func_native("return values.data[at];")
def entry(values: wp.array(dtype=wp.int32), at: int) -> int:  # type: ignore[empty-body]
    """Return one of the `values`."""
    ...
