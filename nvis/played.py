"""Plays one complete game and stores it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from tqdm import tqdm

from simple_dqn.agent import Player
from simple_dqn.types import Actions, Rewards, Screens, States

BATCH = 32  # states per forward pass: the activations of all units take some MB


@dataclass(frozen=True)
class PlayedGame:
    """The T states of a game in which the agent chose an action; each screen is stored once.

    Letters in shapes are those of `simple_dqn.types`.
    """

    history_length: int  # screens in a state, S
    action_names: tuple[str, ...]
    screens: Screens  # uint8 [T, H, W], the newest of each state
    actions: Actions  # int64 [T], the action taken in each state
    rewards: Rewards  # float32 [T], raw game points for the action

    def __len__(self) -> int:
        """Return T."""
        return len(self.screens)

    def states(self, times: Actions) -> States:
        """Return the states at `times`, int64 [B], as a new array uint8 [B, S, H, W].

        Screens from before the game are zero, as they were for the agent.
        """
        which = times[:, np.newaxis] + np.arange(1 - self.history_length, 1)
        states: States = self.screens[which.clip(min=0)]
        states[which < 0] = 0
        return states

    def whole(self) -> Actions:
        """Return the times, int64 [B], of the states that contain no screen from before the game.

        In the other states the change from black screens to a bright one, which occurs only there, would
        activate many filters most strongly. For a game shorter than a state, return that of the last state.
        """
        return np.arange(min(self.history_length, len(self)) - 1, len(self))


def play_game(player: Player, history_length: int, exploration_rate: float) -> PlayedGame:
    """Play the first game of `player` to its end, and return it."""
    screens, actions, rewards = [], [], []
    step = player.start()
    with _bar("playing") as progress:
        while not step.resets[0]:
            screens.append(step.screens[0].copy())
            step = player.step(exploration_rate)
            actions.append(step.actions[0])
            rewards.append(step.rewards[0])
            progress.update()
    names = player.environment.action_names
    return PlayedGame(history_length, names, np.stack(screens), np.array(actions), np.array(rewards))


def batches(times: Actions, description: str) -> Iterator[Actions]:
    """Yield `times`, int64 [B], in parts of at most `BATCH`, with a progress bar."""
    with _bar(description, len(times)) as progress:
        for first in range(0, len(times), BATCH):
            batch = times[first : first + BATCH]
            yield batch
            progress.update(len(batch))


def _bar(description: str, total: int | None = None) -> "tqdm[NoReturn]":
    """Return a bar that counts steps up to `total` if standard error is a terminal."""
    return tqdm(desc=description, total=total, unit=" steps", leave=False, dynamic_ncols=True, disable=None)
