"""The positions of the TIA's objects: resets, HMOVE, and the delay until a write takes effect."""

import warp as wp

from atari2600 import tables
from atari2600.machine import Machine, Tia, entry
from atari2600.tables import BL, BLANK, LINE, M0, M1, P0, P1


@wp.func
def reset_position(register: int, column: int) -> int:
    """Return the position that RESP0, RESP1, RESM0, RESM1 or RESBL sets at a color clock of the line."""
    late = wp.where(register <= tables.RESP1, 1, 0)  # players are one pixel further right than the others
    return wp.where(column < BLANK, 2 + late, (column - BLANK + 4 + late) % 160)


@wp.func
def being_drawn(beyond: int, copies: int, width: int) -> int:
    """Return whether a player is being drawn when it is reset `beyond` pixels right of its position."""
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
    """Return the color clock from which a write to `register` takes effect."""
    delay = int(0)
    column = clock % LINE
    graphics = register == tables.GRP0 or register == tables.GRP1
    if graphics or register == tables.REFP0 or register == tables.REFP1 or register == tables.VBLANK:
        delay = 1
    elif register >= tables.PF0 and register <= tables.PF2:
        delay = (column + 5 & ~3) - column
    elif (
        register == tables.NUSIZ0
        or register == tables.NUSIZ1
        or register == tables.RESM0
        or register == tables.RESM1
    ):
        delay = 8
    elif register == tables.RESP0 or register == tables.RESP1:
        # A player that is being drawn continues for some pixels.
        position = wp.where(register == tables.RESP0, t.pos0, t.pos1)
        copies = wp.where(register == tables.RESP0, t.nusiz0, t.nusiz1) & 7
        width = wp.where(copies == 7, 32, wp.where(copies == 5, 16, 8))
        delay = 11 * being_drawn(reset_position(register, column) - position, entry(m.copies, copies), width)
    return clock + delay


@wp.func
def moved_meanwhile(item: int, since: int, column: int, position: int) -> int:
    """Return the position of a missile or the ball that is reset `since` clocks after HMOVE.

    The remaining pulses of HMOVE still move it. Only the cases observed in ALE are handled.
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
    """Return whether the first copy of a reset player is skipped until the next line.

    It is, unless the player's counter was about to begin a copy.
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
        t.skip0 = first_waits(position, t.pos0, entry(m.copies, t.nusiz0 & 7))
        t.next_line = t.next_line | P0
        t.pos0 = position
    elif item == 1:
        t.skip1 = first_waits(position, t.pos1, entry(m.copies, t.nusiz1 & 7))
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
def released(falls: int, player: int, missile: int, size: int) -> int:
    """Return a missile's position after a write to RESMP: bit 1 of `falls` frees it in mid-player."""
    copies = size & 7
    middle = wp.where(copies == 7, 16, wp.where(copies == 5, 8, 4))
    return wp.where(falls & 2, (player + middle) % 160, missile)


@wp.func
def shift(position: wp.ref[wp.int32], motion: int, column: int, combed: int, item: int) -> int:
    """Apply HMOVE to an object's position; return `item`, the object's bit, if that changed, else 0."""
    pulses = motion ^ 8
    counted = wp.max(pulses - (222 - column) // 4, 0)
    if combed:
        counted = wp.min(pulses, (70 - column) // 4) - 8
    place = position - counted
    place = wp.where(place < 0, place + 160, wp.where(place >= 160, place - 160, place))
    moved = wp.where(place != position, item, 0)
    position = place
    return moved


@wp.func
def move(t: wp.ref[Tia], clock: int) -> int:
    """Strobe HMOVE, and return the objects whose pixels it changes, as bits.

    Up to 15 pulses, one every 4 clocks, move each object left. They count only in the horizontal blank. An
    HMOVE in the blank makes it 8 clocks longer, which moves all objects right by 8 and leaves a comb of black
    pixels at the left. An HMOVE late in the line has its last pulses in the next line's blank. The comb of an
    HMOVE above the picture is in the picture's first row, as in ALE.
    """
    t.moved_at = clock
    column = clock % LINE
    line = clock // LINE
    if column >= 225:  # counts as the next line
        column -= LINE
        line += 1
    combed = wp.where(column < 63, 1, 0)
    if combed and t.combs != 0:
        t.comb = wp.max(line - t.first_line, 0)
    which = wp.where(t.skip0, P0, 0) | wp.where(t.skip1, P1, 0)  # a reset player waits no longer
    t.skip0 = 0
    t.skip1 = 0
    which = which | shift(t.pos0, t.hmp0, column, combed, P0) | shift(t.pos1, t.hmp1, column, combed, P1)
    which = which | shift(t.posm0, t.hmm0, column, combed, M0) | shift(t.posm1, t.hmm1, column, combed, M1)
    return which | shift(t.posbl, t.hmbl, column, combed, BL)
