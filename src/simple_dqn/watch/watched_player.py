"""A player that shows its Q-values and heat map, and lets a person act in its place."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from simple_dqn.agent import Player
from simple_dqn.environment import Environment, Frame
from simple_dqn.environment.interface import NO_ACTION
from simple_dqn.statistics import Scores
from simple_dqn.types import Actions, ExplorationRates, QValues, States, Step

HeatMap: TypeAlias = NDArray[np.float32]  # [H, W], from 0 (no influence) to 1


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


class WatchedPlayer(Player):
    """A player of one game that records its last choice, and lets a person choose instead.

    A person acts once in a step of `frame_skip` frames, as the agent does, so that the steps of both are
    the same kind of experience.

    Attributes:
        qvalues: Of the last state, float32 [A], even while a person plays; None: no state yet, or no agent.
        action: The last action chosen, an index into the environment's; or `NO_ACTION`.
        exploring: Whether the agent chose it at random and it is not the best.
        human: Whether a person chose it.
    """

    def __init__(
        self,
        environment: Environment,
        predict: Callable[[States], QValues] | None,
        history_length: int,
        rng: np.random.Generator,
        saliency: Callable[[States], NDArray[np.float32]] | None = None,
        person: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Set up the player; the game has not begun.

        Args:
            environment: One game.
            predict: The agent's Q-values; None: there is no agent, and action 0 replaces its choices.
            history_length: Screens in a state, S.
            rng: The random stream of exploration.
            saliency: The influence of each pixel on the highest Q-value; None: there are no heat maps.
            person: Returns the action that the person wants; None: the agent chooses.
        """
        super().__init__(environment, predict or _no_qvalues, history_length, rng)
        self.qvalues: NDArray[np.float32] | None = None
        self.action, self.exploring, self.human = NO_ACTION, False, False
        self._has_agent, self._saliency, self._person = predict is not None, saliency, person
        self._state: States | None = None  # the last one, uint8 [1, S, H, W]
        self._heat_map: HeatMap | None = None  # of that state, once it was asked for

    def choose(
        self,
        exploration_rate: float | ExplorationRates,
        qvalues: QValues | None = None,
        states: States | None = None,
    ) -> Actions:
        """Return the action, int64 [1], that the person or the agent chooses in `states`."""
        states = self.states if states is None else states
        if self._has_agent:
            qvalues = self._predict(states) if qvalues is None else qvalues
            self.qvalues = qvalues[0]
            self._state, self._heat_map = states.copy(), None
        wanted = self._person()
        self.human = wanted is not None
        if self.human or qvalues is None:
            actions = np.array([wanted or 0])
        else:
            actions = super().choose(exploration_rate, qvalues, states)
        self.action = int(actions[0])
        self.exploring = not self.human and self.qvalues is not None and self.action != self.qvalues.argmax()
        return actions

    def heat_map(self) -> HeatMap | None:
        """Return the influence of each pixel in the last state; None: it cannot be computed.

        The influence of a pixel is its maximum over the S screens. The map is computed on first use, because
        it costs more than acting.
        """
        if self._heat_map is None and self._saliency and self._state is not None:
            strengths = np.abs(self._saliency(self._state)[0]).max(axis=0)
            self._heat_map = strengths / (float(strengths.max()) or 1.0)
        return self._heat_map

    def view(
        self, score: float, lives: int, exploration_rate: float, heat_map: bool, begins: bool = False
    ) -> View:
        """Return the values to show with a frame before which no action was chosen (`begins`), or one was."""
        if begins:
            names, rate = self.environment.action_names, exploration_rate if self._has_agent else None
            return View(names, NO_ACTION, human=False, score=score, lives=lives, exploration_rate=rate)
        return View(
            action_names=self.environment.action_names,
            action=self.action,
            human=self.human,
            score=score,
            lives=lives,
            exploring=self.exploring,
            exploration_rate=exploration_rate if self._has_agent else None,
            qvalues=self.qvalues,
            heat_map=self.heat_map() if heat_map else None,
        )


class FrameFollower:
    """Shows each frame of a player's game with the score and the choice that belong to it.

    An agent values a state once its last frame was played. So a frame is held back until the next one is: the
    last frame of a step is then shown with its own Q-values and heat map, and with the action that follows.

    Attributes:
        scores: Raw points of each game that has ended.
    """

    def __init__(self, show: Callable[[Frame, float, bool], None]) -> None:
        """Follow a game that has not begun.

        Args:
            show: Shows a frame, given the points so far in it, and whether no action was chosen before it.
        """
        self.scores: list[float] = []
        self._show, self._running = show, Scores(np.zeros(1))
        self._score, self._steps, self._begins = 0.0, 0, True
        self._held: tuple[Frame, float, int] | None = None  # with its points, and its step if a game begins

    @property
    def score(self) -> float:
        """Points so far in the game."""
        return float(self._running.running[0])

    def watch(self, frame: Frame) -> None:
        """Show the frame before `frame`, which has just been played."""
        self.flush()
        self._score += 0.0 if self._begins else frame.reward  # a game begins with no points
        self._held = frame, self._score, self._steps if self._begins else -1

    def flush(self) -> None:
        """Show the frame that is held back."""
        if self._held:
            (frame, score, step), self._held = self._held, None
            self._show(frame, score, step == self._steps)

    def add(self, step: Step) -> None:
        """Add a step, whose frames `watch` has seen, to the score."""
        self.scores += self._running.add(step)
        self._score, self._begins = self.score, bool(step.resets[0])
        self._steps += 1


def _no_qvalues(states: States) -> QValues:
    """Return no Q-value for any of `states`: there is no agent."""
    return np.zeros((len(states), 0), np.float32)
