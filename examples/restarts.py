"""Restarts: points that were lost are begun again from shortly before (Tavakoli et al. 2018).

./modified.sh examples/restarts.py resume snapshots/pong_10.pkl

An agent that plays well hardly meets what it loses by, and learns nothing from doing the same there again.
So lost points are begun again, most often those that it loses most often, and a share of them with a move
that is held for a while, to come where it would not go (Dabney et al. 2020). The moves are Pong's. What
was lost is not in the checkpoint: a training that is resumed collects it anew. Not with --processes.
"""

import math
import os
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from simple_dqn import wiring
from simple_dqn.environment import Screen, ale
from simple_dqn.environment.interface import Outcome
from simple_dqn.errors import UserError
from simple_dqn.main import console
from simple_dqn.player import Player
from simple_dqn.types import Actions, ExplorationRates, State, States


def setting(name: str, default: float, least: float, most: float) -> float:
    """Return the number that the environment has by this name.

    Raises:
        UserError: It is none, or out of bounds.
    """
    word = os.environ.get(name, default)
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise UserError(f"{name}={word} is not a number from {least} to {most}: give one, or unset {name}")
    return value


SHALLOWEST, EVERY = 8, 2  # steps before the loss: the latest beginning, and how far apart two are
DEEPEST = int(setting("DEEPEST", 32, SHALLOWEST + EVERY, 1000))  # the same: the earliest beginning
SHARE = setting("SHARE", 0.4, 0, 1)  # of all points, those after which a lost one is begun again
HELD = setting("HELD", 0, 0, 1)  # of these, those in which a move is held
LONGER = 8  # steps: who is not lost by then is not lost
MOVES = (2, 3)  # RIGHT and LEFT, which are up and down
STAY = 0  # NOOP


@dataclass
class Loss:
    """A point that was lost."""

    beginnings: list[tuple[State, int]]  # the game, and the action that was done; EVERY steps apart
    likely: float = 1.0  # how often it is lost again, of late


LOSSES: deque[Loss] = deque(maxlen=2000)  # the latest, of all games
FEWEST = 20  # losses, before one is begun again


class Restarting(ale.AtariGame):
    """A game of training in which lost points are begun again."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.plan: deque[int | None] = deque()  # what to do in the next steps; None: what is best
        self._past: deque[tuple[State, int]] = deque(maxlen=DEEPEST // EVERY)
        self._steps = self._left = 0
        self._again: Loss | None = None  # what is played again
        self._by_plan = False  # whether by a plan
        self._rng = np.random.default_rng(int(self._random.integers(ale.SEEDS)))

    def start(self, screen: Screen) -> None:
        """Start a new game, or go back to before a loss."""
        self._past.clear()
        if self._again is None:
            super().start(screen)
        else:
            self._go_back(self._again, screen)

    def _go_back(self, loss: Loss, screen: Screen) -> None:
        which = int(self._rng.integers(len(loss.beginnings)))
        self._left = SHALLOWEST + EVERY * (len(loss.beginnings) - which) + LONGER
        state, action = loss.beginnings[which]
        self.set_state(state)
        super().act(action, screen)
        self._by_plan = self._rng.random() < HELD
        if self._by_plan:
            self.plan.extend([None] * int(self._rng.integers(8)))
            self.plan.extend([int(self._rng.choice(MOVES))] * int(self._rng.integers(13)))
            self.plan.extend([STAY] * (30 if self._rng.random() < 0.6 else 0))

    def act(self, action: int, screen: Screen) -> Outcome:
        """Play on; where a point ends, or was not lost this time, perhaps another is begun again."""
        if self._training and self._steps % EVERY == 0:
            self._past.append((self.get_state(), action))
        self._steps += 1
        self._left -= 1
        outcome = super().act(action, screen)
        averted = self._again is not None and self._left <= 0
        if not (self._training and (outcome.reward or outcome.reset or averted)):
            return outcome
        self._note(lost=outcome.reward < 0)
        if outcome.reset or len(LOSSES) <= FEWEST or self._rng.random() >= SHARE:
            return outcome
        likely = np.array([0.1 + loss.likely for loss in LOSSES])
        self._again = LOSSES[int(self._rng.choice(len(likely), p=likely / likely.sum()))]
        return outcome._replace(truncation=not outcome.terminal, reset=True)

    def _note(self, lost: bool) -> None:
        """Remember how the point ended, unless it was played by a plan."""
        if not self._by_plan:
            if self._again:
                self._again.likely += 0.3 * (lost - self._again.likely)
            if lost and len(self._past) == self._past.maxlen:
                LOSSES.append(Loss(list(self._past)[: -(SHALLOWEST // EVERY)]))
        self._again, self._by_plan = None, False
        self.plan.clear()
        self._past.clear()


class Planning(Player):
    """A player who does what a game's plan says, and else what is best."""

    def act(self, states: States, exploration_rate: float | ExplorationRates) -> Actions:
        """Return an action for each of `states`; see `Player.act`."""
        actions = super().act(states, exploration_rate)
        for number, game in enumerate(getattr(self.environment, "each_game", ())):
            if isinstance(game, Restarting) and game.plan:
                planned = game.plan.popleft()
                actions[number] = actions[number] if planned is None else planned
        return actions


if __name__ == "__main__":
    ale.AtariGame = Restarting  # type: ignore[assignment, misc]
    wiring.Player = Planning  # type: ignore[attr-defined]
    console()
