"""The emulator on a GPU plays as it does on the CPU; skipped without a GPU that NVIDIA Warp can use."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("warp", reason="NVIDIA Warp is not installed")

import warp
from ale_py.roms import get_rom_path

from atari2600 import starts
from atari2600.console import Console
from atari2600.controllers import Controllers
from atari2600.rules import RULES

pytestmark = pytest.mark.skipif(not warp.is_cuda_available(), reason="there is no GPU that Warp can use")

EACH, FRAMES, STEPS = 5, 4, 200


@pytest.mark.parametrize("game", sorted(RULES))
def test_equal_to_the_cpu(game: str) -> None:
    rom, start = Path(str(get_rom_path(game))).read_bytes(), starts.find(game)
    grey, random = starts.grey_levels(), np.random.default_rng(0)
    both = [Console(rom, EACH, grey, device, FRAMES, RULES[game]) for device in ("cpu", "cuda")]
    controllers = [Controllers(console, start.controller) for console in both]
    for number in range(EACH):
        timer = starts.Timers().draw()
        for console in both:
            start.begin(console, number, grey, timer)
    for _ in range(STEPS):
        held = random.choice(start.actions, (EACH, FRAMES))
        played = []
        for console, controller in zip(both, controllers, strict=True):
            controller.plan(held, np.ones(EACH, np.bool_))
            played.append(console.play(np.full(EACH, FRAMES)))
        np.testing.assert_array_equal(played[0], played[1])
        here, there = (console.get_state() for console in both)
        for name in here:
            np.testing.assert_array_equal(here[name], there[name], name)
