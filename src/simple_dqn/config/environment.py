"""What is played."""

import re
from dataclasses import dataclass, field, replace

from simple_dqn.config.option import option

CLASS_FILE = re.compile(r"(.+\.py)(?::([^\W\d]\w*))?")  # a file with a game of the user's own, and its class


@dataclass(frozen=True)
class EnvironmentConfig:
    """What is played, and what of it the agent sees."""

    game: str = field(default="", metadata={"positional": True, "local": True})
    environment: str = option(
        "ale", "which kind of environment plays, or a class of your own", choices=("ale", "gym", "catch"),
        file="FILE.py:CLASS",
    )  # fmt: skip
    workers: int = option(1, "games played side by side", minimum=1, maximum=4096)
    processes: int = option(0, "processes that play the games; 0: this one", minimum=0, maximum=256)
    display_screen: bool = option(False, "show the emulator's own window while it trains and tests")
    frame_skip: int = option(4, "frames for which each chosen action is held", minimum=1, maximum=60)
    repeat_action_probability: float = option(
        0.0, "probability per frame that the game takes the previous action again", minimum=0, maximum=1
    )
    minimal_action_set: bool = option(True, "only the actions that do something in this game, not all 18")
    color_averaging: bool = option(
        True, "average each frame with the one before, as ALE does; else the maximum of the last two"
    )
    frame_maximum: bool = option(
        True, "without color_averaging: the maximum of the last two frames; false: the last frame alone"
    )
    screen_width: int = option(
        84, "width of a screen after preprocessing, in pixels", minimum=8, maximum=1024
    )
    screen_height: int = option(84, "height of a screen, in pixels", minimum=8, maximum=1024)
    record_screen_path: str | None = option(
        None, "folder in which every frame is written as a PNG file", local=True
    )
    record_sound_filename: str | None = option(
        None, "WAV file in which the game's sound is written", local=True
    )
    max_game_frames: int = option(
        108_000, "frames (60 a second) after which a game is cut off; 0: never", minimum=0
    )
    random_starts: int = option(
        30, "a game starts with 0 to this many no-op steps of frame_skip frames", minimum=0, group="Agent"
    )
    random_start_frames: int = option(
        0, "a game starts with 0 to this many single no-op frames; needs random_starts 0",
        minimum=0, maximum=3600, group="Agent",
    )  # fmt: skip

    @property
    def own(self) -> bool:
        """Whether the game is a class of the user's own."""
        return CLASS_FILE.fullmatch(self.environment) is not None

    def unseen(self) -> "EnvironmentConfig":
        """Return the same games, neither displayed nor recorded."""
        return replace(self, display_screen=False, record_screen_path=None, record_sound_filename=None)
