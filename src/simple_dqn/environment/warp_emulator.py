"""What `--emulator warp` can play: games on the emulator of our own, `atari2600`.

They are equal to ALE's, frame by frame, in the games of `docs/emulator.md`. NVIDIA Warp is an extra that need
not be installed.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.roms import game_name, md5
from simple_dqn.errors import UserError, missing_extra

try:
    import warp

    warp.config.quiet = True
    from atari2600 import starts
    from atari2600.rules import RULES
except ImportError:
    INSTALLED = False
else:
    INSTALLED = True

logger = logging.getLogger(__name__)
PATIENCE = 3.0  # seconds, before a start says that it compiles
CARTRIDGES = {2048: "2K", 4096: "4K", 8192: "8K", 16384: "16K"}


def check(rom: Path, config: EnvironmentConfig) -> None:
    """Refuse what only ALE can do.

    Raises:
        UserError: The game is not exact, or a setting needs ALE, or Warp is not installed.
    """
    if not INSTALLED:
        raise missing_extra("emulator", "--emulator warp")
    name = game_name(str(rom))
    if name not in RULES or starts.find(name).md5 != md5(rom):
        kind = CARTRIDGES.get(rom.stat().st_size, f"{rom.stat().st_size} bytes")
        raise UserError(
            f"--emulator warp does not play {name} (cartridge: {kind}): use --emulator ale, or one of "
            f"{', '.join(sorted(RULES))}"
        )
    if config.color_averaging:
        raise UserError(
            "--emulator warp cannot average colours: add --color_averaging false, or give --emulator ale"
        )
    for setting in ("display_screen", "record_screen_path", "record_sound_filename"):
        if getattr(config, setting):
            raise UserError(f"--{setting} needs --emulator ale")


@contextmanager
def compiling() -> Iterator[None]:
    """Say every few seconds that kernels are being compiled, which the first start on a machine does."""
    done, begun = threading.Event(), time.monotonic()

    def report() -> None:
        while not done.wait(PATIENCE):
            logger.info("compiling the emulator, once on this machine: %.0f s", time.monotonic() - begun)

    thread = threading.Thread(target=report, name="compiling")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
