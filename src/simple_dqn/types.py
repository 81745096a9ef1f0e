"""The arrays that the parts of the program exchange: their shapes and units.

Letters in shapes: `E` games side by side, `B` samples in a minibatch, `A` actions,
`S` screens in a state (`history_length`), `H` and `W` height and width of a screen in pixels,
`n` steps in a transition (`n_step`), `T` rows of the replay memory.

An observation is a screen, uint8 [H, W], or what an environment observes itself: numbers float32 [D], or K
channels of a small image, float32 [K, H, W]. Wherever a shape has [H, W], it may be [D] or [K, H, W] instead.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

Screens: TypeAlias = NDArray[Any]  # [E, H, W], gray levels; a screen is a frame after preprocessing
States: TypeAlias = NDArray[Any]  # [B, S, H, W], oldest screen first
DeviceStates: TypeAlias = Any  # screens or states on a GPU, in an array of the deep-learning framework
Actions: TypeAlias = NDArray[np.int64]  # [E] or [B], indices into the environment's action set
Rewards: TypeAlias = NDArray[np.float32]  # [E], [B, n] or [T, E], raw game points
Floats: TypeAlias = NDArray[np.float32]  # [B], or [T, E] of T steps
Indices: TypeAlias = NDArray[np.int64]  # positions of experiences in the replay memory: row * E + game
Ids: TypeAlias = NDArray[np.int64]  # [B], how many experiences were added before each experience
ExplorationRates: TypeAlias = NDArray[np.float64]  # [E], ε
Mask: TypeAlias = NDArray[np.bool_]  # [E], [B] or [T, E]
QValues: TypeAlias = NDArray[np.float32]  # [B, A], discounted sum of clipped rewards

# An object's entry in a checkpoint: `get_state` returns it, and `set_state` restores the object from it. It
# consists only of nested dicts of arrays, numbers and strings, so that reading a checkpoint runs no code.
CheckpointState: TypeAlias = dict[str, Any]

# The action of a context row, which is part of other rows' transitions but is not a transition itself.
# Context rows separate the trajectories of a cluster's actors, which are stored one after another. Before
# each trajectory its actor's last S + n - 1 rows are repeated. The first of them is marked as a game's start,
# so that no state reaches into another actor's rows, and the first S are context. The last n - 1 rows of a
# trajectory are context, too: the actor's next trajectory repeats them as ordinary rows, followed by the
# steps that complete them. So each transition is stored exactly once, with all its steps.
CONTEXT = -1


def observation_dtype(shape: tuple[int, ...]) -> np.dtype[Any]:
    """Return the datatype of observations of `shape`: uint8 of a screen (H, W), else float32."""
    return np.dtype(np.uint8 if len(shape) == 2 else np.float32)


def on_host(screens: Screens | States | DeviceStates) -> Screens:
    """Return `screens` in the host's memory: a copy if they are on a device."""
    return screens if isinstance(screens, np.ndarray) else cast(Screens, screens.cpu().numpy())


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one action in each of E games.

    `screens` and `rewards` result from `actions`. The receiver may keep the arrays: an environment creates
    new ones for each step.

    The step after a game's end (`resets`) restarts the game: it ignores the action, has no reward, and its
    screen is the first of the new game (`starts`).
    """

    screens: Screens | DeviceStates  # uint8 [E, H, W]
    actions: Actions  # int64 [E], the chosen actions, or `CONTEXT`
    rewards: Rewards  # float32 [E], raw game points
    terminals: Mask  # bool [E], the episode ended: game over, or in training, by default, a lost life
    truncations: Mask  # bool [E], a time limit ended the game; never together with a terminal
    resets: Mask  # bool [E], the game ended in either way: the next screen starts a new game
    starts: Mask  # bool [E], this screen starts a game: no action led to it


class Experience(NamedTuple):
    """T steps of E games as the replay memory stores them, oldest first."""

    screens: Screens  # [T, E, H, W], observed after the actions
    actions: NDArray[np.int64]  # [T, E], or `CONTEXT`
    rewards: NDArray[np.float32]  # [T, E], raw game points
    terminals: NDArray[np.bool_]  # [T, E], the episode ended
    starts: NDArray[np.bool_]  # [T, E], the screen starts a game: no action led to it


@dataclass(frozen=True, slots=True)
class Minibatch:
    """B transitions of up to n steps, sampled from the replay memory; valid until the next `sample`."""

    prestates: States | DeviceStates  # s, uint8 [B, S, H, W]; may be a strided view
    actions: Actions  # int64 [B], the first action of each
    rewards: Rewards  # float32 [B, n], raw game points of each step; 0 after the last step
    poststates: States | DeviceStates  # s', uint8 [B, S, H, W], observed after the last step; may be a view
    terminals: Mask  # bool [B], the episode ended with the last step
    discounts: Floats  # float32 [B], γ^k after k steps, the factor of the poststate's value
    weights: Floats  # float32 [B], weights in the loss; 1 without prioritized sampling
    numbers: Ids  # int64 [B], the transitions' numbers in the replay memory, for `update_priorities`
