"""The arrays that pass between the rooms, with their shapes and units.

Letters in shapes: `E` games side by side, `B` samples in a minibatch, `A` actions,
`S` screens in a state (`history_length`), `H` and `W` height and width of a screen in pixels,
`n` steps in a transition (`n_step`).
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Screens: TypeAlias = NDArray[np.uint8]  # [E, H, W], grey levels; a screen is a frame after preprocessing
States: TypeAlias = NDArray[np.uint8]  # [B, S, H, W], oldest screen first
DeviceStates: TypeAlias = Any  # the same on a GPU, in an array of the deep-learning framework's own
Actions: TypeAlias = NDArray[np.int64]  # [E] or [B], indices into the environment's action set
Rewards: TypeAlias = NDArray[np.float32]  # [E] or [B, n], raw game points
Factors: TypeAlias = NDArray[np.float32]  # [B]
Indices: TypeAlias = NDArray[np.int64]  # where experiences lie in the replay memory: row * E + game
Numbers: TypeAlias = NDArray[np.int64]  # [B], which experiences: how many were added before each
ExplorationRates: TypeAlias = NDArray[np.float64]  # [E], shares of random actions
Flags: TypeAlias = NDArray[np.bool_]  # [E] or [B]
QValues: TypeAlias = NDArray[np.float32]  # [B, A], discounted sum of clipped rewards

# The entry of an object in a checkpoint: `get_state` returns it, `set_state` restores the object from it.
# Nested dicts of arrays, numbers and strings, and nothing else, so that reading a checkpoint runs no code.
CheckpointState: TypeAlias = dict[str, Any]

# In place of an action: this row is context. Its screen, reward and terminal are part of the transitions of
# other rows, and it is none itself. So the experience of several actors lies one after the other in one
# memory. What an actor brings follows copies of its last S + n - 1 rows before that: the first copy is marked
# as starting a game, so that nothing reaches into what another actor brought, and the first S are context.
# The last n - 1 rows that it brings are context until the steps after them are known: they come again among
# the next copies, as rows like any other. So no transition is there twice, and none has too few steps.
CONTEXT = -1


@dataclass(frozen=True, slots=True)
class Step:
    """What E games answered to one action each.

    `screens` is the post-state: it was seen after `actions` were taken and `rewards` were paid.
    The arrays are the caller's to keep: an environment makes new ones for each step.

    A game that ended (`resets`) is started anew by the step that follows: that step ignores
    the game's action, pays nothing, and its screen is the new game's first (`starts`).
    """

    screens: Screens  # uint8 [E, H, W]
    actions: Actions  # int64 [E], the actions that were chosen; `CONTEXT`: none that is to be learnt from
    rewards: Rewards  # float32 [E], raw game points
    terminals: Flags  # bool [E], the episode ended: game over, or in training a lost life
    truncations: Flags  # bool [E], the game was cut off by a limit of time; never a terminal
    resets: Flags  # bool [E], the game ended, either way: the next screen starts a new game
    starts: Flags  # bool [E], this screen starts a game: no action led to it

    @staticmethod
    def start(screens: Screens) -> "Step":
        """Return the step that begins E new games with `screens` uint8 [E, H, W]."""
        games = len(screens)
        return Step(
            screens=screens,
            actions=np.zeros(games, np.int64),
            rewards=np.zeros(games, np.float32),
            terminals=np.zeros(games, np.bool_),
            truncations=np.zeros(games, np.bool_),
            resets=np.zeros(games, np.bool_),
            starts=np.ones(games, np.bool_),
        )


@dataclass(frozen=True, slots=True)
class Experience:
    """What T steps of E games left to be remembered, oldest first."""

    screens: NDArray[np.uint8]  # [T, E, H, W], seen after the actions
    actions: NDArray[np.int64]  # [T, E], or `CONTEXT`
    rewards: NDArray[np.float32]  # [T, E], raw game points
    terminals: NDArray[np.bool_]  # [T, E], the episode ended
    starts: NDArray[np.bool_]  # [T, E], the screen starts a game: no action led to it


@dataclass(frozen=True, slots=True)
class Minibatch:
    """B transitions of up to n steps, drawn from replay memory; valid until the next draw."""

    prestates: States | DeviceStates  # uint8 [B, S, H, W], may be strided views
    actions: Actions  # int64 [B], the first of each
    rewards: Rewards  # float32 [B, n], raw game points, step by step; 0 after the last
    poststates: States | DeviceStates  # uint8 [B, S, H, W], seen after the last step; may be strided views
    terminals: Flags  # bool [B], nothing follows the poststate
    discounts: Factors  # float32 [B], what the value of the poststate is multiplied by
    weights: Factors  # float32 [B], how much each counts in the update; 1 where all were drawn alike
    numbers: Numbers  # int64 [B], which transitions they are; `update_priorities` is told of them by these
