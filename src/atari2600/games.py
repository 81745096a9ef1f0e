"""E games of one ROM on one device, CPU or GPU: a step reads and writes arrays there alone.

A step takes seven launches: `begin` sets the controllers, or starts a game that has ended, and
`copy_pictures` copies its pictures; `play_frames` plays; `again` and a second `play_frames` repeat the step
of a game that ended early or had a short frame, since its last pictures are not complete; `settle` computes
rewards and ends; the last makes the screens.

Games start from a pool of states: each initial state of the game, after each number of no-ops.
"""

import enum
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from atari2600.cartridge import BANK_BYTES, FE
from atari2600.console import FRAME_INSTRUCTIONS, STATE, Console
from atari2600.controllers import CYCLES, LEAST, MIDDLE, MOST, TURNS, Controllers, buttons, paddle_of, port
from atari2600.draws import Draws
from atari2600.frame import play_frames
from atari2600.machine import (
    BUS,
    CPU,
    GAME,
    INPUT,
    LIMITS,
    MOST_ROWS,
    RAM_SHARE,
    ROW_WORDS,
    Machine,
    check_columns,
)
from atari2600.rules import Rules
from atari2600.screens import Screens
from atari2600.starts import Start, gray_levels, timers

PICTURE_WORDS = 2 * MOST_ROWS * ROW_WORDS
LANES = 64  # threads that copy a starting game's pictures on a GPU
# Games in a block of threads on a GPU. The threads of a warp, up to 32, wait for each other where their games
# take different branches, so a small block loses less time; the number itself was not measured.
BLOCK = 8
MOST_GAMES = 2**31 // (8 * PICTURE_WORDS)  # whose pictures have indices of 32 bits
OTHER_BYTES = 5000  # of a game, at most: all but its pictures and what makes its screen
UNIT = wp.constant(wp.float64(2.0**-32))
STARTS_KNOWN = 1 << 16  # games of one console whose timer at power-on is ALE's; later ones repeat these


class RESULT(enum.IntEnum):
    """What a step gives for each game."""

    REWARD = 0
    TERMINAL = 1  # 1: the episode is over
    ENDED = 2  # 1: the next step starts a new game
    START = 3  # 1: this step started a game
    COUNT = 4


class STAND(enum.IntEnum):
    """How a game stands."""

    HELD = 0  # the action of its last frame, ALE's code
    TURNED = 1  # ohms of the first player's paddle
    FRAMES = 2  # since its start
    SINGLE = 3  # 1: its screen shows the last frame alone
    ENDED = 4  # 1: the next step starts a new game
    BEGUN = 5  # games that this console has begun
    KEY = 6  # of its random numbers
    DRAWN = 7  # how many of them it has used
    PLACE = 8  # where the game that begins with this step is in the pool
    COUNT = 9


# As `machine.LIMITS`.
STAND_LIMITS: dict[int, tuple[int, int] | None] = {
    STAND.HELD: (0, 17),
    STAND.TURNED: (0, MOST),
    STAND.FRAMES: (0, 2**31 - 1),
    STAND.SINGLE: (0, 1),
    STAND.ENDED: (0, 1),
    STAND.BEGUN: (0, 2**31 - 1),
    **dict.fromkeys((STAND.KEY, STAND.DRAWN, STAND.PLACE), None),
}


@wp.struct
class Saved:
    """States of consoles without their pictures, a row for each: the arrays of `console.STATE`."""

    cpu: wp.array2d(dtype=wp.int32)
    riot: wp.array2d(dtype=wp.int32)
    tia: wp.array2d(dtype=wp.int32)
    game: wp.array2d(dtype=wp.int32)
    ram: wp.array2d(dtype=wp.uint8)
    seen: wp.array2d(dtype=wp.uint8)


@wp.struct
class Play:
    """What a step needs beside `Machine`."""

    codes: wp.array(dtype=wp.int32)  # [A], ALE's code of each action
    port: wp.array(dtype=wp.int32)  # [18], SWCHA
    buttons: wp.array2d(dtype=wp.int32)  # [2, 18], INPT4 and INPT5
    turns: wp.array(dtype=wp.int32)  # [18], ohms that a paddle turns in a frame
    paddle: wp.int32  # -1: a joystick
    sticky: wp.float64  # probability that a frame repeats the action of the one before
    skip: wp.int32  # frames of a step
    limit: wp.int32  # frames of a game
    lives_end: wp.int32  # 1: a lost life ends an episode
    maximum: wp.int32  # 1: screens show the maximum of the last two frames
    timers: wp.array(dtype=wp.int32)  # [STARTS_KNOWN], the initial state of a console's nth game
    each: wp.int32  # starts of each initial state in the pool; 0: it has the next start of each game
    pool: Saved
    pool_pictures: wp.array2d(dtype=wp.uint64)  # [P, PICTURE_WORDS]
    pool_frames: wp.array(dtype=wp.int32)  # [P]
    now: Saved  # [E], the arrays of `Machine` themselves
    before: Saved  # [E], the state before the step
    stand: wp.array2d(dtype=wp.int32)  # [E, STAND.COUNT]
    actions: wp.array(dtype=wp.int64)  # [E], the step's
    results: wp.array2d(dtype=wp.float32)  # [RESULT.COUNT, E]
    single: wp.array(dtype=wp.int32)  # [E]


@wp.func
def mix(x: wp.uint32) -> wp.uint32:
    """Return a hash of 32 bits in which every bit of `x` counts; see `draws.Draws`."""
    x = (x ^ (x >> wp.uint32(16))) * wp.uint32(0x21F0AAAD)
    x = (x ^ (x >> wp.uint32(15))) * wp.uint32(0x735A2D97)
    return x ^ (x >> wp.uint32(15))


@wp.func
def draw(p: Play, g: int, ahead: int) -> wp.uint32:
    """Return one of the next random numbers of game `g`, of 32 bits; the first is 0 `ahead`."""
    return mix(mix(wp.uint32(p.stand[g, STAND.DRAWN] + ahead)) ^ wp.uint32(p.stand[g, STAND.KEY]))


@wp.func
def copy_state(source: Saved, at: int, to: Saved, place: int) -> None:
    """Copy the state at `at` in `source` to `place` in `to`."""
    for i in range(source.cpu.shape[1]):
        to.cpu[place, i] = source.cpu[at, i]
    for i in range(source.riot.shape[1]):
        to.riot[place, i] = source.riot[at, i]
    for i in range(source.tia.shape[1]):
        to.tia[place, i] = source.tia[at, i]
    for i in range(source.game.shape[1]):
        to.game[place, i] = source.game[at, i]
    for i in range(source.ram.shape[1]):
        to.ram[place, i] = source.ram[at, i]
    for i in range(source.seen.shape[1]):
        to.seen[place, i] = source.seen[at, i]


@wp.func
def start_game(m: Machine, p: Play, g: int) -> None:
    """Start a new game from the pool, after a random number of no-ops."""
    begun = p.stand[g, STAND.BEGUN]
    place = int(g)  # see `Games._play_starts`
    if p.each > 0:
        no_ops = int((wp.uint64(draw(p, g, 0)) * wp.uint64(p.each)) >> wp.uint64(32))
        place = p.timers[begun % STARTS_KNOWN] * p.each + no_ops
    copy_state(p.pool, place, p.now, g)
    m.cpu[g, CPU.PLAYS] = 0
    p.stand[g, STAND.HELD] = 0
    p.stand[g, STAND.TURNED] = MIDDLE
    p.stand[g, STAND.FRAMES] = p.pool_frames[place]
    p.stand[g, STAND.SINGLE] = wp.where(p.pool_frames[place] == 0, 1, 0)
    p.stand[g, STAND.BEGUN] = begun + 1
    drawn = wp.where(p.sticky > wp.float64(0.0), 1 + p.pool_frames[place], 1)  # each frame draws
    p.stand[g, STAND.DRAWN] = p.stand[g, STAND.DRAWN] + drawn
    p.stand[g, STAND.PLACE] = place


@wp.func
def set_controllers(m: Machine, p: Play, g: int) -> None:
    """Plan the controllers of the frames of a step."""
    wanted = wp.min(p.skip, p.limit - p.stand[g, STAND.FRAMES])
    m.bus[g, BUS.FRAMES] = wanted
    code = p.codes[int(p.actions[g])]
    held = int(p.stand[g, STAND.HELD])
    turned = int(p.stand[g, STAND.TURNED])
    for frame in range(wanted):
        repeats = int(0)
        if p.sticky > wp.float64(0.0):
            number = draw(p, g, frame)
            repeats = wp.where(wp.float64(number) * UNIT < p.sticky, 1, 0)
        held = wp.where(repeats == 1, held, code)
        m.inputs[g, frame, INPUT.SWCHA] = p.port[held]
        m.inputs[g, frame, INPUT.INPT4] = p.buttons[0, held]
        m.inputs[g, frame, INPUT.INPT5] = p.buttons[1, held]
        if p.paddle >= 0:
            turned = wp.clamp(turned + p.turns[held], LEAST, MOST)
            m.inputs[g, frame, INPUT.PADDLE0 + p.paddle] = int(wp.float64(turned) * wp.float64(CYCLES))
    p.stand[g, STAND.HELD] = held
    p.stand[g, STAND.TURNED] = turned


@wp.kernel(enable_backward=False)
def begin(m: Machine, p: Play) -> None:
    """Start the games that have ended; set the controllers of the others."""
    g = wp.tid()
    p.results[RESULT.START, g] = float(p.stand[g, STAND.ENDED])
    if p.stand[g, STAND.ENDED] == 1:
        start_game(m, p, g)
    else:
        m.cpu[g, CPU.PLAYS] = 1
        set_controllers(m, p, g)
        copy_state(p.now, g, p.before, g)


@wp.kernel(enable_backward=False)
def copy_pictures(m: Machine, p: Play, lanes: int) -> None:
    """Copy the pictures of the games that start, `lanes` threads each."""
    g, lane = wp.tid()  # type: ignore[misc]
    if p.results[RESULT.START, g] == 1.0:
        place = p.stand[g, STAND.PLACE]
        for i in range(lane, PICTURE_WORDS, lanes):
            m.screen[g * PICTURE_WORDS + i] = p.pool_pictures[place, i]


@wp.kernel(enable_backward=False)
def again(m: Machine, p: Play) -> None:
    """Let only those games play again, from before the step, that lack rows of a frame that was not drawn."""
    g = wp.tid()
    wanted = wp.min(p.skip, p.limit - p.stand[g, STAND.FRAMES])
    lacks = wp.where(m.cpu[g, CPU.PLAYS] == 1 and m.bus[g, BUS.UNDRAWN] == 1 and wanted > 2, 1, 0)
    if lacks == 1:
        copy_state(p.before, g, p.now, g)
        m.bus[g, BUS.FRAMES] = wanted
    m.cpu[g, CPU.PLAYS] = lacks


@wp.kernel(enable_backward=False)
def settle(m: Machine, p: Play) -> None:
    """Compute the rewards and the ends of a step."""
    g = wp.tid()
    reward = float(0.0)
    terminal = int(0)
    ended = int(0)
    if p.results[RESULT.START, g] == 0.0:
        played = m.bus[g, BUS.FRAMES]
        reward = float(m.game[g, GAME.REWARD])
        frames = p.stand[g, STAND.FRAMES] + played
        game_over = m.game[g, GAME.OVER]
        ended = wp.where(game_over == 1 or frames >= p.limit, 1, 0)
        lost = wp.where(m.game[g, GAME.LIVES] < p.before.game[g, GAME.LIVES], p.lives_end, 0)
        terminal = wp.where(game_over == 1, 1, lost)
        if p.sticky > wp.float64(0.0):
            p.stand[g, STAND.DRAWN] = p.stand[g, STAND.DRAWN] + played
        p.stand[g, STAND.FRAMES] = frames
        p.stand[g, STAND.SINGLE] = wp.where(played < p.skip, 1, 0)
    p.results[RESULT.REWARD, g] = reward
    p.results[RESULT.TERMINAL, g] = float(terminal)
    p.results[RESULT.ENDED, g] = float(ended)
    p.stand[g, STAND.ENDED] = ended
    p.single[g] = wp.where(p.maximum == 1, p.stand[g, STAND.SINGLE], 1)


@dataclass(frozen=True)
class Settings:
    """How games are played.

    Attributes:
        actions: ALE's codes of the actions.
        height, width: The size of a screen in pixels.
        frame_skip: Frames of a step.
        maximum: Whether screens show the maximum of the last two frames.
        most_no_ops: A game starts after 0 to this number of no-ops.
        no_op_frames: Frames of a no-op.
        sticky: The probability that a frame repeats the action of the one before.
        limit: Frames of a game, at most.
        lives_end: Whether a lost life ends an episode.
    """

    actions: tuple[int, ...]
    height: int = 84
    width: int = 84
    frame_skip: int = 4
    maximum: bool = True
    most_no_ops: int = 30
    no_op_frames: int = 1
    sticky: float = 0.0
    limit: int = 2**31 - 1
    lives_end: bool = True


def bytes_of_game(start: Start, settings: Settings, bands: int = 1) -> int:
    """Return the bytes of memory that each of many games takes; see `Screens` for `bands`."""
    pictures = 2 if start.reset else 1  # such a game has a place of its own in the pool
    screen = settings.height * settings.width + 8 * bands * settings.width
    return 8 * PICTURE_WORDS * pictures + screen + OTHER_BYTES


def bytes_of_pool(start: Start, settings: Settings) -> int:
    """Return the bytes of the states in which games start, whatever their number."""
    return 0 if start.reset else 8 * PICTURE_WORDS * len(start.states) * (settings.most_no_ops + 1)


class Games:
    """E games of one ROM.

    Attributes:
        actions: int64 [E], to be set before `step`.
        results: float32 [RESULT.COUNT, E], of the last step.
        stand: int32 [E, STAND.COUNT]; `STAND.ENDED` marks the games that the next step starts anew.
        screens: uint8 [E, H, W].
    """

    def __init__(
        self, rom: bytes, start: Start, rules: Rules, keys: NDArray[np.uint32], settings: Settings,
        device: str = "cpu", block: int = BLOCK,
    ) -> None:  # fmt: skip
        """Load a ROM; the first step starts all games.

        Args:
            rom: The cartridge.
            start: The initial states of the game.
            rules: The rules of the game.
            keys: uint32 [E], the key of each game's random numbers.
            settings: How the games are played.
            device: Warp's name of the device.
            block: On a GPU, the games of a block of threads.

        Raises:
            ValueError: The cartridge, the size of the screens or the number of games is not supported.
        """
        if len(keys) > MOST_GAMES:
            raise ValueError(f"more than {MOST_GAMES} games")
        self.games, self._device, self._block = len(keys), device, 1 if device == "cpu" else block
        gray = gray_levels()
        console = Console(rom, self.games, gray, device, settings.frame_skip, rules)
        first, *self._timers = itertools.islice(timers(), STARTS_KNOWN + 1)
        for game in range(self.games if start.reset else 0):  # ALE begins one when it loads the ROM
            start.begin(console, game, first)
        Controllers(console, start.controller)
        console.upload()
        self._start, self._settings, self._machine = start, settings, console.machine
        self._kind = int(console.cpu[0, CPU.CARTRIDGE])
        play = self._play = Play()
        paddle = paddle_of(start.controller)
        play.codes = self._put(settings.actions, np.int32)
        play.port, play.turns = self._put(port(start.controller), np.int32), self._put(TURNS, np.int32)
        play.buttons = self._put(buttons(start.controller), np.int32)
        play.paddle, play.sticky, play.skip = paddle, settings.sticky, settings.frame_skip
        play.limit, play.lives_end, play.maximum = settings.limit, settings.lives_end, settings.maximum
        play.timers = self._put([start.by_timer[timer] for timer in self._timers], np.int32)
        if start.reset:
            self._scratch = Console(rom, 1, gray, rules=rules)
            states, play.each, frames = [console.get_state()], 0, np.zeros(self.games)
        else:
            states, play.each = self._play_no_ops(Console(rom, len(start.states), gray, rules=rules))
            frames = np.tile(np.arange(play.each) * settings.no_op_frames, len(start.states))
        self._put_pool(states)
        play.pool_frames = self._put(frames, np.int32)
        self._put_games(keys)
        scaler = self._scaler = Screens(console, start.rows, settings.height, settings.width, play.single)
        self.actions, self.results = play.actions, play.results
        self.stand, self.screens = play.stand, scaler.screens
        lanes, both = 1 if device == "cpu" else LANES, [self._machine, play]
        frames_of_step = [self._machine, FRAME_INSTRUCTIONS, 1]
        self._commands = [
            self._record(begin, self.games, both),
            self._record(copy_pictures, (self.games, lanes), [*both, lanes]),
            self._record(play_frames, self.games, [*frames_of_step, 2]),
            self._record(again, self.games, both),
            self._record(play_frames, self.games, [*frames_of_step, settings.frame_skip]),
            self._record(settle, self.games, both),
            scaler.command,
        ]

    def step(self) -> None:
        """Play a step of every game, or start it anew if it has ended."""
        if self._play.each == 0:
            self._play_starts()
        for command in self._commands:
            command.launch()

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return copies [E, ...] of everything that determines how the games continue."""
        return {name: array.numpy().reshape(self.games, -1).copy() for name, array in self._arrays().items()}

    def set_state(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue from what `get_state` of as many games returned.

        Raises:
            ValueError: It is not a state of these games; then nothing has changed.
        """
        self._check(state)
        for name, array in self._arrays().items():
            array.assign(state[name].reshape(array.shape))

    def _check(self, state: dict[str, NDArray[Any]]) -> None:
        """Raise ValueError for a state with which the kernel could leave its arrays or its loops."""
        for name, array in self._arrays().items():
            shape, kind = (self.games, array.size // self.games), wp.dtype_to_numpy(array.dtype)
            values = state.get(name)
            if values is None or values.shape != shape or values.dtype != kind:
                raise ValueError(f"a state of {self.games} games has {name} {np.dtype(kind)} {shape}")
            if limits := (LIMITS | {"stand": STAND_LIMITS}).get(name):
                check_columns(values, limits)
        bank, kind = state["cpu"][:, CPU.BANK], state["cpu"][:, CPU.CARTRIDGE]
        last = 0 if self._kind == FE else self._machine.code.shape[0] - BANK_BYTES
        if (kind != self._kind).any() or (bank % BANK_BYTES != 0).any() or bank.max() > last:
            raise ValueError("a state is of another cartridge")

    def _arrays(self) -> dict[str, Any]:
        return {name: getattr(self._machine, name) for name in (*STATE, "screen")} | {"stand": self.stand}

    def _record(self, kernel: Any, threads: int | tuple[int, int], arguments: list[Any]) -> Any:
        return wp.launch(
            kernel, threads, arguments, device=self._device, record_cmd=True, block_dim=self._block
        )

    def _put(self, values: Any, kind: type) -> Any:
        return wp.array(np.ascontiguousarray(values, kind), device=self._device)

    def _put_games(self, keys: NDArray[np.uint32]) -> None:
        """Allocate what differs from game to game; each counts as ended, so that the first step starts it."""
        play, stand = self._play, np.zeros((self.games, STAND.COUNT), np.int32)
        play.now, play.before = Saved(), Saved()
        for name in STATE:
            array = getattr(self._machine, name).reshape((self.games, -1))
            setattr(play.now, name, array)
            setattr(play.before, name, wp.zeros_like(array))
        stand[:, STAND.ENDED] = 1
        stand[:, STAND.KEY] = keys.view(np.int32)
        play.stand = self._put(stand, np.int32)
        play.actions = self._put(np.zeros(self.games), np.int64)
        play.results = self._put(np.zeros((RESULT.COUNT, self.games)), np.float32)
        play.single = self._put(np.zeros(self.games), np.int32)

    def _play_no_ops(self, console: Console) -> tuple[list[dict[str, NDArray[Any]]], int]:
        """Play the no-ops from each initial state; return the states after each no-op, and their number."""
        start, settings = self._start, self._settings
        for state in range(console.games):
            start.begin(console, state, start.by_timer.index(state))
        controllers, states = Controllers(console, start.controller), [console.get_state()]
        for _ in range(settings.most_no_ops):
            controllers.idle(settings.no_op_frames)
            states.append(console.get_state())
        if any(state["game"][:, GAME.OVER].any() for state in states):
            raise ValueError(f"games that end within {settings.most_no_ops} no-ops")
        return states, len(states)

    def _put_pool(self, states: list[dict[str, NDArray[Any]]]) -> None:
        """Make `states` of consoles [P, ...] the pool: first all those of the first console."""
        play = self._play
        play.pool = Saved()
        for name in states[0]:
            rows = np.stack([state[name] for state in states], 1)
            flat = rows.reshape(rows.shape[0] * rows.shape[1], -1)
            if name == "pictures":
                play.pool_pictures = self._put(flat.view(np.uint64), np.uint64)
            else:
                setattr(play.pool, name, self._put(flat, flat.dtype.type))

    def _play_starts(self) -> None:
        """Play the starts of the games that have ended, where these depend on RAM before."""
        stand = self.stand.numpy()
        if not stand[:, STAND.ENDED].any():
            return
        ram = self._machine.ram.numpy().reshape(self.games, RAM_SHARE)
        for game in np.flatnonzero(stand[:, STAND.ENDED]).tolist():
            draws = Draws(int(stand[game, STAND.KEY]) & 0xFFFFFFFF)
            draws.drawn = int(stand[game, STAND.DRAWN])
            timer = self._timers[stand[game, STAND.BEGUN] % STARTS_KNOWN]
            frames = draws.integers(self._settings.most_no_ops + 1) * self._settings.no_op_frames
            scratch, play = self._scratch, self._play
            scratch.ram[0] = ram[game]
            self._start.begin(scratch, 0, timer, first=False)
            Controllers(scratch, self._start.controller).idle(frames)
            here = slice(game, game + 1)
            for name, values in scratch.get_state().items():
                if name == "pictures":
                    play.pool_pictures[here].assign(values.reshape(1, -1).view(np.uint64))
                else:
                    getattr(play.pool, name)[here].assign(values.reshape(1, -1))
            play.pool_frames[here].assign(np.array([frames], np.int32))
