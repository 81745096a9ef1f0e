"""A player that shows its Q-values and heat map, and lets a person act in its place."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from simple_dqn.agent import Player
from simple_dqn.environment import Environment
from simple_dqn.types import Actions, ExplorationRates, QValues, States

HeatMap: TypeAlias = NDArray[np.float32]  # [H, W], from 0 (no influence) to 1


@dataclass(frozen=True)
class View:
    """The values that are shown beside the picture of a frame."""

    action_names: tuple[str, ...]  # A of them
    action: int  # index of the action being taken; -1: none yet
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
        action: The last action chosen, an index into the environment's.
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
        self.action, self.exploring, self.human = 0, False, False
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

    def view(self, score: float, lives: int, exploration_rate: float, heat_map: bool) -> View:
        """Return the values to show with a frame of the last action's step."""
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


def _no_qvalues(states: States) -> QValues:
    """Return no Q-value for any of `states`: there is no agent."""
    return np.zeros((len(states), 0), np.float32)
