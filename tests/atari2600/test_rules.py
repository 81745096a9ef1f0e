"""The rules of each game are ALE's, even in states that random play does not reach: RAM is set in both.

`scripts/emulator.py inject` tries many more states and bytes.
"""

import numpy as np
import pytest

pytest.importorskip("warp", reason="NVIDIA Warp is not installed")

from atari2600 import starts
from atari2600.rules import RULES
from scripts import probe_rules
from scripts.emulator import Twins, edges, misjudged, misplayed, misread, places, play

# RAM, not a rule, may become different after a byte was set in the running program (docs/emulator.md): some
# values make it execute opcodes that are not emulated.
PARTS = {"beam_rider", "gravitar", "krull", "montezuma_revenge", "time_pilot"}
# Games whose rows were written before `probe_rules` was; together they have most of its forms.
PROBED = (
    "asterix", "beam_rider", "breakout", "enduro", "freeway", "ms_pacman", "pong", "qbert", "seaquest",
    "space_invaders",
)  # fmt: skip


@pytest.mark.parametrize("game", sorted(RULES))
def test_bytes_set_at_random(game: str) -> None:
    twins, random = Twins(game, starts.find(game)), np.random.default_rng(0)
    play(twins, random, 5)
    assert misjudged(twins, RULES[game], random, 50) is None


@pytest.mark.nightly
@pytest.mark.parametrize("game", sorted(RULES))
def test_rules_are_those_of_ale(game: str) -> None:
    twins, rules, random = Twins(game, starts.find(game)), RULES[game], np.random.default_rng(0)
    for frames in (1, 150):
        play(twins, random, frames)
        assert misread(twins, sorted(edges(rules)), set(edges(rules))) is None
        assert misjudged(twins, rules, random, 200) is None
        parted, found = misplayed(twins, rules, random, 4)
        assert found is None
        assert parted == 0 or game in PARTS


@pytest.mark.nightly
@pytest.mark.parametrize("game", PROBED)
def test_the_rules_that_probing_finds(game: str) -> None:
    assert probe_rules.differing(probe_rules.Findings(game).rules, RULES[game]) == []


@pytest.mark.parametrize(("game", "changes", "judgements"), [
    # The score passes its last digit.
    ("space_invaders", [{102: 0x99, 104: 0x95}, {102: 0, 104: 0}], [(9995, 3, 0), (5, 3, 0)]),
    # A maze was cleared; lives are three bits, and the end is a half byte of zeros.
    ("ms_pacman", [{123: 0x10}, {123: 0x18, 39: 83}, {123: 0x10}], [(0, 1, 0), (0, 1, 0), (0, 0, 1)]),
    # A game that the button restarts at once has ended; that frame pays nothing.
    ("qbert", [{8: 255, 90: 5}, {8: 2, 90: 0}], [(500, 4, 0), (0, 0, 1)]),
    ("qbert", [{8: 2}, {8: 1}, {8: 5}, {8: 4}], [(0, 4, 0), (0, 3, 0), (0, 3, 0), (0, 2, 0)]),
    ("qbert", [{8: 128}, {8: 127}, {8: 0}, {8: 255}], [(0, 4, 0), (0, 4, 0), (0, 4, 0), (0, 3, 0)]),
    ("freeway", [{103: 0x12}, {103: 0x14}, {103: 3}], [(1, 0, 0), (1, 0, 0), (0, 0, 0)]),
    ("asterix", [{83: 0x12}, {83: 0x21, 71: 1}], [(0, 2, 0), (0, 0, 1)]),
    ("beam_rider", [{5: 1, 12: 0}, {12: 1}, {5: 0, 12: 5}], [(0, 3, 0), (0, 2, 0), (0, 2, 0)]),
    ("breakout", [{76: 0x19, 77: 0x99}, {57: 0}], [(999, 5, 0), (0, 0, 1)]),
    ("enduro", [{45: 0}, {45: 2}], [(0, 0, 0), (300, 0, 0)]),
    ("seaquest", [{59: 255}, {35: 1}], [(0, 256, 0), (0, 0, 1)]),
    ("asteroids", [{61: 0x99, 62: 0x98}, {61: 0, 62: 1}], [(99980, 4, 0), (30, 4, 0)]),
    ("atlantis", [{34: 9, 113: 2}, {34: 18, 113: 255}], [(900, 2, 0), (0, 0, 1)]),
    ("boxing", [{18: 0x99, 19: 0}, {18: 0xC0}], [(99, 0, 0), (1, 0, 1)]),
    ("double_dunk", [{118: 0x24, 119: 0, 126: 1}, {119: 3, 126: 231}], [(24, 0, 0), (-3, 0, 1)]),
    ("gopher", [{52: 5}, {52: 2}, {52: 8}], [(0, 2, 0), (0, 1, 0), (0, 0, 1)]),
    ("gravitar", [{1: 5, 4: 2}, {1: 0}, {1: 1}], [(0, 3, 0), (0, 6, 0), (0, 0, 1)]),
    ("ice_hockey", [{10: 0, 11: 0}, {10: 5}, {10: 0}], [(0, 0, 0), (1, 0, 0), (-5, 0, 0)]),
    # The number of lives is not read before it was 5.
    ("star_gunner", [{7: 3}, {7: 5}, {7: 3}], [(0, 5, 0), (0, 5, 0), (0, 3, 0)]),
    # Points, then a game, which is won by two or with the seventh point.
    ("tennis", [{69: 3, 71: 5, 72: 5}, {69: 0, 72: 6}, {72: 7}], [(3, 0, 0), (-1, 0, 0), (-1, 0, 1)]),
    ("tennis", [{71: 6, 72: 5}, {72: 4}], [(1, 0, 0), (1, 0, 1)]),
    # The last life ends when a byte goes from one letter to the one before.
    ("riverraid", [{64: 88}, {64: 89}, {64: 88}], [(0, 4, 0), (0, 1, 0), (0, 0, 1)]),
])  # fmt: skip
def test_rare_states(
    game: str, changes: list[dict[int, int]], judgements: list[tuple[int, int, int]]
) -> None:
    twins = Twins(game, starts.find(game))
    play(twins, np.random.default_rng(0), 3)
    twins.trap(places(set(edges(RULES[game])))[-1])
    for change, expected in zip(changes, judgements, strict=True):
        for byte, value in change.items():
            twins.set_ram(byte, value)
        assert twins.see() == (expected, expected)
