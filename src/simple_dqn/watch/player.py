"""A player that records its choices and lets a person choose instead, and the keys of that person."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from simple_dqn.agent import Player
from simple_dqn.environment.interface import NO_ACTION, Environment, Frame
from simple_dqn.statistics import GameScores
from simple_dqn.types import ExplorationRates, QValues, States, Step

HeatMap: TypeAlias = NDArray[np.float32]  # [H, W], from 0 (no influence) to 1

# Keys are named as in pygame.
COMMANDS = ("m", "a", "s", "[", "]", "o", "v", "q")  # the keys that are not game buttons
NO_BUTTON = "NOOP"  # releases all buttons
PARTS = ("UP", "DOWN", "LEFT", "RIGHT", "FIRE")  # of the names of actions
OPPOSITES = ({"UP", "DOWN"}, {"LEFT", "RIGHT"})
BUTTONS = {key: key.upper() for key in ("up", "down", "left", "right")}
BUTTONS |= {"space": "FIRE", "p": NO_BUTTON, "return": NO_BUTTON, **{key: key for key in "0123456789"}}
HELP = (
    "m: you or the agent plays, arrows, space and digits: play, p: release all keys, a/s: slower/faster, "
    "[/]: volume, o: overlay, v: saliency, q: quit"
)
HINTS = ("m: you/agent", "q: quit", "a s: speed", "[ ]: volume", "o: hide this", "v: saliency")
SPEEDS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, None)  # times real time; None: as fast as possible


@dataclass(frozen=True)
class View:
    """The values that are shown beside the picture of a frame."""

    action_names: tuple[str, ...]  # A of them
    score: float  # game points so far
    lives: int  # left; 0 in a game without lives
    speed: str = "1×"
    exploration_rate: float | None = None  # ε; None: there is no agent
    action: int = NO_ACTION  # index of the action being taken
    human: bool = False  # whether a person plays
    exploring: bool = False  # whether the agent chose the action at random
    qvalues: NDArray[np.float32] | None = None  # float32 [A]; None: there is no agent
    heat_map: HeatMap | None = None  # drawn over the game; None: not shown
    no_effect: str = ""  # keys that do nothing in this game

    @property
    def facts(self) -> dict[str, str]:
        """The values shown above the Q-values, by name."""
        rate = "–" if self.exploration_rate is None else f"{self.exploration_rate:g}"
        return {"score": f"{self.score:.7g}", "lives": str(self.lives or "–"), "ε": rate, "speed": self.speed}

    @property
    def hints(self) -> list[tuple[str, str]]:
        """The keys that do something, in two columns."""
        words = [hint for hint in HINTS if hint[0] not in self.no_effect]
        return list(zip(words[::2], [*words[1::2], ""], strict=False))


class WatchedPlayer(Player):
    """A player of one game that records its last choice (see `View`), and lets a person choose instead."""

    def __init__(
        self, environment: Environment, predict: Callable[[States], QValues] | None, history_length: int,
        rng: np.random.Generator, saliency: Callable[[States], NDArray[np.float32]] | None = None,
        person: Callable[[], int | None] = lambda: None,
    ) -> None:  # fmt: skip
        """Set up the player of one game, which has not begun; see `Player`.

        Without an agent (`predict` is None) action 0 replaces its choices. `saliency` returns the influence
        of each pixel on the highest Q-value; None: there are no heat maps. `person` returns the action that
        the person wants; None: the agent chooses.
        """
        no_agent = np.zeros((1, 0), np.float32)
        super().__init__(environment, predict or (lambda _states: no_agent), history_length, rng)
        self.qvalues: NDArray[np.float32] | None = None
        self.action, self.exploring, self.human = NO_ACTION, False, False
        self.has_agent, self._saliency, self._person = predict is not None, saliency, person
        self.no_effect = "" if saliency else "v" if predict else "mv"
        self._heat_map: HeatMap | None = None  # of the state, once it was asked for

    def step(self, exploration_rate: float | ExplorationRates) -> Step:
        """Make the step that the person or the ε-greedy agent chooses."""
        qvalues, wanted = self.predict() if self.has_agent else None, self._person()
        self.human, self.action, self.exploring = wanted is not None, wanted or 0, False
        if qvalues is not None:
            self.qvalues, self._heat_map = qvalues[0], None
            if not self.human:
                self.action = int(self.choose(exploration_rate, qvalues)[0])
                self.exploring = self.action != qvalues.argmax()
        return self.execute(np.array([self.action]))

    def heat_map(self) -> HeatMap | None:
        """Return the influence of each pixel in the current state, the maximum of its S screens, or None."""
        if self._heat_map is None and self._saliency:
            strengths = np.abs(self._saliency(self.states)[0]).max(axis=0)
            self._heat_map = strengths / (float(strengths.max()) or 1.0)
        return self._heat_map


class FrameFollower(ABC):
    """Plays games; a subclass shows each frame with its score, and with the choice that it is part of."""

    player: WatchedPlayer  # set by `follow`

    def __init__(self, exploration_rate: float) -> None:
        """Follow a game that has not begun; its environment has `watch` as its watcher."""
        self.scores: list[float] = []  # raw points of each game that has ended
        self._rate, self._running = exploration_rate, GameScores(np.zeros(1))
        self.score, self._begins = 0.0, True

    @abstractmethod
    def show(self, frame: Frame) -> None:
        """Show `frame`, with the values that `view` returns."""

    def follow(self, player: WatchedPlayer, games: int = 0) -> Iterator[None]:
        """Play and show `games` games of `player`, without end if 0; yield after each step."""
        self.player = player
        step = player.start()
        while True:
            self.scores += self._running.add(step)
            self.score, self._begins = float(self._running.running[0]), bool(step.resets[0])
            if games and len(self.scores) >= games:
                return
            yield
            step = player.step(self._rate)

    def watch(self, frame: Frame) -> None:
        """Show `frame`, which has just been played."""
        self.score += 0.0 if self._begins else frame.reward  # a game begins with no points
        self.show(frame)

    def view(self, frame: Frame, heat_map: bool) -> View:
        """Return the values to show with `frame`; there is no choice yet while a game begins."""
        player, rate = self.player, self._rate if self.player.has_agent else None
        names, no_effect = player.environment.action_names, player.no_effect
        view = View(names, self.score, frame.lives, exploration_rate=rate, no_effect=no_effect)
        if self._begins:
            return view
        return replace(
            view, action=player.action, human=player.human, exploring=player.exploring,
            qvalues=player.qvalues, heat_map=player.heat_map() if heat_map else None,
        )  # fmt: skip


def nearest_action(held: Set[str], action_names: Sequence[str], can_rest: bool = False) -> int:
    """Return the index of the action with the fewest missing and superfluous buttons, the first of several.

    If FIRE is held, an action with FIRE is preferred: players tap it while they hold a direction. `held` has
    values of `BUTTONS`; opposite directions cancel each other. `action_names` are those of ALE, such as
    `UPRIGHTFIRE`; actions that have numbers instead are chosen by digits. If the game accepts `NO_ACTION`,
    `can_rest`, this is returned when it is nearer.
    """
    if numbered := [name for name in action_names if name.isdecimal() and name in held]:
        return action_names.index(numbered[0])
    buttons = set() if NO_BUTTON in held else set(held)
    for pair in OPPOSITES:
        buttons -= pair if pair <= buttons else set()

    def distance(index: int) -> tuple[int, bool]:
        pressed = {part for part in PARTS if part in action_names[index]}
        return len(pressed ^ buttons), "FIRE" in buttons - pressed

    nearest = min(range(len(action_names)), key=distance)
    return NO_ACTION if can_rest and len(buttons) < distance(nearest)[0] else nearest


class Controls:
    """The settings that keys change: the player, the speed, the volume, and the overlays."""

    def __init__(self, alone: bool = False) -> None:
        """Begin in real time. The agent plays, or if `alone`, the person, without an agent."""
        self.human = self._alone = alone  # whether the person plays
        self.overlay, self.saliency = True, False  # whether the panel and the heat map are shown
        self.ended = False  # whether the person wants to stop
        self.volume = 0.5  # from 0 to 1
        self.speed: float | None = 1.0  # times real time; None: as fast as possible
        self._buttons: set[str] = set()  # held at any moment since the last action

    def apply(self, commands: Iterable[str], held: Set[str]) -> None:
        """Execute `commands`, and remember the buttons `held` during a frame."""
        self._buttons |= held
        for key in commands:
            match key:
                case "m":
                    self.human = self._alone or not self.human
                case "v":
                    self.saliency = not self.saliency
                case "o":
                    self.overlay = not self.overlay
                case "a" | "s":
                    place = SPEEDS.index(self.speed) + (1 if key == "s" else -1)
                    self.speed = SPEEDS[min(max(place, 0), len(SPEEDS) - 1)]
                case "[" | "]":
                    volume = self.volume + (0.1 if key == "]" else -0.1)
                    self.volume = round(min(max(volume, 0.0), 1.0), 1)
                case "q":
                    self.ended = True

    def action(self, action_names: Sequence[str], can_rest: bool = False) -> int | None:
        """Return the action of all buttons held since the last action; None: the agent chooses."""
        buttons, self._buttons = self._buttons, set()
        return nearest_action(buttons, action_names, can_rest) if self.human else None
