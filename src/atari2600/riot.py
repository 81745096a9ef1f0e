"""The 6532 RIOT: the interval timer and the two ports (data sheet: MOS Technology, 1977).

This is C++ for `cpu6507.execute`, which works on the columns `riot`. The 128 bytes of RAM are `Machine.ram`.
"""

READ_RIOT = r"""
// The timer in steps, negative once it has passed zero: it counts down from one less than its value.
auto timer = [=](int now) -> int {
    return riot[RIOT_VALUE] - ((now - riot[RIOT_SET_AT] - 1) >> riot[RIOT_SHIFT]) - 1;
};
// INTIM at cycle `now`. After zero the timer counts single cycles, and sets the interrupt flag. A read clears
// the flag and restores the timer's interval, except in the cycle in which the flag is set.
auto read_timer = [=](int now) -> int {
    int count = timer(now);
    if (count < 0) {
        int end = (riot[RIOT_VALUE] << riot[RIOT_SHIFT]) + riot[RIOT_SET_AT], passed = end - now;
        if (!riot[RIOT_CLEARED] && passed < -1) { riot[RIOT_CLEARED] = 1; riot[RIOT_READ_AT] = now; }
        if (riot[RIOT_CLEARED]) passed = end - riot[RIOT_READ_AT];
        count += passed + 1;
    }
    return count & 255;
};
auto read_riot = [=](int address, int now) -> int {
    switch (address & 7) {
    // An output line of the port has the program's value, unless the joystick grounds it.
    case 0: return riot[RIOT_SWCHA] & (riot[RIOT_OUT_A] | ~riot[RIOT_DDRA]) & 255;
    case 1: return riot[RIOT_DDRA];
    case 2: return riot[RIOT_SWCHB];
    case 3: return 0;
    case 4: case 6: return read_timer(now);
    }
    return timer(now) < 0 && !riot[RIOT_CLEARED] ? 128 : 0;  // TIMINT
};
auto write_riot = [=](int address, int value, int now) -> void {
    if ((address & 0x14) == 0x14) {  // TIM1T, TIM8T, TIM64T, T1024T
        riot[RIOT_VALUE] = value;
        riot[RIOT_SHIFT] = (address & 3) == 3 ? 10 : (address & 3) * 3;
        riot[RIOT_SET_AT] = now;
        riot[RIOT_CLEARED] = 0;
    } else if ((address & 7) == 0) riot[RIOT_OUT_A] = value;
    else if ((address & 7) == 1) riot[RIOT_DDRA] = value;
};
"""
