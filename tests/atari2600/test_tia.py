"""The TIA's quirks: positions, HMOVE, copies, delays, combs, collisions and reads."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.atari2600.assembler import Run

COLOURS = "LDA #$22\nSTA COLUP0\nLDA #$44\nSTA COLUP1\nLDA #$66\nSTA COLUPF\n"
END = "STA WSYNC\nSTA WSYNC\nend: JMP end"


def wait(cycles: int) -> str:
    return "BIT $F0\n" * (cycles % 2) + "NOP\n" * ((cycles - 3 * (cycles % 2)) // 2)


def place(register: str, cycle: int) -> str:
    """Return code that strobes `register` in an instruction that ends in `cycle` of a line of its own."""
    return f"STA WSYNC\n{wait(cycle - 3)}STA {register}\n"


def rows(console: Any) -> list[list[tuple[int, int, int]]]:
    """Return, for each row that shows anything, its stretches of color: (first pixel, pixels, color)."""
    found = []
    for row in console.pictures[0, 1]:
        edges = np.flatnonzero(np.diff(row, prepend=0, append=0)).tolist()
        spans = [(a, b - a, int(row[a])) for a, b in pairwise(edges) if row[a]]
        if spans:
            found.append(spans)
    return found


@pytest.fixture
def draw(run: Run) -> Run:
    """Return a function that runs a program in the picture's first rows."""

    def draw(source: str, **others: Any) -> Any:
        first = "LDX #36\nlines: STA WSYNC\nDEX\nBNE lines\n"
        return run(first + COLOURS + source + END, **others)

    return draw


def position(console: Any, item: int) -> int:
    from atari2600.machine import TIA

    return int(console.tia[0, TIA.POS0 + item])


@pytest.mark.parametrize(
    ("register", "item", "cycle", "pixel"),
    [
        ("RESP0", 0, 31, 30), ("RESP0", 0, 20, 3), ("RESP0", 0, 75, 2),
        ("RESM0", 2, 31, 29), ("RESM0", 2, 20, 2), ("RESBL", 4, 31, 29), ("RESBL", 4, 20, 2),
    ],
)  # fmt: skip
def test_where_a_reset_puts_an_object(draw: Run, register: str, item: int, cycle: int, pixel: int) -> None:
    assert position(draw(place(register, cycle)), item) == pixel


@pytest.mark.parametrize(
    ("cycle", "motions"),
    [
        (3, {0x70: -7, 0x10: -1, 0x00: 0, 0xF0: 1, 0x80: 8}),
        (7, {0x70: -4, 0x10: -1, 0x80: 8}),
        (13, {0x70: 1, 0x00: 1, 0x80: 8}),
        (20, {0x70: 6, 0x00: 6, 0x80: 8}),
        (40, {0x70: 0, 0x00: 0, 0x80: 0}),  # while the line is drawn nothing moves
        (60, {0x70: -5, 0x40: -2, 0x00: 0, 0x80: 0}),
        (73, {0x70: -15, 0x00: -8, 0xF0: -7, 0x80: 0}),
        (75, {0x70: -7, 0x00: 0, 0x80: 8}),  # as good as at the beginning of the next
    ],
)
def test_hmove_moves_by_when_it_comes(draw: Run, cycle: int, motions: dict[int, int]) -> None:
    for motion, pixels in motions.items():
        console = draw(
            place("RESP0", 50) + f"LDA #{motion}\nSTA HMP0\n" + place("HMOVE", cycle) + "STA WSYNC\n"
        )
        assert position(console, 0) == 87 + pixels


def test_a_ball_that_is_reset_in_the_middle_of_an_hmove_moves_on(draw: Run) -> None:
    for cycles, pixel in ((0, 3), (3, 5), (4, 6), (10, 2)):
        console = draw(f"STA WSYNC\nSTA HMOVE\n{wait(cycles)}STA RESBL\n")
        assert position(console, 4) == pixel


def test_the_playfield_lies_over_the_ball_where_it_has_the_players_colours(draw: Run) -> None:
    source = place("RESBL", 31) + "LDA #$32\nSTA CTRLPF\nLDA #$FF\nSTA ENABL\nSTA WSYNC\nSTA PF1\nSTA WSYNC\n"
    assert rows(draw(source))[1] == [(16, 32, 34), (96, 32, 68)]


def test_hmove_leaves_a_comb(draw: Run) -> None:
    found = rows(draw("LDA #$0E\nSTA WSYNC\nSTA COLUBK\nSTA WSYNC\nSTA HMOVE\nSTA WSYNC\n"))
    assert found[:3] == [[(0, 160, 14)], [(8, 152, 14)], [(0, 160, 14)]]


@pytest.mark.parametrize(
    ("cycle", "row"),
    [
        (31, [(30, 8, 34)]),  # where it already was
        (32, [(33, 8, 34)]),  # a copy about to begin comes at the new place
        (33, [(30, 8, 34)]),  # one that has begun is drawn to its end
        (35, [(30, 7, 34)]),
        (60, [(30, 8, 34)]),
        (20, []),  # else the first copy waits for the next line
    ],
)
def test_a_player_that_is_reset_waits_for_the_next_line(draw: Run, cycle: int, row: list[Any]) -> None:
    source = (
        place("RESP0", 31) + "LDA #$FF\nSTA GRP0\n" + place("RESP0", cycle) + "STA WSYNC\nLDA #0\nSTA GRP0\n"
    )
    assert rows(draw(source)) == ([row] if row else [])


def test_copies_and_widths(draw: Run) -> None:
    for copies, spans in {
        0: [(30, 8)], 1: [(30, 8), (46, 8)], 3: [(30, 8), (46, 8), (62, 8)], 4: [(30, 8), (94, 8)],
        5: [(31, 16)], 6: [(30, 8), (62, 8), (94, 8)], 7: [(31, 32)],
    }.items():  # fmt: skip
        source = place("RESP0", 31) + f"LDA #{copies}\nSTA NUSIZ0\nSTA WSYNC\nLDA #$FF\nSTA GRP0\nSTA WSYNC\n"
        assert rows(draw(source))[0] == [(first, width, 34) for first, width in spans]


def test_what_runs_over_the_right_edge_comes_in_at_the_left(draw: Run) -> None:
    source = place("RESP0", 72) + "STA WSYNC\nLDA #$FF\nSTA GRP0\nSTA WSYNC\nSTA WSYNC\n"
    assert rows(draw(source))[0] == [(0, 1, 34), (153, 7, 34)]


@pytest.mark.parametrize(("register", "late"), [("GRP0", 1), ("ENAM0", 0), ("ENABL", 0)])
def test_how_late_a_graphic_is_seen(draw: Run, register: str, late: int) -> None:
    reset = {"GRP0": "RESP0", "ENAM0": "RESM0", "ENABL": "RESBL"}[register]
    wide = "LDA #$37\nSTA NUSIZ0\nLDA #$30\nSTA CTRLPF\n"
    source = place(reset, 31) + wide + "LDA #$FF\n" + place(register, 33) + "STA WSYNC\n"
    assert rows(draw(source))[0][0][0] == 33 * 3 - 68 + late


@pytest.mark.parametrize(("cycle", "pixel"), [(29, 24), (30, 24), (31, 28), (32, 32), (33, 36)])
def test_the_playfield_changes_between_its_bits(draw: Run, cycle: int, pixel: int) -> None:
    assert rows(draw("LDA #$FF\n" + place("PF1", cycle) + "STA WSYNC\n"))[0][0][0] == pixel


def test_the_playfield_is_reflected_from_the_middle_of_a_line(draw: Run) -> None:
    source = "LDA #$F0\nSTA WSYNC\nSTA PF0\nLDA #1\nSTA CTRLPF\n" + place("CTRLPF", 60).replace(
        "STA WSYNC\n", "STA WSYNC\nLDA #0\n"
    )
    found = rows(draw(source + "STA WSYNC\n"))
    assert found[0] == found[1] == [(0, 16, 102), (144, 16, 102)]
    assert found[2] == [(0, 16, 102), (80, 16, 102)]


def test_vertical_delay_shows_what_was_written_before(draw: Run) -> None:
    source = place("RESP0", 31) + (
        "LDA #1\nSTA VDELP0\nLDA #$FF\nSTA GRP0\nSTA WSYNC\nSTA WSYNC\n"
        "LDA #0\nSTA GRP1\nSTA WSYNC\nLDA #0\nSTA GRP1\n"
    )
    assert rows(draw("LDA #0\nSTA GRP1\n" + source)) == [[(30, 8, 34)]] * 2


@pytest.mark.parametrize(("copies", "middle"), [(0, 4), (5, 8), (7, 16)])
def test_a_missile_is_locked_to_the_middle_of_its_player(draw: Run, copies: int, middle: int) -> None:
    source = place("RESP0", 31) + f"LDA #{copies}\nSTA NUSIZ0\nLDA #2\nSTA ENAM0\nSTA RESMP0\nSTA WSYNC\n"
    console = draw(source)
    assert rows(console) == []  # it is not seen while it is locked
    console = draw(source + "LDA #0\nSTA RESMP0\n")
    assert position(console, 2) == 30 + middle
    assert rows(console)[-1] == [(30 + middle, 1, 34)]


def test_collisions_and_what_a_read_leaves_on_the_bus(draw: Run) -> None:
    both = place("RESP0", 31) + place("RESP1", 32) + "LDA #$FF\nSTA WSYNC\nSTA GRP0\nSTA GRP1\nSTA WSYNC\n"
    console = draw(
        both + "LDA $07\nSTA $F1\nLDA $02\nSTA $F2\nSTA CXCLR\nLDA #0\nSTA GRP0\nLDA $07\nSTA $F3\n"
    )
    assert console.ram[0, 0x71:0x74].tolist() == [0x80 | 0x07, 0x02, 0x07]


def test_there_are_no_collisions_in_the_vertical_blank(draw: Run) -> None:
    both = "STA RESP0\nSTA RESP1\nLDA #$FF\nSTA GRP0\nSTA GRP1\nSTA WSYNC\nSTA WSYNC\n"
    assert draw("LDA #2\nSTA VBLANK\n" + both + "LDA $07\nSTA $F1\n").ram[0, 0x71] == 0x07


def test_wsync_halts_until_the_next_line_but_not_in_the_last_cycle(run: Run) -> None:
    from atari2600.machine import CPU

    for cycle, lines in ((75, 1), (76, 1), (77, 2)):
        instructions = len((wait(cycle - 3) + "STA WSYNC").splitlines())
        assert run(wait(cycle - 3) + "STA WSYNC\n", instructions).cpu[0, CPU.CYCLES] == 76 * lines


def test_a_frame_ends_with_a_long_enough_vsync_or_too_many_lines(run: Run) -> None:
    from atari2600.machine import CPU

    sync = "LDA #2\nSTA VSYNC\n{}LDA #0\nSTA VSYNC\nLDA #7\nSTA $F1\nend: JMP end"
    assert run(sync.format("STA WSYNC\n" * 3)).ram[0, 0x71] == 0  # the frame has ended before
    assert run(sync.format("")).ram[0, 0x71] == 7
    assert run("loop: STA WSYNC\nJMP loop").cpu[0, CPU.RUNNING] == 0
