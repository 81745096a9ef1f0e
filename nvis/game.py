"""Plays one complete game and stores it; finds what activates a network's filters and choices in it."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from simple_dqn.agent import Player
from simple_dqn.types import Actions, QValues, Rewards, Screens, States

if TYPE_CHECKING:
    from simple_dqn.dqn import DeepQNetwork
    from simple_dqn.guided import ConvolutionalLayer, GuidedBackpropagation

BATCH = 32  # states per forward pass: the activations of all units take some MB
MOST_MOMENTS = 2000  # a longer game shows only every 2nd, 3rd, ... step


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


@dataclass(frozen=True)
class Peaks:
    """The state and the place of the strongest activation of each of N filters of a layer."""

    filters: NDArray[np.int64]  # [N], counted from 0
    activations: NDArray[np.float32]  # [N], after the rectifier
    times: NDArray[np.int64]  # [N], of the state
    rows: NDArray[np.int64]  # [N], of the unit
    columns: NDArray[np.int64]  # [N]

    def most_active(self, number: int) -> "Peaks":
        """Return the `number` most active filters, strongest first; fewer if fewer are active."""
        order = np.argsort(-self.activations, kind="stable")[:number]
        chosen = order[self.activations[order] > 0]
        return Peaks(*(getattr(self, field.name)[chosen] for field in fields(self)))


def find_peaks(game: PlayedGame, guided: "GuidedBackpropagation", layer: "ConvolutionalLayer") -> Peaks:
    """Return the strongest activation of each filter of `layer` in `game`; the first of equal ones.

    Only the strongest so far is kept: the activations for all states of a game would take gigabytes.
    """
    count = layer.filters
    peaks = Peaks(np.arange(count), np.full(count, -1, np.float32), *np.zeros((3, count), np.int64))
    for times in _batches(game.whole(), f"looking at {layer.name}"):
        # of each filter, all units in all states: [K, B * rows * columns]
        activations = guided.activations(game.states(times), layer.name).swapaxes(0, 1)
        flat = activations.reshape(count, -1)
        where = flat.argmax(axis=1)
        strongest = flat[peaks.filters, where]
        better = strongest > peaks.activations
        state, rows, columns = np.unravel_index(where, activations.shape[1:])
        peaks.activations[better] = strongest[better]
        for kept, new in ((peaks.times, times[state]), (peaks.rows, rows), (peaks.columns, columns)):
            kept[better] = new[better]
    return peaks


@dataclass(frozen=True)
class Moments:
    """The M steps of a game that the page shows."""

    times: NDArray[np.int64]  # [M], evenly apart
    apart: int  # steps between two of them
    qvalues: QValues  # float32 [M, A]
    saliency: NDArray[np.uint8]  # [M, H, W], of the action taken: percent of the moment's strongest pixel


def look_at_moments(game: PlayedGame, network: "DeepQNetwork", guided: "GuidedBackpropagation") -> Moments:
    """Return the Q-values and saliency of at most `MOST_MOMENTS` states of `game`."""
    apart = -(-len(game) // MOST_MOMENTS)
    shown, qvalues, saliency = np.arange(0, len(game), apart), [], []
    for times in _batches(shown, "looking at choices"):
        states = game.states(times)
        qvalues.append(network.predict(states))
        saliency.append(percent_of_strongest(guided.saliency(states, game.actions[times])))
    return Moments(shown, apart, np.concatenate(qvalues), np.concatenate(saliency))


def percent_of_strongest(gradients: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return the strength of each pixel in percent of its state's strongest, uint8 [B, H, W].

    The strength is the largest of the `gradients` float32 [B, S, H, W] over the S screens.
    """
    strengths: NDArray[np.float32] = np.abs(gradients).max(axis=1)
    strongest = strengths.max(axis=(1, 2), keepdims=True)
    return np.round(100 * strengths / np.where(strongest > 0, strongest, 1)).astype(np.uint8)


def _batches(times: Actions, description: str) -> Iterator[Actions]:
    """Yield `times`, int64 [B], in parts of at most `BATCH`, with a progress bar."""
    with _bar(description, len(times)) as progress:
        for batch in np.split(times, range(BATCH, len(times), BATCH)):
            yield batch
            progress.update(len(batch))


def _bar(description: str, total: int | None = None) -> "tqdm[NoReturn]":
    """Return a bar that counts steps up to `total` if standard error is a terminal."""
    return tqdm(desc=description, total=total, unit=" steps", leave=False, dynamic_ncols=True, disable=None)
