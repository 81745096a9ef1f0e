"""Finds the rules of games: sets bytes of RAM in ALE, and sees which rewards, lives and ends follow.

    python -m scripts.probe_rules [GAME ...]    a row of `src/atari2600/rules.py` for each, as it was found

ALE executes a loop in RAM in place of the game's program, see `emulator.LOOP`, so a frame changes nothing and
takes two microseconds. In states of random play each byte is set to each value. That shows the terms of the
score and of the lives, and the ends that depend on one byte. For ends that depend on several, the bytes of
games that ended are set one after the other, and those without which the game goes on are kept.

A comment names whatever these forms do not describe; `emulator.py inject` then tests the finished row.
"""

import struct
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain, product

import numpy as np
from ale_py import ALEInterface, ALEState
from numpy.typing import NDArray

from atari2600.rules import RULES, Check, Condition, Rules, Term
from scripts.emulator import FALSE, LOOP, Saved, open_ale

STATES, ENDS = 20, 4  # of each game
LOOPS = (0, 60, 119)  # where `LOOP` is put, so that each byte is seen
EXCEPTIONS = 3  # values of a byte that may stand for another number than the others
LONGEST = 60_000  # frames in which random play must end a game
MASKS = (0xFF, 0x0F, 0xF0, 0x7F, 0x3F, 0x1F, 0x07, 0x03, 0x01, 0xF8, 0xE0, 0xC0, 0x80, 0x70, 0x38, 0xFE, 0xFC)
Numbers = NDArray[np.int64]  # [256], a number for each value of a byte


class Trap:
    """A state of ALE in which no frame changes RAM."""

    def __init__(self, ale: ALEInterface, state: ALEState, loop: int) -> None:
        """Let `ale` execute `LOOP` at byte `loop`, from `state`."""
        self.ale, self._bytes = ale, range(loop, loop + len(LOOP))
        ale.restoreState(state)
        ale.act(0)  # a saved state lacks whether the frame before was whole: now it is
        ale.restoreState(state)
        saved = Saved(ale.cloneState().serialize())
        data, registers = bytearray(saved.data), saved.offset("M6502Low")
        struct.pack_into("<i", data, registers + 20, 0x80 + loop)
        struct.pack_into("<i", data, registers + 28, FALSE)  # the V flag
        ale.restoreState(ALEState(bytes(data)))
        for at, value in enumerate(LOOP):
            ale.setRAM(loop + at, value)
        self.ram = ale.getRAM().copy()
        for _ in range(2):
            ale.act(0)
        self._held = ale.cloneState()
        self.lives, self.over = ale.lives(), bool(ale.game_over())

    def has(self, byte: int) -> bool:
        """Return whether a byte may be set: it is none of the loop's."""
        return byte not in self._bytes

    def ends_with(self, changes: Mapping[int, int]) -> bool:
        """Return whether the game is over in a frame after some bytes were set."""
        self.ale.restoreState(self._held)
        for byte, value in changes.items():
            if self.has(byte):
                self.ale.setRAM(byte, value)
        self.ale.act(0)
        return bool(self.ale.game_over())

    def survey(self, byte: int) -> tuple[Numbers, Numbers, NDArray[np.bool_], bool]:
        """Set `byte` to each value.

        Returns:
            The points above those of value 0, the lives, whether the game is over, and whether the way back
            had other rewards or lives than the way there.
        """
        rewards, lives, over, uneven = np.zeros(256, int), np.zeros(256, int), np.zeros(256, bool), False
        self.ale.restoreState(self._held)
        for value in range(256):
            self.ale.setRAM(byte, value)
            rewards[value], lives[value] = self.ale.act(0), self.ale.lives()
            over[value] = self.ale.game_over()
            if over[value]:
                self.ale.restoreState(self._held)
                continue
            self.ale.setRAM(byte, int(self.ram[byte]))
            uneven |= self.ale.act(0) != -rewards[value] or self.ale.lives() != self.lives
            if self.ale.game_over():
                self.ale.restoreState(self._held)
        return rewards - rewards[0], lives, over, uneven


def random_play(game: str, seed: int, frames: int, to_end: bool = False) -> ALEInterface | None:
    """Return ALE after `frames` frames of random play, or at the first end; None: there was none."""
    ale, random = open_ale(game), np.random.default_rng(seed)
    actions, action = [one.value for one in ale.getMinimalActionSet()], 0
    for frame in range(frames):
        if frame % 4 == 0:
            action = int(random.choice(actions))
        ale.act(action)
        if ale.game_over():
            if to_end:
                return ale
            ale.reset_game()
    return None if to_end else ale


def term_of(byte: int, numbers: Numbers, used: NDArray[np.bool_]) -> list[Term] | None:
    """Return terms whose sum is `numbers` - `numbers[0]` at the values that are `used`."""
    wanted = (numbers - numbers[0])[used]

    def fits(term: Term) -> bool:
        return bool((term.values()[used] - term.values()[0] == wanted).all())

    for digits, mask in product((False, True), MASKS):
        shift = 0 if digits else (mask & -mask).bit_length() - 1
        unit = Term(byte, 1, mask, digits, shift=shift)
        steps = unit.values()[used]
        if not steps.any():
            continue
        first = int(np.argmax(steps != 0))
        factor, rest = divmod(int(wanted[first]), int(steps[first]))
        if rest or not factor:
            continue
        for blank in (-1, 0xA0 & mask, 0x0A & mask):
            term = Term(byte, factor, mask, digits, shift=shift, blank=blank)
            wrong = np.flatnonzero(used & (term.values() - term.values()[0] != numbers - numbers[0]))
            exact = all((numbers[value] - numbers[0]) % factor == 0 for value in wrong)
            if len(wrong) <= EXCEPTIONS and exact:
                pairs = [(int(value), int(numbers[value] - numbers[0]) // factor) for value in wrong]
                return [replace(term, instead=tuple(pairs))]
    if fits(term := Term(byte, int(numbers[1] - numbers[0]), signed=True)):
        return [term]
    low, high = numbers[np.arange(256) & 15], numbers[np.arange(256) & 0xF0]
    if used.all() and (low + high - numbers[0] == numbers).all() and low.any() and high.any():
        halves = [term_of(byte, half, used) for half in (low, high)]
        if halves[0] and halves[1]:
            return halves[0] + halves[1]
    steps = np.unique(wanted)
    unit_step = int(np.gcd.reduce(steps))
    codes = [np.flatnonzero(used & (numbers - numbers[0] == place * unit_step)) for place in range(10)]
    if unit_step and steps.max() <= 9 * unit_step and all(len(code) <= 1 for code in codes[1:]):
        found = [int(code[0]) if len(code) else 0 for code in codes[: int(steps.max()) // unit_step + 1]]
        if fits(term := Term(byte, unit_step, codes=tuple(found))):
            return [term]
    return None


def check_of(byte: int, values: NDArray[np.bool_]) -> Check | None:
    """Return the check that holds for `values` [256]."""
    one, last = (int(np.flatnonzero(values)[place]) for place in (0, -1))
    other = int(np.flatnonzero(~values)[0]) if not values.all() else 0
    candidates = [Check(byte, one & mask, mask) for mask in MASKS]
    candidates += [Check(byte, other & mask, mask, differs=True) for mask in MASKS]
    candidates.append(Check(byte, range(one, last + 1)))
    if values.sum() < 9:
        candidates.append(Check(byte, tuple(np.flatnonzero(values).tolist())))
    return next((check for check in candidates if ((check.values() == 0) == values).all()), None)


def end_of(trap: Trap, ended: NDArray[np.uint8]) -> Condition | str | None:
    """Return the checks that hold in RAM `ended` and not in `trap`; None: the loop hides a byte of theirs."""
    needed = {byte: int(value) for byte, value in enumerate(ended)}
    if trap.over or not trap.ends_with(needed):
        return None
    for byte in range(128):
        without = {other: value for other, value in needed.items() if other != byte}
        if trap.ends_with(without):
            needed = without
    checks = []
    for byte in needed:
        values = np.array([trap.ends_with(needed | {byte: value}) for value in range(256)])
        check = check_of(byte, values)
        if check is None:
            return f"the end needs {needed}, and byte {byte} one of {np.flatnonzero(values).tolist()}"
        checks.append(check)
    return tuple(checks)


class Findings:
    """The findings about one game."""

    def __init__(self, game: str) -> None:
        """Probe `game`."""
        self.game = game
        self.notes: list[str] = []
        self.score: dict[int, list[Term]] = {}
        self.lives: dict[int, list[Term]] = {}
        self.over: list[Condition] = []
        self._survey()
        self._ends()

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def _survey(self) -> None:
        points: dict[int, list[Numbers]] = {}
        lives: dict[int, list[tuple[Numbers, NDArray[np.bool_]]]] = {}
        alone: dict[int, list[NDArray[np.bool_]]] = {}
        whole: list[Trap] = []
        for number in range(STATES):
            ale = random_play(self.game, number, 1 if number == 0 else 50 + 97 * number)
            assert ale
            state = ale.cloneState()
            for loop in LOOPS[:: 2 if number else 1]:
                trap = Trap(ale, state, loop)
                if not trap.over:
                    whole.append(trap)
                for byte in filter(trap.has, range(128)):
                    rewards, found, over, uneven = trap.survey(byte)
                    if rewards.any():
                        points.setdefault(byte, []).append(rewards)
                    if (found[~over] != trap.lives).any():
                        lives.setdefault(byte, []).append((found, ~over))
                    if uneven:
                        self.note(f"byte {byte}: other rewards or lives on the way back")
                    if not trap.over:
                        alone.setdefault(byte, []).append(over)
        for byte, each in points.items():
            wraps = int(np.gcd.reduce(np.concatenate([one - each[0] for one in each])))
            numbers = each[0] % wraps if wraps else each[0]
            if wraps:
                self.note(f"byte {byte}: the points of states differ by multiples of {wraps}")
            terms = term_of(byte, numbers, np.ones(256, np.bool_))
            self._keep(self.score, byte, terms, "score", numbers)
        for byte, seen in lives.items():
            used = np.logical_and.reduce([known for _, known in seen])
            if any(
                ((one - one[used][0])[used] != (seen[0][0] - seen[0][0][used][0])[used]).any()
                for one, _ in seen
            ):
                self.note(f"byte {byte}: its part of the lives depends on the state")
            self._keep(self.lives, byte, term_of(byte, seen[0][0], used), "lives", seen[0][0])
        terms = list(chain(*self.lives.values()))
        if terms and whole:
            trap = max(whole, key=lambda trap: sum(trap.has(term.byte) for term in terms))
            rest = trap.lives - sum(int(term.values()[trap.ram[term.byte]]) for term in terms)
            self.lives[terms[-1].byte][-1] = replace(terms[-1], plus=rest)
        for byte, ends in alone.items():
            always, ever = np.logical_and.reduce(ends), np.logical_or.reduce(ends)
            if always.any() and (check := check_of(byte, always)):
                self.over.append((check,))
            if (always != ever).any():
                self.note(
                    f"byte {byte}: in some states the end at {np.flatnonzero(ever & ~always)[:20].tolist()}"
                )

    def _keep(
        self, found: dict[int, list[Term]], byte: int, terms: list[Term] | None, what: str, numbers: Numbers
    ) -> None:
        if terms:
            found[byte] = terms
        else:
            self.note(f"byte {byte}, {what}: {numbers[:20].tolist()}, then by 16: {numbers[16::16].tolist()}")

    def _ends(self) -> None:
        for seed in range(ENDS):
            ale = random_play(self.game, 1000 + seed, LONGEST, to_end=True)
            if ale is None:
                self.note("random play has no end")
                return
            ended, state = ale.getRAM().copy(), random_play(self.game, seed, 300 + 50 * seed)
            assert state
            found = [end_of(Trap(state, state.cloneState(), loop), ended) for loop in LOOPS]
            kept = [one for one in found if isinstance(one, tuple)]
            for text in found:
                if isinstance(text, str):
                    self.note(text)
            if not kept:
                self.note("an end of random play was not found in RAM alone")
            elif (longest := max(kept, key=len)) not in self.over:
                self.over.append(longest)

    def rules(self) -> Rules:
        """Return the rules, as far as they were found."""
        score, lives = (tuple(chain(*found.values())) for found in (self.score, self.lives))
        return Rules(score, tuple(self.over), lives, open_ale(self.game).lives())

    def __str__(self) -> str:
        """The row of the table, after the notes."""
        rules = self.rules()
        lines = [f"    # {note}" for note in self.notes]
        if self.game in RULES and (fields := differing(rules, RULES[self.game])):
            lines.append(f"    # in rules.py otherwise: {', '.join(fields)}")
        over = [row(checks) for checks in rules.over]
        lines += [
            f'    "{self.game}": Rules(',
            f"        {row(rules.score)},",
            f"        over=({', '.join(over)},),",
        ]
        if rules.lives:
            lines.append(f"        lives={row(rules.lives)},")
        return "\n".join([*lines, f"        first_lives={rules.first_lives},", "    ),"])


def differing(rules: Rules, other: Rules) -> list[str]:
    """Return the names of the fields that differ, other than by constants or in how the same is written."""

    def shapes(terms: Iterable[Check | Term]) -> frozenset[tuple[int, tuple[int, ...]]]:
        tables = [(term.byte, term.values()) for term in terms]
        return frozenset((byte, tuple((values - values[0]).tolist())) for byte, values in tables)

    def numbers(rules: Rules) -> dict[str, object]:
        found = {name: value for name, value in vars(rules).items() if name not in ("score", "lives", "over")}
        found |= {"score": shapes(rules.score), "lives": shapes(rules.lives)}
        return found | {"over": {shapes(condition) for condition in rules.over}}

    one, two = numbers(rules), numbers(other)
    return [name for name in one if one[name] != two[name]]


def row(parts: Iterable[Term | Check]) -> str:
    """Return a tuple of terms or checks as Python, without their defaults."""
    return f"({', '.join(map(short, parts))},)"


def short(part: Term | Check) -> str:
    """Return a term or a check without its defaults."""
    fields = {name: value for name, value in vars(part).items() if value != getattr(type(part), name, None)}
    return f"{type(part).__name__}({', '.join(f'{name}={value}' for name, value in fields.items())})"


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(RULES):
        print(Findings(name), flush=True)
