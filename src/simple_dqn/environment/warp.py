"""E games on the emulator of our own, `atari2600`, which play a step in one launch: `--emulator warp`.

They are equal to ALE's, frame by frame, in the games of `docs/emulator.md`. NVIDIA Warp is an extra that need
not be installed.
"""

import logging
import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from ale_py import Action
from numpy.typing import NDArray

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.atari import game_name, md5
from simple_dqn.environment.interface import NO_OP, SEEDS, Environment, scale
from simple_dqn.errors import UserError, missing_extra
from simple_dqn.types import Actions, CheckpointState, Mask, Screens, Step

try:
    import warp

    warp.config.quiet = True
    from atari2600 import starts
    from atari2600.console import Console
    from atari2600.controllers import Controllers
    from atari2600.machine import CPU, GAME, TIA
    from atari2600.rules import RULES
    from atari2600.screens import Screens as Scaler
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


class WarpVector(Environment):
    """E games of one ROM, which play a step in one launch; each is equal to an `AtariGame`."""

    can_save = True

    def __init__(
        self,
        config: EnvironmentConfig,
        streams: Sequence[np.random.Generator],
        training: bool,
    ) -> None:
        """Load the ROM `config.game`, which `check` has let pass; see `AtariGame`."""
        rom = Path(config.game)
        self.name, self.rom_md5, self.games = game_name(str(rom)), md5(rom), len(streams)
        self.screen_shape = (config.screen_height, config.screen_width)
        self._config, self._training, self._random = config, training, streams
        for random in streams:
            random.integers(SEEDS)  # ALE's seed, which decides nothing
        self._start, rules = starts.find(self.name), RULES[self.name]
        codes = self._start.actions if config.minimal_action_set else range(18)
        self._codes = np.array(codes)
        self.action_names, self.actions = tuple(Action(code).name for code in codes), len(codes)
        self._limit = config.max_game_frames or math.inf
        self._grey = starts.grey_levels()
        with compiling():
            self._console = Console(
                rom.read_bytes(), self.games, self._grey, frames=config.frame_skip, rules=rules
            )
            try:
                self._scaler: Scaler | None = Scaler(self._console, self._start.rows, *self.screen_shape)
            except ValueError:
                self._scaler = None  # OpenCV scales the screens
        self._controllers = Controllers(self._console, self._start.controller)
        self._timers = [starts.Timers() for _ in streams]
        self._frames, self._held = np.zeros((2, self.games), np.int64)
        self._single = np.zeros(self.games, np.bool_)  # [E]; see `_draw`
        self._ended = np.ones(self.games, np.bool_)  # [E], games that the next step starts anew
        self._restart(self._ended)

    def reset(self) -> Step:
        """Start every game anew; return the step with their first screens."""
        self._ended = np.ones(self.games, np.bool_)
        self._begin(self._ended)
        step = Step.start(self._draw())
        self._ended = step.resets.copy()
        return step

    def step(self, actions: Actions) -> Step:
        """Take `actions` int64 [E] in all games at once; see `Environment.step`."""
        started, before = self._ended, self._lives().copy()
        actions = np.where(started, 0, actions)
        rewards = np.zeros(self.games, np.float32)
        if not started.all():
            rewards = self._hold(~started, self._codes[actions], self._config.frame_skip)
        if started.any():
            self._begin(started)
        resets = self._finished() & ~started
        terminals = (self._over() | (self._training & (self._lives() < before))) & ~started
        self._ended = resets
        return Step(
            screens=self._draw(),
            actions=actions,
            rewards=rewards,
            terminals=terminals,
            truncations=resets & ~terminals,
            resets=resets.copy(),
            starts=started,
        )

    def _lives(self) -> NDArray[np.int32]:
        return self._console.game[:, GAME.LIVES]

    def _over(self) -> Mask:
        return self._console.game[:, GAME.OVER].astype(np.bool_)

    def _finished(self) -> Mask:
        """Return the games that are over, or truncated at `max_game_frames`, bool [E]."""
        return self._over() | (self._frames >= self._limit)

    def _begin(self, games: Mask) -> None:
        """Start some games, each with its random number of no-ops; see `Game.start`."""
        self._restart(games)
        most = self._config.random_start_frames or self._config.random_starts
        frames = 1 if self._config.random_start_frames else self._config.frame_skip
        no_ops = np.array(
            [self._random[i].integers(most + 1) if games[i] else 0 for i in range(self.games)], np.int64
        )
        for number in range(no_ops.max()):
            waiting = no_ops > number
            self._hold(waiting, np.full(self.games, NO_OP), frames)
            if (ended := self._finished() & waiting).any():
                self._restart(ended)

    def _restart(self, games: Mask) -> None:
        """Start some games, without pressing any button in them."""
        for game in np.flatnonzero(games).tolist():
            timers = self._timers[game]
            self._start.begin(self._console, game, self._grey, timers.draw(), first=timers.begun == 1)
        self._controllers.release(games)
        self._frames[games], self._held[games], self._single[games] = 0, NO_OP, True

    def _hold(self, games: Mask, actions: NDArray[np.int64], frames: int) -> NDArray[np.float32]:
        """Hold ALE's `actions` [E] for `frames` frames in `games`, or until they end; return rewards [E]."""
        wanted = np.minimum(frames, self._limit - self._frames).astype(np.int64)
        states, held = self._draw_actions(games, actions, frames, wanted)
        self._controllers.plan(held, games)
        self._console.cpu[:, CPU.PLAYS] = games
        played = np.where(games, self._console.play(wanted), 0)
        for game, state in states.items():
            if played[game] < wanted[game]:  # the game has ended, and what was drawn for later frames is not
                self._random[game].bit_generator.state = state
                self._random[game].random(played[game])
        self._held = np.where(games, held[:, frames - 1], self._held)
        self._frames += played
        self._single = np.where(games, played < frames, self._single)
        return np.where(games, self._console.game[:, GAME.REWARD], 0).astype(np.float32)

    def _draw_actions(
        self, games: Mask, actions: NDArray[np.int64], frames: int, wanted: NDArray[np.int64]
    ) -> tuple[dict[int, CheckpointState], NDArray[np.int64]]:
        """Return the random streams as they were, by game, and the action that each frame holds, [E, frames].

        Each frame repeats the last one's action with the probability of Machado et al. 2018.
        """
        probability = self._config.repeat_action_probability
        if not probability:
            return {}, np.repeat(actions[:, np.newaxis], frames, axis=1)
        states: dict[int, CheckpointState] = {}
        drawn = np.ones((self.games, frames))
        for game in np.flatnonzero(games).tolist():
            states[game] = dict(self._random[game].bit_generator.state)
            drawn[game, : wanted[game]] = self._random[game].random(wanted[game])
        held, last = np.empty((self.games, frames), np.int64), self._held
        for frame in range(frames):
            held[:, frame] = last = np.where(drawn[:, frame] >= probability, actions, last)
        return states, held

    def _draw(self) -> Screens:
        """Return the screens: the maximum of the last two frames, or of `_single` games the last alone."""
        single = self._single if self._config.frame_maximum else np.ones_like(self._single)
        if self._scaler is not None:
            return self._scaler.make(single)
        screens = np.empty((self.games, *self.screen_shape), np.uint8)
        newest = self._console.tia[:, TIA.BUFFER]
        for game, screen in enumerate(screens):
            pictures = self._console.pictures[game, :, : self._start.rows]
            scale(pictures[newest[game]] if single[game] else pictures.max(axis=0), screen)
        return screens

    def get_state(self) -> CheckpointState:
        """Return the state of every game, and which of them are to start anew."""
        console = self._console.get_state()
        games: CheckpointState = {
            str(i): {
                "console": {name: values[i] for name, values in console.items()},
                "paddle": int(self._controllers.turned[i]),
                "begun": self._timers[i].begun,
                "known": np.array([self._frames[i], self._held[i], self._single[i]], np.int64),
                "random": dict(self._random[i].bit_generator.state),
            }
            for i in range(self.games)
        }
        return {"name": self.name, "games": games, "ended": self._ended.copy()}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned.

        Raises:
            UserError: The state is of another game, of another number of games, or of ALE's.
        """
        self.check(state)
        games = [state["games"][str(i)] for i in range(self.games)]
        if "known" not in games[0]:
            raise UserError("the checkpoint has games of ALE: continue with --emulator ale")
        if len(games[0]["console"].get("game", ())) != GAME.COUNT:
            raise UserError(
                "the checkpoint is from a version that counted lives and rewards otherwise: move its folder "
                "away, and ./resume.sh will continue from a snapshot's weights"
            )
        for random, game in zip(self._random, games, strict=True):
            random.bit_generator.state = game["random"]
        self._console.set_state(
            {name: np.stack([game["console"][name] for game in games]) for name in games[0]["console"]}
        )
        self._controllers.turned[:] = [game["paddle"] for game in games]
        self._timers = [starts.Timers(game["begun"]) for game in games]
        known = np.stack([game["known"] for game in games], axis=1)
        self._frames, self._held = known[:2]
        self._single = known[2].astype(np.bool_)
        self._ended = state["ended"].copy()

    def close(self) -> None:
        """Do nothing: there is no recording to finish."""
