"""A frame, and the kernel that plays several of them: each thread plays one game."""

import warp as wp

from atari2600.bus import COLLISIONS, DONE, LOG_FULL
from atari2600.cpu6507 import execute
from atari2600.machine import BUS, CPU, INPUT, RAM_BYTES, RAM_SHARE, RIOT, TIA, Line, Machine
from atari2600.tables import NEVER
from atari2600.tia import drain, open_line, see


@wp.func
def rebase(m: wp.ref[Machine], g: int) -> None:
    """Make all clocks count from the line in which the frame ended."""
    past = m.cpu[g, CPU.CYCLES] // 76 * 76
    m.cpu[g, CPU.CYCLES] = m.cpu[g, CPU.CYCLES] - past
    m.riot[g, RIOT.SET_AT] = m.riot[g, RIOT.SET_AT] - past
    m.riot[g, RIOT.READ_AT] = m.riot[g, RIOT.READ_AT] - past
    m.tia[g, TIA.DUMPED_AT] = m.tia[g, TIA.DUMPED_AT] - past
    m.tia[g, TIA.MOVED_AT] = m.tia[g, TIA.MOVED_AT] - past * 3
    if m.tia[g, TIA.SYNC_UNTIL] != NEVER:
        m.tia[g, TIA.SYNC_UNTIL] = m.tia[g, TIA.SYNC_UNTIL] - past * 3
    m.tia[g, TIA.CLOCK] = m.cpu[g, CPU.CYCLES] * 3
    m.tia[g, TIA.COMB] = wp.where(m.tia[g, TIA.COMB] >= m.tia[g, TIA.ROWS], 0, -1)


@wp.func_native("for (int i = 0; i < 64; ++i) held.data[g * 64 + i] = -1;")
def forget(held: wp.array2d(dtype=wp.int16), g: int) -> None:
    """Mark the values of all registers as unknown."""
    ...


@wp.func
def run(m: wp.ref[Machine], g: int, instructions: int) -> None:
    """Play to the end of the frame."""
    t, line = m.tias[g], Line()
    open_line(t, line)
    m.bus[g, BUS.GROUNDED] = t.vblank & 128
    m.bus[g, BUS.SEEN] = -1
    m.bus[g, BUS.WRITTEN] = 0
    forget(m.held, g)
    left = int(instructions)
    status = int(LOG_FULL)
    while left > 0 and status != DONE:
        status = execute(m, g, left)
        left = m.bus[g, BUS.LEFT]
        drain(m, g, t, line)
        if status == COLLISIONS:
            see(m, g, t, line, m.bus[g, BUS.SEEN] * 3)
            m.tia[g, TIA.COLLISIONS] = t.collisions
    see(m, g, t, line, m.bus[g, BUS.WRITTEN] * 3)
    t.sync_until = m.tia[g, TIA.SYNC_UNTIL]  # the 6507 writes these two
    t.dumped_at = m.tia[g, TIA.DUMPED_AT]
    m.tias[g] = t
    if line.row < t.rows - 1 or (line.row == t.rows - 1 and line.done < 160):
        m.bus[g, BUS.UNDRAWN] = 1


@wp.func
def set_controllers(m: wp.ref[Machine], g: int, frame: int) -> None:
    """Set the controllers to their state in a frame."""
    m.riot[g, RIOT.SWCHA] = m.inputs[g, frame, INPUT.SWCHA]
    m.tia[g, TIA.INPT4] = m.inputs[g, frame, INPUT.INPT4]
    m.tia[g, TIA.PADDLE0] = m.inputs[g, frame, INPUT.PADDLE0]
    m.tia[g, TIA.PADDLE1] = m.inputs[g, frame, INPUT.PADDLE1]


@wp.func
def keep_ram(m: wp.ref[Machine], g: int, frame: int) -> None:
    """Store RAM after a frame."""
    byte = int(0)
    while byte < RAM_BYTES:
        m.played[g, frame, byte] = m.ram[g * RAM_SHARE + byte]
        byte += 1


@wp.func
def is_over(m: wp.ref[Machine], g: int) -> int:
    """Return whether the game is over: both bytes of one pair in `Machine.over` have their values."""
    over = int(0)
    pair = int(0)
    while pair < 4:
        one = int(m.ram[g * RAM_SHARE + m.over[pair, 0]]) & m.over[pair, 1]
        other = int(m.ram[g * RAM_SHARE + m.over[pair + 1, 0]]) & m.over[pair + 1, 1]
        if one == m.over[pair, 2] and other == m.over[pair + 1, 2]:
            over = 1
        pair += 2
    return over


@wp.kernel(enable_backward=False)
def play_frames(m: Machine, instructions: int, follow_inputs: int, drawn: int) -> None:
    """Play `BUS.FRAMES` frames of each game, or fewer if it ends.

    Args:
        m: The consoles.
        instructions: The limit of instructions per frame.
        follow_inputs: Whether the controllers follow `Machine.inputs`.
        drawn: The number of frames, the last ones, that are drawn.
    """
    g = wp.tid()
    if m.cpu[g, CPU.PLAYS]:
        frames = int(m.bus[g, BUS.FRAMES])
        frame = int(0)
        m.bus[g, BUS.UNDRAWN] = 0
        while frame < frames:
            if follow_inputs:
                set_controllers(m, g, frame)
            m.cpu[g, CPU.RUNNING] = 1
            m.tia[g, TIA.BUFFER] = 1 - m.tia[g, TIA.BUFFER]
            m.tia[g, TIA.DRAWS] = wp.where(frame >= frames - drawn, 1, 0)
            run(m, g, instructions)
            if m.cpu[g, CPU.RUNNING] == 0:
                rebase(m, g)
            keep_ram(m, g, frame)
            frame += 1
            if is_over(m, g):
                frames = frame
        m.bus[g, BUS.FRAMES] = frames
        if m.tia[g, TIA.DRAWS] == 0:
            m.bus[g, BUS.UNDRAWN] = 1
