"""A frame, and the kernel that plays several of them: each thread plays one game."""

import warp as wp

from atari2600.bus import COLLISIONS, DONE, LOG_FULL
from atari2600.cpu6507 import execute
from atari2600.machine import BUS, CPU, GAME, INPUT, RAM_BYTES, RAM_SHARE, RIOT, TIA, Line, Machine
from atari2600.rules import BEFORE, OPTION, SUM
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
    m.tia[g, TIA.INPT5] = m.inputs[g, frame, INPUT.INPT5]
    m.tia[g, TIA.PADDLE0] = m.inputs[g, frame, INPUT.PADDLE0]
    m.tia[g, TIA.PADDLE1] = m.inputs[g, frame, INPUT.PADDLE1]


@wp.func
def keep_ram(m: wp.ref[Machine], g: int) -> None:
    """Store RAM after a frame, behind which the frame before moves."""
    byte = int(0)
    while byte < RAM_BYTES:
        m.seen[g, byte + BEFORE] = m.seen[g, byte]
        m.seen[g, byte] = m.ram[g * RAM_SHARE + byte]
        byte += 1


@wp.func
def add_up(m: wp.ref[Machine], g: int) -> None:
    """Compute the sums of the rules, see `rules.table`."""
    which = int(0)
    while which < SUM.COUNT:
        m.sums[g, which] = m.offsets[which]
        which += 1
    row = int(0)
    while row < m.rules.shape[0]:
        which = m.rules[row, 0]
        value = int(m.seen[g, m.rules[row, 1]])
        m.sums[g, which] = m.sums[g, which] + m.rules[row, 2 + value]
        row += 1


@wp.func
def judge(m: wp.ref[Machine], g: int) -> None:
    """Apply the rules to a frame, see `rules.Rules`."""
    keep_ram(m, g)
    add_up(m, g)
    game_over, end = int(0), int(SUM.OVER)
    while end < SUM.COUNT:
        game_over = wp.where(m.sums[g, end] <= 0, 1, game_over)
        end += 1
    score = wp.where(m.sums[g, SUM.NO_SCORE] <= 0, 0, m.sums[g, SUM.SCORE])
    score = wp.where(score >= m.options[OPTION.LIMIT], score - m.options[OPTION.LIMIT], score)
    reward = score - m.game[g, GAME.SCORE]
    if reward < 0:
        reward += m.options[OPTION.WRAPS]
    reward = wp.where(m.sums[g, SUM.FIRST_SCORE] != 0, m.sums[g, SUM.FIRST_SCORE], reward)
    reward = wp.clamp(reward, m.options[OPTION.LEAST], m.options[OPTION.MOST])
    if game_over == 0 or m.options[OPTION.PAYS_LAST]:
        m.game[g, GAME.REWARD] = m.game[g, GAME.REWARD] + reward
    lives, found = int(m.game[g, GAME.LIVES]), m.sums[g, SUM.LIVES]
    if m.options[OPTION.COUNTS_DOWN]:
        if m.sums[g, SUM.LIVES_BEFORE] - found == 1:
            lives -= 1
    elif m.sums[g, SUM.LIVES_KEPT] > 0 and (m.sums[g, SUM.LIFE_KEPT] > 0 or found != lives - 1):
        lives = found
    if m.sums[g, SUM.BEGINS] <= 0:
        m.game[g, GAME.BEGUN] = 1
    if m.game[g, GAME.BEGUN] == 0 or m.sums[g, SUM.ALL_LIVES] <= 0:
        lives = m.options[OPTION.FIRST_LIVES]
    m.game[g, GAME.SCORE] = score
    m.game[g, GAME.LIVES] = wp.where(game_over == 1, 0, lives)
    m.game[g, GAME.OVER] = game_over


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
        m.game[g, GAME.REWARD] = 0
        while frame < frames:
            if follow_inputs:
                set_controllers(m, g, frame)
            m.cpu[g, CPU.RUNNING] = 1
            m.tia[g, TIA.BUFFER] = 1 - m.tia[g, TIA.BUFFER]
            m.tia[g, TIA.DRAWS] = wp.where(frame >= frames - drawn, 1, 0)
            run(m, g, instructions)
            if m.cpu[g, CPU.RUNNING] == 0:
                rebase(m, g)
            judge(m, g)
            frame += 1
            if m.game[g, GAME.OVER]:
                frames = frame
        m.bus[g, BUS.FRAMES] = frames
        if m.tia[g, TIA.DRAWS] == 0:
            m.bus[g, BUS.UNDRAWN] = 1
