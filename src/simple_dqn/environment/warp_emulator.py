"""A game on the emulator of our own, `atari2600`, in the place of `Emulator`: `--emulator warp`.

It is equal to ALE frame by frame in the games of `docs/emulator.md`, and written in NVIDIA Warp, an extra
that need not be installed.
"""

from pathlib import Path

import numpy as np
from ale_py import Action

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.interface import Screen
from simple_dqn.environment.roms import game_name, md5
from simple_dqn.errors import UserError
from simple_dqn.types import CheckpointState

try:
    import warp

    warp.config.quiet = True
    from atari2600 import starts
    from atari2600.console import Console
    from atari2600.controllers import Controllers
    from atari2600.games import GAMES
    from atari2600.machine import RAM_BYTES, TIA
except ImportError:
    INSTALLED = False
else:
    INSTALLED = True

CARTRIDGES = {2048: "2K", 4096: "4K", 8192: "8K", 16384: "16K"}
ONE = np.ones(1, np.bool_)


def check(rom: Path, config: EnvironmentConfig) -> None:
    """Refuse what only ALE can do.

    Raises:
        UserError: The game is not exact, or a setting needs ALE, or Warp is not installed.
    """
    if not INSTALLED:
        raise UserError(
            "--emulator warp needs NVIDIA Warp: pip install 'simple-dqn[emulator]', or leave out --emulator"
        )
    name = game_name(str(rom))
    if name not in GAMES or starts.find(name).md5 != md5(rom):
        kind = CARTRIDGES.get(rom.stat().st_size, f"{rom.stat().st_size} bytes")
        raise UserError(
            f"--emulator warp does not play {name} (cartridge: {kind}): use --emulator ale, or one of "
            f"{', '.join(sorted(GAMES))}"
        )
    if config.color_averaging:
        raise UserError(
            "--emulator warp cannot average colours: add --color_averaging false, or leave out --emulator"
        )
    for setting in ("display_screen", "record_screen_path", "record_sound_filename"):
        if getattr(config, setting):
            raise UserError(f"--{setting} needs --emulator ale")


class WarpEmulator:
    """One game on an emulated Atari 2600; see `Emulator`, whose methods these are."""

    def __init__(self, rom: Path, config: EnvironmentConfig) -> None:
        """Load `rom`.

        Raises:
            UserError: See `check`.
        """
        check(rom, config)
        name = game_name(str(rom))
        self._start, self._rules = starts.find(name), GAMES[name]
        self._grey = starts.grey_levels()
        self._console = Console(rom.read_bytes(), 1, self._grey)
        self._controllers = Controllers(self._console, self._start.controller)
        self._timers = starts.Timers()
        self.screen_shape = (self._start.rows, 160)  # (H, W) in pixels
        self.restart()

    def action_set(self, minimal: bool) -> list[Action]:
        """Return all 18 actions, or those that do something in this game."""
        return [Action(code) for code in (self._start.actions if minimal else range(18))]

    def restart(self) -> None:
        """Start a new game, without pressing any button in it."""
        self._start.begin(self._console, 0, self._grey, self._timers.draw())
        self._controllers.release()
        self._score, self._frames, self._over = 0, 0, False
        self._lives = self._rules.first_lives

    def act(self, action: int) -> int:
        """Emulate one frame with `action`, one of ALE's codes; return its reward in game points."""
        self._controllers.hold(np.array([action]), ONE)
        self._console.execute()
        self._frames += 1
        ram = self._console.ram[:, :RAM_BYTES].astype(np.int64)
        score = int(self._rules.score(ram)[0])
        reward, self._score = score - self._score, score
        self._over = bool(self._rules.over(ram)[0])
        if self._over:
            self._lives = 0
        elif not self._rules.unsure(ram)[0]:
            self._lives = int(self._rules.lives(ram)[0])
        return reward

    def draw(self, screen: Screen) -> None:
        """Write the frame just emulated, in grey, into `screen` uint8 [H, W]."""
        last = self._console.tia[0, TIA.BUFFER]
        np.copyto(screen, self._console.pictures[0, last, : self._start.rows])

    def over(self) -> bool:
        """Return whether the game is over."""
        return self._over

    def lives(self) -> int:
        """Return how many lives are left."""
        return self._lives

    def frames(self) -> int:
        """Return how many frames were emulated since the game was started."""
        return self._frames

    def get_state(self) -> CheckpointState:
        """Return the console and what is known of the game."""
        return {
            "console": self._console.get_state(),
            "paddle": self._controllers.turned.copy(),
            "begun": self._timers.begun,
            "game": [self._score, self._frames, int(self._over), self._lives],
        }

    def set_state(self, state: CheckpointState) -> None:
        """Go on from what `get_state` returned.

        Raises:
            UserError: It is a state of ALE's.
        """
        if "console" not in state:
            raise UserError("the checkpoint holds games of ALE's: go on with --emulator ale")
        self._console.set_state(state["console"])
        self._controllers.turned[:] = state["paddle"]
        self._timers = starts.Timers(state["begun"])
        self._score, self._frames, over, self._lives = state["game"]
        self._over = bool(over)

    def close(self) -> None:
        """Do nothing: there is no recording to finish."""
