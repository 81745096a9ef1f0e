"""The rules of each game: its score, its lives and its end, as functions of RAM after every frame.

The rules are data, which `table` turns into rows that the kernel sums up. They were found by setting bytes of
RAM in ALE, and `scripts/emulator.py inject` compares them with ALE in the same way. A byte is named by its
address, counted from $80.
"""

import enum
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BEFORE = 128  # added to an address: the byte as it was after the frame before
ANY = 2**31 - 1


@dataclass(frozen=True)
class Term:
    """A number in one byte: `factor` times the bits in `mask`, or two decimal digits, or -128 to 127."""

    byte: int
    factor: int = 1
    mask: int = 0xFF
    digits: bool = False
    signed: bool = False

    def values(self) -> NDArray[np.int64]:
        """Return the number for each value of the byte, int64 [256]."""
        bits = np.arange(256) & self.mask
        if self.signed:
            bits = bits.astype(np.int8).astype(np.int64)
        return self.factor * ((bits >> 4) * 10 + (bits & 15) if self.digits else bits)


@dataclass(frozen=True)
class Check:
    """Checks that the bits in `mask` of a byte have the value `equals`, or another value if `differs`."""

    byte: int
    equals: int
    mask: int = 0xFF
    differs: bool = False

    def fails(self) -> NDArray[np.int64]:
        """Return 1 for each value of the byte that fails, else 0; int64 [256]."""
        return (((np.arange(256) & self.mask) != self.equals) ^ self.differs).astype(np.int64)


def decimal(*addresses: int, factor: int = 1, mask: int = 0xFF) -> tuple[Term, ...]:
    """Return the terms of a number with two decimal digits per byte, the highest byte first.

    `mask` applies to the highest byte.
    """
    places = range(len(addresses) - 1, -1, -1)
    return tuple(
        Term(address, factor * 100**place, mask if address == addresses[0] else 0xFF, digits=True)
        for address, place in zip(addresses, places, strict=True)
    )


@dataclass(frozen=True)
class Rules:
    """The rules of one game.

    Attributes:
        score: The terms whose sum is the score. A frame's reward is the difference from the frame before.
        over: Up to two alternatives, each of checks that all hold in the frame in which the game ends. The
            number of lives is then 0.
        lives: The terms whose sum is the number of lives.
        first_lives: The number of lives before the first frame.
        score_offset, lives_offset: Constants added to the sums.
        no_score: While these checks all hold, the score is 0, whatever its terms.
        wraps: The points that are added to a negative reward, because the score has gone past its last digit.
        least, most: The bounds of a reward.
        pays_last: Whether the frame in which the game ends pays its reward.
        counts_down: A life is lost when the sum of `lives` falls by one; otherwise their number is kept.
        life_kept: While these checks all hold, a loss of exactly one life does not count yet.
    """

    score: tuple[Term, ...]
    over: tuple[tuple[Check, ...], ...]
    lives: tuple[Term, ...] = ()
    first_lives: int = 0
    score_offset: int = 0
    lives_offset: int = 0
    no_score: tuple[Check, ...] = ()
    wraps: int = 0
    least: int = -ANY
    most: int = ANY
    pays_last: bool = True
    counts_down: bool = False
    life_kept: tuple[Check, ...] = ()


class SUM(enum.IntEnum):
    """What the rows of `table` add up to. The sum of a condition is the number of its checks that fail."""

    SCORE = 0
    LIVES = 1
    LIVES_BEFORE = 2  # the sum of the lives after the frame before
    OVER = 3
    OTHERWISE_OVER = 4
    NO_SCORE = 5
    LIFE_KEPT = 6
    COUNT = 7


class OPTION(enum.IntEnum):
    """The other numbers of `Rules` that the kernel reads."""

    WRAPS = 0
    LEAST = 1
    MOST = 2
    PAYS_LAST = 3
    COUNTS_DOWN = 4
    COUNT = 5


NO_RULES = Rules((), ())  # a program that is no game


def table(rules: Rules) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return the rules as the kernel reads them.

    Returns:
        rows: int32 [rows, 258]: a `SUM`, the address of a byte, and what each value of it adds to the sum.
        offsets: int32 [SUM.COUNT], the sums without any row. A condition without checks never holds.
        options: int32 [OPTION.COUNT].
    """
    over, otherwise = (*rules.over, (), ())[:2]
    conditions = {
        SUM.OVER: over,
        SUM.OTHERWISE_OVER: otherwise,
        SUM.NO_SCORE: rules.no_score,
        SUM.LIFE_KEPT: rules.life_kept,
    }
    before = rules.lives if rules.counts_down else ()
    rows = [[SUM.SCORE, term.byte, *term.values()] for term in rules.score]
    rows += [[SUM.LIVES, term.byte, *term.values()] for term in rules.lives]
    rows += [[SUM.LIVES_BEFORE, term.byte + BEFORE, *term.values()] for term in before]
    rows += [[which, check.byte, *check.fails()] for which, checks in conditions.items() for check in checks]
    offsets = np.zeros(SUM.COUNT, np.int32)
    offsets[[SUM.SCORE, SUM.LIVES, SUM.LIVES_BEFORE]] = (
        rules.score_offset,
        rules.lives_offset,
        rules.lives_offset,
    )
    for which, checks in conditions.items():
        offsets[which] = int(not checks)
    options = [rules.wraps, rules.least, rules.most, rules.pays_last, rules.counts_down]
    return np.array(rows, np.int32).reshape(-1, 258), offsets, np.array(options, np.int32)


RULES = {
    "asterix": Rules(
        decimal(94, 95, 96),
        over=((Check(71, 1), Check(83, 1, mask=15)),),
        lives=(Term(83, mask=15),),
        first_lives=3,
    ),
    # Byte 5 falls and rises a few times while the ship explodes; a life is lost when byte 12 is 1.
    "beam_rider": Rules(
        decimal(11, 10, 9),
        over=((Check(5, 255),),),
        lives=(Term(5),),
        lives_offset=1,
        first_lives=3,
        life_kept=(Check(12, 1, differs=True),),
    ),
    "breakout": Rules(decimal(76, 77, mask=15), over=((Check(57, 0),),), lives=(Term(57),), first_lives=5),
    # The cars passed: the goal is 200 on the first day and 300 on the others, and RAM has those left.
    "enduro": Rules(
        (Term(45, 300), *decimal(44, 43, factor=-1)),
        over=((Check(47, 255),),),
        score_offset=-100,
        no_score=(Check(45, 0),),
    ),
    "freeway": Rules(decimal(103), over=((Check(22, 1),),), least=0, most=1),
    # The high half of byte 123 counts the mazes. Three bits of the low half are lives; all are 0 at the end.
    "ms_pacman": Rules(
        decimal(122, 121, 120),
        over=((Check(123, 0, mask=15), Check(39, 83)),),
        lives=(Term(123, mask=7),),
        lives_offset=1,
        first_lives=3,
    ),
    "pong": Rules((Term(14), Term(13, -1)), over=((Check(13, 21),), (Check(14, 21),))),
    # If the button restarts the game at once, byte 8 is 2 after 255, and the score is that of the new game.
    "qbert": Rules(
        decimal(89, 90, 91),
        over=((Check(8, 254),), (Check(8 + BEFORE, 255), Check(8, 2))),
        lives=(Term(8, signed=True),),
        first_lives=4,
        pays_last=False,
        counts_down=True,
    ),
    "seaquest": Rules(
        decimal(56, 57, 58),
        over=((Check(35, 0, differs=True),),),
        lives=(Term(59),),
        lives_offset=1,
        first_lives=4,
    ),
    # The second condition: the invaders have landed.
    "space_invaders": Rules(
        decimal(102, 104),
        over=((Check(73, 0),), (Check(24, 0x80, mask=0x80),)),
        lives=(Term(73),),
        first_lives=3,
        wraps=10_000,
    ),
}
