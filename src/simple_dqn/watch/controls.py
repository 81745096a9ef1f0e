"""The keys, the same in the window and in the terminal, and the state that they change."""

from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

# Keys are named as in pygame.
COMMANDS = ("m", "a", "s", "[", "]", "o", "v", "f12", "q")  # the keys besides the buttons of the game
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
    "m: you or the agent plays, arrows and space: play, p: no-op, a/s: slower/faster, [/]: volume, "
    "o: overlay, v: what the agent looks at, F12: screenshot, q: quit"
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


def nearest_action(held: Set[str], action_names: Sequence[str]) -> int:
    """Return the index of the action nearest to the buttons `held`.

    That is the one with the fewest buttons too many or too few. Among equals, one that fires comes first
    if FIRE is held, since FIRE is tapped while a direction is held; then the first one counts.

    Args:
        held: Values of `BUTTONS`; opposite directions cancel each other.
        action_names: The game's actions, named as in ALE, such as `UPRIGHTFIRE`.
    """
    buttons = set() if NO_BUTTON in held else set(held)
    for pair in OPPOSITES:
        if pair <= buttons:
            buttons -= pair

    def distance(index: int) -> tuple[int, bool]:
        pressed = {part for part in PARTS if part in action_names[index]}
        return len(pressed ^ buttons), "FIRE" in buttons - pressed

    return min(range(len(action_names)), key=distance)


class Controls:
    """The state that the keys change: the player, the speed, the volume, and the parts of the picture.

    Attributes:
        human: Whether the person plays.
        overlay: Whether the panel with the Q-values is shown beside the game.
        saliency: Whether the heat map is drawn over the game.
        volume: From 0 to 1.
        screenshot: Whether a screenshot is due; the viewer sets it back.
        ended: Whether the person wants to stop.
    """

    def __init__(self, alone: bool = False) -> None:
        """Begin in real time. The agent plays; `alone`: there is none, and the person plays."""
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
        """Carry out `commands`, and note the buttons `held` during a frame."""
        for key in commands:
            self._apply(key)
        self._buttons |= held

    def _apply(self, key: str) -> None:
        match key:
            case "m" | "v" if self._alone:
                self.say("no agent here: play.sh SNAPSHOT brings one")
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

    def action(self, action_names: Sequence[str]) -> int | None:
        """Return the action that the person wants; None: the agent chooses.

        A button pressed and released since the last action counts once, so no tap between two steps is lost.
        """
        buttons, self._buttons = self._buttons, set()
        return nearest_action(buttons, action_names) if self.human else None

    def say(self, message: str) -> None:
        """Show `message` in the next pictures."""
        self._message, self._message_frames = message, MESSAGE_FRAMES

    def message(self) -> str:
        """Return the message for the next picture, empty if there is none."""
        if self._message_frames:
            self._message_frames -= 1
            return self._message
        return ""
