"""The TIA: picture, collisions and positions (Stella Programmer's Guide, S. Wright, 1979).

Nothing is drawn until something changes. Each write first draws all pixels up to the colour clock at
which it takes effect, and each read of a collision those up to the read. The six objects of a line are
masks of 160 bits, three words of 64 each, so a stretch of up to 64 pixels is drawn, and its collisions
found, by a few operations on words.
"""

import warp as wp

from atari2600 import tables
from atari2600.machine import CPU, MOST_ROWS, ROW_WORDS, TIA, Machine

P0, P1, M0, M1, BL, PF = range(6)  # objects, in the order of `Machine.masks`
PLAYERS, MISSILES = 0b000011, 0b001100
LINE = 228  # colour clocks of a line, of which the first 68 are blank
BLANK = 68
LAST_LINE = 290  # a write in a later line ends the frame even without VSYNC

ONES = wp.constant(wp.uint64(0x0101010101010101))
DIAGONAL = wp.constant(wp.uint64(0x8040201008040201))
SEVENS = wp.constant(wp.uint64(0x7F7F7F7F7F7F7F7F))
ALL = wp.constant(wp.uint64(0xFFFFFFFFFFFFFFFF))
ZERO = wp.constant(wp.uint64(0))


@wp.func
def put(m: Machine, g: int, word: int, pattern: wp.uint64, position: int) -> None:
    """Add `pattern`, whose lowest bit is its left pixel, to the mask of three words that begins at `word`."""
    at = position % 160
    first = word + (at >> 6)
    shift = at & 63
    m.masks[g, first] = m.masks[g, first] | pattern << wp.uint64(shift)
    if shift > 32 and at < 128:
        m.masks[g, first + 1] = m.masks[g, first + 1] | pattern >> wp.uint64(64 - shift)


@wp.func
def pattern_of(m: Machine, g: int, item: int, size: int) -> wp.uint64:
    """Return the pixels of one copy of a player, missile or ball; 0 where it is not to be seen."""
    pattern = ZERO
    if item <= P1:
        graphic = m.tia[g, TIA.GRP0 + item]
        if m.tia[g, TIA.VDELP0 + item] & 1:
            graphic = m.tia[g, TIA.OLD0 + item]
        reflected = m.tia[g, TIA.REFP0 + item] & 8
        pattern = wp.uint64(m.patterns[(reflected | size) << 8 | graphic])
    else:
        enabled = m.tia[g, TIA.ENAM0 + item - M0]
        width = m.tia[g, TIA.NUSIZ0 + item - M0] >> 4 & 3
        if item == BL:
            width = m.tia[g, TIA.CTRLPF] >> 4 & 3
            if m.tia[g, TIA.VDELBL] & 1:
                enabled = m.tia[g, TIA.OLDBL]
        elif m.tia[g, TIA.RESMP0 + item - M0] & 2:
            enabled = 0
        if enabled & 2:
            pattern = (wp.uint64(1) << wp.uint64(1 << width)) - wp.uint64(1)
    return pattern


@wp.func
def build_object(m: Machine, g: int, item: int) -> None:
    """Make the mask of a player, a missile or the ball anew."""
    word = item * 3
    m.masks[g, word] = ZERO
    m.masks[g, word + 1] = ZERO
    m.masks[g, word + 2] = ZERO
    copies = int(0)
    if item != BL:
        copies = m.tia[g, TIA.NUSIZ0 + (item & 1)] & 7
    pattern = pattern_of(m, g, item, copies)
    if pattern != ZERO:
        position = int(m.tia[g, TIA.POS0 + item])
        if item <= P1 and (copies == 5 or copies == 7):
            position += 1  # a wide player comes a pixel later
        offsets = int(m.copies[copies])
        if item <= P1 and m.tia[g, TIA.SKIP0 + item] != 0:
            offsets = offsets >> 8
        while offsets != 0:
            put(m, g, word, pattern, position + (offsets & 127))
            offsets = offsets >> 8
        # What lies beyond the right edge comes in at the left.
        m.masks[g, word] = m.masks[g, word] | m.masks[g, word + 2] >> wp.uint64(32)
        m.masks[g, word + 2] = m.masks[g, word + 2] & wp.uint64(0xFFFFFFFF)


@wp.func
def stretch(bits: wp.uint64) -> wp.uint64:
    """Return 64 bits, four for each of the 16 in `bits`."""
    x = bits
    x = (x | x << wp.uint64(24)) & wp.uint64(0x000000FF000000FF)
    x = (x | x << wp.uint64(12)) & wp.uint64(0x000F000F000F000F)
    x = (x | x << wp.uint64(6)) & wp.uint64(0x0303030303030303)
    x = (x | x << wp.uint64(3)) & wp.uint64(0x1111111111111111)
    return x * wp.uint64(15)


@wp.func
def build_playfield(m: Machine, g: int) -> None:
    """Make the mask of the playfield anew: 20 bits of 4 pixels, then the same again or reflected."""
    left = wp.uint64(m.tia[g, TIA.PF])
    right = left
    if m.tia[g, TIA.REFLECTED] & 1:
        right = wp.uint64(m.reversed[m.tia[g, TIA.PF] & 0x3FF]) << wp.uint64(10)
        right = right | wp.uint64(m.reversed[m.tia[g, TIA.PF] >> 10])
    bits = left | right << wp.uint64(20)
    m.masks[g, 15] = stretch(bits & wp.uint64(0xFFFF))
    m.masks[g, 16] = stretch(bits >> wp.uint64(16) & wp.uint64(0xFFFF))
    m.masks[g, 17] = stretch(bits >> wp.uint64(32))


@wp.func
def build(m: Machine, g: int) -> None:
    """Make the masks of all objects that have changed."""
    item = int(0)
    while item < 5:
        if m.tia[g, TIA.CHANGED] >> item & 1:
            build_object(m, g, item)
        item += 1
    if m.tia[g, TIA.CHANGED] & 0b100000:
        build_playfield(m, g)
    m.tia[g, TIA.CHANGED] = 0


@wp.func
def collide(
    m: Machine,
    g: int,
    p0: wp.uint64,
    p1: wp.uint64,
    m0: wp.uint64,
    m1: wp.uint64,
    bl: wp.uint64,
    pf: wp.uint64,
) -> None:
    """Latch the collisions of six words of pixels; two bits for each of CXM0P to CXPPMM, D6 the lower."""
    hits = int(0)
    hits |= wp.where((m0 & p0) != ZERO, 1 << 0, 0) | wp.where((m0 & p1) != ZERO, 1 << 1, 0)
    hits |= wp.where((m1 & p1) != ZERO, 1 << 2, 0) | wp.where((m1 & p0) != ZERO, 1 << 3, 0)
    hits |= wp.where((p0 & bl) != ZERO, 1 << 4, 0) | wp.where((p0 & pf) != ZERO, 1 << 5, 0)
    hits |= wp.where((p1 & bl) != ZERO, 1 << 6, 0) | wp.where((p1 & pf) != ZERO, 1 << 7, 0)
    hits |= wp.where((m0 & bl) != ZERO, 1 << 8, 0) | wp.where((m0 & pf) != ZERO, 1 << 9, 0)
    hits |= wp.where((m1 & bl) != ZERO, 1 << 10, 0) | wp.where((m1 & pf) != ZERO, 1 << 11, 0)
    hits |= wp.where((bl & pf) != ZERO, 1 << 13, 0)
    hits |= wp.where((m0 & m1) != ZERO, 1 << 14, 0) | wp.where((p0 & p1) != ZERO, 1 << 15, 0)
    m.tia[g, TIA.COLLISIONS] = m.tia[g, TIA.COLLISIONS] | hits


@wp.func
def spread(bits: wp.uint64) -> wp.uint64:
    """Return eight bytes, 255 for each 1 among the lowest eight bits and 0 for each 0."""
    return (((bits & wp.uint64(255)) * ONES & DIAGONAL) + SEVENS >> wp.uint64(7) & ONES) * wp.uint64(255)


@wp.func
def over(below: wp.uint64, bits: wp.uint64, colour: int) -> wp.uint64:
    """Return eight pixels with `colour` where the lowest eight of `bits` are 1, and `below` elsewhere."""
    seen = below
    if bits & wp.uint64(255):
        where = spread(bits)
        seen = (below & ~where) | (wp.uint64(colour) * ONES & where)
    return seen


@wp.func
def paint(
    m: Machine,
    g: int,
    row: int,
    word: int,
    covered: wp.uint64,
    players0: wp.uint64,
    players1: wp.uint64,
    bl: wp.uint64,
    pf: wp.uint64,
) -> None:
    """Write the `covered` pixels of one word of the row into the picture, eight at a time."""
    control = m.tia[g, TIA.CTRLPF]
    chunk = int(0)
    while chunk < 8:
        shift = wp.uint64(chunk * 8)
        part = covered >> shift
        if part & wp.uint64(255):
            column = word * 8 + chunk
            at = (m.tia[g, TIA.BUFFER] * MOST_ROWS + row) * ROW_WORDS + column
            c0, c1, cf = m.tia[g, TIA.COLUP0], m.tia[g, TIA.COLUP1], m.tia[g, TIA.COLUPF]
            field = int(cf)
            if control & 6 == 2:  # score: the playfield has the players' colours
                field = wp.where(column < 10, c0, c1)
            seen = wp.uint64(m.tia[g, TIA.COLUBK]) * ONES
            if control & 4:
                seen = over(over(seen, players1 >> shift, c1), players0 >> shift, c0)
            seen = over(over(seen, bl >> shift, cf), pf >> shift, field)
            if control & 4 == 0:
                seen = over(over(seen, players1 >> shift, c1), players0 >> shift, c0)
            if m.tia[g, TIA.VBLANK] & 2 or (column == 0 and m.tia[g, TIA.COMB] == row):
                seen = wp.uint64(m.tia[g, TIA.BLACK]) * ONES
            where = spread(part)
            m.screen[g, at] = (m.screen[g, at] & ~where) | (seen & where)
        chunk += 1


@wp.func
def draw_stretch(m: Machine, g: int, row: int, begin: int, end: int) -> None:
    """Draw the pixels from `begin` up to `end` of a row, and latch their collisions."""
    word = begin >> 6
    while word << 6 < end:
        low, high = wp.max(begin - (word << 6), 0), wp.min(end - (word << 6), 64)
        covered = ALL << wp.uint64(low) & ALL >> wp.uint64(64 - high)
        p0, p1 = m.masks[g, word] & covered, m.masks[g, 3 + word] & covered
        m0, m1 = m.masks[g, 6 + word] & covered, m.masks[g, 9 + word] & covered
        bl, pf = m.masks[g, 12 + word] & covered, m.masks[g, 15 + word] & covered
        if m.tia[g, TIA.VBLANK] & 2 == 0 and (p0 | p1 | m0 | m1 | bl) != ZERO:
            collide(m, g, p0, p1, m0, m1, bl, pf)
        if m.tia[g, TIA.DRAWS]:
            paint(m, g, row, word, covered, p0 | m0, p1 | m1, bl, pf)
        word += 1


@wp.func
def draw(m: Machine, g: int, until: int) -> None:
    """Draw up to the colour clock `until` of the frame."""
    clock = int(m.tia[g, TIA.CLOCK])
    while clock < until:
        line = clock // LINE
        column = clock - line * LINE
        if column == 0:
            m.tia[g, TIA.CHANGED] = m.tia[g, TIA.CHANGED] | m.tia[g, TIA.NEXT_LINE]
            m.tia[g, TIA.NEXT_LINE] = 0
            m.tia[g, TIA.SKIP0] = 0
            m.tia[g, TIA.SKIP1] = 0
            m.tia[g, TIA.REFLECTED] = m.tia[g, TIA.CTRLPF]
        end = wp.min(until - line * LINE, LINE)
        row = line - m.tia[g, TIA.FIRST_LINE]
        if end > BLANK and row >= 0 and row < m.tia[g, TIA.ROWS]:
            if m.tia[g, TIA.CHANGED]:
                build(m, g)
            draw_stretch(m, g, row, wp.max(column - BLANK, 0), end - BLANK)
        clock = line * LINE + end
    m.tia[g, TIA.CLOCK] = wp.max(clock, until)


@wp.func
def reset_position(register: int, column: int) -> int:
    """Return where RESP0, RESP1, RESM0, RESM1 or RESBL puts its object at a colour clock of the line."""
    late = wp.where(register <= tables.RESP1, 1, 0)  # players come one pixel after the others
    return wp.where(column < BLANK, 2 + late, (column - BLANK + 4 + late) % 160)


@wp.func
def take_effect(m: Machine, g: int, register: int, clock: int) -> int:
    """Return the colour clock from which a write to `register` is seen."""
    delay = int(m.delays[register])
    column = (clock + LINE) % LINE
    if delay == tables.PLAYFIELD_DELAY:
        delay = (column + 5 & ~3) - column
    elif delay == tables.RESET_DELAY:
        # A player that is just being drawn is drawn for some pixels more.
        player = register & 1
        beyond = reset_position(register, column) - m.tia[g, TIA.POS0 + player]
        copies = m.tia[g, TIA.NUSIZ0 + player] & 7
        width = wp.where(copies == 7, 32, wp.where(copies == 5, 16, 8))
        delay = int(0)
        offsets = int(m.copies[copies])
        while offsets != 0:
            distance = (beyond - (offsets & 127) + 320) % 160
            if distance >= 4 and distance < 4 + width:
                delay = 11
            offsets = offsets >> 8
    return clock + delay


@wp.func
def moved_meanwhile(item: int, since: int, column: int, position: int) -> int:
    """Return where a missile or the ball is that was reset `since` clocks after HMOVE.

    The pulses that are still to come move it on. Only those cases differ that were seen in ALE.
    """
    moved = position
    if item == BL:
        if since == 9 and column == 18:
            moved = 3
        elif since == 18 and column == 27:
            moved = 5
        elif since == 21 and column == 30:
            moved = 6
        elif since == 54 and column == 69:
            moved = 10
    elif item == M0 and since == 60 and column == 69:
        moved = 8
    elif item == M1 and since == 9 and column == 18:
        moved = 3
    return moved


@wp.func
def reset_object(m: Machine, g: int, register: int, clock: int) -> None:
    """Strobe RESP0, RESP1, RESM0, RESM1 or RESBL."""
    item = register - tables.RESP0
    position = reset_position(register, clock % LINE)
    if item <= P1:
        # The first copy waits for the next line, but where the player's counter was about to begin one.
        copies = int(m.copies[m.tia[g, TIA.NUSIZ0 + item] & 7])
        skip = int(1)
        while copies != 0:
            if (position - m.tia[g, TIA.POS0 + item] - (copies & 127) + 320) % 160 < 4:
                skip = 0
            copies = copies >> 8
        m.tia[g, TIA.SKIP0 + item] = skip
        m.tia[g, TIA.NEXT_LINE] = m.tia[g, TIA.NEXT_LINE] | 1 << item
    else:
        position = moved_meanwhile(item, clock - m.tia[g, TIA.MOVED_AT], clock % LINE, position)
    m.tia[g, TIA.POS0 + item] = position


@wp.func
def move(m: Machine, g: int, clock: int) -> None:
    """Strobe HMOVE: up to 15 extra clocks move each object left, one every 4 clocks.

    They count only while the line is blank. An HMOVE in the blank makes it 8 clocks longer, which moves
    all objects right by 8 and leaves a comb of black at the left. One late in the line has its last
    pulses in the next line's blank.
    """
    m.tia[g, TIA.MOVED_AT] = clock
    column = clock % LINE
    line = clock // LINE
    if column >= 225:  # as good as in the next line
        column -= LINE
        line += 1
    combed = column < 63
    if combed and m.tia[g, TIA.COMBS] != 0:
        m.tia[g, TIA.COMB] = wp.max(line - m.tia[g, TIA.FIRST_LINE], 0)
    item = int(0)
    while item < 5:
        pulses = m.tia[g, TIA.HMP0 + item] ^ 8
        counted = wp.where(
            combed, wp.min(pulses, (70 - column) // 4), wp.max(pulses - (222 - column) // 4, 0)
        )
        shift = wp.where(combed, 8, 0) - counted
        m.tia[g, TIA.POS0 + item] = (m.tia[g, TIA.POS0 + item] + shift + 160) % 160
        item += 1


@wp.func
def store(m: Machine, g: int, register: int, value: int) -> None:
    """Write a register that does no more than hold a value, or a value and another's old one."""
    if register <= tables.PF2 and register >= tables.PF0:
        field = m.tia[g, TIA.PF]
        if register == tables.PF0:
            field = (field & 0xFFFF0) | value >> 4
        elif register == tables.PF1:
            field = (field & 0xFF00F) | m.reversed[value] >> 2 << 4
        else:
            field = (field & 0x00FFF) | value << 12
        m.tia[g, TIA.PF] = field
    elif register == tables.GRP0:
        m.tia[g, TIA.GRP0] = value
        m.tia[g, TIA.OLD1] = m.tia[g, TIA.GRP1]
    elif register == tables.GRP1:
        m.tia[g, TIA.GRP1] = value
        m.tia[g, TIA.OLD0] = m.tia[g, TIA.GRP0]
        m.tia[g, TIA.OLDBL] = m.tia[g, TIA.ENABL]
    elif register >= tables.COLUP0 and register <= tables.COLUBK:
        m.tia[g, TIA.COLUP0 + register - tables.COLUP0] = m.palette[value]
    elif register >= tables.HMP0 and register <= tables.HMBL:
        m.tia[g, TIA.HMP0 + register - tables.HMP0] = value >> 4
    elif register >= tables.RESMP0 and register <= tables.RESMP1:
        item = register - tables.RESMP0
        if m.tia[g, TIA.RESMP0 + item] & ~value & 2:
            copies = m.tia[g, TIA.NUSIZ0 + item] & 7
            middle = wp.where(copies == 7, 16, wp.where(copies == 5, 8, 4))
            m.tia[g, TIA.POS0 + M0 + item] = (m.tia[g, TIA.POS0 + item] + middle) % 160
        m.tia[g, TIA.RESMP0 + item] = value
    else:
        column = m.columns[register]
        if column >= 0:
            m.tia[g, column] = value
            if register == tables.CTRLPF:
                if m.tia[g, TIA.CLOCK] % LINE < BLANK + 80:
                    m.tia[g, TIA.REFLECTED] = value
                else:  # the middle of the line has passed
                    m.tia[g, TIA.NEXT_LINE] = m.tia[g, TIA.NEXT_LINE] | tables.CHANGES_PLAYFIELD


@wp.func
def write_tia(m: Machine, g: int, address: int, value: int, now: int) -> int:
    """Write `value` to a register in cycle `now`; return for how many cycles it halts the 6507."""
    register = address & 0x3F
    clock = now * 3
    halt = int(0)
    if clock > LAST_LINE * LINE + LINE - 1:
        m.cpu[g, CPU.RUNNING] = 0
    draw(m, g, take_effect(m, g, register, clock))
    m.tia[g, TIA.CHANGED] = m.tia[g, TIA.CHANGED] | m.changes[register]
    if register == tables.WSYNC:
        halt = (76 - now % 76) % 76
    elif register == tables.VSYNC:
        if value & 2:
            m.tia[g, TIA.SYNC_UNTIL] = clock + LINE
        elif m.tia[g, TIA.SYNC_UNTIL] <= clock:
            m.tia[g, TIA.SYNC_UNTIL] = tables.NEVER
            m.cpu[g, CPU.RUNNING] = 0
    elif register >= tables.RESP0 and register <= tables.RESBL:
        reset_object(m, g, register, clock)
    elif register == tables.HMOVE:
        move(m, g, clock)
    elif register == tables.HMCLR:
        item = int(0)
        while item < 5:
            m.tia[g, TIA.HMP0 + item] = 0
            item += 1
    elif register == tables.CXCLR:
        m.tia[g, TIA.COLLISIONS] = 0
    else:
        if register == tables.VBLANK and m.tia[g, TIA.VBLANK] & ~value & 0x80:
            m.tia[g, TIA.DUMPED_AT] = now
        store(m, g, register, value)
    return halt


@wp.func
def read_tia(m: Machine, g: int, address: int, now: int, noise: int) -> int:
    """Return what a read register puts on D7 and D6, and `noise` on the other lines."""
    register = address & 15
    value = int(0)
    if register < 8:
        draw(m, g, now * 3)
        value = m.tia[g, TIA.COLLISIONS] >> register * 2 << 6 & 0xC0
    elif register < 12:  # a paddle charges a capacitor, unless the program grounds it
        charge = now - m.tia[g, TIA.DUMPED_AT]
        if m.tia[g, TIA.VBLANK] & 0x80 == 0 and charge > m.tia[g, TIA.PADDLE0 + register - 8]:
            value = 0x80
    elif register < 14:
        value = m.tia[g, TIA.INPT4 + register - 12]
    return value | (noise & 0x3F)
