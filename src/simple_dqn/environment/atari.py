"""Atari games: ROM files, and one game in the Arcade Learning Environment (Bellemare et al. 2013).

Preprocessing follows Mnih et al. 2015, "Human-level control through deep reinforcement learning". With
`color_averaging` it is ALE's own averaging of frames, as in simple_dqn; without `frame_maximum` the last
frame alone.
"""

import difflib
import functools
import hashlib
import logging
import re
import tempfile
import wave
from pathlib import Path

import ale_py.roms
import cv2
import numpy as np
from ale_py import ALEInterface, ALEState, LoggerMode

from simple_dqn import files
from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.interface import NO_ACTION, NO_OP, Frame, Game, Screen, Watcher, scale
from simple_dqn.errors import UserError, one_line
from simple_dqn.files import check_target, command, kind_of, read_file, reporting_failure
from simple_dqn.machine import require_display
from simple_dqn.types import CheckpointState

logger = logging.getLogger(__name__)
ALEInterface.setLoggerMode(LoggerMode.Error)

MOST_BYTES = 128 << 20  # of a ROM, or of a snapshot given by mistake
# ROMs that ale-py ships for several players only: ALEInterface ends the whole process on loading one.
MULTIPLAYER_ONLY = frozenset(("combat", "joust", "maze_craze", "warlords"))
RESTART = -1  # in the list of calls: the console's reset, which is no action
SAMPLE_RATE = 30_720  # samples of sound a second: 512 in each of 60 frames
MOST_SOUND = 2**32 - 2**16  # samples of a WAV file, of a byte each
CALLS_REPEATED = 64  # or one more, at most, to restore a state; each costs 0.05 to 0.13 ms


def known_games() -> list[str]:
    """Return the names of the games that ale-py ships and one player can play, in order."""
    return sorted(set(ale_py.roms.get_all_rom_ids()) - MULTIPLAYER_ONLY)


@functools.cache  # the games for training and those for tests are of one ROM: the log names it once
def find_rom(game: str) -> Path:
    """Return the ROM file of `game`, as `locate` finds it; the log says which file was taken."""
    path, _, _ = locate(game)
    logger.info("ROM file: %s", path)
    return path


def game_of(run: str) -> str | None:
    """Return the longest known game with which the name of a run begins; None: there is none.

    The name is `<game>[_label]`, and games and labels both have underscores.
    """
    games = [game for game in (*known_games(), "catch") if f"{run}_".startswith(f"{game}_")]
    return max(games, key=len, default=None)


def is_rom(game: str) -> bool:
    """Return whether there is a file at the path `game`, or a game of ale-py's has that name."""
    return kind_of(Path(game)) in ("file", "other") or _stem(Path(game)) in known_games()


def _stem(path: Path) -> str:
    return re.sub(r"[ -]", "_", path.stem.lower())


def locate(game: str) -> tuple[Path, str, str]:
    """Return the ROM file of `game`, its name, such as `space_invaders`, and the MD5 that identifies the ROM.

    The file is the path `game`, if it exists, else that of a game whose name is the path's stem. So
    `roms/pong.rom` and `pong` both find ale-py's own ROM where there is no such file.

    Raises:
        UserError: There is neither such a file nor such a game, or the file is no ROM that ALE can play.
    """
    path, stem, known = Path(game), _stem(Path(game)), known_games()
    if not game or kind_of(path) == "other":
        problem = f"{path} is a device or a pipe" if game else "no game was named"
        raise UserError(f"{problem}: give a ROM file, or the name of a game such as pong")
    if kind_of(path) != "file":
        near = difflib.get_close_matches(re.sub(r"_v\d+$", "", stem), known, n=3)
        names = "give a ROM, a game like pong, an id like CartPole-v1, or --import"
        hint = f"did you mean {' or '.join(near)}?" if near else names
        if stem not in known:
            raise UserError(f"there is no file {game} and no game called {stem!r}: {hint}")
        try:
            path = Path(ale_py.roms.get_rom_path(stem) or "")
        except OSError as error:
            raise UserError(f"ale-py's own ROM of {stem} cannot be used: {one_line(error)}") from None
    digest = hashlib.md5(read_file(path, MOST_BYTES, "give a ROM file")).hexdigest()
    name = ALEInterface.isSupportedROM(str(path))
    if name is None and files.is_snapshot(path):
        if path.suffix not in files.SNAPSHOT_SUFFIXES:
            raise UserError(f"{path} is an archive, not a ROM: unpack it if it is a zip of ROMs")
        remedy = f"{command('resume', path)} --epochs N trains it"
        raise UserError(f"{path} is a snapshot, not a game: {remedy}")
    if name is None:
        raise UserError(
            f"{path} (MD5 {digest}) is not a ROM that ALE can play: "
            "rename it if it has the name of another game, or give one of ale-py's games, such as pong"
        )
    return path, str(name), digest


class AtariGame(Game):
    """One Atari game, in steps of `frame_skip` frames, which starts with a random number of no-ops.

    The state that ALE saves lacks the picture: after `restoreState` the next frame would be averaged with an
    unrelated one, and could show a missile of Yars' Revenge elsewhere. So `get_state` returns an earlier
    state of ALE and the calls made since then, at least two, which `set_state` repeats.
    """

    def __init__(
        self, config: EnvironmentConfig, stream: np.random.Generator, training: bool, watcher: Watcher | None
    ) -> None:
        """Load the ROM `config.game`; `stream` decides the no-ops, and which frames repeat an action.

        The `watcher` receives each frame, those of no-ops too. In `training` a lost life ends an episode.

        Raises:
            UserError: There is no display, or a recording cannot be written.
        """
        super().__init__(config, stream)
        rom, self.name, self.rom_md5 = locate(config.game)
        self._ale = ale = ALEInterface()
        ale.setInt("random_seed", 1)  # it decides nothing: repeated actions are drawn here
        ale.setInt("frame_skip", 1)
        ale.setFloat("repeat_action_probability", 0.0)
        ale.setBool("color_averaging", config.color_averaging)
        ale.setBool("sound_obs", watcher is not None or config.record_sound_filename is not None)
        self._watcher, self._training = watcher, training
        self._most_no_ops = config.random_start_frames or config.random_starts
        self._no_op_frames = 1 if config.random_start_frames else config.frame_skip  # of each no-op
        self._sound = self._start_recordings(config)
        ale.loadROM(str(rom))
        self._frame_limit += ale.getEpisodeFrameNumber()  # ALE counts its presses that start a game, too
        actions = ale.getMinimalActionSet() if config.minimal_action_set else ale.getLegalActionSet()
        self._action_set = [action.value for action in actions]  # ALE's codes
        self.action_names = tuple(action.name for action in actions)
        self._repeat_probability = config.repeat_action_probability
        self._held = NO_OP  # the action of the last frame
        self._maximum = config.frame_maximum and not config.color_averaging
        self._frames_seen = 2 if self._maximum else 1  # of each step, the last ones
        # The last two frames in gray, and their maximum; uint8 [210, 160] in most games.
        self._older, self._newer, self._frame = np.zeros((3, *ale.getScreenDims()), np.uint8)
        self._anchor = self._later = ale.cloneState(include_rng=True)  # the next one: `_later`
        self._calls: list[int] = []  # made since `_anchor`

    def _start_recordings(self, config: EnvironmentConfig) -> wave.Wave_write | None:
        """Open ALE's window and start the recordings that `config` asks for; return the file of the sound."""
        if config.display_screen:
            if not ale_py.SDL_SUPPORT:
                raise UserError("this ale-py was built without SDL: leave out --display_screen")
            require_display("leave out --display_screen")
            self._ale.setBool("display_screen", True)
        if folder := config.record_screen_path:
            with reporting_failure(f"screens to {folder}", "give another folder"):
                Path(folder).mkdir(parents=True, exist_ok=True)
                tempfile.TemporaryFile(dir=folder).close()  # ALE itself would write nothing, silently
            self._ale.setString("record_screen_dir", folder)
        if not (name := config.record_sound_filename):
            return None
        with reporting_failure(f"sound to {name}", "give another file"):
            check_target(Path(name), "--record_sound_filename", (b"RIFF",))
            # First: a Wave_write that cannot open its file complains once more when it goes.
            Path(name).open("ab").close()
            file = wave.Wave_write(name)
        file.setparams((1, 1, SAMPLE_RATE, 0, "NONE", "not compressed"))
        return file

    def start(self, screen: Screen) -> None:
        """Start a new game with 0 to `random_starts` steps, or `random_start_frames` frames, of no-op.

        All numbers are equally likely (Mnih et al. 2015, Methods).
        """
        self._restart()
        for _ in range(self.random.integers(self._most_no_ops + 1)):
            self._hold(NO_OP, self._no_op_frames)
            if self._over():
                self._restart()
        self._draw(screen)
        self._lives = self._ale.lives()

    def act(self, action: int, screen: Screen) -> tuple[float, bool, bool]:
        """Hold action `action`, an index or `NO_ACTION`, for `frame_skip` frames, or until the game ends."""
        code = NO_OP if action == NO_ACTION else self._action_set[action]
        reward = self._hold(code, self._frame_skip)
        self._draw(screen)
        lives = self._ale.lives()
        terminal = self._ale.game_over() or (self._training and lives < self._lives)
        self._lives = lives
        return reward, terminal, self._over()

    def _restart(self) -> None:
        """Start a new game, without pressing any button in it."""
        self._anchor, self._calls = self._ale.cloneState(include_rng=True), [RESTART]
        self._ale.reset_game()
        self._held = NO_OP
        self._see_one_frame()

    def _over(self) -> bool:
        """Return whether the game is over, or cut off at `max_game_frames`."""
        return bool(self._ale.game_over() or self._ale.getEpisodeFrameNumber() >= self._frame_limit)

    def _hold(self, action: int, frames: int) -> float:
        """Play `frames` frames, keep the last ones for the screen, and return the sum of the rewards.

        A frame repeats the action of the one before with `repeat_action_probability` (Machado et al. 2018).
        This is drawn here and not by ALE, whose saved states lack the action to repeat.
        """
        reward = 0
        for frames_left in reversed(range(frames)):
            if not self._repeat_probability or self.random.random() >= self._repeat_probability:
                self._held = action
            reward += self._play_frame(self._held)
            if frames_left < self._frames_seen:
                self._older, self._newer = self._newer, self._older
                self._ale.getScreenGrayscale(self._newer)
            if frames_left and self._over():
                self._see_one_frame()
                break
        return reward

    def _play_frame(self, action: int) -> int:
        """Emulate one frame with `action`, one of ALE's codes; return its reward in game points."""
        if len(self._calls) == CALLS_REPEATED:
            self._later = self._ale.cloneState(include_rng=True)
        elif len(self._calls) > CALLS_REPEATED:  # so two calls or more follow `_anchor`
            self._anchor, self._calls = self._later, self._calls[-1:]
        self._calls.append(action)
        reward: int = self._ale.act(action)
        if self._sound:
            self._sound.writeframes(self._ale.getAudio().tobytes())
            if self._sound.tell() > MOST_SOUND:
                logger.warning("The recording of sound ends here: a WAV file has at most 4 GiB")
                self.close()
        if self._watcher:
            self._watcher(Frame(self._ale.getScreenRGB(), self._ale.getAudio(), self._ale.lives(), reward))
        return reward

    def _see_one_frame(self) -> None:
        """Forget the frames before this one."""
        self._ale.getScreenGrayscale(self._newer)
        np.copyto(self._older, self._newer)

    def _draw(self, screen: Screen) -> None:
        frame = cv2.max(self._older, self._newer, dst=self._frame) if self._maximum else self._newer
        scale(frame, screen)

    def get_state(self) -> CheckpointState:
        """Return a state of ALE's and the calls made since, the action held and the random stream."""
        anchor = np.frombuffer(self._anchor.serialize(), np.uint8)
        emulator = {"anchor": anchor, "calls": np.array(self._calls, np.int8)}
        return {"emulator": emulator, "held": self._held, **super().get_state()}

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned; frames emulated again are also recorded again, as PNG.

        Raises:
            UserError: It has games of --emulator warp.
            ValueError: It has a call or an action that ALE does not know.
            SystemError: ALE cannot read its own part. ALE checks its length, but not its values.
        """
        if "emulator" not in state:
            raise UserError("the checkpoint has games of --emulator warp: continue with it")
        calls = state["emulator"]["calls"].tolist()
        known = {action.value for action in self._ale.getLegalActionSet()}
        if not {*calls, state["held"]} <= {RESTART, *known}:
            raise ValueError("a game has an unknown action")
        self._anchor, self._calls = ALEState(state["emulator"]["anchor"].tobytes()), calls
        # ALE does not save whether a frame is unfinished, as it is after loading Q*bert and Tetris.
        self._ale.act(0)
        self._ale.restoreState(self._anchor)
        for place, call in enumerate(calls, 1):
            if place == len(calls):
                self._later = self._ale.cloneState(include_rng=True)
            self._ale.reset_game() if call == RESTART else self._ale.act(call)
        self._held = state["held"]
        super().set_state(state)
        self._lives = self._ale.lives()
        self._see_one_frame()

    def close(self) -> None:
        """Finish the recording of sound."""
        if self._sound:
            self._sound.close()
            self._sound = None


open_game = AtariGame
