"""Atari games: one step of the agent, on the frames of the Arcade Learning Environment.

Preprocessing follows Mnih et al. 2015, "Human-level control through deep reinforcement
learning", or with `color_averaging` ALE's own averaging of frames, as simple_dqn had it,
or without `frame_maximum` takes the last frame as it is.
"""

from pathlib import Path

import cv2
import numpy as np

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment.emulator import STANDARD, Emulator, Variant
from simple_dqn.environment.frames import NO_OP, SEEDS, FrameGame, scale
from simple_dqn.environment.interface import NO_ACTION, Outcome, Screen, Watcher
from simple_dqn.environment.roms import game_name, md5
from simple_dqn.errors import UserError
from simple_dqn.types import CheckpointState


class AtariGame(FrameGame):
    """One Atari game, in steps of `frame_skip` frames."""

    can_save = True

    def __init__(
        self,
        config: EnvironmentConfig,
        stream: np.random.Generator,
        training: bool,
        watcher: Watcher | None,
        variant: Variant = STANDARD,
    ) -> None:
        """Load the ROM `config.game`; `stream` decides ALE's seed, no-ops, and which frames repeat an action.

        The `watcher` receives each frame, those of no-ops too. In `training` a lost life ends an episode.

        Raises:
            UserError: There is no display, or a recording cannot be written.
        """
        super().__init__(config, stream)
        rom = Path(config.game)
        seed = int(stream.integers(SEEDS))
        self._emulator = Emulator(rom, config, seed, watcher, variant)
        self._training = training
        self._repeat_probability = config.repeat_action_probability
        self._maximum = config.frame_maximum and not config.color_averaging
        self._frames_seen = 2 if self._maximum else 1  # of each step, the last ones
        actions = self._emulator.action_set(config.minimal_action_set)
        self._action_set = [action.value for action in actions]  # ALE's codes
        self.action_names = tuple(action.name for action in actions)
        self.name = game_name(str(rom))
        self.rom_md5 = md5(rom)
        self._held = NO_OP  # the action of the last frame
        self._lives = self._emulator.lives()
        # The last two frames in gray, and their maximum; uint8 [210, 160] in most games.
        self._older = np.zeros(self._emulator.screen_shape, np.uint8)
        self._newer = np.zeros_like(self._older)
        self._frame = np.zeros_like(self._older)

    def start(self, screen: Screen) -> None:
        """Start a new game; see `FrameGame.start`."""
        super().start(screen)
        self._lives = self._emulator.lives()

    def _restart(self) -> None:
        self._emulator.restart()
        self._held = NO_OP
        self._see_one_frame()

    def act(self, action: int, screen: Screen) -> Outcome:
        """Hold action `action`, an index or `NO_ACTION`, for `frame_skip` frames, or until the game ends."""
        code = NO_OP if action == NO_ACTION else self._action_set[action]
        reward = self._hold(code, self._frame_skip)
        self._draw(screen)
        over, lives = self._emulator.over(), self._emulator.lives()
        terminal = over or (self._training and lives < self._lives)
        self._lives = lives
        reset = self._ended()
        return Outcome(reward, terminal, truncation=reset and not terminal, reset=reset)

    def _ended(self) -> bool:
        return self._emulator.over() or self._emulator.frames() >= self._frame_limit

    def _hold(self, action: int, frames: int) -> float:
        """Play `frames` frames; return the sum of their rewards, and keep the last of them that matter.

        Each frame repeats the last one's action with the probability of Machado et al. 2018.
        The draw is made here and not by ALE, whose saved states forget the action to repeat.
        """
        reward = 0
        for frames_left in reversed(range(frames)):
            if not self._repeat_probability or self.random.random() >= self._repeat_probability:
                self._held = action
            reward += self._emulator.act(self._held)
            if frames_left < self._frames_seen:
                self._older, self._newer = self._newer, self._older
                self._emulator.draw(self._newer)
            if frames_left and self._ended():
                self._see_one_frame()
                break
        return reward

    def _see_one_frame(self) -> None:
        """Forget the frames before this one: they are of another game, or not the one just before."""
        self._emulator.draw(self._newer)
        np.copyto(self._older, self._newer)

    def _draw(self, screen: Screen) -> None:
        """Turn the frames last seen into `screen` uint8 [H, W]."""
        frame = cv2.max(self._older, self._newer, dst=self._frame) if self._maximum else self._newer
        scale(frame, screen)

    def get_state(self) -> CheckpointState:
        """Return the emulator's state, the action held and the random stream."""
        return {
            "emulator": self._emulator.get_state(),
            "held": self._held,
            **super().get_state(),
        }

    def set_state(self, state: CheckpointState) -> None:
        """Restore what `get_state` returned.

        Raises:
            UserError: It has games of `WarpVector`, or none, like older checkpoints of `gym` games.
        """
        if "console" in state:
            raise UserError("the checkpoint has games of --emulator warp: continue with it")
        if "emulator" not in state:
            raise UserError(
                f"the checkpoint is from a version that played {self.name} with Gymnasium's frame skip and "
                "sticky actions, and has no state of the game: move its folder away, and ./resume.sh will "
                "continue from a snapshot's weights"
            )
        self._emulator.set_state(state["emulator"])
        self._held = state["held"]
        super().set_state(state)
        self._lives = self._emulator.lives()
        self._see_one_frame()

    def close(self) -> None:
        """Finish recordings."""
        self._emulator.close()


open_game = AtariGame
