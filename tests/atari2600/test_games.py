"""Each game that is offered is equal to ALE, on a GPU too; `scripts/emulator.py` compares more frames."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

pytest.importorskip("warp", reason="NVIDIA Warp is not installed")

import warp
from ale_py.roms import get_rom_path

from atari2600 import starts
from atari2600.console import Console
from atari2600.controllers import Controllers
from atari2600.games import Games, Settings
from atari2600.machine import GAME, RAM_BYTES, TIA
from atari2600.rules import RULES
from atari2600.screens import Screens
from scripts import probe_rules
from scripts.ale import RESETS, open_ale, run_in_ram, state_of
from scripts.emulator import (
    TABLE,
    Pair,
    edges,
    loop_positions,
    mismatch_at_random,
    mismatch_by_value,
    mismatch_in_play,
    play,
)
from scripts.tables import read
from simple_dqn.environment.warp_games import LEGAL
from tests.command_line import PROJECT

FRAMES = 30


def rom_of(game: str) -> bytes:
    return Path(str(get_rom_path(game))).read_bytes()


@pytest.mark.parametrize("game", sorted(RULES))
def test_equal_frame_by_frame(game: str) -> None:
    ale, start = open_ale(game), starts.find(game)
    console = Console(rom_of(game), 2, rules=RULES[game])
    controllers = Controllers(console, start.controller)
    timer = next(starts.timers())
    for number in range(2):
        start.begin(console, number, timer)
    random, both = np.random.default_rng(0), np.ones(2, np.bool_)
    assert (console.game[:, GAME.LIVES] == ale.lives()).all()
    assert [action.value for action in ale.getLegalActionSet()] == [*LEGAL.get(game, range(18))]
    for _ in range(FRAMES):
        action = int(random.choice(start.actions))
        reward = ale.act(action)
        controllers.hold(np.full(2, action), both)
        console.execute()
        assert (console.ram[:, :RAM_BYTES] == ale.getRAM()).all()
        for number in range(2):
            picture = console.pictures[number, console.tia[number, TIA.BUFFER], : start.rows]
            assert np.array_equal(picture, ale.getScreen())
        judged = console.game[:, [GAME.REWARD, GAME.LIVES, GAME.OVER]]
        assert (judged == (reward, ale.lives(), ale.game_over())).all()


@pytest.mark.parametrize("game", sorted(RESETS))
def test_a_start_that_depends_on_ram(game: str) -> None:
    pair, random = Pair(game, starts.find(game)), np.random.default_rng(0)
    for _ in range(2):
        play(pair, random, 10)
        for byte in range(RAM_BYTES):
            pair.set_ram(byte, int(random.integers(256)))
        pair.restart()
        for _ in range(10):
            pair.act(int(random.choice(pair.start.actions)))
            assert pair.difference() is None


def test_the_playfield_of_a_saved_state() -> None:
    # LDA #$10; STA PF0; LDA #$80; STA PF1; LDA #1; STA PF2: the leftmost of each. loop: STA WSYNC; JMP loop
    program = [0xA9, 0x10, 0x85, 13, 0xA9, 0x80, 0x85, 14, 0xA9, 1, 0x85, 15, 0x85, 2, 0x4C, 0x8C, 0]
    state = state_of(run_in_ram("pong", program), Console(rom_of("pong"), 1))
    assert state.tia[TIA.PF] == 1 | 1 << 4 | 1 << 12


def test_gray_levels_are_those_of_ale() -> None:
    ale, gray = open_ale("beam_rider"), starts.gray_levels()
    for _ in range(50):
        ale.act(1)
        assert np.array_equal(gray[ale.getScreen()], ale.getScreenGrayscale())


@pytest.mark.parametrize("size", [0, 1024, 10_495, 32_768])
def test_a_cartridge_that_is_not_emulated_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"{size} bytes"):
        Console(bytes(size), 1)


@pytest.mark.parametrize(("height", "width"), [(84, 84), (64, 64), (42, 42), (100, 90)])
@pytest.mark.parametrize("rows", [210, 230])
@pytest.mark.parametrize("bands", [1, 28])  # on a CPU and on a GPU
def test_screens_are_equal_to_opencvs(height: int, width: int, rows: int, bands: int) -> None:
    console = Console(bytes(4096), games=3)
    random = np.random.default_rng(0)
    console.pictures[...] = random.integers(256, size=console.pictures.shape)
    console.pictures[:, :, 50:150] = console.pictures[:, :, 50:51]  # rows that are alike
    console.tia[:, TIA.BUFFER] = [0, 1, 1]
    single = warp.array([1, 1, 0], dtype=warp.int32, device="cpu")
    scaled = Screens(console, rows, height, width, single, bands)
    scaled.command.launch()
    pictures = [console.pictures[0, 0], console.pictures[1, 1], console.pictures[2].max(axis=0)]
    for picture, screen in zip(pictures, scaled.screens.numpy(), strict=True):
        wanted = cv2.resize(picture[:rows], (width, height), interpolation=cv2.INTER_AREA)
        assert np.array_equal(screen, wanted)


@pytest.mark.skipif(not warp.is_cuda_available(), reason="there is no GPU that Warp can use")
@pytest.mark.parametrize("game", sorted(RULES))
def test_equal_to_the_cpu(game: str) -> None:
    rom, start = rom_of(game), starts.find(game)
    keys, settings = np.arange(5, dtype=np.uint32), Settings(tuple(start.actions), sticky=0.25)
    both = [Games(rom, start, RULES[game], keys, settings, device) for device in ("cpu", "cuda")]
    random = np.random.default_rng(0)
    for _ in range(400):
        actions = random.integers(len(start.actions), size=len(keys))
        for games in both:
            games.actions.assign(actions)
            games.step()
        for name in ("screens", "results"):
            here, there = (getattr(games, name).numpy() for games in both)
            np.testing.assert_array_equal(here, there, name)
    here, there = (games.get_state() for games in both)
    for name in here:
        np.testing.assert_array_equal(here[name], there[name], name)


@pytest.mark.nightly
def test_the_6507_as_a_gpu_executes_it_compiled_for_the_cpu(tmp_path: Path) -> None:
    """This takes minutes."""
    shutil.copytree(PROJECT / "src", tmp_path / "src")
    file = tmp_path / "src" / "atari2600" / "cpu6507.py"
    code = file.read_text()
    for there, here in (("#ifdef __CUDA_ARCH__", "#if 1"), ("static __constant__", "static const")):
        assert code.count(there) == 1
        code = code.replace(there, here)
    file.write_text(code)
    names = ("test_games.py::test_equal_frame_by_frame", "test_games.py::test_a_start_that_depends_on_ram")
    tests = [str(Path(__file__).parent / name) for name in (*names, "test_chips.py")]
    options = ["-p", "no:cacheprovider", "-o", f"pythonpath={tmp_path / 'src'} {PROJECT}", "-m", ""]
    environment = os.environ | {"WARP_CACHE_PATH": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "pytest", *options, *tests]
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


# RAM, not a rule, may become different after a byte was set in the running program (docs/emulator.md): some
# values make it execute opcodes that are not emulated.
DIVERGING = {"beam_rider", "gravitar", "krull", "montezuma_revenge", "time_pilot"}


def test_the_table_has_no_rule_that_differs() -> None:
    for row in read(TABLE).rows:
        assert re.fullmatch(r"(\d+ states(; \d+ trials diverged)?)?", row["rules"])


def test_rules_that_differ_are_named() -> None:
    pong = RULES["pong"]
    assert probe_rules.differing(pong, replace(pong, ends=pong.ends[::-1])) == []
    assert probe_rules.differing(pong, replace(pong, ends=pong.ends[:1])) == ["ends"]


def test_rules_are_printed_as_python() -> None:
    for rules in RULES.values():
        assert eval(probe_rules.as_python(rules), vars(probe_rules)) == rules


# Games whose rows were written before `probe_rules` was; together they have most of its forms.
PROBED = (
    "asterix", "beam_rider", "breakout", "enduro", "freeway", "ms_pacman", "pong", "qbert", "seaquest",
    "space_invaders",
)  # fmt: skip


@pytest.mark.parametrize("game", sorted(RULES))
def test_bytes_set_at_random(game: str) -> None:
    pair, random = Pair(game, starts.find(game)), np.random.default_rng(0)
    play(pair, random, 5)
    assert mismatch_at_random(pair, RULES[game], random, 50) is None


@pytest.mark.nightly
@pytest.mark.parametrize("game", sorted(RULES))
def test_rules_are_those_of_ale(game: str) -> None:
    pair, rules, random = Pair(game, starts.find(game)), RULES[game], np.random.default_rng(0)
    for frames in (1, 150):
        play(pair, random, frames)
        assert mismatch_by_value(pair, sorted(edges(rules)), set(edges(rules))) is None
        assert mismatch_at_random(pair, rules, random, 200) is None
        diverged, found = mismatch_in_play(pair, rules, random, 4)
        assert found is None
        assert diverged == 0 or game in DIVERGING


@pytest.mark.nightly
@pytest.mark.parametrize("game", PROBED)
def test_the_rules_that_probing_finds(game: str) -> None:
    assert probe_rules.differing(probe_rules.Findings(game).rules, RULES[game]) == []


# What `test_bytes_set_at_random` may miss.
@pytest.mark.parametrize(("game", "changes", "judged"), [
    # A game that the button restarts at once has ended; that frame pays nothing.
    ("qbert", [{8: 255, 90: 5}, {8: 2, 90: 0}], [(500, 4, 0), (0, 0, 1)]),
    ("qbert", [{8: 2}, {8: 1}, {8: 5}, {8: 4}], [(0, 4, 0), (0, 3, 0), (0, 3, 0), (0, 2, 0)]),
    ("qbert", [{8: 128}, {8: 127}, {8: 0}, {8: 255}], [(0, 4, 0), (0, 4, 0), (0, 4, 0), (0, 3, 0)]),
    ("beam_rider", [{5: 1, 12: 0}, {12: 1}, {5: 0, 12: 5}], [(0, 3, 0), (0, 2, 0), (0, 2, 0)]),
    # The number of lives is not read before it was 5.
    ("star_gunner", [{7: 3}, {7: 5}, {7: 3}], [(0, 5, 0), (0, 5, 0), (0, 3, 0)]),
    # Points, then a game, which is won by two or with the seventh point.
    ("tennis", [{69: 3, 71: 5, 72: 5}, {69: 0, 72: 6}, {72: 7}], [(3, 0, 0), (-1, 0, 0), (-1, 0, 1)]),
    ("tennis", [{71: 6, 72: 5}, {72: 4}], [(1, 0, 0), (1, 0, 1)]),
    ("space_invaders", [{73: 3, 24: 0}, {24: 0x80}], [(0, 3, 0), (0, 0, 1)]),  # the invaders land
    # The last life ends when a byte goes from one letter to the one before.
    ("riverraid", [{64: 88}, {64: 89}, {64: 88}], [(0, 4, 0), (0, 1, 0), (0, 0, 1)]),
])  # fmt: skip
def test_rare_states(game: str, changes: list[dict[int, int]], judged: list[tuple[int, int, int]]) -> None:
    pair = Pair(game, starts.find(game))
    play(pair, np.random.default_rng(0), 3)
    pair.run_loop(loop_positions(set(edges(RULES[game])))[-1])
    for change, expected in zip(changes, judged, strict=True):
        for byte, value in change.items():
            pair.set_ram(byte, value)
        assert pair.act(0) == pair.outcome() == expected
