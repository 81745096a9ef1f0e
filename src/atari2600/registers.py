"""Writes to the TIA's registers: which objects they change, and the values that they store."""

import warp as wp

from atari2600 import tables
from atari2600.machine import Line, Machine, Tia, entry
from atari2600.positions import released, reset_object
from atari2600.tables import BL, BLANK, LINE, M0, M1, P0, P1, PF


@wp.func
def field_with(m: wp.ref[Machine], t: wp.ref[Tia], register: int, value: int) -> int:
    """Return the playfield's 20 bits after a write to PF0, PF1 or PF2."""
    field = (t.pf & 0xFFFF0) | value >> 4
    if register == tables.PF1:
        field = (t.pf & 0xFF00F) | entry(m.reversed, value) >> 2 << 4
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
        enabled = wp.where(
            register == tables.ENAM0, t.enam0, wp.where(register == tables.ENAM1, t.enam1, t.enabl)
        )
        which = wp.where((enabled ^ value) & 2, M0 << register - tables.ENAM0, 0)
    elif register == tables.NUSIZ0:
        which = wp.where(t.nusiz0 != value or t.skip0 != 0, P0 | M0, 0)
    elif register == tables.NUSIZ1:
        which = wp.where(t.nusiz1 != value or t.skip1 != 0, P1 | M1, 0)
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
def store_color(t: wp.ref[Tia], register: int, color: int) -> None:
    """Write COLUP0 to COLUBK."""
    if register == tables.COLUP0:
        t.colup0 = color
    elif register == tables.COLUP1:
        t.colup1 = color
    elif register == tables.COLUPF:
        t.colupf = color
    else:
        t.colubk = color


@wp.func
def color_of(t: wp.ref[Tia], register: int) -> int:
    """Return the value of COLUP0, COLUP1, COLUPF or COLUBK."""
    return wp.where(
        register <= tables.COLUP1,
        wp.where(register == tables.COLUP0, t.colup0, t.colup1),
        wp.where(register == tables.COLUPF, t.colupf, t.colubk),
    )


@wp.func
def store_other(t: wp.ref[Tia], line: wp.ref[Line], register: int, value: int) -> None:
    """Write VBLANK, NUSIZ0, NUSIZ1, REFP0, REFP1 or CTRLPF."""
    if register == tables.VBLANK:
        t.vblank = value
    elif register == tables.NUSIZ0:
        t.nusiz0 = value
        t.skip0 = 0
    elif register == tables.NUSIZ1:
        t.nusiz1 = value
        t.skip1 = 0
    elif register == tables.REFP0:
        t.refp0 = value
    elif register == tables.REFP1:
        t.refp1 = value
    elif register == tables.CTRLPF:
        t.ctrlpf = value
        if (t.clock - line.start) % LINE < BLANK + 79:
            t.reflected = value
        else:  # the middle of the line has passed
            t.next_line = t.next_line | PF


@wp.func
def store(
    m: wp.ref[Machine], t: wp.ref[Tia], line: wp.ref[Line], register: int, value: int, clock: int
) -> None:
    """Write a register other than HMOVE."""
    if register >= tables.GRP0 and register <= tables.ENABL:
        store_object(t, register, value)
    elif register >= tables.PF0 and register <= tables.PF2:
        t.pf = field_with(m, t, register, value)
    elif register >= tables.COLUP0 and register <= tables.COLUBK:
        store_color(t, register, entry(m.palette, value))
    elif register >= tables.HMP0 and register <= tables.HMBL:
        store_motion(t, register, value >> 4)
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


@wp.func
def changes_look(m: wp.ref[Machine], t: wp.ref[Tia], line: wp.ref[Line], register: int, value: int) -> int:
    """Return whether the pixels before a write must be drawn first, although it changes no object."""
    changes = int(0)
    if register >= tables.COLUP0 and register <= tables.COLUBK:
        changes = t.draws & wp.where(color_of(t, register) != entry(m.palette, value), 1, 0)
    elif register == tables.VBLANK:
        changes = (t.vblank ^ value) >> 1 & 1
    elif register == tables.CTRLPF:
        changes = t.draws & wp.where((t.ctrlpf ^ value) & 6, 1, 0)
    elif register == tables.CXCLR:
        changes = 1
    elif register == tables.HMOVE:  # the next row's comb takes the place of this row's
        changes = t.draws & wp.where(t.comb == line.row, 1, 0)
    return changes
