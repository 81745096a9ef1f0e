"""One game, played to its end and kept."""

from dataclasses import dataclass

import numpy as np

from nvis.progress import bar
from simple_dqn.player import Player
from simple_dqn.types import Actions, Rewards, Screens, States


@dataclass(frozen=True)
class PlayedGame:
    """The T states of a game in which the agent chose an action; screens are kept once, states made of them.

    Letters in shapes are those of `simple_dqn.types`.
    """

    history_length: int  # screens in a state, S
    action_names: tuple[str, ...]
    screens: Screens  # uint8 [T, H, W], the newest of each state
    actions: Actions  # int64 [T], taken in each state
    rewards: Rewards  # float32 [T], raw game points that the action was paid

    def __len__(self) -> int:
        """Return T."""
        return len(self.screens)

    def states(self, times: Actions) -> States:
        """Return the states at `times`, int64 [B]: uint8 [B, S, H, W], the caller's.

        Screens from before the game are zero, as the agent saw them.
        """
        which = times[:, np.newaxis] + np.arange(1 - self.history_length, 1)
        states: States = self.screens[which.clip(min=0)]
        states[which < 0] = 0
        return states

    def whole(self) -> Actions:
        """Return the times, int64 [B], whose states have no screen from before the game.

        Those at the start are no picture of the game: to a filter, three black screens and a bright one are
        a flash as it never comes again. A game shorter than a state has only its last one.
        """
        return np.arange(min(self.history_length, len(self)) - 1, len(self))


def play_game(player: Player, history_length: int, exploration_rate: float) -> PlayedGame:
    """Play until the first of `player`'s games is over, and return that game."""
    screens, actions, rewards = [], [], []
    step = player.start()
    with bar("playing") as progress:
        while not step.resets[0]:
            screens.append(step.screens[0].copy())
            step = player.step(exploration_rate)
            actions.append(step.actions[0])
            rewards.append(step.rewards[0])
            progress.update()
    names = player.environment.action_names
    return PlayedGame(history_length, names, np.stack(screens), np.array(actions), np.array(rewards))
