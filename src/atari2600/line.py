"""The masks of a line's six objects, and how they become collisions and pixels.

A line has 160 pixels: three words of 64 bits for each object, so that collisions are `and`s of words.
"""

import warp as wp

from atari2600.machine import ROW_WORDS, Line, Machine, Mask, Objects, Tia

ONES = wp.constant(wp.uint64(0x0101010101010101))
DIAGONAL = wp.constant(wp.uint64(0x8040201008040201))
SEVENS = wp.constant(wp.uint64(0x7F7F7F7F7F7F7F7F))
ALL = wp.constant(wp.uint64(0xFFFFFFFFFFFFFFFF))
LOW_HALF = wp.constant(wp.uint64(0x00000000FFFFFFFF))
BYTE = wp.constant(wp.uint64(255))
ZERO = wp.constant(wp.uint64(0))


@wp.func
def clear(mask: wp.ref[Mask]) -> None:
    """Remove all pixels."""
    mask.a = ZERO
    mask.b = ZERO
    mask.c = ZERO


@wp.func
def put(mask: wp.ref[Mask], pattern: wp.uint64, position: int) -> None:
    """Add `pattern`, at most 32 pixels whose lowest bit is the left one, at a pixel below 320."""
    at = wp.where(position >= 160, position - 160, position)
    shift = at & 63
    low = pattern << wp.uint64(shift)
    high = ZERO
    if shift > 32:
        high = pattern >> wp.uint64(64 - shift)
    if at < 64:
        mask.a = mask.a | low
        mask.b = mask.b | high
    elif at < 128:
        mask.b = mask.b | low
        mask.c = mask.c | high
    else:
        mask.c = mask.c | low


@wp.func
def put_copies(mask: wp.ref[Mask], pattern: wp.uint64, position: int, copies: int) -> None:
    """Make the mask of all copies of `pattern`; `copies` are their distances, see `tables.copies`."""
    clear(mask)
    if pattern != ZERO:
        offsets = int(copies)
        while offsets != 0:
            put(mask, pattern, position + (offsets & 127))
            offsets = offsets >> 8
        # What lies beyond the right edge comes in at the left.
        mask.a = mask.a | mask.c >> wp.uint64(32)
        mask.c = mask.c & LOW_HALF


@wp.func
def bar(size: int, enabled: int) -> wp.uint64:
    """Return the pixels of a missile or the ball of `size` 0 to 3."""
    return wp.where(enabled & 2, (wp.uint64(1) << wp.uint64(1 << size)) - wp.uint64(1), ZERO)


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
def put_playfield(m: wp.ref[Machine], mask: wp.ref[Mask], field: int, reflected: int) -> None:
    """Make the mask of the playfield: 20 bits of 4 pixels, then the same again or reflected."""
    left = wp.uint64(field)
    right = left
    if reflected & 1:
        right = wp.uint64(m.reversed[field & 0x3FF]) << wp.uint64(10)
        right = right | wp.uint64(m.reversed[field >> 10])
    bits = left | right << wp.uint64(20)
    mask.a = stretch(bits & wp.uint64(0xFFFF))
    mask.b = stretch(bits >> wp.uint64(16) & wp.uint64(0xFFFF))
    mask.c = stretch(bits >> wp.uint64(32))


@wp.func
def up_to(pixel: int, word: int) -> wp.uint64:
    """Return the bits of word number `word` that lie left of `pixel`."""
    count = pixel - word * 64
    bits = ZERO
    if count >= 64:
        bits = ALL
    elif count > 0:
        bits = (wp.uint64(1) << wp.uint64(count)) - wp.uint64(1)
    return bits


@wp.func
def merge(seen: wp.ref[Mask], whole: wp.ref[Mask], pixel: int) -> None:
    """Let `seen` have the pixels of `whole` from `pixel` on."""
    a, b, c = up_to(pixel, 0), up_to(pixel, 1), up_to(pixel, 2)
    seen.a = (seen.a & a) | (whole.a & ~a)
    seen.b = (seen.b & b) | (whole.b & ~b)
    seen.c = (seen.c & c) | (whole.c & ~c)


@wp.func
def collide(
    t: wp.ref[Tia],
    covered: wp.uint64,
    p0: wp.uint64,
    p1: wp.uint64,
    m0: wp.uint64,
    m1: wp.uint64,
    bl: wp.uint64,
    pf: wp.uint64,
) -> None:
    """Latch the collisions of a word of pixels; two bits for each of CXM0P to CXPPMM, D6 the lower."""
    players, missiles = p0 | p1, m0 | m1
    some = (p0 & p1) | (m0 & m1) | (players & missiles) | (bl & pf) | ((players | missiles) & (bl | pf))
    if some & covered:
        hits = int(0)
        hits |= wp.where((covered & m0 & p0) != ZERO, 1 << 0, 0)
        hits |= wp.where((covered & m0 & p1) != ZERO, 1 << 1, 0)
        hits |= wp.where((covered & m1 & p1) != ZERO, 1 << 2, 0)
        hits |= wp.where((covered & m1 & p0) != ZERO, 1 << 3, 0)
        hits |= wp.where((covered & p0 & bl) != ZERO, 1 << 4, 0)
        hits |= wp.where((covered & p0 & pf) != ZERO, 1 << 5, 0)
        hits |= wp.where((covered & p1 & bl) != ZERO, 1 << 6, 0)
        hits |= wp.where((covered & p1 & pf) != ZERO, 1 << 7, 0)
        hits |= wp.where((covered & m0 & bl) != ZERO, 1 << 8, 0)
        hits |= wp.where((covered & m0 & pf) != ZERO, 1 << 9, 0)
        hits |= wp.where((covered & m1 & bl) != ZERO, 1 << 10, 0)
        hits |= wp.where((covered & m1 & pf) != ZERO, 1 << 11, 0)
        hits |= wp.where((covered & bl & pf) != ZERO, 1 << 13, 0)
        hits |= wp.where((covered & m0 & m1) != ZERO, 1 << 14, 0)
        hits |= wp.where((covered & p0 & p1) != ZERO, 1 << 15, 0)
        t.collisions = t.collisions | hits


@wp.func
def spread(bits: wp.uint64) -> wp.uint64:
    """Return eight bytes, 255 for each 1 among the lowest eight bits and 0 for each 0."""
    return (((bits & BYTE) * ONES & DIAGONAL) + SEVENS >> wp.uint64(7) & ONES) * BYTE


@wp.func
def paint(
    m: wp.ref[Machine],
    t: wp.ref[Tia],
    at: int,
    chunks: int,
    field: int,
    covered: wp.uint64,
    p0: wp.uint64,
    p1: wp.uint64,
    bl: wp.uint64,
    pf: wp.uint64,
) -> None:
    """Write the `covered` pixels of a word, of which the masks do not overlap, from `Machine.screen[at]` on."""
    below = wp.uint64(t.colubk) * ONES
    c0, c1 = wp.uint64(t.colup0) * ONES ^ below, wp.uint64(t.colup1) * ONES ^ below
    cb, cf = wp.uint64(t.colupf) * ONES ^ below, wp.uint64(field) * ONES ^ below
    chunk = int(0)
    any_object, left = p0 | p1 | bl | pf, wp.uint64(covered)
    while chunk < chunks:
        shift = wp.uint64(chunk * 8)
        if left & BYTE:
            seen = below
            if any_object >> shift & BYTE:
                seen = below ^ (spread(pf >> shift) & cf) ^ (spread(bl >> shift) & cb)
                seen = seen ^ (spread(p0 >> shift) & c0) ^ (spread(p1 >> shift) & c1)
            if left & BYTE != BYTE:
                where = spread(left)
                seen = (m.screen[at + chunk] & ~where) | (seen & where)
            m.screen[at + chunk] = seen
        left = left >> wp.uint64(8)
        chunk += 1


@wp.func
def blacken(m: wp.ref[Machine], t: wp.ref[Tia], at: int, chunks: int, covered: wp.uint64) -> None:
    """Make the `covered` pixels of a word black."""
    chunk = int(0)
    while chunk < chunks:
        where = spread(covered >> wp.uint64(chunk * 8))
        black = wp.uint64(t.black) * ONES
        m.screen[at + chunk] = (m.screen[at + chunk] & ~where) | (black & where)
        chunk += 1


@wp.func
def draw_word(
    m: wp.ref[Machine],
    t: wp.ref[Tia],
    draws: int,
    at: int,
    word: int,
    covered: wp.uint64,
    p0: wp.uint64,
    p1: wp.uint64,
    m0: wp.uint64,
    m1: wp.uint64,
    bl: wp.uint64,
    pf: wp.uint64,
) -> None:
    """Latch the collisions of a word and, if `draws`, write its pixels."""
    chunks = wp.where(word == 2, 4, 8)
    if t.vblank & 2:
        if draws:
            blacken(m, t, at + word * 8, chunks, covered)
    else:
        collide(t, covered, p0, p1, m0, m1, bl, pf)
        if draws:
            first, second = p0 | m0, p1 | m1
            players, fields = first | second, pf | bl
            second = second & ~first
            if t.ctrlpf & 4:  # the playfield has priority
                paint(
                    m, t, at + word * 8, chunks, t.colupf, covered, first & ~fields, second & ~fields, ZERO, fields
                )
            elif t.ctrlpf & 2:  # score: the playfield has the players' colours
                edge = wp.where(word == 1, LOW_HALF >> wp.uint64(16), wp.where(word == 0, ALL, ZERO))
                seen = pf & ~players
                paint(
                    m, t, at + word * 8, chunks, t.colup1, covered,
                    first | (seen & edge), second, bl & ~players & ~pf, seen & ~edge,
                )  # fmt: skip
            else:
                paint(m, t, at + word * 8, chunks, t.colupf, covered, first, second, ZERO, fields & ~players)


@wp.func
def draw_objects(m: wp.ref[Machine], t: wp.ref[Tia], line: wp.ref[Line], o: wp.ref[Objects], end: int, at: int) -> None:
    """Draw a row, whose words begin at `Machine.screen[at]`, up to the pixel `end`, and latch collisions."""
    begin = line.done
    if begin < 64:
        covered = up_to(end, 0) & ~up_to(begin, 0)
        draw_word(m, t, line.draws, at, 0, covered, o.p0.a, o.p1.a, o.m0.a, o.m1.a, o.bl.a, o.pf.a)
    if begin < 128 and end > 64:
        covered = up_to(end, 1) & ~up_to(begin, 1)
        draw_word(m, t, line.draws, at, 1, covered, o.p0.b, o.p1.b, o.m0.b, o.m1.b, o.bl.b, o.pf.b)
    if end > 128:
        covered = up_to(end, 2) & ~up_to(begin, 2) & LOW_HALF
        draw_word(m, t, line.draws, at, 2, covered, o.p0.c, o.p1.c, o.m0.c, o.m1.c, o.bl.c, o.pf.c)


@wp.func
def copy_row(m: wp.ref[Machine], at: int) -> None:
    """Draw a row as the one above it."""
    word = int(0)
    while word < ROW_WORDS:
        m.screen[at + word] = m.screen[at + word - ROW_WORDS]
        word += 1
