"""Computes collisions and pixels from masks, one word of a line at a time: collisions are `and`s of words."""

import warp as wp

from atari2600.machine import ROW_WORDS, Line, Machine, Objects, Tia
from atari2600.masks import ALL, LOW_HALF, ZERO, up_to

ONES = wp.constant(wp.uint64(0x0101010101010101))
DIAGONAL = wp.constant(wp.uint64(0x8040201008040201))
SEVENS = wp.constant(wp.uint64(0x7F7F7F7F7F7F7F7F))
BYTE = wp.constant(wp.uint64(255))


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
    """Latch the collisions of a word of pixels: two bits for each of CXM0P to CXPPMM, D6 in the lower."""
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


# Native for speed, like `machine.entry`.
@wp.func_native("return screen.data[at];")
def get_pixels(screen: wp.array(dtype=wp.uint64), at: int) -> wp.uint64:
    """Return eight pixels."""
    ...


@wp.func_native("screen.data[at] = pixels;")
def put_pixels(screen: wp.array(dtype=wp.uint64), at: int, pixels: wp.uint64) -> None:
    """Write eight pixels."""
    ...


@wp.func
def spread(bits: wp.uint64) -> wp.uint64:
    """Return eight bytes for the lowest eight bits: 255 for 1, 0 for 0."""
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
    """Write the `covered` pixels of a word from `Machine.screen[at]` on; the masks do not overlap."""
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
                seen = (get_pixels(m.screen, at + chunk) & ~where) | (seen & where)
            put_pixels(m.screen, at + chunk, seen)
        left = left >> wp.uint64(8)
        chunk += 1


@wp.func
def blacken(m: wp.ref[Machine], t: wp.ref[Tia], at: int, chunks: int, covered: wp.uint64) -> None:
    """Paint the `covered` pixels of a word black."""
    chunk = int(0)
    while chunk < chunks:
        where = spread(covered >> wp.uint64(chunk * 8))
        black = wp.uint64(t.black) * ONES
        put_pixels(m.screen, at + chunk, (get_pixels(m.screen, at + chunk) & ~where) | (black & where))
        chunk += 1


@wp.func
def blacken_comb(m: wp.ref[Machine], t: wp.ref[Tia], at: int, end: int) -> None:
    """Paint the first eight pixels of a row black, up to the pixel `end`."""
    keep = ZERO
    if end < 8:
        keep = ALL << wp.uint64(end * 8)
    m.screen[at] = (m.screen[at] & keep) | (wp.uint64(t.black) * ONES & ~keep)


@wp.func
def paint_word(
    m: wp.ref[Machine],
    t: wp.ref[Tia],
    at: int,
    word: int,
    chunks: int,
    covered: wp.uint64,
    first: wp.uint64,
    others: wp.uint64,
    bl: wp.uint64,
    pf: wp.uint64,
) -> None:
    """Write the pixels of a word, by priority: `first` is P0 and M0, `others` is P1 and M1."""
    players, fields, second = first | others, pf | bl, others & ~first
    if t.ctrlpf & 4:  # the playfield has priority
        paint(m, t, at, chunks, t.colupf, covered, first & ~fields, second & ~fields, ZERO, fields)
    elif t.ctrlpf & 2:  # score: the left half has P0's color and priority, the right half P1's color
        left = wp.where(word == 1, LOW_HALF >> wp.uint64(16), wp.where(word == 0, ALL, ZERO)) & pf
        ball, right = bl & ~players & ~pf, pf & ~players & ~left
        paint(m, t, at, chunks, t.colup1, covered, first | left, second & ~left, ball, right)
    else:
        paint(m, t, at, chunks, t.colupf, covered, first, second, ZERO, fields & ~players)


@wp.func
def draw_word(
    m: wp.ref[Machine],
    t: wp.ref[Tia],
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
    """Latch the collisions of a word and, if the frame is drawn, write its pixels."""
    chunks = wp.where(word == 2, 4, 8)
    if t.vblank & 2:
        if t.draws:
            blacken(m, t, at + word * 8, chunks, covered)
    else:
        collide(t, covered, p0, p1, m0, m1, bl, pf)
        if t.draws:
            paint_word(m, t, at + word * 8, word, chunks, covered, p0 | m0, p1 | m1, bl, pf)


@wp.func
def draw_objects(
    m: wp.ref[Machine], t: wp.ref[Tia], line: wp.ref[Line], o: wp.ref[Objects], end: int, at: int
) -> None:
    """Draw a row, whose words begin at `Machine.screen[at]`, up to the pixel `end`, and latch collisions."""
    begin = line.done
    if begin < 64:
        covered = up_to(end, 0) & ~up_to(begin, 0)
        draw_word(m, t, at, 0, covered, o.p0.a, o.p1.a, o.m0.a, o.m1.a, o.bl.a, o.pf.a)
    if begin < 128 and end > 64:
        covered = up_to(end, 1) & ~up_to(begin, 1)
        draw_word(m, t, at, 1, covered, o.p0.b, o.p1.b, o.m0.b, o.m1.b, o.bl.b, o.pf.b)
    if end > 128:
        covered = up_to(end, 2) & ~up_to(begin, 2) & LOW_HALF
        draw_word(m, t, at, 2, covered, o.p0.c, o.p1.c, o.m0.c, o.m1.c, o.bl.c, o.pf.c)


@wp.func_native(
    f"for (int i = 0; i < {ROW_WORDS}; ++i) screen.data[at + i] = screen.data[at + i - {ROW_WORDS}];"
)
def copy_row(screen: wp.array(dtype=wp.uint64), at: int) -> None:
    """Copy the row above."""
    ...
