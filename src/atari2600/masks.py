"""Masks of a line's objects: 160 pixels in three 64-bit words, the leftmost pixel in the lowest bit."""

import warp as wp

from atari2600.machine import Machine, Mask, entry

ALL = wp.constant(wp.uint64(0xFFFFFFFFFFFFFFFF))
LOW_HALF = wp.constant(wp.uint64(0x00000000FFFFFFFF))
ZERO = wp.constant(wp.uint64(0))


@wp.func
def clear(mask: wp.ref[Mask]) -> None:
    """Remove all pixels."""
    mask.a = ZERO
    mask.b = ZERO
    mask.c = ZERO


@wp.func
def put(mask: wp.ref[Mask], pattern: wp.uint64, position: int) -> None:
    """Add `pattern`, at most 32 pixels with the leftmost in the lowest bit, at `position` below 320."""
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
    """Set the mask to all copies of `pattern`; `copies` has their distances, see `tables.copies`."""
    clear(mask)
    if pattern != ZERO:
        offsets = int(copies)
        while offsets != 0:
            put(mask, pattern, position + (offsets & 127))
            offsets = offsets >> 8
        # Pixels beyond the right edge wrap around to the left.
        mask.a = mask.a | mask.c >> wp.uint64(32)
        mask.c = mask.c & LOW_HALF


@wp.func
def bar(size: int, enabled: int) -> wp.uint64:
    """Return the pattern of a missile or the ball: 2**`size` pixels if bit 1 of `enabled` is set."""
    return wp.where(enabled & 2, (wp.uint64(1) << wp.uint64(1 << size)) - wp.uint64(1), ZERO)


@wp.func
def stretch(bits: wp.uint64) -> wp.uint64:
    """Return 64 bits: each of the lowest 16 bits repeated four times."""
    x = bits
    x = (x | x << wp.uint64(24)) & wp.uint64(0x000000FF000000FF)
    x = (x | x << wp.uint64(12)) & wp.uint64(0x000F000F000F000F)
    x = (x | x << wp.uint64(6)) & wp.uint64(0x0303030303030303)
    x = (x | x << wp.uint64(3)) & wp.uint64(0x1111111111111111)
    return x * wp.uint64(15)


@wp.func
def put_playfield(m: wp.ref[Machine], mask: wp.ref[Mask], field: int, reflected: int) -> None:
    """Set the mask to the playfield: 20 bits of 4 pixels each, then the same bits repeated or reflected."""
    left = wp.uint64(field)
    right = left
    if reflected & 1:
        right = wp.uint64(entry(m.reversed, field & 0x3FF)) << wp.uint64(10)
        right = right | wp.uint64(entry(m.reversed, field >> 10))
    bits = left | right << wp.uint64(20)
    mask.a = stretch(bits & wp.uint64(0xFFFF))
    mask.b = stretch(bits >> wp.uint64(16) & wp.uint64(0xFFFF))
    mask.c = stretch(bits >> wp.uint64(32))


@wp.func
def up_to(pixel: int, word: int) -> wp.uint64:
    """Return the bits of word number `word` for the pixels left of `pixel`."""
    count = pixel - word * 64
    bits = ZERO
    if count >= 64:
        bits = ALL
    elif count > 0:
        bits = (wp.uint64(1) << wp.uint64(count)) - wp.uint64(1)
    return bits


@wp.func
def merge(seen: wp.ref[Mask], whole: wp.ref[Mask], pixel: int) -> None:
    """Replace the pixels of `seen` from `pixel` on by those of `whole`."""
    a, b, c = up_to(pixel, 0), up_to(pixel, 1), up_to(pixel, 2)
    seen.a = (seen.a & a) | (whole.a & ~a)
    seen.b = (seen.b & b) | (whole.b & ~b)
    seen.c = (seen.c & c) | (whole.c & ~c)
