"""Games on a GPU are those on the CPU; skipped without a GPU that NVIDIA Warp can use."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("warp", reason="NVIDIA Warp is not installed")

import warp
from ale_py.roms import get_rom_path

from atari2600 import starts
from atari2600.games import Games, Settings
from atari2600.rules import RULES

pytestmark = pytest.mark.skipif(not warp.is_cuda_available(), reason="there is no GPU that Warp can use")


@pytest.mark.parametrize("game", sorted(RULES))
def test_equal_to_the_cpu(game: str) -> None:
    rom, start = Path(str(get_rom_path(game))).read_bytes(), starts.find(game)
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
