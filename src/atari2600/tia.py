"""The TIA: picture, collisions and positions (Stella Programmer's Guide, S. Wright, 1979).

It works through the writes that the 6507 has noted, each from the colour clock on at which it takes effect. A line
is drawn at its end, all at once: an object that changes within the line keeps its old pixels up to there. Only new
colours, another priority or a blank draw what lies before them. A row on which nothing has changed is copied.
"""

import warp as wp

from atari2600 import tables
from atari2600.line import bar, copy_row, draw_objects, merge, put_copies, put_playfield
from atari2600.machine import BUS, MOST_ROWS, ROW_WORDS, Line, Machine, Mask, Objects, Tia

P0, P1, M0, M1, BL, PF = 1, 2, 4, 8, 16, 32  # objects, bits
PLAYERS = 3
LINE = 228  # colour clocks of a line, of which the first 68 are blank
BLANK = 68


@wp.func
def put_player(
    m: wp.ref[Machine], mask: wp.ref[Mask], size: int, graphic: int, reflected: int, position: int, skip: int
) -> None:
    """Make the mask of a player."""
    copies = size & 7
    wide = wp.where(copies == 5 or copies == 7, 1, 0)  # comes a pixel later
    offsets = int(m.copies[copies])
    if skip:
        offsets = offsets >> 8
    put_copies(mask, wp.uint64(m.patterns[(reflected & 8 | copies) << 8 | graphic]), position + wide, offsets)


@wp.func
def refresh(m: wp.ref[Machine], t: wp.ref[Tia], o: wp.ref[Objects], which: int) -> None:
    """Make the masks of some objects anew."""
    if which & P0:
        put_player(m, o.p0, t.nusiz0, wp.where(t.vdelp0 & 1, t.old0, t.grp0), t.refp0, t.pos0, t.skip0)
    if which & P1:
        put_player(m, o.p1, t.nusiz1, wp.where(t.vdelp1 & 1, t.old1, t.grp1), t.refp1, t.pos1, t.skip1)
    if which & M0:
        pattern = bar(t.nusiz0 >> 4 & 3, wp.where(t.resmp0 & 2, 0, t.enam0))
        put_copies(o.m0, pattern, t.posm0, m.copies[t.nusiz0 & 7])
    if which & M1:
        pattern = bar(t.nusiz1 >> 4 & 3, wp.where(t.resmp1 & 2, 0, t.enam1))
        put_copies(o.m1, pattern, t.posm1, m.copies[t.nusiz1 & 7])
    if which & BL:
        pattern = bar(t.ctrlpf >> 4 & 3, wp.where(t.vdelbl & 1, t.oldbl, t.enabl))
        put_copies(o.bl, pattern, t.posbl, m.copies[0])
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
    """Bring masks that are out of date since before this line's pixels up to date."""
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
        if line.same and whole and (line.draws == 0 or line.combed == combed):
            if line.draws:
                copy_row(m, at)
        else:
            draw_objects(m, t, line, line.seen, end, at)
            if combed and line.done < 8 and line.draws:
                keep = wp.uint64(0)
                if end < 8:
                    keep = wp.uint64(0xFFFFFFFFFFFFFFFF) << wp.uint64(end * 8)
                m.screen[at] = (m.screen[at] & keep) | (
                    wp.uint64(t.black) * wp.uint64(0x0101010101010101) & ~keep
                )
        line.same = whole
        line.combed = combed
        line.done = end


@wp.func
def begin_line(t: wp.ref[Tia], line: wp.ref[Line]) -> None:
    """Go to the next line."""
    line.start = line.start + LINE
    line.row = line.row + 1
    line.visible = wp.where(line.row >= 0 and line.row < t.rows, 1, 0)
    line.done = 0
    if line.touched:
        merge_objects(line, line.touched, 0)
        line.touched = 0
        line.same = 0
    if t.next_line:
        line.dirty = line.dirty | t.next_line
        line.same = 0
        t.next_line = 0
    t.skip0 = 0
    t.skip1 = 0
    t.reflected = t.ctrlpf


@wp.func
def advance(m: wp.ref[Machine], g: int, t: wp.ref[Tia], line: wp.ref[Line], clock: int) -> int:
    """Go to a colour clock of the frame, or later where the TIA is there already; return the pixel."""
    t.clock = wp.max(t.clock, clock)
    while t.clock > line.start + LINE:
        draw_row(m, g, t, line, 160)
        begin_line(t, line)
    return wp.max(t.clock - line.start - BLANK, 0)


@wp.func
def reset_position(register: int, column: int) -> int:
    """Return where RESP0, RESP1, RESM0, RESM1 or RESBL puts its object at a colour clock of the line."""
    late = wp.where(register <= tables.RESP1, 1, 0)  # players come one pixel after the others
    return wp.where(column < BLANK, 2 + late, (column - BLANK + 4 + late) % 160)


@wp.func
def being_drawn(beyond: int, copies: int, width: int) -> int:
    """Return whether a player, reset `beyond` pixels after its place, is just being drawn."""
    drawn = int(0)
    offsets = int(copies)
    while offsets != 0:
        distance = (beyond - (offsets & 127) + 320) % 160
        if distance >= 4 and distance < 4 + width:
            drawn = 1
        offsets = offsets >> 8
    return drawn


@wp.func
def take_effect(m: wp.ref[Machine], t: wp.ref[Tia], register: int, clock: int) -> int:
    """Return the colour clock from which a write to `register` is seen."""
    delay = int(0)
    column = clock % LINE
    if register >= tables.GRP0 or register == tables.VBLANK:
        delay = wp.where(register <= tables.GRP1, 1, 0)
    elif register >= tables.PF0 and register <= tables.PF2:
        delay = (column + 5 & ~3) - column
    elif register == tables.REFP0 or register == tables.REFP1:
        delay = 1
    elif (
        register == tables.NUSIZ0
        or register == tables.NUSIZ1
        or register == tables.RESM0
        or register == tables.RESM1
    ):
        delay = 8
    elif register == tables.RESP0 or register == tables.RESP1:
        # A player that is just being drawn is drawn for some pixels more.
        position = wp.where(register == tables.RESP0, t.pos0, t.pos1)
        copies = wp.where(register == tables.RESP0, t.nusiz0, t.nusiz1) & 7
        width = wp.where(copies == 7, 32, wp.where(copies == 5, 16, 8))
        delay = 11 * being_drawn(reset_position(register, column) - position, m.copies[copies], width)
    return clock + delay


@wp.func
def field_with(m: wp.ref[Machine], t: wp.ref[Tia], register: int, value: int) -> int:
    """Return the playfield's 20 bits after a write to PF0, PF1 or PF2."""
    field = (t.pf & 0xFFFF0) | value >> 4
    if register == tables.PF1:
        field = (t.pf & 0xFF00F) | m.reversed[value] >> 2 << 4
    elif register == tables.PF2:
        field = (t.pf & 0x00FFF) | value << 12
    return field


@wp.func
def affected(m: wp.ref[Machine], t: wp.ref[Tia], register: int, value: int) -> int:
    """Return the objects whose pixels a write changes, as bits."""
    which = int(0)
    if register == tables.GRP0:
        which = wp.where(t.grp0 != value and t.vdelp0 & 1 == 0, P0, 0)
        which = which | wp.where(t.old1 != t.grp1 and t.vdelp1 & 1 != 0, P1, 0)
    elif register == tables.GRP1:
        which = wp.where(t.grp1 != value and t.vdelp1 & 1 == 0, P1, 0)
        which = which | wp.where(t.old0 != t.grp0 and t.vdelp0 & 1 != 0, P0, 0)
        which = which | wp.where(t.oldbl != t.enabl and t.vdelbl & 1 != 0, BL, 0)
    elif register >= tables.PF0 and register <= tables.PF2:
        which = wp.where(field_with(m, t, register, value) != t.pf, PF, 0)
    elif register >= tables.RESP0 and register <= tables.RESBL:
        which = P0 << register - tables.RESP0
    elif register >= tables.ENAM0 and register <= tables.ENABL:
        enabled = wp.where(register == tables.ENAM0, t.enam0, wp.where(register == tables.ENAM1, t.enam1, t.enabl))
        which = wp.where((enabled ^ value) & 2, M0 << register - tables.ENAM0, 0)
    elif register == tables.NUSIZ0:
        which = wp.where(t.nusiz0 != value, P0 | M0, 0)
    elif register == tables.NUSIZ1:
        which = wp.where(t.nusiz1 != value, P1 | M1, 0)
    elif register == tables.CTRLPF:
        which = wp.where(t.ctrlpf != value or t.reflected != value, BL | PF, 0)
    elif register == tables.REFP0:
        which = wp.where((t.refp0 ^ value) & 8, P0, 0)
    elif register == tables.REFP1:
        which = wp.where((t.refp1 ^ value) & 8, P1, 0)
    elif register >= tables.VDELP0 and register <= tables.RESMP1:
        which = wp.where(register == tables.VDELBL, BL, P0 << (register - tables.VDELP0))
        if register >= tables.RESMP0:
            which = M0 << register - tables.RESMP0
    elif register == tables.HMOVE:
        which = P0 | P1 | M0 | M1 | BL
    return which


@wp.func
def moved_meanwhile(item: int, since: int, column: int, position: int) -> int:
    """Return where a missile or the ball is that was reset `since` clocks after HMOVE.

    The pulses that are still to come move it on. Only those cases differ that were seen in ALE.
    """
    moved = position
    if item == 4:
        if since == 9 and column == 18:
            moved = 3
        elif since == 18 and column == 27:
            moved = 5
        elif since == 21 and column == 30:
            moved = 6
        elif since == 54 and column == 69:
            moved = 10
    elif item == 2 and since == 60 and column == 69:
        moved = 8
    elif item == 3 and since == 9 and column == 18:
        moved = 3
    return moved


@wp.func
def first_waits(position: int, before: int, copies: int) -> int:
    """Return whether a reset player's first copy waits for the next line.

    It does but where the player's counter was about to begin one.
    """
    skip = int(1)
    offsets = int(copies)
    while offsets != 0:
        if (position - before - (offsets & 127) + 320) % 160 < 4:
            skip = 0
        offsets = offsets >> 8
    return skip


@wp.func
def reset_object(m: wp.ref[Machine], t: wp.ref[Tia], register: int, clock: int) -> None:
    """Strobe RESP0, RESP1, RESM0, RESM1 or RESBL."""
    item = register - tables.RESP0
    position = reset_position(register, clock % LINE)
    if item == 0:
        t.skip0 = first_waits(position, t.pos0, m.copies[t.nusiz0 & 7])
        t.next_line = t.next_line | P0
        t.pos0 = position
    elif item == 1:
        t.skip1 = first_waits(position, t.pos1, m.copies[t.nusiz1 & 7])
        t.next_line = t.next_line | P1
        t.pos1 = position
    else:
        position = moved_meanwhile(item, clock - t.moved_at, clock % LINE, position)
        if item == 2:
            t.posm0 = position
        elif item == 3:
            t.posm1 = position
        else:
            t.posbl = position


@wp.func
def moved(position: int, motion: int, column: int, combed: int) -> int:
    """Return where HMOVE moves an object; see `move`."""
    pulses = motion ^ 8
    counted = wp.max(pulses - (222 - column) // 4, 0)
    if combed:
        counted = wp.min(pulses, (70 - column) // 4) - 8
    place = position - counted
    return wp.where(place < 0, place + 160, wp.where(place >= 160, place - 160, place))


@wp.func
def move(t: wp.ref[Tia], clock: int) -> int:
    """Strobe HMOVE: up to 15 extra clocks move each object left, one every 4 clocks; return which have moved.

    They count only while the line is blank. An HMOVE in the blank makes it 8 clocks longer, which moves
    all objects right by 8 and leaves a comb of black at the left. One late in the line has its last
    pulses in the next line's blank.
    """
    t.moved_at = clock
    column = clock % LINE
    line = clock // LINE
    if column >= 225:  # as good as in the next line
        column -= LINE
        line += 1
    combed = wp.where(column < 63, 1, 0)
    if combed and t.combs != 0:
        t.comb = wp.max(line - t.first_line, 0)
    which = int(0)
    place = moved(t.pos0, t.hmp0, column, combed)
    which = wp.where(place != t.pos0, P0, 0)
    t.pos0 = place
    place = moved(t.pos1, t.hmp1, column, combed)
    which = which | wp.where(place != t.pos1, P1, 0)
    t.pos1 = place
    place = moved(t.posm0, t.hmm0, column, combed)
    which = which | wp.where(place != t.posm0, M0, 0)
    t.posm0 = place
    place = moved(t.posm1, t.hmm1, column, combed)
    which = which | wp.where(place != t.posm1, M1, 0)
    t.posm1 = place
    place = moved(t.posbl, t.hmbl, column, combed)
    which = which | wp.where(place != t.posbl, BL, 0)
    t.posbl = place
    return which


@wp.func
def store_object(t: wp.ref[Tia], register: int, value: int) -> None:
    """Write a register of a player, a missile or the ball."""
    if register == tables.GRP0:
        t.grp0 = value
        t.old1 = t.grp1
    elif register == tables.GRP1:
        t.grp1 = value
        t.old0 = t.grp0
        t.oldbl = t.enabl
    elif register == tables.ENAM0:
        t.enam0 = value
    elif register == tables.ENAM1:
        t.enam1 = value
    elif register == tables.ENABL:
        t.enabl = value
    elif register == tables.VDELP0:
        t.vdelp0 = value
    elif register == tables.VDELP1:
        t.vdelp1 = value
    elif register == tables.VDELBL:
        t.vdelbl = value
    elif register == tables.RESMP0:
        t.posm0 = released(t.resmp0 & ~value, t.pos0, t.posm0, t.nusiz0)
        t.resmp0 = value
    elif register == tables.RESMP1:
        t.posm1 = released(t.resmp1 & ~value, t.pos1, t.posm1, t.nusiz1)
        t.resmp1 = value


@wp.func
def released(falls: int, player: int, missile: int, size: int) -> int:
    """Return where a missile is after RESMP was written: bit 1 of `falls` frees it in the player's middle."""
    copies = size & 7
    middle = wp.where(copies == 7, 16, wp.where(copies == 5, 8, 4))
    return wp.where(falls & 2, (player + middle) % 160, missile)


@wp.func
def store_motion(t: wp.ref[Tia], register: int, value: int) -> None:
    """Write HMP0 to HMBL."""
    if register == tables.HMP0:
        t.hmp0 = value
    elif register == tables.HMP1:
        t.hmp1 = value
    elif register == tables.HMM0:
        t.hmm0 = value
    elif register == tables.HMM1:
        t.hmm1 = value
    else:
        t.hmbl = value


@wp.func
def store_colour(t: wp.ref[Tia], register: int, colour: int) -> None:
    """Write COLUP0 to COLUBK."""
    if register == tables.COLUP0:
        t.colup0 = colour
    elif register == tables.COLUP1:
        t.colup1 = colour
    elif register == tables.COLUPF:
        t.colupf = colour
    else:
        t.colubk = colour


@wp.func
def colour_of(t: wp.ref[Tia], register: int) -> int:
    """Return what COLUP0 to COLUBK hold."""
    return wp.where(
        register <= tables.COLUP1,
        wp.where(register == tables.COLUP0, t.colup0, t.colup1),
        wp.where(register == tables.COLUPF, t.colupf, t.colubk),
    )


@wp.func
def store_other(t: wp.ref[Tia], line: wp.ref[Line], register: int, value: int) -> None:
    """Write VBLANK, a size, CTRLPF or a reflection."""
    if register == tables.VBLANK:
        t.vblank = value
    elif register == tables.NUSIZ0:
        t.nusiz0 = value
    elif register == tables.NUSIZ1:
        t.nusiz1 = value
    elif register == tables.REFP0:
        t.refp0 = value
    elif register == tables.REFP1:
        t.refp1 = value
    elif register == tables.CTRLPF:
        t.ctrlpf = value
        if (t.clock - line.start) % LINE < BLANK + 80:
            t.reflected = value
        else:  # the middle of the line has passed
            t.next_line = t.next_line | PF


@wp.func
def store(m: wp.ref[Machine], t: wp.ref[Tia], line: wp.ref[Line], register: int, value: int, clock: int) -> int:
    """Write a register; return the objects that HMOVE has moved, else -1."""
    which = int(-1)
    if register >= tables.GRP0 and register <= tables.ENABL:
        store_object(t, register, value)
    elif register >= tables.PF0 and register <= tables.PF2:
        t.pf = field_with(m, t, register, value)
    elif register >= tables.COLUP0 and register <= tables.COLUBK:
        store_colour(t, register, m.palette[value])
    elif register >= tables.HMP0 and register <= tables.HMBL:
        store_motion(t, register, value >> 4)
    elif register == tables.HMOVE:
        which = move(t, clock)
    elif register == tables.HMCLR:
        t.hmp0 = 0
        t.hmp1 = 0
        t.hmm0 = 0
        t.hmm1 = 0
        t.hmbl = 0
    elif register >= tables.RESP0 and register <= tables.RESBL:
        reset_object(m, t, register, clock)
    elif register >= tables.VDELP0 and register <= tables.RESMP1:
        store_object(t, register, value)
    elif register == tables.CXCLR:
        t.collisions = 0
        line.same = 0
    else:
        store_other(t, line, register, value)
    return which


@wp.func
def changes_look(m: wp.ref[Machine], t: wp.ref[Tia], line: wp.ref[Line], register: int, value: int) -> int:
    """Return whether what was passed of the line has to be drawn before a write, which changes no object."""
    changes = int(0)
    if register >= tables.COLUP0 and register <= tables.COLUBK:
        changes = line.draws & wp.where(colour_of(t, register) != m.palette[value], 1, 0)
    elif register == tables.VBLANK:
        changes = (t.vblank ^ value) >> 1 & 1
    elif register == tables.CTRLPF:
        changes = line.draws & wp.where((t.ctrlpf ^ value) & 6, 1, 0)
    elif register == tables.CXCLR:
        changes = 1
    return changes


@wp.func
def write_tia(m: wp.ref[Machine], g: int, t: wp.ref[Tia], line: wp.ref[Line], register: int, value: int, now: int) -> None:
    """Write `value` to a register in cycle `now`."""
    clock = now * 3
    pixel = advance(m, g, t, line, take_effect(m, t, register, clock))
    which = affected(m, t, register, value)
    if pixel > 0 and line.visible:
        clean(m, t, line, which)
    if changes_look(m, t, line, register, value):
        draw_row(m, g, t, line, wp.min(pixel, 160))
        line.same = 0
    moved_objects = store(m, t, line, register, value, clock)
    if register == tables.HMOVE:
        which = moved_objects
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
    """Apply the writes that the 6507 has noted."""
    i = int(0)
    count = m.bus[g, BUS.LOGGED]
    while i < count:
        entry = int(m.log[g, i])
        write_tia(m, g, t, line, entry >> 8 & 63, entry & 255, entry >> 14 & 0x3FFFF)
        i += 1
    m.bus[g, BUS.LOGGED] = 0


@wp.func
def see(m: wp.ref[Machine], g: int, t: wp.ref[Tia], line: wp.ref[Line], clock: int) -> None:
    """Draw, and latch collisions, up to a colour clock."""
    draw_row(m, g, t, line, wp.min(advance(m, g, t, line, clock), 160))


@wp.func
def open_line(t: wp.ref[Tia], line: wp.ref[Line]) -> None:
    """Go on in the line in which the last frame has ended."""
    number = wp.where(t.clock == 0, -1, t.clock // LINE)  # a line begins when its first clock has passed
    line.start = number * LINE
    line.row = number - t.first_line
    line.dirty = 63
    line.draws = t.draws
    line.done = wp.clamp(t.clock - line.start - BLANK, 0, 160)
