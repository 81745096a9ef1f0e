"""A player whose choices can be seen, and a person who acts in its place; the keys, and what they change."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from simple_dqn.agent import Player
from simple_dqn.environment import Environment, Frame
from simple_dqn.environment.interface import NO_ACTION
from simple_dqn.statistics import Scores
from simple_dqn.types import ExplorationRates, QValues, States, Step

HeatMap: TypeAlias = NDArray[np.float32]  # [H, W], from 0 (no influence) to 1

# Keys are named as in pygame.
COMMANDS = ("m", "a", "s", "[", "]", "o", "v", "f12", "q")  # the keys that are not game buttons
NO_BUTTON = "NOOP"  # releases all buttons
PARTS = ("UP", "DOWN", "LEFT", "RIGHT", "FIRE")  # of the names of actions
OPPOSITES = ({"UP", "DOWN"}, {"LEFT", "RIGHT"})
BUTTONS = {key: key.upper() for key in ("up", "down", "left", "right")}
BUTTONS |= {"space": "FIRE", "p": NO_BUTTON, "return": NO_BUTTON}
HELP = (
    "m: you or the agent plays, arrows and space: play, p: release all keys, a/s: slower/faster, "
    "[/]: volume, o: overlay, v: saliency, F12: screenshot, q: quit"
)
SPEEDS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, None)  # times real time; None: as fast as possible


@dataclass(frozen=True)
class View:
    """The values that are shown beside the picture of a frame."""

    action_names: tuple[str, ...]  # A of them
    action: int  # index of the action being taken; -1: none
    human: bool  # whether a person plays
    score: float  # game points so far
    lives: int  # left; 0 in a game without lives
    speed: str = "1×"
    exploring: bool = False  # whether the agent chose the action at random
    exploration_rate: float | None = None  # ε; None: there is no agent
    qvalues: NDArray[np.float32] | None = None  # float32 [A]; None: there is no agent
    heat_map: HeatMap | None = None  # drawn over the game; None: not shown
    message: str = ""  # such as "volume 60%"

    @property
    def facts(self) -> dict[str, str]:
        """The values shown above the Q-values, by name."""
        return {
            "score": f"{self.score:g}",
            "lives": str(self.lives) if self.lives else "–",
            "ε": "–" if self.exploration_rate is None else f"{self.exploration_rate:g}",
            "speed": self.speed,
        }


class WatchedPlayer(Player):
    """A player of one game that records its last choice, and lets a person choose instead.

    A person acts once in a step of `frame_skip` frames, as the agent does. `View` lists the recorded values.
    """

    def __init__(
        self, environment: Environment, predict: Callable[[States], QValues] | None, history_length: int,
        rng: np.random.Generator, saliency: Callable[[States], NDArray[np.float32]] | None = None,
        person: Callable[[], int | None] = lambda: None,
    ) -> None:  # fmt: skip
        """Set up the player of one game, which has not begun, for states of S = `history_length` screens.

        Args:
            environment: One game.
            predict: The agent's Q-values; None: there is no agent, and action 0 replaces its choices.
            history_length: S.
            rng: The random stream of exploration.
            saliency: The influence of each pixel on the highest Q-value; None: there are no heat maps.
            person: Returns the action that the person wants; None: the agent chooses.
        """
        no_agent = np.zeros((1, 0), np.float32)
        super().__init__(environment, predict or (lambda _states: no_agent), history_length, rng)
        self.qvalues: NDArray[np.float32] | None = None
        self.action, self.exploring, self.human = NO_ACTION, False, False
        self.has_agent, self._saliency, self._person = predict is not None, saliency, person
        self._state: States | None = None  # the last one, uint8 [1, S, H, W]
        self._heat_map: HeatMap | None = None  # of that state, once it was asked for

    def step(self, exploration_rate: float | ExplorationRates) -> Step:
        """Make the step that the person or the ε-greedy agent chooses."""
        qvalues, wanted = self.predict() if self.has_agent else None, self._person()
        if qvalues is not None:
            self.qvalues, self._state, self._heat_map = qvalues[0], self.states.copy(), None
        self.human = wanted is not None
        actions = np.array([wanted or 0])
        if qvalues is not None and not self.human:
            actions = self.choose(exploration_rate, qvalues)
        self.action = int(actions[0])
        self.exploring = not self.human and self.qvalues is not None and self.action != self.qvalues.argmax()
        return self.execute(actions)

    def heat_map(self) -> HeatMap | None:
        """Return the influence of each pixel in the last state, the maximum of its S screens, or None."""
        if self._heat_map is None and self._saliency and self._state is not None:
            # Not sooner: it costs more than acting.
            strengths = np.abs(self._saliency(self._state)[0]).max(axis=0)
            self._heat_map = strengths / (float(strengths.max()) or 1.0)
        return self._heat_map


class FrameFollower(ABC):
    """Plays games; a subclass shows each frame with the score and the choice that belong to it.

    An agent values a state once its last frame was played. So a frame is held back until the next one is: the
    last frame of a step is then shown with its own Q-values and heat map, and with the action that follows.

    Attributes:
        scores: Raw points of each game that has ended. score: Points so far in the game.
        player: It plays; set by `follow`.
    """

    player: WatchedPlayer

    def __init__(self, exploration_rate: float) -> None:
        """Follow a game that has not begun; its environment has `watch` as its watcher."""
        self.scores: list[float] = []
        self._rate, self._running = exploration_rate, Scores(np.zeros(1))
        self.score, self._steps, self._begins = 0.0, 0, True
        self._held: tuple[Frame, float, int] | None = None  # with its points, and its step if a game begins

    @abstractmethod
    def show(self, frame: Frame, view_of: Callable[[bool], View]) -> None:
        """Show `frame` with the values that `view_of` returns, with or without a heat map."""

    def follow(self, player: WatchedPlayer, games: int = 0) -> Iterator[None]:
        """Play and show `games` games of `player`, without end if 0; yield after each step."""
        self.player = player
        self._add(player.start())
        while not games or len(self.scores) < games:
            yield
            self._add(player.step(self._rate))
        self.flush()

    def watch(self, frame: Frame) -> None:
        """Show the frame before `frame`, which has just been played."""
        self.flush()
        self.score += 0.0 if self._begins else frame.reward  # a game begins with no points
        self._held = frame, self.score, self._steps if self._begins else -1

    def flush(self) -> None:
        """Show the frame that is held back."""
        if self._held:
            (frame, score, step), self._held = self._held, None
            self.show(frame, partial(self._view, score, frame.lives, step == self._steps))

    def _view(self, score: float, lives: int, begins: bool, heat_map: bool) -> View:
        """Return the values to show with a frame; before the first of a game (`begins`) nobody has chosen."""
        player, rate = self.player, self._rate if self.player.has_agent else None
        names = player.environment.action_names
        view = View(names, NO_ACTION, human=False, score=score, lives=lives, exploration_rate=rate)
        if begins:
            return view
        return replace(
            view, action=player.action, human=player.human, exploring=player.exploring,
            qvalues=player.qvalues, heat_map=player.heat_map() if heat_map else None,
        )  # fmt: skip

    def _add(self, step: Step) -> None:
        """Add a step, whose frames `watch` has seen, to the score."""
        self.scores += self._running.add(step)
        self.score, self._begins = float(self._running.running[0]), bool(step.resets[0])
        self._steps += 1


def nearest_action(held: Set[str], action_names: Sequence[str], can_rest: bool = False) -> int:
    """Return the index of the action with the fewest missing and superfluous buttons.

    Of equally near actions, one with FIRE is preferred if FIRE is held, because players tap FIRE while they
    hold a direction; otherwise the first is taken.

    Args:
        held: Values of `BUTTONS`; opposite directions cancel each other.
        action_names: The game's actions, named as in ALE, such as `UPRIGHTFIRE`.
        can_rest: Whether the game takes `NO_ACTION`, as Atari games do, which is returned if it is nearer.
    """
    buttons = set() if NO_BUTTON in held else set(held)
    for pair in OPPOSITES:
        buttons -= pair if pair <= buttons else set()

    def distance(index: int) -> tuple[int, bool]:
        pressed = {part for part in PARTS if part in action_names[index]}
        return len(pressed ^ buttons), "FIRE" in buttons - pressed

    nearest = min(range(len(action_names)), key=distance)
    return NO_ACTION if can_rest and len(buttons) < distance(nearest)[0] else nearest


class Controls:
    """The settings that keys change: the player, the speed, the volume, and the overlays.

    Attributes:
        human: Whether the person plays. overlay: Whether the panel with the Q-values is shown.
        saliency: Whether the heat map is drawn over the game. volume: From 0 to 1.
        speed: In multiples of real time; None: as fast as possible. ended: Whether the person wants to stop.
        screenshot: Whether a screenshot is due; the viewer resets it.
    """

    def __init__(self, alone: bool = False) -> None:
        """Begin in real time. The agent plays, or if `alone`, the person, without an agent."""
        self.human = self._alone = alone
        self.overlay, self.saliency, self.screenshot, self.ended = True, False, False, False
        self.volume = 0.5
        self.speed: float | None = 1.0
        self._buttons: set[str] = set()  # held at any moment since the last action
        self._message, self._message_frames = "", 0

    @property
    def speed_name(self) -> str:
        """The speed as it is shown, such as 2×."""
        return "max" if self.speed is None else f"{self.speed:g}×"

    def apply(self, commands: Iterable[str], held: Set[str]) -> None:
        """Execute `commands`, and remember the buttons `held` during a frame."""
        self._buttons |= held
        for key in commands:
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
                    place = SPEEDS.index(self.speed) + (1 if key == "s" else -1)
                    self.speed = SPEEDS[min(max(place, 0), len(SPEEDS) - 1)]
                    self.say(f"speed {self.speed_name}")
                case "[" | "]":
                    volume = self.volume + (0.1 if key == "]" else -0.1)
                    self.volume = round(min(max(volume, 0.0), 1.0), 1)
                    self.say(f"volume {self.volume:.0%}")
                case "f12":
                    self.screenshot = True
                case "q":
                    self.ended = True

    def action(self, action_names: Sequence[str], can_rest: bool = False) -> int | None:
        """Return the action of all buttons held since the last one, taps too; None: the agent chooses."""
        buttons, self._buttons = self._buttons, set()
        return nearest_action(buttons, action_names, can_rest) if self.human else None

    def say(self, message: str) -> None:
        """Show `message` in the next pictures."""
        self._message, self._message_frames = message, 90

    def message(self) -> str:
        """Return the message for the next picture, or an empty string."""
        self._message_frames = max(0, self._message_frames - 1)
        return self._message if self._message_frames else ""
