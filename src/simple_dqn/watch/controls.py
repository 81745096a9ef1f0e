"""The switches that a person has in hand while a game is shown."""

from collections.abc import Iterable, Sequence, Set

from simple_dqn.watch.keys import Command, nearest_action

SPEEDS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, None)  # times real time; None: as fast as it goes
REAL_TIME = SPEEDS.index(1.0)
VOLUME_STEP = 0.1
MESSAGE_FRAMES = 90  # pictures for which a message stays


class Controls:
    """Who plays, how fast, how loud, and what is shown.

    Attributes:
        human: Whether the person plays.
        overlay: Whether the agent's thoughts stand beside the game.
        saliency: Whether what the agent looks at is laid over the game.
        volume: From 0 to 1.
        screenshot: Whether one was asked for; whoever takes it sets it back.
        ended: Whether the person wants to stop.
    """

    def __init__(self, alone: bool = False) -> None:
        """Begin in real time, with the agent playing, or the person where there is none (`alone`)."""
        self.human = alone
        self.overlay = True
        self.saliency = False
        self.volume = 0.5
        self.screenshot = False
        self.ended = False
        self._alone = alone
        self._speed = REAL_TIME
        self._buttons: set[str] = set()  # held at any moment since the last action
        self._message, self._message_frames = "", 0
        self._deeds = {
            Command.TAKE_OVER: self._take_over,
            Command.SLOWER: lambda: self._change_speed(-1),
            Command.FASTER: lambda: self._change_speed(1),
            Command.QUIETER: lambda: self._change_volume(-VOLUME_STEP),
            Command.LOUDER: lambda: self._change_volume(VOLUME_STEP),
            Command.OVERLAY: self._toggle_overlay,
            Command.SALIENCY: self._toggle_saliency,
            Command.SCREENSHOT: self._ask_for_screenshot,
            Command.QUIT: self.end,
        }

    @property
    def speed(self) -> float | None:
        """How many times as fast as in real time it goes; None: as fast as it can."""
        return SPEEDS[self._speed]

    @property
    def speed_name(self) -> str:
        """The speed in a word."""
        return "max" if self.speed is None else f"{self.speed:g}×"

    def take(self, commands: Iterable[Command], held: Set[str]) -> None:
        """Obey `commands`, and take note of the buttons `held` at a frame."""
        for command in commands:
            self._deeds[command]()
        self._buttons |= held

    def action(self, action_names: Sequence[str]) -> int | None:
        """Return the action that the person wants to take now; None: the agent is to choose.

        A button that was pressed and let go since the last action counts once, so that no tap is
        lost between two steps.
        """
        buttons, self._buttons = self._buttons, set()
        return nearest_action(buttons, action_names) if self.human else None

    def say(self, message: str) -> None:
        """Show `message` for a while."""
        self._message, self._message_frames = message, MESSAGE_FRAMES

    def message(self) -> str:
        """Return the message for the next picture, empty if there is none."""
        if self._message_frames:
            self._message_frames -= 1
            return self._message
        return ""

    def end(self) -> None:
        """Stop."""
        self.ended = True

    def _take_over(self) -> None:
        if self._alone:
            self.say("no agent here: play.sh SNAPSHOT brings one")
            return
        self.human = not self.human
        self.say("you play" if self.human else "the agent plays")

    def _change_speed(self, by: int) -> None:
        self._speed = min(max(self._speed + by, 0), len(SPEEDS) - 1)
        self.say(f"speed {self.speed_name}")

    def _change_volume(self, by: float) -> None:
        self.volume = round(min(max(self.volume + by, 0.0), 1.0), 1)
        self.say(f"volume {self.volume:.0%}")

    def _toggle_overlay(self) -> None:
        self.overlay = not self.overlay

    def _toggle_saliency(self) -> None:
        if self._alone:
            self.say("no agent here: nothing to look into")
            return
        self.saliency = not self.saliency

    def _ask_for_screenshot(self) -> None:
        self.screenshot = True
