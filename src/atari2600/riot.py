"""The 6532 RIOT: the interval timer and the two ports (data sheet: MOS Technology, 1977).

Its 128 bytes of RAM are `Machine.ram`.
"""

import warp as wp

from atari2600.machine import RIOT, Machine


@wp.func
def timer(m: Machine, g: int, now: int) -> int:
    """Return the timer in steps since it passed zero, below 0 where it has: it counts down from one less."""
    return m.riot[g, RIOT.VALUE] - ((now - m.riot[g, RIOT.SET_AT] - 1) >> m.riot[g, RIOT.SHIFT]) - 1


@wp.func
def read_timer(m: Machine, g: int, now: int) -> int:
    """Return INTIM at cycle `now`.

    Once it has passed zero the timer counts cycles, and sets the interrupt flag. A read clears the flag
    and puts the timer back to its own interval, but not in the very cycle in which the flag is set.
    """
    count = timer(m, g, now)
    if count < 0:
        passed = (m.riot[g, RIOT.VALUE] << m.riot[g, RIOT.SHIFT]) - (now - m.riot[g, RIOT.SET_AT])
        if m.riot[g, RIOT.CLEARED] == 0 and passed < -1:
            m.riot[g, RIOT.CLEARED] = 1
            m.riot[g, RIOT.READ_AT] = now
        if m.riot[g, RIOT.CLEARED] != 0:
            passed = (m.riot[g, RIOT.VALUE] << m.riot[g, RIOT.SHIFT]) - (
                m.riot[g, RIOT.READ_AT] - m.riot[g, RIOT.SET_AT]
            )
        count = passed + count + 1
    return count & 0xFF


@wp.func
def read_riot(m: Machine, g: int, address: int, now: int) -> int:
    """Return what the register at `address` holds in cycle `now`."""
    value = int(0)
    if address & 4:
        if address & 1:  # TIMINT
            if timer(m, g, now) < 0 and m.riot[g, RIOT.CLEARED] == 0:
                value = 0x80
        else:
            value = read_timer(m, g, now)
    elif address & 3 == 0:
        # A line of the port that is an output shows what the program drives, unless the joystick grounds it.
        value = m.riot[g, RIOT.SWCHA] & (m.riot[g, RIOT.OUT_A] | ~m.riot[g, RIOT.DDRA]) & 0xFF
    elif address & 3 == 1:
        value = m.riot[g, RIOT.DDRA]
    elif address & 3 == 2:
        value = m.riot[g, RIOT.SWCHB]
    return value


@wp.func
def write_riot(m: Machine, g: int, address: int, value: int, now: int) -> None:
    """Write `value` to the register at `address` in cycle `now`."""
    if address & 0x14 == 0x14:  # TIM1T, TIM8T, TIM64T, T1024T
        interval = address & 3
        m.riot[g, RIOT.VALUE] = value
        m.riot[g, RIOT.SHIFT] = wp.where(interval == 3, 10, interval * 3)
        m.riot[g, RIOT.SET_AT] = now
        m.riot[g, RIOT.CLEARED] = 0
    elif address & 7 == 0:
        m.riot[g, RIOT.OUT_A] = value
    elif address & 7 == 1:
        m.riot[g, RIOT.DDRA] = value
