"""The TIA: picture, collisions and positions (Stella Programmer's Guide, S. Wright, 1979).

It applies the writes that the 6507 has logged, each at the color clock from which it takes effect. A line is
drawn once, at its end: an object that changes within the line keeps its old pixels up to that point. Only a
change of colors, priority or blanking draws the pixels before it at once. A row that equals the row above is
copied.
"""

import warp as wp

from atari2600 import tables
from atari2600.machine import BUS, LOG_LENGTH, MOST_ROWS, ROW_WORDS, Line, Machine, Mask, Objects, Tia, entry
from atari2600.masks import bar, merge, put_copies, put_playfield
from atari2600.picture import blacken_comb, copy_row, draw_objects
from atari2600.positions import move, take_effect
from atari2600.registers import affected, changes_look, store
from atari2600.tables import BL, BLANK, LINE, M0, M1, P0, P1, PF


@wp.func
def put_player(
    m: wp.ref[Machine], mask: wp.ref[Mask], size: int, graphic: int, reflected: int, position: int, skip: int
) -> None:
    """Make the mask of a player."""
    copies = size & 7
    wide = wp.where(copies == 5 or copies == 7, 1, 0)  # wide players begin one pixel later
    offsets = int(entry(m.copies, copies))
    if skip:
        offsets = offsets >> 8
    pattern = wp.uint32(entry(m.patterns, (reflected & 8 | copies) << 8 | graphic))
    put_copies(mask, wp.uint64(pattern), position + wide, offsets)


@wp.func
def refresh(m: wp.ref[Machine], t: wp.ref[Tia], o: wp.ref[Objects], which: int) -> None:
    """Rebuild the masks of the objects in `which`, as bits."""
    if which & P0:
        put_player(m, o.p0, t.nusiz0, wp.where(t.vdelp0 & 1, t.old0, t.grp0), t.refp0, t.pos0, t.skip0)
    if which & P1:
        put_player(m, o.p1, t.nusiz1, wp.where(t.vdelp1 & 1, t.old1, t.grp1), t.refp1, t.pos1, t.skip1)
    if which & M0:
        pattern = bar(t.nusiz0 >> 4 & 3, wp.where(t.resmp0 & 2, 0, t.enam0))
        put_copies(o.m0, pattern, t.posm0, entry(m.copies, t.nusiz0 & 7))
    if which & M1:
        pattern = bar(t.nusiz1 >> 4 & 3, wp.where(t.resmp1 & 2, 0, t.enam1))
        put_copies(o.m1, pattern, t.posm1, entry(m.copies, t.nusiz1 & 7))
    if which & BL:
        pattern = bar(t.ctrlpf >> 4 & 3, wp.where(t.vdelbl & 1, t.oldbl, t.enabl))
        put_copies(o.bl, pattern, t.posbl, entry(m.copies, 0))
    if which & PF:
        put_playfield(m, o.pf, t.pf, t.reflected)


@wp.func
def merge_objects(line: wp.ref[Line], which: int, pixel: int) -> None:
    """Let some objects of this line look from `pixel` on as their masks say."""
    if which & P0:
        merge(line.seen.p0, line.whole.p0, pixel)
    if which & P1:
        merge(line.seen.p1, line.whole.p1, pixel)
    if which & M0:
        merge(line.seen.m0, line.whole.m0, pixel)
    if which & M1:
        merge(line.seen.m1, line.whole.m1, pixel)
    if which & BL:
        merge(line.seen.bl, line.whole.bl, pixel)
    if which & PF:
        merge(line.seen.pf, line.whole.pf, pixel)


@wp.func
def clean(m: wp.ref[Machine], t: wp.ref[Tia], line: wp.ref[Line], which: int) -> None:
    """Rebuild those masks of `which` that were outdated before this line's first pixel."""
    late = line.dirty & which
    if late:
        refresh(m, t, line.whole, late)
        merge_objects(line, late, 0)
        line.dirty = line.dirty & ~late


@wp.func
def draw_row(m: wp.ref[Machine], g: int, t: wp.ref[Tia], line: wp.ref[Line], end: int) -> None:
    """Draw this row up to the pixel `end`, and latch its collisions."""
    if line.visible and end > line.done:
        whole = wp.where(line.done == 0 and end == 160 and line.touched == 0, 1, 0)
        at = ((g * 2 + t.buffer) * MOST_ROWS + line.row) * ROW_WORDS
        combed = wp.where(t.comb == line.row, 1, 0)
        clean(m, t, line, line.dirty)
        if line.same and whole and (t.draws == 0 or line.combed == combed):
            if t.draws:
                copy_row(m.screen, at)
        else:
            draw_objects(m, t, line, line.seen, end, at)
            if combed and line.done < 8 and t.draws:
                blacken_comb(m, t, at, end)
        line.same = whole
        line.combed = combed
        line.done = end


@wp.func
def begin_line(t: wp.ref[Tia], line: wp.ref[Line]) -> None:
    """Go to the next line. As in ALE, a line outside the picture leaves reset players waiting."""
    if line.visible:
        if t.next_line:
            line.dirty = line.dirty | t.next_line
            line.same = 0
            t.next_line = 0
        t.skip0 = 0
        t.skip1 = 0
        t.reflected = t.ctrlpf
    line.start = line.start + LINE
    line.row = line.row + 1
    line.visible = wp.where(line.row >= 0 and line.row < t.rows, 1, 0)
    line.done = 0
    if line.touched:
        merge_objects(line, line.touched, 0)
        line.touched = 0
        line.same = 0


@wp.func
def advance(m: wp.ref[Machine], g: int, t: wp.ref[Tia], line: wp.ref[Line], clock: int) -> int:
    """Advance to a color clock of the frame, unless the TIA is already past it; return the pixel."""
    t.clock = wp.max(t.clock, clock)
    while t.clock - line.start > LINE:
        draw_row(m, g, t, line, 160)
        begin_line(t, line)
    return wp.max(t.clock - line.start - BLANK, 0)


@wp.func
def write_tia(
    m: wp.ref[Machine], g: int, t: wp.ref[Tia], line: wp.ref[Line], register: int, value: int, now: int
) -> None:
    """Write `value` to a register in cycle `now`."""
    clock = now * 3
    pixel = advance(m, g, t, line, take_effect(m, t, register, clock))
    which = affected(m, t, register, value)
    if pixel > 0 and line.visible:
        clean(m, t, line, which)
    if changes_look(m, t, line, register, value):
        draw_row(m, g, t, line, wp.min(pixel, 160))
        line.same = 0
    if register == tables.HMOVE:
        which = move(t, clock)
    else:
        store(m, t, line, register, value, clock)
    if which:
        line.same = 0
        if pixel > 0 and line.visible:
            refresh(m, t, line.whole, which)
            merge_objects(line, which, pixel)
            line.touched = line.touched | which
        else:
            line.dirty = line.dirty | which


@wp.func
def drain(m: wp.ref[Machine], g: int, t: wp.ref[Tia], line: wp.ref[Line]) -> None:
    """Apply the writes that the 6507 has logged."""
    i = int(0)
    count = m.bus[g, BUS.LOGGED]
    while i < count:
        write = entry(m.log, g * LOG_LENGTH + i)
        write_tia(m, g, t, line, write >> 8 & 63, write & 255, write >> 14 & 0x3FFFF)
        i += 1
    m.bus[g, BUS.LOGGED] = 0


@wp.func
def see(m: wp.ref[Machine], g: int, t: wp.ref[Tia], line: wp.ref[Line], clock: int) -> None:
    """Draw and latch collisions up to a color clock."""
    draw_row(m, g, t, line, wp.min(advance(m, g, t, line, clock), 160))


@wp.func
def open_line(t: wp.ref[Tia], line: wp.ref[Line]) -> None:
    """Continue in the line in which the last frame ended."""
    number = wp.where(t.clock == 0, -1, t.clock // LINE)  # a line begins after its first clock
    line.start = number * LINE
    line.row = number - t.first_line
    line.dirty = 63
    line.done = wp.clamp(t.clock - line.start - BLANK, 0, 160)
