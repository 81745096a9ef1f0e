"""Finds the rules of games: sets bytes of RAM in ALE, and sees which rewards, lives and ends follow.

Run it with `PYTHONPATH=src`:

    python -m scripts.probe_rules [GAME ...]    a row of `src/atari2600/rules.py` for each, as it was found

ALE executes a loop in RAM in place of the game's program, see `ale.LOOP`, so a frame changes nothing and
takes two microseconds. In 20 states of random play each byte is set to each value. A byte that then changes
the score or the lives is set from each value to each other one, in up to three states. That shows the terms,
the bounds of a reward, and whether the number of lives or the end depends on the frame before. For ends that
depend on several bytes, the bytes of games that ended are set one after the other, and those without which
the game goes on are kept.

A comment names whatever these forms do not describe, and the fields in which the row differs from that of
`rules.py`; `emulator.py inject` tests the finished row.
"""

import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from itertools import chain, product

import numpy as np
from ale_py import ALEInterface
from numpy.typing import NDArray

from atari2600.rules import BEFORE, NO_RULES, RULES, Check, Condition, Rules, Term
from scripts.ale import Effects, Frozen, Numbers, Values, open_ale

STATES, ENDS = 20, 4  # of each game
TABLES = 3  # states in which a byte is set from each value to each other one
LOOPS = (0, 60, 119)  # where `LOOP` is put, so that each byte is seen
EXCEPTIONS = 3  # values of a byte that may stand for another number than the others
LONGEST = 60_000  # frames in which random play must end a game
MASKS = (0xFF, 0x0F, 0xF0, 0x7F, 0x3F, 0x1F, 0x07, 0x03, 0x01, 0xF8, 0xE0, 0xC0, 0x80, 0x70, 0x38, 0xFE, 0xFC)
UNNAMED = ("score", "byte", "factor", "equals")  # the fields that `rules.py` gives by their places


def random_play(game: str, seed: int, frames: int, to_end: bool = False) -> ALEInterface:
    """Return ALE after `frames` frames of random play; with `to_end`, at the first end before."""
    ale, random = open_ale(game), np.random.default_rng(seed)
    actions, action = [one.value for one in ale.getMinimalActionSet()], 0
    for frame in range(frames):
        if frame % 4 == 0:
            action = int(random.choice(actions))
        ale.act(action)
        if ale.game_over():
            if to_end:
                break
            ale.reset_game()
    return ale


def units(byte: int) -> Iterator[Term]:
    """Yield the terms of a byte that count by ones."""
    for digits, mask in product((False, True), MASKS):
        yield Term(byte, 1, mask, digits, shift=0 if digits else (mask & -mask).bit_length() - 1)
    yield Term(byte, signed=True)


def term_of(byte: int, numbers: Numbers, used: Values) -> list[Term] | None:
    """Return terms whose sum is `numbers` but for a constant, at the values that are `used`."""
    base = int(np.argmax(used))
    wanted = numbers - numbers[base]

    def wrong(term: Term) -> NDArray[np.intp]:
        return np.flatnonzero(used & (term.values() - term.values()[base] != wanted))

    for unit in units(byte):
        steps = unit.values() - unit.values()[base]
        moved = np.flatnonzero(used & (steps != 0))
        if not len(moved):
            continue
        factor, rest = divmod(int(wanted[moved[0]]), int(steps[moved[0]]))
        if rest or not factor:
            continue
        for blank in (-1, 0xA0 & unit.mask, 0x0A & unit.mask):
            term = replace(unit, factor=factor, blank=blank)
            others = wrong(term)
            if len(others) <= EXCEPTIONS and not (wanted[others] % factor).any():
                shown = wanted // factor + unit.values()[base]
                return [replace(term, instead=tuple((int(value), int(shown[value])) for value in others))]
    low, high = numbers[np.arange(256) & 15], numbers[np.arange(256) & 0xF0]
    if used.all() and (low + high - numbers[0] == numbers).all() and low.any() and high.any():
        halves = [term_of(byte, half, used) for half in (low, high)]
        if halves[0] and halves[1]:
            return halves[0] + halves[1]
    steps = np.unique(wanted[used])
    unit_step = int(np.gcd.reduce(steps))
    codes = [np.flatnonzero(used & (wanted == place * unit_step)) for place in range(10)]
    if unit_step and steps.max() <= 9 * unit_step and all(len(code) <= 1 for code in codes[1:]):
        found = [int(code[0]) if len(code) else 0 for code in codes[: int(steps.max()) // unit_step + 1]]
        term = Term(byte, unit_step, codes=tuple(found))
        if not len(wrong(term)):
            return [term]
    return None


def rewards_between(points: Numbers, rules: Rules) -> Numbers:
    """Return the rewards, [N, N], from each of `points` [N] to each other, within the bounds of `rules`."""
    steps = points[None] - points[:, None]
    return np.clip(np.where(steps < 0, steps + rules.wraps, steps), rules.least, rules.most)


def points_of(byte: int, rewards: Numbers, used: Values, rules: Rules) -> Numbers | None:
    """Return the points for each value that is `used`, from which the rewards follow."""
    seen, points = rewards[np.ix_(used, used)], np.zeros(256, int)
    rows: Iterable[Numbers] = seen
    if rules.least != NO_RULES.least and rules.most != NO_RULES.most:  # rewards show an order alone
        rows = (unit.values()[used] for unit in units(byte))
    for row in rows:
        if (rewards_between(row, rules) == seen).all():
            points[used] = row
            return points
    return None


def bounds_of(tables: Iterable[tuple[int, Numbers, Values]], plain: Rules) -> Rules:
    """Return `plain` with the wrap or the bounds from which all rewards follow.

    `tables` has a byte, its rewards [256, 256], and the values that are used; more than one for some bytes.
    """
    every = [rewards[np.ix_(used, used)] for _, rewards, used in tables]
    if not every:
        return plain
    low, high = int(min(one.min() for one in every)), int(max(one.max() for one in every))
    candidates = (
        plain,
        replace(plain, wraps=int(max((one + one.T).max() for one in every))),
        replace(plain, least=low),
        replace(plain, most=high),
        replace(plain, least=low, most=high),
    )
    for rules in candidates:
        if all(points_of(*table, rules) is not None for table in tables):
            return rules
    return plain


def check_of(byte: int, values: Values) -> Check | None:
    """Return the check that holds for `values` [256]."""
    one, last = (int(np.flatnonzero(values)[place]) for place in (0, -1))
    other = int(np.flatnonzero(~values)[0]) if not values.all() else 0
    candidates = [Check(byte, one & mask, mask) for mask in MASKS]
    candidates += [Check(byte, other & mask, mask, differs=True) for mask in MASKS]
    candidates.append(Check(byte, range(one, last + 1)))
    if values.sum() < 9:
        candidates.append(Check(byte, tuple(np.flatnonzero(values).tolist())))
    return next((check for check in candidates if ((check.values() == 0) == values).all()), None)


def end_of(frozen: Frozen, ended: NDArray[np.uint8]) -> Condition | str | None:
    """Return the checks that hold in RAM `ended` and not in `frozen`; None: the loop hides a byte."""
    needed = {byte: int(value) for byte, value in enumerate(ended)}
    if frozen.over or not frozen.play(needed)[2]:
        return None
    for byte in range(128):
        without = {other: value for other, value in needed.items() if other != byte}
        if frozen.play(without)[2]:
            needed = without
    checks = []
    for byte in needed:
        values = np.array([frozen.play(needed | {byte: value})[2] for value in range(256)])
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
        self.rules = replace(NO_RULES, first_lives=open_ale(game).lives())
        self._paying: dict[int, list[Frozen]] = {}  # by byte, the states in which it changes the score
        self._counting: dict[int, list[Frozen]] = {}
        self._ending: dict[int, list[Values]] = {}
        self._whole: list[Frozen] = []
        self._survey()
        self._find_score()
        self._find_lives()
        self._find_ends()
        self._find_last_reward()

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def _survey(self) -> None:
        for number in range(STATES):
            ale = random_play(self.game, number, 1 if number == 0 else 50 + 97 * number)
            state = ale.cloneState()
            for loop in LOOPS[:: 2 if number else 1]:
                frozen = Frozen(ale, state, loop)
                if frozen.over:
                    continue
                self._whole.append(frozen)
                for byte in filter(frozen.has, range(128)):
                    pays, counts, over = frozen.survey(byte)
                    self._ending.setdefault(byte, []).append(over)
                    if pays:
                        self._paying.setdefault(byte, []).append(frozen)
                    if counts:
                        self._counting.setdefault(byte, []).append(frozen)

    def _find_score(self) -> None:
        tables = {
            byte: [(frozen, frozen.effects(byte)) for frozen in spread(states)]
            for byte, states in self._paying.items()
        }
        silent = {byte: self._silent(byte, tables) for byte in tables}
        used = {byte: each[0][1].whole & ~silent[byte] for byte, each in tables.items()}
        rewards = [
            (byte, effects.rewards, used[byte]) for byte, each in tables.items() for _, effects in each
        ]
        self.rules = bounds_of(rewards, self.rules)
        score: dict[int, list[Term]] = {}
        for byte, seen, values in rewards:
            points = points_of(byte, seen, values, self.rules)
            terms = None if points is None else term_of(byte, points, values)
            if terms:
                score[byte] = terms
            else:
                self.note(f"byte {byte}, score: {seen[0, ::16].tolist()}, by 16")
        for byte in (byte for byte in score if silent[byte].any()):
            if check := check_of(byte, silent[byte]):
                frozen, effects = tables[byte][0]
                old, new = int(np.argmax(silent[byte])), int(np.argmax(used[byte]))
                rest = sum(value_of(score[other], int(frozen.ram[other])) for other in score if other != byte)
                plus = int(effects.rewards[old, new]) - rest - value_of(score[byte], new)
                score[byte][-1] = replace(score[byte][-1], plus=plus)
                self.rules = replace(self.rules, no_score=(check,))
        self.rules = replace(self.rules, score=tuple(chain(*score.values())))

    def _silent(self, byte: int, tables: Mapping[int, list[tuple[Frozen, Effects]]]) -> Values:
        """Return the values of a byte with which another byte changes the score no more."""
        silent = np.zeros(256, np.bool_)
        for other, ((frozen, effects), *_) in tables.items():
            if other == byte or not frozen.has(byte):
                continue
            old, new = np.unravel_index(np.argmax(np.abs(effects.rewards)), (256, 256))
            for value in range(256):
                reward, _, over = frozen.play({other: int(old), byte: value}, {other: int(new)})
                silent[value] |= not over and reward == 0
            break
        return silent if not silent.all() else np.zeros(256, np.bool_)

    def _find_lives(self) -> None:
        lives: dict[int, list[Term]] = {}
        unknown: list[int] = []
        for byte, states in self._counting.items():
            for frozen in spread(states):
                effects = frozen.effects(byte)
                self._find_pairs(byte, effects)
                terms = self._lives_of(byte, frozen, effects)
                if terms is None:
                    unknown.append(byte)
                elif terms:
                    lives[byte] = terms
        gates = [check.byte for check in self.rules.life_kept if isinstance(check, Check)]
        for byte in unknown:
            if byte not in gates:
                self.note(f"byte {byte} changes the lives in another way")
        terms = list(chain(*lives.values()))
        if terms and not self.rules.counts_down:
            held = max(self._whole, key=lambda frozen: sum(frozen.has(term.byte) for term in terms))
            rest = held.lives - sum(int(term.values()[held.ram[term.byte]]) for term in terms)
            terms[-1] = replace(terms[-1], plus=rest)
        self.rules = replace(self.rules, lives=tuple(terms))

    def _lives_of(self, byte: int, frozen: Frozen, effects: Effects) -> list[Term] | None:
        """Return the terms of a byte, [] if there are none; sets the rules that say how they count."""
        known = effects.whole[:, None] & ~effects.over
        used = np.asarray(known.any(axis=0))
        if (effects.lives == effects.before[:, None])[known].all():
            return []
        after = np.array([most_frequent(effects.lives[known[:, new], new]) for new in range(256)])
        kept = np.where(after == effects.before[:, None] - 1, effects.before[:, None], after)
        if (effects.lives == after)[known].all():
            return term_of(byte, after, used)
        if (effects.lives == kept)[known].all():
            old, new = (int(found[0]) for found in np.nonzero((kept != after) & known))
            self._find_gate(frozen, {byte: old}, {byte: new}, int(after[new]))
            return term_of(byte, after, used)
        fallen = effects.before[:, None] - effects.lives
        for unit in units(byte):
            numbers = unit.values()
            if (((numbers[:, None] - numbers) == 1) == fallen)[known].all():
                self.rules = replace(self.rules, counts_down=True)
                return [unit]
        return None

    def _find_gate(self, frozen: Frozen, old: Mapping[int, int], new: Mapping[int, int], lives: int) -> None:
        """Find the byte that lets the loss of a life count."""
        for byte in filter(frozen.has, range(128)):
            if byte in new:
                continue
            free = np.array([frozen.play(old, {**new, byte: value})[1] == lives for value in range(256)])
            if free.any() and (check := check_of(byte, ~free)):
                self.rules = replace(self.rules, life_kept=(check,))

    def _find_pairs(self, byte: int, effects: Effects) -> None:
        """Find ends that depend on the same byte in the frame before."""
        always = effects.over[effects.whole].all(axis=0)
        for new in np.flatnonzero(effects.over.any(axis=0) & ~always):
            if old := check_of(byte + BEFORE, effects.over[:, new]):
                self._keep_end((old, Check(byte, int(new))))

    def _keep_end(self, condition: Condition) -> None:
        if condition not in self.rules.ends:
            self.rules = replace(self.rules, ends=(*self.rules.ends, condition))

    def _find_ends(self) -> None:
        for seed in range(ENDS):
            ale = random_play(self.game, 1000 + seed, LONGEST, to_end=True)
            if not ale.game_over():
                self.note("random play has no end")
                break
            ended, before = ale.getRAM().copy(), random_play(self.game, seed, 300 + 50 * seed)
            found = [end_of(Frozen(before, before.cloneState(), loop), ended) for loop in LOOPS]
            kept = [one for one in found if isinstance(one, tuple)]
            for text in found:
                if isinstance(text, str):
                    self.note(text)
            if kept:
                self._keep_end(max(kept, key=len))
            else:
                self.note("an end of random play was not found in RAM alone")
        for byte, ends in self._ending.items():
            always, ever = np.logical_and.reduce(ends), np.logical_or.reduce(ends)
            if always.any() and (check := check_of(byte, always)):
                self._keep_end((check,))
            if (always != ever).any() and not any(
                len(checks) > 1 and any(part.byte % BEFORE == byte for part in checks)
                for checks in self.rules.ends
            ):
                some = np.flatnonzero(ever & ~always)[:20].tolist()
                self.note(f"byte {byte}: in some states the end at {some}")

    def _find_last_reward(self) -> None:
        """Find whether the frame that ends the game pays."""
        for condition, (byte, states) in product(self.rules.ends, self._paying.items()):
            ending = {check.byte: int(np.argmin(check.values())) for check in condition}
            frozen = next((frozen for frozen in states if all(map(frozen.has, ending))), None)
            if frozen is None or byte in ending or any(other >= BEFORE for other in ending):
                continue
            paying = [value for value in range(256) if frozen.play({byte: value})[0]]
            lasts = [frozen.play({byte: value, **ending}) for value in paying]
            if any(over for _, _, over in lasts):
                self.rules = replace(self.rules, pays_last=any(reward for reward, _, _ in lasts))
                return

    def __str__(self) -> str:
        """The row of the table, after the notes."""
        lines = [f"    # {note}" for note in self.notes]
        if self.game in RULES:
            names = differing(self.rules, RULES[self.game])
            lines.append(f"    # as in rules.py{', but for: ' if names else ''}{', '.join(names)}")
        return "\n".join([*lines, f'    "{self.game}": {as_python(self.rules)},'])


def spread(states: list[Frozen]) -> list[Frozen]:
    """Return some of the states, from the first to the last."""
    return [states[at] for at in sorted({round(at) for at in np.linspace(0, len(states) - 1, TABLES)})]


def most_frequent(numbers: Numbers) -> int:
    """Return the number that occurs most often, 0 if there is none."""
    found, counts = np.unique(numbers, return_counts=True)
    return int(found[np.argmax(counts)]) if len(found) else 0


def value_of(terms: Iterable[Term], value: int) -> int:
    """Return the number that some terms of one byte make of its value."""
    return sum(int(term.values()[value]) for term in terms)


def differing(rules: Rules, other: Rules) -> list[str]:
    """Return the names of the fields that differ, other than in how the same is written."""

    def shapes(
        parts: Iterable[Check | Term], constant: bool = True
    ) -> frozenset[tuple[int, tuple[int, ...]]]:
        tables = [(part.byte, part.values()) for part in parts]
        return frozenset((byte, tuple((one - (0 if constant else one[0])).tolist())) for byte, one in tables)

    def shown(rules: Rules) -> dict[str, object]:
        found = {
            name: shapes(value) if isinstance(value, tuple) else value for name, value in vars(rules).items()
            if name != "ends"
        }  # fmt: skip
        found["score"] = shapes(rules.score, constant=bool(rules.no_score))
        return found | {"ends": {shapes(condition) for condition in rules.ends}}

    one, two = shown(rules), shown(other)
    return [name for name in one if one[name] != two[name]]


def as_python(value: object) -> str:
    """Return rules, or a part of them, as `rules.py` has them, without defaults and line breaks."""
    if isinstance(value, tuple):
        return f"({', '.join(map(as_python, value))}{',' * (len(value) == 1)})"
    if not isinstance(value, Rules | Check | Term):
        return str(value)
    words = []
    for field in fields(value):
        part, name = getattr(value, field.name), "" if field.name in UNNAMED else f"{field.name}="
        if part != field.default or field.name == "equals":
            words.append(f"{name}{as_python(part)}")
    return f"{type(value).__name__}({', '.join(words)})"


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the reader of the output may quit, as `head` does
    for name in sys.argv[1:] or sorted(RULES):
        print(Findings(name), flush=True)
