"""Each game that is offered is equal to ALE: RAM, pixels, rewards, lives and end.

`scripts/emulator.py check` compares many more frames.
"""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("warp", reason="NVIDIA Warp is not installed")

from ale_py import ALEInterface, LoggerMode
from ale_py.roms import get_rom_path
from numpy.typing import NDArray

from atari2600 import starts
from atari2600.console import Console
from atari2600.controllers import Controllers
from atari2600.machine import GAME, RAM_BYTES, TIA
from atari2600.rules import RULES
from scripts.emulator import RESETS, Twins, play

FRAMES = 30
COLOURS = np.arange(256).astype(np.uint8) & np.uint8(0xFE)


def open_ale(game: str) -> ALEInterface:
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(str(get_rom_path(game)))
    return ale


def judged(console: Console) -> NDArray[np.int32]:
    """Return the reward, lives and end of the last frame, int32 [E, 3]."""
    return console.game[:, [GAME.REWARD, GAME.LIVES, GAME.OVER]]


@pytest.mark.parametrize("game", sorted(RULES))
def test_equal_frame_by_frame(game: str) -> None:
    ale, start = open_ale(game), starts.find(game)
    console = Console(Path(str(get_rom_path(game))).read_bytes(), 2, rules=RULES[game])
    controllers = Controllers(console, start.controller)
    timer = starts.Timers().draw()
    for number in range(2):
        start.begin(console, number, COLOURS, timer)
    random, both = np.random.default_rng(0), np.ones(2, np.bool_)
    assert (console.game[:, GAME.LIVES] == ale.lives()).all()
    for _ in range(FRAMES):
        action = int(random.choice(start.actions))
        reward = ale.act(action)
        controllers.hold(np.full(2, action), both)
        console.execute()
        assert (console.ram[:, :RAM_BYTES] == ale.getRAM()).all()
        for number in range(2):
            picture = console.pictures[number, console.tia[number, TIA.BUFFER], : start.rows]
            assert np.array_equal(picture, ale.getScreen())
        assert (judged(console) == (reward, ale.lives(), ale.game_over())).all()


@pytest.mark.parametrize("game", sorted(RESETS))
def test_a_game_whose_start_depends_on_ram_before(game: str) -> None:
    twins, random = Twins(game, starts.find(game)), np.random.default_rng(0)
    for _ in range(2):
        play(twins, random, 10)
        for byte in range(RAM_BYTES):
            twins.set_ram(byte, int(random.integers(256)))
        twins.restart()
        for _ in range(10):
            twins.act(int(random.choice(twins.start.actions)))
            assert twins.difference() is None


def test_grey_levels_are_those_of_ale() -> None:
    ale, grey = open_ale("beam_rider"), starts.grey_levels()
    for _ in range(50):
        ale.act(1)
        assert np.array_equal(grey[ale.getScreen()], ale.getScreenGrayscale())


def test_a_console_goes_on_from_its_state() -> None:
    start = starts.find("seaquest")
    rom = Path(str(get_rom_path("seaquest"))).read_bytes()
    console, other = Console(rom, 1), Console(rom, 1)
    start.begin(console, 0, COLOURS, timer=0)
    for _ in range(30):
        console.execute()
    other.set_state(console.get_state())
    for _ in range(30):
        console.execute()
        other.execute()
        for name, values in console.get_state().items():
            assert np.array_equal(values, getattr(other, name)), name


@pytest.mark.parametrize("size", [0, 1024, 10_495, 32_768])
def test_a_cartridge_that_is_not_emulated_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"{size} bytes"):
        Console(bytes(size), 1)
