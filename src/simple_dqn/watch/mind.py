"""What an agent thinks of the state that it sees, and a player who can be looked into."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from simple_dqn.environment import Environment
from simple_dqn.ledger import Ledger
from simple_dqn.player import Player
from simple_dqn.types import Actions, ExplorationRates, QValues, States

HeatMap: TypeAlias = NDArray[np.float32]  # [H, W], from 0 (of no matter) to 1


class Mind:
    """What a network made of the last state that one game showed it.

    Attributes:
        states: That state, uint8 [1, S, H, W]; None before the first.
        qvalues: The values of the actions in it, float32 [A]; None before the first.
    """

    def __init__(
        self,
        predict: Callable[[States], QValues],
        saliency: Callable[[States], NDArray[np.float32]] | None = None,
    ) -> None:
        """Look into a network.

        Args:
            predict: From states uint8 [B, S, H, W] to Q-values float32 [B, A].
            saliency: From states to how strongly each of their pixels speaks for the highest
                Q-value, float32 [B, S, H, W]; None: it is not known.
        """
        self.states: States | None = None
        self.qvalues: NDArray[np.float32] | None = None
        self._predict = predict
        self._saliency = saliency
        self._heat_map: HeatMap | None = None

    def think(self, states: States) -> QValues:
        """Return the Q-values, float32 [1, A], of `states` uint8 [1, S, H, W], and keep both."""
        self.states = states.copy()
        self._heat_map = None
        qvalues = self._predict(states)
        self.qvalues = qvalues[0]
        return qvalues

    def heat_map(self) -> HeatMap | None:
        """Return where the network looked in the last state; None: it is not known.

        Each pixel counts as strongly as in that of the state's screens where it matters most. It is
        worked out when first asked for, since it costs more than to act.
        """
        if self._heat_map is None and self._saliency and self.states is not None:
            strengths = np.abs(self._saliency(self.states)[0]).max(axis=0)
            highest = float(strengths.max())
            self._heat_map = strengths / highest if highest > 0 else strengths
        return self._heat_map


class Seat(Player):
    """A player of one game whose thoughts are kept, and in whose place a person can choose.

    The person acts when the agent would: once in a step, which is `frame_skip` frames. So what a
    person did is experience like any other.

    Attributes:
        mind: What the agent thinks, whoever plays; None: a person plays alone.
        action: The action chosen last, an index into the environment's.
        exploring: Whether the agent chose it at random, and not as its best.
        human: Whether a person chose it.
    """

    action = 0
    exploring = False
    human = False

    def __init__(
        self,
        environment: Environment,
        mind: Mind | None,
        history_length: int,
        rng: np.random.Generator,
        person: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Take the seat.

        Args:
            environment: One game.
            mind: Who chooses while no person does; None: doing nothing is the choice then.
            history_length: Screens in a state, S.
            rng: What decides when the agent explores, and how.
            person: Returns the action that the person wants, or None to leave it to the agent.
        """
        super().__init__(environment, self._recall, history_length, rng, Ledger())
        self.mind = mind
        self._person = person

    def act(self, states: States, exploration_rate: float | ExplorationRates) -> Actions:
        """Return the action, int64 [1], that the person or the agent chooses in `states`."""
        if self.mind:
            self.mind.think(states)
        wanted = self._person()
        self.human = wanted is not None
        if wanted is not None or self.mind is None:
            actions = np.array([wanted or 0])
        else:
            actions = super().act(states, exploration_rate)
        self.action = int(actions[0])
        self.exploring = not self.human and self.action != self._best()
        return actions

    def _recall(self, _states: States) -> QValues:
        """Return what was thought of the current state, float32 [1, A]; it need not be thought twice."""
        assert self.mind is not None
        assert self.mind.qvalues is not None
        return self.mind.qvalues[np.newaxis]

    def _best(self) -> int:
        """Return the action that the agent thinks best; the one taken where there is no agent."""
        if self.mind is None or self.mind.qvalues is None:
            return self.action
        return int(self.mind.qvalues.argmax())
