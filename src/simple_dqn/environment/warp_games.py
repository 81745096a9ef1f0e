"""E games on our own emulator, `atari2600`, whose arrays are on one device: `--emulator warp`.

They are equal to ALE's, frame by frame, in the games of `docs/emulator.md`. NVIDIA Warp is an extra that need
not be installed. If the network's GPU plays them (`run.device_of_games`), their screens never leave it.
"""

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from ale_py import Action

from atari2600.rules import RULES
from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.atari import find_rom, locate
from simple_dqn.environment.interface import Environment, draws_of
from simple_dqn.errors import MissingError, UserError, missing_extra
from simple_dqn.machine import SHARE, available_memory, gigabytes
from simple_dqn.types import Actions, CheckpointState, Step

try:
    import warp

    warp.config.log_level = warp.LOG_ERROR
    from atari2600 import screens, starts
    from atari2600.games import STAND, Games, Settings, bytes_of_game, bytes_of_pool
except (ImportError, OSError):  # OSError: a library that does not fit this system
    INSTALLED = False
else:
    INSTALLED = True

logger = logging.getLogger(__name__)
LEGAL = {"skiing": (0, *range(2, 10))}  # ALE's legal actions, in the one game that lacks some of the 18
MOST_NO_OP_FRAMES = 600  # without an action, no game ends earlier
SILENT_SECONDS = 3.0  # seconds; a start that takes longer logs that it compiles
CARTRIDGES = {2048: "2K", 4096: "4K", 8192: "8K", 16384: "16K"}


def emulator_for(config: EnvironmentConfig) -> str:
    """Return what `--emulator auto` means for the games of `config`: warp if it plays them, or ale."""
    rom = find_rom(config.game)
    try:
        check(rom, config)
        warp_device(None)  # which needs a folder for its kernels
    except MissingError as missing:
        logger.info("ALE plays the games, at a half to a quarter of our own emulator's speed: %s", missing)
        return "ale"
    except UserError:
        return "ale"
    logger.info("The games are played by --emulator warp, with the same results as by ale")
    return "warp"


def check(rom: Path, config: EnvironmentConfig) -> None:
    """Raise UserError if the game is not exact, a setting needs ALE, or Warp is not installed."""
    _, name, digest = locate(str(rom))
    if name not in RULES or (INSTALLED and starts.find(name).md5 != digest):
        kind = CARTRIDGES.get(rom.stat().st_size, f"{rom.stat().st_size} bytes")
        raise UserError(
            f"--emulator warp does not play {name} (cartridge: {kind}): use --emulator ale, or a game of "
            "docs/emulator.md"
        )
    if config.color_averaging:
        remedy = "add --color_averaging false, or give --emulator ale"
        raise UserError(f"--emulator warp cannot average colors: {remedy}")
    frames = config.random_start_frames or config.random_starts * config.frame_skip
    if frames > MOST_NO_OP_FRAMES or 0 < config.max_game_frames <= frames:
        raise UserError(
            f"--emulator warp cannot end a game in its no-ops, of up to {frames} frames here: give at most "
            f"{MOST_NO_OP_FRAMES} and a larger --max_game_frames, or --emulator ale"
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
def writing_kernels() -> Iterator[None]:
    """Raise MissingError if Warp cannot write its kernels, which it does once on a machine."""
    try:
        yield
    except OSError as error:
        remedy = "set WARP_CACHE_PATH to a folder that can be written, or give --emulator ale"
        reason = f"{error.filename or warp.config.kernel_cache_dir}: {error.strerror}"
        raise MissingError(f"--emulator warp cannot write its kernels to {reason}: {remedy}") from None


def warp_device(device: Any) -> Any:
    """Return Warp's name of PyTorch's `device` (None: the CPU), or raise UserError if Warp cannot use it."""
    with writing_kernels(), Path(os.devnull).open("w") as nowhere:
        stderr = os.dup(2)
        os.dup2(nowhere.fileno(), 2)  # native code writes there that it finds no driver of a GPU
        try:
            warp.init()
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
    if device is None:
        return warp.get_device("cpu")
    try:
        return warp.device_from_torch(device)
    except (IndexError, RuntimeError):
        raise UserError(
            f"--emulator warp: Warp {warp.__version__} cannot use {device}, as CUDA or the driver is another "
            "one than it needs: give --processes 1 to play on the CPU, or --backend cpu"
        ) from None


class DeviceGames(Environment):
    """E games of one ROM, which play a step together; each is equal to an `AtariGame`."""

    def __init__(
        self, config: EnvironmentConfig, streams: Sequence[np.random.Generator], training: bool,
        device: Any = None,
    ) -> None:  # fmt: skip
        """Load the ROM `config.game`, which `check` has accepted; see `AtariGame`.

        `device` is PyTorch's, for screens that are tensors there; None: the CPU, for screens in NumPy.

        Raises:
            UserError: Warp cannot use the device, or it has too little memory for so many games.
        """
        self.device = device
        where = warp_device(device)
        (rom, self.name, self.rom_md5), self.games = locate(config.game), len(streams)
        self.screen_shape = (config.screen_height, config.screen_width)
        start = starts.find(self.name)
        codes = tuple(start.actions if config.minimal_action_set else LEGAL.get(self.name, range(18)))
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
            limit=min(config.max_game_frames or Settings.limit, Settings.limit),
            lives_end=training,
        )
        free = where.free_memory if where.is_cuda else available_memory()
        each = bytes_of_game(start, settings, screens.BANDS if where.is_cuda else 1)
        room = max(SHARE * free - bytes_of_pool(start, settings), 0.0)
        if self.games * each > room:
            raise UserError(
                f"{self.games} games of --emulator warp need {gigabytes(self.games * each)} of memory and "
                f"{where} can spare {gigabytes(room)}, for {int(room // each)} games: lower --workers"
            )
        keys = np.array([draws_of(stream).key for stream in streams], np.uint32)
        slow = threading.Timer(SILENT_SECONDS, logger.info, ["Compiling the emulator, once on this machine"])
        with self._on_stream(), writing_kernels():
            slow.start()
            try:
                self._games = Games(rom.read_bytes(), start, RULES[self.name], keys, settings, str(where))
            finally:
                slow.cancel()
        if device is not None:
            self._screens = warp.to_torch(self._games.screens)  # the same memory

    def reset(self) -> Step:
        """Start every game anew; return the step with their first screens."""
        with self._on_stream():
            stand = self._games.stand.numpy()
            stand[:, STAND.ENDED] = 1
            self._games.stand.assign(stand)
        return self.step(np.zeros(self.games, np.int64))

    def step(self, actions: Actions) -> Step:
        """Take `actions` int64 [E] in all games at once; see `Environment.step`."""
        games = self._games
        with self._on_stream():
            games.actions.assign(actions)
            games.step()
            rewards, *others = games.results.numpy()  # all that comes to the host
            terminals, resets, starts = (row == 1 for row in others)
            screens = games.screens.numpy().copy() if self.device is None else self._screens.clone()
        actions = np.where(starts, 0, actions)
        return Step(screens, actions, rewards.copy(), terminals, resets & ~terminals, resets, starts)

    def get_state(self) -> CheckpointState:
        """Return the state of every game, and which of them are to start anew."""
        with self._on_stream():
            state = self._games.get_state()
        games = {str(i): {name: rows[i] for name, rows in state.items()} for i in range(self.games)}
        return {"name": self.name, "games": games, "ended": state["stand"][:, STAND.ENDED] == 1}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned, no state of ALE's; see `Environment.set_state`."""
        self.check_state(state)
        games = [state["games"][str(i)] for i in range(self.games)]
        if "stand" not in games[0]:
            raise UserError("the checkpoint has games of --emulator ale: continue with it")
        with self._on_stream():
            self._games.set_state({name: np.stack([game[name] for game in games]) for name in games[0]})

    def _on_stream(self) -> Any:
        """Return a context in which Warp works on PyTorch's current stream of the device, if it is a GPU."""
        on_gpu = self.device is not None and self.device.type == "cuda"
        return warp.ScopedStream(warp.stream_from_torch(self.device) if on_gpu else None)
