"""Where the TIA's objects are: resets, HMOVE, and when a write is seen."""

import warp as wp

from atari2600 import tables
from atari2600.machine import Machine, Tia
from atari2600.tables import BL, BLANK, LINE, M0, M1, P0, P1


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
def released(falls: int, player: int, missile: int, size: int) -> int:
    """Return where a missile is after RESMP was written: bit 1 of `falls` frees it in the player's middle."""
    copies = size & 7
    middle = wp.where(copies == 7, 16, wp.where(copies == 5, 8, 4))
    return wp.where(falls & 2, (player + middle) % 160, missile)


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
