"""The 6507's bus, as C++ for `cpu6507.execute`: which chip responds to an address of 13 bits.

A12 selects the cartridge. Otherwise, A7 = 0 selects the TIA, and A7 = 1 the RIOT: its RAM if A9 = 0, its
timer and ports if A9 = 1.
"""

from atari2600 import cartridge, tables
from atari2600.machine import BUS, CPU, LOG_LENGTH, RAM_SHARE, RIOT, TIA
from atari2600.riot import READ_RIOT

LAST_CYCLE = (290 * 228 + 227) // 3  # a later write to the TIA ends the frame even without VSYNC
# Why `execute` stopped: the frame is over, the log is full, or a read needs collisions from the TIA.
DONE, LOG_FULL, COLLISIONS = range(3)


# The constants of the C++ below, of `riot.py` and of `cartridge.py`.
NAMES = {
    **{f"{columns.__name__}_{one.name}": one.value for columns in (CPU, RIOT, TIA, BUS) for one in columns},
    **{name: value for name, value in vars(tables).items() if isinstance(value, int)},
    **{name: getattr(cartridge, name) for name in ("F8", "F6", "E0", "FE", "SUPERCHIP", "RAM_WINDOWS")},
    "RAM_SHARE": RAM_SHARE, "LOG_LENGTH": LOG_LENGTH, "LAST_CYCLE": LAST_CYCLE,
    "LATCHES0": 62, "LATCHES1": 63, "DONE": DONE, "LOG_FULL": LOG_FULL, "COLLISIONS": COLLISIONS,
    # Registers for which every write counts: CTRLPF, RESP0 to RESBL, HMOVE to CXCLR.
    "TIA_STROBES": 1 << 10 | (1 << 21) - (1 << 16) | (1 << 45) - (1 << 42),
    # Registers whose writes are logged: VBLANK, NUSIZ0 to RESBL, GRP0 to CXCLR.
    "TIA_LOGGED": 1 << 1 | (1 << 21) - (1 << 4) | (1 << 45) - (1 << 27),
}  # fmt: skip
WORDS = (
    "".join(f"constexpr auto {name} = {value};\n" for name, value in NAMES.items())
    + r"""
int *cpu = m.cpu.data + g * CPU_COUNT, *riot = m.riot.data + g * RIOT_COUNT;
int *tia = m.tia.data + g * TIA_COUNT, *bus = m.bus.data + g * BUS_COUNT;
const int* code = m.code.data;
unsigned char* ram = m.ram.data + g * RAM_SHARE;
int* log = m.log.data + g * LOG_LENGTH;
short* held = m.held.data + g * 64;
int logged = bus[BUS_LOGGED], status = 0, spare = 0;
"""
    + cartridge.CARTRIDGE
    + READ_RIOT
    + r"""
// Read the TIA or the RIOT. -1: the TIA must first compute collisions. Undriven bus lines keep `noise`.
auto read_chip = [=](int address, int now, int noise) -> int {
    if (address & 0x80) return read_riot(address, now);
    int place = address & 15, value = 0;
    if (place < 8) {
        if (bus[BUS_SEEN] != now) { bus[BUS_SEEN] = now; return -1; }
        value = tia[TIA_COLLISIONS] >> place * 2 << 6 & 0xC0;
    } else if (place < 12) {  // a paddle charges a capacitor, unless the program grounds it
        if (!bus[BUS_GROUNDED] && now - tia[TIA_DUMPED_AT] > tia[TIA_PADDLE0 + place - 8]) value = 128;
    } else if (place < 14) value = tia[TIA_INPT4 + place - 12];
    return value | (noise & 63);
};
// A write to VSYNC or VBLANK: the end of the frame, and the paddles.
auto write_sync = [=](int place, int value, int now) -> void {
    if (place == 0) {
        if (value & 2) tia[TIA_SYNC_UNTIL] = now * 3 + 228;
        else if (tia[TIA_SYNC_UNTIL] <= now * 3) { tia[TIA_SYNC_UNTIL] = NEVER; cpu[CPU_RUNNING] = 0; }
    } else {
        if (bus[BUS_GROUNDED] & ~value) tia[TIA_DUMPED_AT] = now;
        bus[BUS_GROUNDED] = value & 128;
    }
};
// Log a write to the TIA unless it changes nothing; return the length of the log. `held` has the last value
// of each register, -1 if unknown. A write to GRP0 latches GRP1 for vertical delay, and one to GRP1 latches
// GRP0 and ENABL: if these have changed, a write of an equal value counts.
auto note = [=](int place, int value, int now, int logged) -> int {
    if (held[place] != value) {
        held[place] = value;
        if (place == RESP0 || place == RESP1) held[NUSIZ0 + place - RESP0] = -1;  // NUSIZ ends their wait
        if (place == GRP1) held[LATCHES0] = 1;
        if (place == GRP0 || place == ENABL) held[LATCHES1] = 1;
        if (place == HMCLR) for (int motion = HMP0; motion <= HMBL; ++motion) held[motion] = -1;
        if (TIA_STROBES >> place & 1) held[place] = -1;
    } else if (place == GRP0 || place == GRP1) {
        if (!held[LATCHES0 + place - GRP0]) return logged;
    } else return logged;
    if (place == GRP0 || place == GRP1) held[LATCHES0 + place - GRP0] = 0;
    log[logged] = now << 14 | place << 8 | value;
    return logged + 1;
};
#define FETCH(A) ((A) & 0x1000 ? page[(A) & lines] : \
    ram[(A) & 127] | ram[((A) + 1) & 127] << 8 | ram[((A) + 2) & 127] << 16)
#define SWITCH_BANK { bank = switch_bank(place, bank); page = code + bank; }
#define READ_CHIP { value = read_chip(ea, now, noise); if (value < 0) { status = COLLISIONS; goto out; } }
#define READ_ZP if (ea & 128) value = ram[ea & 127]; else READ_CHIP
#define READ if (ea & 0x1000) { \
        int place = ea & 0xFFF; \
        if (place < chip) value = ram[128 | (place & 127)]; \
        else { \
            if (place >= hot) SWITCH_BANK \
            value = page[ea & lines] & 255; \
        } \
    } else if ((ea & 0x280) == 0x80) value = ram[ea & 127]; else READ_CHIP
#define STOP(WHY) { status = WHY; spare += left - 1; left = 1; }
#define WRITE_TIA(V) { \
    int place = ea & 63; \
    bus[BUS_WRITTEN] = now; \
    if (now > LAST_CYCLE) cpu[CPU_RUNNING] = 0; \
    if (place == WSYNC) now += (76 - now % 76) % 76; \
    else { \
        if (place < WSYNC) write_sync(place, (V), now); \
        if (TIA_LOGGED >> place & 1) logged = note(place, (V), now, logged); \
        if (logged == LOG_LENGTH) STOP(LOG_FULL) \
    } \
    if (!cpu[CPU_RUNNING]) STOP(DONE) }
#define WRITE_ZP(V) if (ea & 128) ram[ea & 127] = (unsigned char)(V); else WRITE_TIA(V)
#define WRITE(V) if (ea & 0x1000) { \
        int place = ea & 0xFFF; \
        if (place >= hot) SWITCH_BANK \
        else if (place < chip && place < 128) ram[128 | place] = (unsigned char)(V); \
    } else if ((ea & 0x280) == 0x80) ram[ea & 127] = (unsigned char)(V); \
    else if (ea & 0x80) write_riot(ea, (V), now); \
    else WRITE_TIA(V)
"""
)
