"""The Arcade Learning Environment (Bellemare et al. 2013) with one game in it, frame by frame."""

import os
import wave
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import ale_py
import numpy as np
from ale_py import Action, ALEInterface, ALEState, LoggerMode

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.interface import FRAMES_PER_SECOND, Frame, Screen, Watcher
from simple_dqn.errors import UserError
from simple_dqn.files import kind_of
from simple_dqn.machine import require_display
from simple_dqn.types import CheckpointState

RESTART = -1  # in the list of calls: the console's reset, which is no action
SAMPLES_PER_FRAME = 512  # of sound; with 60 frames a second this makes 30,720 samples a second
CALLS_REPEATED = 64  # at most, to restore a state; each costs 0.05 to 0.1 ms


class Variant(NamedTuple):
    """The variant of a game that the console's switches choose; None: ALE's own choice."""

    mode: int | None = None
    difficulty: int | None = None


STANDARD = Variant()


class Emulator:
    """One game on an emulated Atari 2600, with its picture and sound.

    A state that ALE saves lacks the picture, so after `restoreState` the next frame would be
    averaged with an unrelated frame. So a saved state consists of an earlier state of ALE and the
    calls made since then, which `set_state` repeats.

    Attributes:
        screen_shape: Height and width of a frame in pixels.
        over: Returns whether the game is over. lives: Returns the number of lives left.
        frames: Returns the number of frames since the game was started.
        draw: Writes the frame just emulated, in gray, into an array uint8 [height, width].
    """

    def __init__(
        self,
        rom: Path,
        config: EnvironmentConfig,
        seed: int,
        watcher: Watcher | None = None,
        variant: Variant = STANDARD,
    ) -> None:
        """Load `rom`; `seed`, 31 bits, is that of ALE's own randomness, and `watcher` sees each frame.

        Raises:
            UserError: There is no display, or a recording cannot be written.
        """
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self._ale = ALEInterface()
        self._ale.setInt("random_seed", seed)
        self._ale.setInt("frame_skip", 1)
        self._ale.setFloat("repeat_action_probability", 0.0)
        self._ale.setBool("color_averaging", config.color_averaging)
        self._ale.setBool("sound_obs", watcher is not None)
        self._watcher = watcher
        self._sound: wave.Wave_write | None = None
        self._show(config)
        self._ale.loadROM(str(rom))
        self._set("mode", variant.mode, self._ale.setMode, self._ale.getAvailableModes())
        difficulties = self._ale.getAvailableDifficulties()
        self._set("difficulty", variant.difficulty, self._ale.setDifficulty, difficulties)
        self.screen_shape: tuple[int, int] = self._ale.getScreenDims()  # (H, W) in pixels
        self.over: Callable[[], bool] = self._ale.game_over
        self.lives: Callable[[], int] = self._ale.lives
        self.frames: Callable[[], int] = self._ale.getEpisodeFrameNumber
        self.draw: Callable[[Screen], object] = self._ale.getScreenGrayscale
        self._anchor = self._ale.cloneState(include_rng=True)
        self._calls: list[int] = []  # made since `_anchor`

    @staticmethod
    def _set(what: str, value: int | None, setter: Callable[[int], None], known: list[int]) -> None:
        if value is None:
            return
        try:
            setter(value)
        except (RuntimeError, TypeError):
            has = ", ".join(map(str, known))
            raise UserError(f"the game has no {what} {value!r}: choose one of {has}") from None

    def _show(self, config: EnvironmentConfig) -> None:
        if config.display_screen:
            if not ale_py.SDL_SUPPORT:
                raise UserError("this ale-py was built without SDL: leave out --display_screen")
            require_display("leave out --display_screen")
            self._ale.setBool("display_screen", True)
        if config.record_screen_path is not None:
            self._ale.setString("record_screen_dir", str(_writable_folder(config.record_screen_path)))
        if config.record_sound_filename is not None:
            self._ale.setBool("sound_obs", True)
            self._sound = _sound_file(config.record_sound_filename)

    def action_set(self, minimal: bool) -> list[Action]:
        """Return all 18 actions, or those that do something in this game."""
        return self._ale.getMinimalActionSet() if minimal else self._ale.getLegalActionSet()

    def restart(self) -> None:
        """Start a new game, without pressing any button in it."""
        self._anchor = self._ale.cloneState(include_rng=True)
        self._calls = [RESTART]
        self._ale.reset_game()

    def act(self, action: int) -> int:
        """Emulate one frame with `action`, one of ALE's codes; return its reward in game points."""
        if len(self._calls) == CALLS_REPEATED:
            self._anchor = self._ale.cloneState(include_rng=True)
            self._calls = []
        self._calls.append(action)
        reward = self._ale.act(action)
        if self._sound:
            self._sound.writeframes(self._ale.getAudio().tobytes())
        if self._watcher:
            seen, sound = self._ale.getScreenRGB(), self._ale.getAudio()
            self._watcher(Frame(seen, sound, self._ale.lives(), reward))
        return reward

    def get_state(self) -> CheckpointState:
        """Return a state of ALE's and the calls made since."""
        anchor = np.frombuffer(self._anchor.serialize(), np.uint8)
        return {"anchor": anchor, "calls": np.array(self._calls, np.int8)}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned; frames emulated again are also recorded again, as PNG."""
        self._anchor = ALEState(state["anchor"].tobytes())
        self._calls = state["calls"].tolist()
        # ALE does not save whether a frame is unfinished, as it is after loading Q*bert and Tetris.
        self._ale.act(0)
        self._ale.restoreState(self._anchor)
        for call in self._calls:
            if call == RESTART:
                self._ale.reset_game()
            else:
                self._ale.act(call)

    def close(self) -> None:
        """Finish the recording of sound."""
        if self._sound:
            self._sound.close()
            self._sound = None


def _writable_folder(name: str) -> Path:
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create the folder {name}: {error.strerror}; choose another") from None
    if not os.access(folder, os.W_OK):
        raise UserError(f"cannot write in the folder {name}: choose another for --record_screen_path")
    return folder


def _sound_file(name: str) -> wave.Wave_write:
    if kind_of(Path(name)) == "other":
        raise UserError(f"cannot write the sound to {name}: it is a device or a pipe; choose another file")
    try:
        # First: a Wave_write that cannot open its file complains once more when it goes.
        Path(name).open("ab").close()
        file = wave.Wave_write(name)
    except OSError as error:
        raise UserError(f"cannot write the sound to {name}: {error.strerror}; choose another file") from None
    file.setnchannels(1)
    file.setsampwidth(1)
    file.setframerate(FRAMES_PER_SECOND * SAMPLES_PER_FRAME)
    return file
