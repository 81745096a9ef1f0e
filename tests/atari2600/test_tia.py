"""The TIA's quirks: positions, HMOVE, copies, delays, combs, collisions and reads."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.atari2600.conftest import Run
from tests.atari2600.test_chips import wait

from atari2600.machine import CPU, TIA  # isort: skip

COLOURS = "LDA #$22\nSTA COLUP0\nLDA #$44\nSTA COLUP1\nLDA #$66\nSTA COLUPF\n"
END = "STA WSYNC\nSTA WSYNC\nend: JMP end"
Spans = list[tuple[int, int, int]]  # stretches of color: first pixel, pixels, color


def place(register: str, cycle: int) -> str:
    """Return code that strobes `register` in an instruction that ends in `cycle` of a line of its own."""
    return f"STA WSYNC\n{wait(cycle - 3)}STA {register}\n"


def rows(console: Any) -> list[Spans]:
    found = []
    for row in console.pictures[0, 1]:
        edges = np.flatnonzero(np.diff(row, prepend=0, append=0)).tolist()
        spans = [(a, b - a, int(row[a])) for a, b in pairwise(edges) if row[a]]
        if spans:
            found.append(spans)
    return found


@pytest.fixture
def draw(run: Run) -> Run:
    first = "LDX #36\nlines: STA WSYNC\nDEX\nBNE lines\n"
    return lambda source: run(first + COLOURS + source + END)


PLAYER, MISSILE, BALL = 0, 2, 4
PLACED = place("RESP0", 31)  # which puts the first player at pixel 30


def locked(copies: int) -> str:
    return PLACED + f"LDA #{copies}\nSTA NUSIZ0\nLDA #2\nSTA ENAM0\nSTA RESMP0\nSTA WSYNC\n"


UNLOCKED = "LDA #0\nSTA RESMP0\n"
MIDDLES = {0: 4, 5: 8, 7: 16}  # of a player, by its copies
MOTIONS = {  # by the cycle of HMOVE: HMP0 -> pixels
    3: {0x70: -7, 0x10: -1, 0x00: 0, 0xF0: 1, 0x80: 8},
    7: {0x70: -4, 0x10: -1, 0x80: 8},
    13: {0x70: 1, 0x00: 1, 0x80: 8},
    20: {0x70: 6, 0x00: 6, 0x80: 8},
    40: {0x70: 0, 0x00: 0, 0x80: 0},  # while the line is drawn nothing moves
    60: {0x70: -5, 0x40: -2, 0x00: 0, 0x80: 0},
    73: {0x70: -15, 0x00: -8, 0xF0: -7, 0x80: 0},
    75: {0x70: -7, 0x00: 0, 0x80: 8},  # as good as at the beginning of the next
}


@pytest.mark.parametrize(("source", "item", "pixel"), [
    *((place("RESP0", cycle), PLAYER, pixel) for cycle, pixel in ((31, 30), (20, 3), (75, 2))),
    *((place("RESM0", cycle), MISSILE, pixel) for cycle, pixel in ((31, 29), (20, 2))),
    *((place("RESBL", cycle), BALL, pixel) for cycle, pixel in ((31, 29), (20, 2))),
    *((f"{place('RESP0', 50)}LDA #{motion}\nSTA HMP0\n{place('HMOVE', cycle)}STA WSYNC\n", PLAYER,
       87 + pixels) for cycle, motions in MOTIONS.items() for motion, pixels in motions.items()),
    # A ball that is reset in the middle of an HMOVE moves on.
    *((f"STA WSYNC\nSTA HMOVE\n{wait(cycles)}STA RESBL\n", BALL, pixel)
      for cycles, pixel in ((0, 3), (3, 5), (4, 6), (10, 2))),
    *((locked(copies) + UNLOCKED, MISSILE, 30 + middle) for copies, middle in MIDDLES.items()),
])  # fmt: skip
def test_where_an_object_is(draw: Run, source: str, item: int, pixel: int) -> None:
    assert draw(source).tia[0, TIA.POS0 + item] == pixel


ALL, FIRST = slice(None), slice(1)
COPIES = {
    0: [(30, 8)], 1: [(30, 8), (46, 8)], 3: [(30, 8), (46, 8), (62, 8)], 4: [(30, 8), (94, 8)],
    5: [(31, 16)], 6: [(30, 8), (62, 8), (94, 8)], 7: [(31, 32)],
}  # fmt: skip
RESET_AGAIN: dict[tuple[int, int], list[Spans]] = {  # by a motion before, and the cycle of the reset
    (0, 31): [[(30, 8, 34)]],  # where it already was
    (0, 32): [[(33, 8, 34)]],  # a copy about to begin comes at the new place
    (0x10, 32): [[(29, 8, 34)]],  # one that has begun is drawn to its end
    (0xF0, 35): [[(31, 8, 34)]],
    (0, 35): [[(30, 7, 34)]],
    (0, 60): [[(30, 8, 34)]],
    (0, 20): [],  # else the first copy waits for the next line
}


@pytest.mark.parametrize(("source", "part", "wanted"), [
    # The playfield lies over the ball where it has the players' colors.
    (place("RESBL", 31) + "LDA #$32\nSTA CTRLPF\nLDA #$FF\nSTA ENABL\nSTA WSYNC\nSTA PF1\nSTA WSYNC\n",
     slice(1, 2), [[(16, 32, 34), (96, 32, 68)]]),
    # HMOVE leaves a comb.
    ("LDA #$0E\nSTA WSYNC\nSTA COLUBK\nSTA WSYNC\nSTA HMOVE\nSTA WSYNC\n",
     slice(3), [[(0, 160, 14)], [(8, 152, 14)], [(0, 160, 14)]]),
    # At the end of two lines, it leaves one in each of the next two.
    ("LDA #$0E\nSTA WSYNC\nSTA COLUBK\nSTA WSYNC\n" + 2 * f"{wait(73)}STA HMOVE\n" + "STA WSYNC\n",
     slice(4), [[(0, 160, 14)]] * 2 + [[(8, 152, 14)]] * 2),
    # A player that is reset waits for the next line.
    *((PLACED + f"LDA #{motion}\nSTA HMP0\nSTA WSYNC\nSTA HMOVE\n{wait(40)}LDA #$FF\nSTA GRP0\n"
       + place("RESP0", cycle) + "STA WSYNC\nLDA #0\nSTA GRP0\n", ALL, wanted)
      for (motion, cycle), wanted in RESET_AGAIN.items()),
    *((PLACED + f"LDA #{copies}\nSTA NUSIZ0\nSTA WSYNC\nLDA #$FF\nSTA GRP0\nSTA WSYNC\n",
       FIRST, [[(first, width, 34) for first, width in spans]]) for copies, spans in COPIES.items()),
    # What runs over the right edge comes in at the left.
    (place("RESP0", 72) + "STA WSYNC\nLDA #$FF\nSTA GRP0\nSTA WSYNC\nSTA WSYNC\n",
     FIRST, [[(0, 1, 34), (153, 7, 34)]]),
    # The playfield is reflected from the middle of a line.
    *(("LDA #$F0\nSTA WSYNC\nSTA PF0\nLDA #1\nSTA CTRLPF\nLDA #0\n" + place("CTRLPF", cycle) + "STA WSYNC\n",
       slice(3), [[(0, 16, 102), (right, 16, 102)] for right in (144, second, 80)])
      for cycle, second in ((48, 80), (49, 144))),
    # Vertical delay shows the value written before the last one.
    ("LDA #0\nSTA GRP1\n" + PLACED + "LDA #1\nSTA VDELP0\nLDA #$FF\nSTA GRP0\nSTA WSYNC\nSTA WSYNC\n"
     "LDA #0\nSTA GRP1\nSTA WSYNC\nLDA #0\nSTA GRP1\n", ALL, [[(30, 8, 34)]] * 2),
    # A missile is locked to the middle of its player, and not seen meanwhile.
    *((locked(copies), ALL, []) for copies in MIDDLES),
    *((locked(copies) + UNLOCKED, slice(-1, None), [[(30 + middle, 1, 34)]])
      for copies, middle in MIDDLES.items()),
])  # fmt: skip
def test_what_is_seen(draw: Run, source: str, part: slice, wanted: list[Spans]) -> None:
    assert rows(draw(source))[part] == wanted


WIDE = "LDA #$37\nSTA NUSIZ0\nLDA #$30\nSTA CTRLPF\nLDA #$FF\n"


@pytest.mark.parametrize(("source", "pixel"), [
    # A player's graphic is seen a pixel later than a missile or the ball.
    *((place(reset, 31) + WIDE + place(register, 33) + "STA WSYNC\n", 33 * 3 - 68 + late)
      for reset, register, late in (("RESP0", "GRP0", 1), ("RESM0", "ENAM0", 0), ("RESBL", "ENABL", 0))),
    # The playfield changes between its bits.
    *(("LDA #$FF\n" + place("PF1", cycle) + "STA WSYNC\n", pixel)
      for cycle, pixel in ((29, 24), (30, 24), (31, 28), (32, 32), (33, 36))),
])  # fmt: skip
def test_where_what_is_seen_begins(draw: Run, source: str, pixel: int) -> None:
    assert rows(draw(source))[0][0][0] == pixel


def test_collisions_but_not_in_the_vertical_blank_and_what_a_read_leaves_on_the_bus(draw: Run) -> None:
    both = PLACED + place("RESP1", 32) + "LDA #$FF\nSTA WSYNC\nSTA GRP0\nSTA GRP1\nSTA WSYNC\n"
    reads = "LDA $07\nSTA $F1\nLDA $02\nSTA $F2\nSTA CXCLR\nLDA #0\nSTA GRP0\nLDA $07\nSTA $F3\n"
    assert draw(both + reads).ram[0, 0x71:0x74].tolist() == [0x80 | 0x07, 0x02, 0x07]
    both = "STA RESP0\nSTA RESP1\nLDA #$FF\nSTA GRP0\nSTA GRP1\nSTA WSYNC\nSTA WSYNC\n"
    assert draw("LDA #2\nSTA VBLANK\n" + both + "LDA $07\nSTA $F1\n").ram[0, 0x71] == 0x07


def test_wsync_halts_until_the_next_line_but_not_in_the_last_cycle(run: Run) -> None:
    for cycle, lines in ((75, 1), (76, 1), (77, 2)):
        source = wait(cycle - 3) + "STA WSYNC"
        assert run(source, len(source.splitlines())).cpu[0, CPU.CYCLES] == 76 * lines


def test_a_frame_ends_with_a_long_enough_vsync_or_too_many_lines(run: Run) -> None:
    sync = "LDA #2\nSTA VSYNC\n{}LDA #0\nSTA VSYNC\nLDA #7\nSTA $F1\nend: JMP end"
    assert run(sync.format("STA WSYNC\n" * 3)).ram[0, 0x71] == 0  # the frame has ended before
    assert run(sync.format("")).ram[0, 0x71] == 7
    assert run("loop: STA WSYNC\nJMP loop").cpu[0, CPU.RUNNING] == 0
