"""The keys, which are the same in the window and the terminal, and the state that they change."""

from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

from simple_dqn.environment.interface import NO_ACTION

# Keys are named as in pygame.
COMMANDS = ("m", "a", "s", "[", "]", "o", "v", "f12", "q")  # the keys that are not game buttons
NO_BUTTON = "NOOP"  # releases all buttons
BUTTONS = {
    "up": "UP",
    "down": "DOWN",
    "left": "LEFT",
    "right": "RIGHT",
    "space": "FIRE",
    "p": NO_BUTTON,
    "return": NO_BUTTON,
}
HELP = (
    "m: you or the agent plays, arrows and space: play, p: release all keys, a/s: slower/faster, "
    "[/]: volume, o: overlay, v: saliency, F12: screenshot, q: quit"
)
OPPOSITES = ({"UP", "DOWN"}, {"LEFT", "RIGHT"})
PARTS = ("UP", "DOWN", "LEFT", "RIGHT", "FIRE")  # of the names of actions

SPEEDS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, None)  # times real time; None: as fast as possible
REAL_TIME = SPEEDS.index(1.0)
VOLUME_STEP = 0.1
MESSAGE_FRAMES = 90  # pictures for which a message is shown


class Keys(NamedTuple):
    """The keys pressed since the last call."""

    commands: list[str]  # of `COMMANDS`, in order
    held: set[str]  # values of `BUTTONS`, held now or pressed since


def nearest_action(held: Set[str], action_names: Sequence[str], can_rest: bool = False) -> int:
    """Return the index of the action nearest to the buttons `held`, or `NO_ACTION` if that is nearer.

    It has the fewest missing and superfluous buttons. Of equally near actions, one with FIRE is preferred if
    FIRE is held, because players tap FIRE while they hold a direction; otherwise the first is taken.

    Args:
        held: Values of `BUTTONS`; opposite directions cancel each other.
        action_names: The game's actions, named as in ALE, such as `UPRIGHTFIRE`.
        can_rest: Whether the game takes `NO_ACTION`, as Atari games do.
    """
    buttons = set() if NO_BUTTON in held else set(held)
    for pair in OPPOSITES:
        if pair <= buttons:
            buttons -= pair

    def distance(index: int) -> tuple[int, bool]:
        pressed = {part for part in PARTS if part in action_names[index]}
        return len(pressed ^ buttons), "FIRE" in buttons - pressed

    nearest = min(range(len(action_names)), key=distance)
    return NO_ACTION if can_rest and len(buttons) < distance(nearest)[0] else nearest


class Controls:
    """The settings that keys change: the player, the speed, the volume, and the overlays.

    Attributes:
        human: Whether the person plays.
        overlay: Whether the panel with the Q-values is shown beside the game.
        saliency: Whether the heat map is drawn over the game.
        volume: From 0 to 1.
        screenshot: Whether a screenshot is due; the viewer resets it.
        ended: Whether the person wants to stop.
    """

    def __init__(self, alone: bool = False) -> None:
        """Begin in real time. The agent plays, or if `alone`, the person, without an agent."""
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

    @property
    def speed(self) -> float | None:
        """The speed in multiples of real time; None: as fast as possible."""
        return SPEEDS[self._speed]

    @property
    def speed_name(self) -> str:
        """The speed as it is shown, such as 2×."""
        return "max" if self.speed is None else f"{self.speed:g}×"

    def apply(self, commands: Iterable[str], held: Set[str]) -> None:
        """Execute `commands`, and remember the buttons `held` during a frame."""
        for key in commands:
            self._apply(key)
        self._buttons |= held

    def _apply(self, key: str) -> None:
        match key:
            case "m" | "v" if self._alone:
                self.say("no agent here: start play.sh SNAPSHOT")
            case "m":
                self.human = not self.human
                self.say("you play" if self.human else "the agent plays")
            case "v":
                self.saliency = not self.saliency
            case "o":
                self.overlay = not self.overlay
            case "a" | "s":
                speed = self._speed + (1 if key == "s" else -1)
                self._speed = min(max(speed, 0), len(SPEEDS) - 1)
                self.say(f"speed {self.speed_name}")
            case "[" | "]":
                volume = self.volume + (VOLUME_STEP if key == "]" else -VOLUME_STEP)
                self.volume = round(min(max(volume, 0.0), 1.0), 1)
                self.say(f"volume {self.volume:.0%}")
            case "f12":
                self.screenshot = True
            case "q":
                self.ended = True

    def action(self, action_names: Sequence[str], can_rest: bool = False) -> int | None:
        """Return the action that the person wants, see `nearest_action`; None: the agent chooses.

        A button that was pressed and released since the last action counts, so a tap between two steps is not
        lost.
        """
        buttons, self._buttons = self._buttons, set()
        return nearest_action(buttons, action_names, can_rest) if self.human else None

    def say(self, message: str) -> None:
        """Show `message` in the next pictures."""
        self._message, self._message_frames = message, MESSAGE_FRAMES

    def message(self) -> str:
        """Return the message for the next picture, or an empty string."""
        if self._message_frames:
            self._message_frames -= 1
            return self._message
        return ""
