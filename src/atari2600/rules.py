"""The rules of each game: its score, its lives and its end, as functions of RAM after every frame.

The rules are data, which `table` turns into rows that the kernel sums up. They were found by setting bytes of
RAM in ALE, and `scripts/emulator.py inject` compares them with ALE in the same way. A byte is named by its
address, counted from $80.
"""

import enum
from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

BEFORE = 128  # added to an address: the byte as it was after the frame before
ANY = 2**31 - 1
ENDS = 4  # alternatives of the end of a game, at most
HUNDRED = (0x9A, 0xA0, 0xC0)  # bytes that Boxing shows as 100
FAILS = 1000  # what a check that fails adds to a condition


@dataclass(frozen=True)
class Term:
    """A number in one byte: `factor` times the bits in `mask`, and then `plus`.

    Attributes:
        byte: The address.
        factor, mask, plus: See above.
        digits: The bits are two decimal digits. signed: They are -128 to 127.
        shift: The bits are moved to the right by as many places.
        codes: The bits are a code: its place in this list is the number; other codes are 0.
        blank: Bits that stand for 0.
        instead: Pairs of a whole byte and the number that it stands for by way of exception.
    """

    byte: int
    factor: int = 1
    mask: int = 0xFF
    digits: bool = False
    signed: bool = False
    shift: int = 0
    codes: tuple[int, ...] = ()
    blank: int = -1
    instead: tuple[tuple[int, int], ...] = ()
    plus: int = 0

    def values(self) -> NDArray[np.int64]:
        """Return the number for each value of the byte, int64 [256]."""
        bits = np.arange(256) & self.mask
        numbers = bits >> self.shift
        if self.signed:
            numbers = bits.astype(np.int8).astype(np.int64)
        if self.digits:
            numbers = (numbers >> 4) * 10 + (numbers & 15)
        if self.codes:
            numbers = np.array(
                [self.codes.index(code) if code in self.codes else 0 for code in bits.tolist()]
            )
        numbers = np.where(bits == self.blank, 0, numbers)
        for value, number in self.instead:
            numbers[value] = number
        return self.factor * numbers + self.plus


@dataclass(frozen=True)
class Check:
    """Checks that the bits in `mask` of a byte are (one of) `equals`; or that they are not, if `differs`."""

    byte: int
    equals: int | Collection[int] = 0
    mask: int = 0xFF
    differs: bool = False

    def values(self) -> NDArray[np.int64]:
        """Return `FAILS` for each value of the byte that fails, else 0; int64 [256]."""
        allowed = [self.equals] if isinstance(self.equals, int) else list(self.equals)
        return FAILS * (np.isin(np.arange(256) & self.mask, allowed) == self.differs).astype(np.int64)


# A condition holds if the sum of its parts is at most 0. Most consist of checks alone.
Condition: TypeAlias = tuple[Check | Term, ...]


def decimal(*addresses: int, factor: int = 1, mask: int = 0xFF) -> tuple[Term, ...]:
    """Return the terms of a number with two decimal digits per byte, the highest byte first.

    `mask` applies to the highest byte.
    """
    places = range(len(addresses) - 1, -1, -1)
    return tuple(
        Term(address, factor * 100**place, mask if address == addresses[0] else 0xFF, digits=True)
        for address, place in zip(addresses, places, strict=True)
    )


def digits(*addresses: int, factor: int = 1, mask: int = 0xFF) -> tuple[Term, ...]:
    """Return the terms of a number with one decimal digit per byte, the highest first; 10 is a blank."""
    places = range(len(addresses) - 1, -1, -1)
    return tuple(
        Term(address, factor * 10**place, mask, blank=10 if mask == 15 else -1)
        for address, place in zip(addresses, places, strict=True)
    )


@dataclass(frozen=True)
class Rules:
    """The rules of one game.

    Attributes:
        score: The terms whose sum is the score. A frame's reward is the difference from the frame before.
        ends: Up to `ENDS` alternatives; one holds in the frame in which the game ends. The number of lives is
            then 0.
        lives: The terms whose sum is the number of lives.
        first_lives, first_points: The number of lives, and the score, before the first frame.
        first_score: The terms of a number whose change, if any, is the reward in place of the score's.
        no_score: While this holds, the score is 0, whatever its terms.
        limit: A score of at least this number has it subtracted.
        wraps: The points that are added to a negative reward: the score has gone past its last digit.
        least, most: The bounds of a reward.
        pays_last: Whether the frame in which the game ends pays its reward.
        counts_down: A life is lost when the sum of `lives` falls by one; otherwise their number is kept.
        life_kept: While this holds, a loss of exactly one life does not count yet.
        lives_kept: While this holds, the number of lives is kept.
        all_lives: While this holds, there are `first_lives`.
        begins: There are `first_lives` until this holds for the first time.
    """

    score: tuple[Term, ...]
    ends: tuple[Condition, ...]
    lives: tuple[Term, ...] = ()
    first_lives: int = 0
    first_points: int = 0
    first_score: tuple[Term, ...] = ()
    no_score: Condition = ()
    limit: int = ANY
    wraps: int = 0
    least: int = -ANY
    most: int = ANY
    pays_last: bool = True
    counts_down: bool = False
    life_kept: Condition = ()
    lives_kept: Condition = ()
    all_lives: Condition = ()
    begins: Condition = ()


class SUM(enum.IntEnum):
    """What the rows of `table` add up to."""

    SCORE = 0
    FIRST_SCORE = 1  # its change
    LIVES = 2
    LIVES_BEFORE = 3  # the sum of the lives after the frame before
    NO_SCORE = 4
    LIFE_KEPT = 5
    LIVES_KEPT = 6
    ALL_LIVES = 7
    BEGINS = 8
    OVER = 9  # the first alternative of `Rules.ends`; the others follow
    COUNT = 9 + ENDS


class OPTION(enum.IntEnum):
    """The other numbers of `Rules` that the kernel reads."""

    WRAPS = 0
    LEAST = 1
    MOST = 2
    PAYS_LAST = 3
    COUNTS_DOWN = 4
    FIRST_LIVES = 5
    LIMIT = 6
    COUNT = 7


NO_RULES = Rules((), ())  # a program that is no game


def table(rules: Rules) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return the rules as the kernel reads them.

    Returns:
        rows: int32 [rows, 258]: a `SUM`, the address of a byte, and what each value of it adds to the sum.
        offsets: int32 [SUM.COUNT], the sums without any row. An empty condition never holds, except `begins`.
        options: int32 [OPTION.COUNT].
    """
    conditions = {
        int(SUM.NO_SCORE): rules.no_score,
        int(SUM.LIFE_KEPT): rules.life_kept,
        int(SUM.LIVES_KEPT): rules.lives_kept,
        int(SUM.ALL_LIVES): rules.all_lives,
        int(SUM.BEGINS): rules.begins,
    }
    conditions |= {SUM.OVER + place: (*rules.ends, *[()] * ENDS)[place] for place in range(ENDS)}
    before = [(SUM.FIRST_SCORE, term, -1) for term in rules.first_score]
    before += [(SUM.LIVES_BEFORE, term, 1) for term in rules.lives if rules.counts_down]
    rows = [[SUM.SCORE, term.byte, *term.values()] for term in rules.score]
    rows += [[SUM.FIRST_SCORE, term.byte, *term.values()] for term in rules.first_score]
    rows += [[SUM.LIVES, term.byte, *term.values()] for term in rules.lives]
    rows += [[which, term.byte + BEFORE, *(sign * term.values())] for which, term, sign in before]
    rows += [[which, part.byte, *part.values()] for which, parts in conditions.items() for part in parts]
    offsets = np.zeros(SUM.COUNT, np.int32)
    for which, parts in conditions.items():
        offsets[which] = int(not parts and which != SUM.BEGINS)
    options = [
        rules.wraps, rules.least, rules.most, rules.pays_last, rules.counts_down, rules.first_lives,
        rules.limit,
    ]  # fmt: skip
    return np.array(rows, np.int32).reshape(-1, 258), offsets, np.array(options, np.int32)


RULES = {
    "alien": Rules(
        tuple(
            Term(address, 10 ** (5 - place), mask=0xF8, shift=3, instead=((128, 0),))
            for place, address in enumerate(range(3, 12, 2))
        ),
        ends=((Check(64, 0, mask=15),),),
        lives=(Term(64, mask=15),),
        first_lives=3,
    ),
    "amidar": Rules(decimal(91, 90, 89), ends=((Check(86, 128),),), lives=(Term(86, mask=15),)),
    "assault": Rules(decimal(0, 1, 2), ends=((Check(101, 0),),), lives=(Term(101),), first_lives=4),
    "asterix": Rules(
        decimal(94, 95, 96),
        ends=((Check(71, 1), Check(83, 1, mask=15)),),
        lives=(Term(83, mask=15),),
        first_lives=3,
    ),
    "asteroids": Rules(
        decimal(61, 62, factor=10),
        ends=((Check(60, 0, mask=0xF0),),),
        lives=(Term(60, mask=0xF0, shift=4),),
        first_lives=4,
        wraps=100_000,
    ),
    "atlantis": Rules(
        decimal(33, 35, 34, factor=100),
        ends=((Check(113, 255),),),
        lives=(Term(113),),
        first_lives=6,
        pays_last=False,
    ),
    "bank_heist": Rules(
        decimal(88, 89, 90), ends=((Check(78, 1), Check(85, 0)),), lives=(Term(85),), first_lives=4
    ),
    "battle_zone": Rules(
        (
            Term(29, 1000, mask=0xF0, shift=4, blank=0xA0),
            Term(30, 10_000, mask=15, blank=10),
            Term(30, 100_000, mask=0xF0, shift=4, blank=0xA0),
        ),
        ends=((Check(58, 0, mask=15),),),
        lives=(Term(58, mask=15),),
        first_lives=5,
    ),
    # Byte 5 falls and rises a few times while the ship explodes; a life is lost when byte 12 is 1.
    "beam_rider": Rules(
        decimal(11, 10, 9),
        ends=((Check(5, 255),),),
        lives=(Term(5, plus=1),),
        first_lives=3,
        life_kept=(Check(12, 1, differs=True),),
    ),
    "berzerk": Rules(
        decimal(93, 94, 95), ends=((Check(90, 255),),), lives=(Term(90, plus=1),), first_lives=3
    ),
    "bowling": Rules(decimal(38, 33), ends=((Check(36, range(17, 256)),),)),
    # A score of 100, or the end of time.
    "boxing": Rules(
        (Term(18, digits=True, instead=((192, 100),)), Term(19, -1, digits=True, instead=((192, 100),))),
        ends=((Check(18, HUNDRED),), (Check(19, HUNDRED),), (Check(16, 0, mask=0xF0), Check(17, 0))),
    ),
    "breakout": Rules(decimal(76, 77, mask=15), ends=((Check(57, 0),),), lives=(Term(57),), first_lives=5),
    "centipede": Rules(
        decimal(116, 117, 118),
        ends=((Check(38, 0x40, mask=0x40),),),
        lives=(Term(109, mask=0x70, shift=4, plus=1),),
        first_lives=3,
        least=0,
    ),
    "chopper_command": Rules(
        decimal(108, 110, factor=100),
        ends=((Check(100, 0, mask=15),),),
        lives=(Term(100, mask=15),),
        first_lives=3,
    ),
    "crazy_climber": Rules(
        digits(5, 4, 3, 2, factor=100), ends=((Check(42, 0),),), lives=(Term(42),), first_lives=5, least=0
    ),
    "defender": Rules(
        digits(33, 32, 31, 30, 29, 28, mask=15), ends=((Check(66, 0),),), lives=(Term(66),), first_lives=3
    ),
    "demon_attack": Rules(
        decimal(1, 3, 5), ends=((Check(114, 0), Check(113, 189)),), lives=(Term(114, plus=1),), first_lives=1
    ),
    # Both sides' points; one side has 24 after the last period.
    "double_dunk": Rules(
        (Term(118, digits=True), Term(119, -1, digits=True)),
        ends=(
            (Term(118, -1, digits=True, plus=24), Check(126, 231)),
            (Term(119, -1, digits=True, plus=24), Check(126, 231)),
        ),
    ),
    # The cars passed: the goal is 200 on the first day and 300 on the others, and RAM has those left.
    "enduro": Rules(
        (Term(45, 300, plus=-100), *decimal(44, 43, factor=-1)),
        ends=((Check(47, 255),),),
        no_score=(Check(45, 0),),
    ),
    "fishing_derby": Rules(
        (Term(61, digits=True), Term(62, -1, digits=True)), ends=((Check(61, 0x99),), (Check(62, 0x99),))
    ),
    "freeway": Rules(decimal(103), ends=((Check(22, 1),),), least=0, most=1),
    "frostbite": Rules(
        decimal(72, 73, 74),
        ends=((Check(76, 0, mask=15), Check(113, 0x80, mask=0x80)),),
        lives=(Term(76, mask=15, plus=1),),
        first_lives=4,
    ),
    "gopher": Rules(
        decimal(48, 49, 50),
        ends=((Check(52, 0, mask=7),),),
        lives=(Term(52, mask=1), Term(52, mask=2, shift=1), Term(52, mask=4, shift=2)),
        first_lives=3,
    ),
    "gravitar": Rules(
        decimal(7, 8, 9),
        ends=((Check(1, 1),),),
        lives=(Term(4, plus=1),),
        first_lives=6,
        all_lives=(Check(1, 0),),
    ),
    "hero": Rules(decimal(55, 56, 57), ends=((Check(51, 0),),), lives=(Term(51),), first_lives=4),
    "ice_hockey": Rules(
        (Term(10, digits=True), Term(11, -1, digits=True)), ends=((Check(6, 0), Check(7, 0)),), most=1
    ),
    "jamesbond": Rules(
        decimal(94, 93, 92),
        ends=((Check(6, 0, mask=15), Check(12, 104)),),
        lives=(Term(6, mask=15, plus=1),),
        first_lives=6,
    ),
    "kangaroo": Rules(
        decimal(39, 40, factor=100),
        ends=((Check(45, 255),),),
        lives=(Term(45, mask=7, plus=1),),
        first_lives=3,
    ),
    "krull": Rules(
        decimal(28, 29, 30),
        ends=((Check(31, 0), Check(0, 128), Check(34, 3)),),
        lives=(Term(31, mask=7, plus=1),),
        first_lives=3,
    ),
    "kung_fu_master": Rules(
        decimal(24, 25, 26), ends=((Check(29, 255),),), lives=(Term(29, mask=7, plus=1),), first_lives=4
    ),
    "montezuma_revenge": Rules(
        decimal(19, 20, 21),
        ends=((Check(58, 0), Check(126, 96)),),
        lives=(Term(58, mask=7, plus=1),),
        first_lives=6,
    ),
    # The high half of byte 123 counts the mazes. Three bits of the low half are lives; all are 0 at the end.
    "ms_pacman": Rules(
        decimal(122, 121, 120),
        ends=((Check(123, 0, mask=15), Check(39, 83)),),
        lives=(Term(123, mask=7, plus=1),),
        first_lives=3,
    ),
    "name_this_game": Rules(
        decimal(68, 69, 70), ends=((Check(71, 0, mask=7),),), lives=(Term(71, mask=7),), first_lives=3
    ),
    "phoenix": Rules(
        (*decimal(73, 72, factor=100), Term(71, mask=0xF0, digits=True)),
        ends=((Check(76, 128),),),
        lives=(Term(75, mask=7),),
        first_lives=5,
    ),
    "pitfall": Rules(
        decimal(85, 86, 87),
        ends=((Check(0, 0, mask=0xF0), Check(30, 0, differs=True)),),
        lives=(Term(0, mask=0xF0, codes=(-1, 0x80, 0xA0), plus=1),),
        first_lives=3,
        first_points=2000,
    ),
    "pong": Rules((Term(14), Term(13, -1)), ends=((Check(13, 21),), (Check(14, 21),))),
    "private_eye": Rules(decimal(72, 73, 74), ends=((Check(66, range(2, 256)),),), first_points=1000),
    # If the button restarts the game at once, byte 8 is 2 after 255, and the score is that of the new game.
    "qbert": Rules(
        decimal(89, 90, 91),
        ends=((Check(8, 254),), (Check(8 + BEFORE, 255), Check(8, 2))),
        lives=(Term(8, signed=True),),
        first_lives=4,
        pays_last=False,
        counts_down=True,
    ),
    "riverraid": Rules(
        tuple(
            Term(address, 10 ** (5 - place), codes=tuple(range(0, 80, 8)))
            for place, address in enumerate(range(77, 88, 2))
        ),
        ends=((Check(64 + BEFORE, 89), Check(64, 88)),),
        lives=(Term(64, mask=0xF8, shift=3, plus=1, instead=((88, 3), (89, 0))),),
        first_lives=4,
    ),
    "road_runner": Rules(
        digits(76, 75, 74, 73, mask=15, factor=100),
        ends=(
            (Check(68, 0, mask=7), Check(61, 0, differs=True)),
            (Check(68, 0, mask=7), Check(57, 0, differs=True)),
        ),
        lives=(Term(68, mask=7, plus=1),),
        first_lives=3,
    ),
    "robotank": Rules(
        (Term(53), Term(54, 12)),
        ends=((Check(40, 0), Check(52, 255)),),
        lives=(Term(40, mask=15, plus=1),),
        first_lives=4,
    ),
    "seaquest": Rules(
        decimal(56, 57, 58),
        ends=((Check(35, 0, differs=True),),),
        lives=(Term(59, plus=1),),
        first_lives=4,
    ),
    "skiing": Rules((Term(104, -6000), *decimal(105, 106, factor=-1)), ends=((Check(17, 255),),)),
    "solaris": Rules(
        decimal(94, 93, 92, factor=10), ends=((Check(89, 0),),), lives=(Term(89, mask=15),), first_lives=3
    ),
    # The second condition: the invaders have landed.
    "space_invaders": Rules(
        decimal(102, 104),
        ends=((Check(73, 0),), (Check(24, 0x80, mask=0x80),)),
        lives=(Term(73),),
        first_lives=3,
        wraps=10_000,
    ),
    "star_gunner": Rules(
        digits(6, 5, 4, 3, mask=15, factor=100),
        ends=((Check(7, 0),),),
        lives=(Term(7, mask=15),),
        first_lives=5,
        begins=(Check(7, 5),),
    ),
    # Always one life; the first side with 10 points wins.
    "surround": Rules(
        (Term(119, digits=True), Term(118, -1, digits=True)),
        ends=((Check(118, (10, 16)),), (Check(119, (10, 16)),)),
        lives=(Term(119, factor=0, plus=1),),
        first_lives=1,
    ),
    # A game won is a point, else a point won.
    "tennis": Rules(
        (Term(69), Term(70, -1)),
        ends=(
            (Check(71, 7),),
            (Check(72, 7),),
            (Check(71, range(6, 256)), Term(71, -1, plus=2), Term(72)),
            (Check(72, range(6, 256)), Term(72, -1, plus=2), Term(71)),
        ),
        first_score=(Term(71), Term(72, -1)),
    ),
    "time_pilot": Rules(
        decimal(15, 13, factor=100),
        ends=((Check(32, 0, differs=True),),),
        lives=(Term(11, mask=7, plus=1),),
        first_lives=5,
        lives_kept=(Check(0, 2, mask=15, differs=True),),
    ),
    "tutankham": Rules(decimal(26, 28), ends=((Check(30, 0),),), lives=(Term(30, mask=3),), first_lives=3),
    "up_n_down": Rules(
        decimal(0, 1, 2),
        ends=((Check(6, 0, mask=15), Check(20, range(65, 256))),),
        lives=(Term(6, mask=15, plus=1),),
        first_lives=5,
    ),
    "venture": Rules(
        decimal(71, 72, factor=100),
        ends=((Check(70, 0), Check(77, 255), Check(63, 0x80, mask=0x80)),),
        lives=(Term(70, mask=7, plus=1),),
        first_lives=4,
    ),
    "video_pinball": Rules(
        decimal(52, 50, 48),
        ends=((Check(47, 1, mask=1),),),
        lives=(Term(25, -1, mask=7, plus=4), Term(40, mask=1)),
        first_lives=3,
    ),
    "wizard_of_wor": Rules(
        decimal(8, 6, factor=100),
        ends=((Check(13, 0, mask=15), Check(116, 248)),),
        lives=(Term(13, mask=15),),
        first_lives=3,
        limit=800_000,
        lives_kept=(Check(87, 1, mask=1),),
    ),
    "yars_revenge": Rules(
        decimal(96, 97, 98),
        ends=((Check(30, 0, mask=0xF0),),),
        lives=(Term(30, mask=0xF0, shift=4),),
        first_lives=4,
    ),
    "zaxxon": Rules(
        decimal(104, 105, factor=100),
        ends=((Check(106, 0, mask=7),),),
        lives=(Term(106, mask=7),),
        first_lives=5,
    ),
}
