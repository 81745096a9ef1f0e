"""Which key does what, in the window and in the terminal alike."""

from collections.abc import Sequence, Set
from enum import Enum, auto


class Command(Enum):
    """What a key can ask for, besides playing."""

    TAKE_OVER = auto()  # the person or the agent, in turns
    SLOWER = auto()
    FASTER = auto()
    QUIETER = auto()
    LOUDER = auto()
    OVERLAY = auto()
    SALIENCY = auto()
    SCREENSHOT = auto()
    QUIT = auto()


# Names of keys, as pygame calls them.
COMMANDS = {
    "m": Command.TAKE_OVER,
    "a": Command.SLOWER,
    "s": Command.FASTER,
    "[": Command.QUIETER,
    "]": Command.LOUDER,
    "o": Command.OVERLAY,
    "v": Command.SALIENCY,
    "f12": Command.SCREENSHOT,
    "q": Command.QUIT,
}
NO_BUTTON = "NOOP"  # lets go of everything
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
PARTS = ("UP", "DOWN", "LEFT", "RIGHT", "FIRE")  # what the names of actions are made of


def nearest_action(held: Set[str], action_names: Sequence[str]) -> int:
    """Return the index of the action that comes nearest to the buttons `held`.

    That is the one with the fewest buttons too many or too few. Of several as near, one that fires
    comes first, if it was asked for: FIRE is tapped while a direction is held. Then their order decides.

    Args:
        held: Words of `BUTTONS`; opposite directions cancel each other.
        action_names: The game's actions, named like ALE's, such as `UPRIGHTFIRE`.
    """
    buttons = set() if NO_BUTTON in held else set(held)
    for pair in OPPOSITES:
        if pair <= buttons:
            buttons -= pair

    def distance(index: int) -> tuple[int, bool]:
        pressed = {part for part in PARTS if part in action_names[index]}
        return len(pressed ^ buttons), "FIRE" in buttons - pressed

    return min(range(len(action_names)), key=distance)
