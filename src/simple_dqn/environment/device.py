"""E games on our own emulator, `atari2600`, whose arrays are on one device: `--emulator warp`.

They are equal to ALE's, frame by frame, in the games of `docs/emulator.md`. NVIDIA Warp is an extra that need
not be installed.
"""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from ale_py import Action

from atari2600.rules import RULES
from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.atari import find_rom, game_name, md5
from simple_dqn.environment.interface import START_ANEW, Environment, draws_of
from simple_dqn.errors import MissingError, UserError, missing_extra
from simple_dqn.types import Actions, CheckpointState, Step

try:
    import warp

    warp.config.log_level = warp.LOG_ERROR
    from atari2600 import screens, starts
    from atari2600.games import STAND, Games, Settings
except ImportError:
    INSTALLED = False
else:
    INSTALLED = True

logger = logging.getLogger(__name__)
PATIENCE = 3.0  # seconds, before a start says that it compiles
CARTRIDGES = {2048: "2K", 4096: "4K", 8192: "8K", 16384: "16K"}


def emulator_for(config: EnvironmentConfig) -> str:
    """Return what `--emulator auto` means for the games of `config`: warp if it plays them, or ale."""
    rom = find_rom(config.game)
    try:
        check(rom, config)
    except MissingError as missing:
        logger.info("ALE plays the games. Two to four times as fast: %s", missing)
        return "ale"
    except UserError:
        return "ale"
    logger.info("The games are played by --emulator warp, with the same results as by ale")
    return "warp"


def check(rom: Path, config: EnvironmentConfig) -> None:
    """Refuse what only ALE can do.

    Raises:
        UserError: The game is not exact, or a setting needs ALE, or Warp is not installed.
    """
    name = game_name(str(rom))
    if name not in RULES or (INSTALLED and starts.find(name).md5 != md5(rom)):
        kind = CARTRIDGES.get(rom.stat().st_size, f"{rom.stat().st_size} bytes")
        raise UserError(
            f"--emulator warp does not play {name} (cartridge: {kind}): use --emulator ale, or a game of "
            "docs/emulator.md"
        )
    if config.color_averaging:
        raise UserError(
            "--emulator warp cannot average colors: add --color_averaging false, or give --emulator ale"
        )
    for setting in ("display_screen", "record_screen_path", "record_sound_filename"):
        if getattr(config, setting):
            raise UserError(f"--{setting} needs --emulator ale")
    if not INSTALLED:
        raise missing_extra("emulator", "--emulator warp")
    try:
        screens.columns(starts.find(name).rows, config.screen_height, config.screen_width)
    except ValueError as error:
        raise UserError(f"--emulator warp does not make {error}: give --emulator ale") from None


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


class DeviceGames(Environment):
    """E games of one ROM, which play a step together; each is equal to an `AtariGame`."""

    can_save = True

    def __init__(
        self, config: EnvironmentConfig, streams: Sequence[np.random.Generator], training: bool
    ) -> None:
        """Load the ROM `config.game`, which `check` has let pass; see `AtariGame`.

        Raises:
            UserError: The emulator does not make screens of this size.
        """
        rom = Path(config.game)
        self.name, self.rom_md5, self.games = game_name(str(rom)), md5(rom), len(streams)
        self.screen_shape = (config.screen_height, config.screen_width)
        start = starts.find(self.name)
        codes = tuple(start.actions if config.minimal_action_set else range(18))
        self.action_names, self.actions = tuple(Action(code).name for code in codes), len(codes)
        settings = Settings(
            actions=codes,
            height=config.screen_height,
            width=config.screen_width,
            frame_skip=config.frame_skip,
            maximum=config.frame_maximum,
            most_no_ops=config.random_start_frames or config.random_starts,
            no_op_frames=1 if config.random_start_frames else config.frame_skip,
            sticky=config.repeat_action_probability,
            limit=config.max_game_frames or Settings.limit,
            lives_end=training,
        )
        keys = np.array([draws_of(stream).key for stream in streams], np.uint32)
        with compiling():
            try:
                self._games = Games(rom.read_bytes(), start, RULES[self.name], keys, settings)
            except ValueError as error:
                raise UserError(f"--emulator warp does not make {error}: give --emulator ale") from None

    def reset(self) -> Step:
        """Start every game anew; return the step with their first screens."""
        stand = self._games.stand.numpy()
        stand[:, STAND.ENDED] = 1
        self._games.stand.assign(stand)
        return self.step(np.zeros(self.games, np.int64))

    def step(self, actions: Actions) -> Step:
        """Take `actions` int64 [E] in all games at once; see `Environment.step`."""
        games = self._games
        games.actions.assign(actions)
        games.step()
        terminals, resets = games.terminals.numpy() == 1, games.stand.numpy()[:, STAND.ENDED] == 1
        return Step(
            screens=games.screens.numpy().copy(),
            actions=games.actions.numpy().copy(),
            rewards=games.rewards.numpy().copy(),
            terminals=terminals,
            truncations=resets & ~terminals,
            resets=resets,
            starts=games.starts.numpy() == 1,
        )

    def get_state(self) -> CheckpointState:
        """Return the state of every game, and which of them are to start anew."""
        state = self._games.get_state()
        games = {str(i): {name: rows[i] for name, rows in state.items()} for i in range(self.games)}
        return {"name": self.name, "games": games, "ended": state["stand"][:, STAND.ENDED] == 1}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned.

        Raises:
            UserError: The state is of another game, of another number of games, or of ALE's.
        """
        self.check(state)
        games = [state["games"][str(i)] for i in range(self.games)]
        if "stand" not in games[0]:
            raise UserError(
                "the checkpoint has games of ALE or of an earlier version: continue with --emulator ale, or "
                f"{START_ANEW}"
            )
        self._games.set_state({name: np.stack([game[name] for game in games]) for name in games[0]})

    def close(self) -> None:
        """Do nothing: there is no recording to finish."""
