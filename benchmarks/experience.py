"""Test data of the replay memory's benchmark, steps of noise and of real games, and a plain sampler."""

from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import make
from simple_dqn.random_streams import stream
from simple_dqn.replay import HostScreens, ReplayMemory
from simple_dqn.types import Mask, Step

SCREEN_SHAPE = (84, 84)
HISTORY = 4
GAME_LENGTH = 500  # steps; a life is lost half-way


def random_steps(games: int) -> list[Step]:
    """Return the steps of one episode of `games` parallel games whose screens are incompressible noise."""
    rng = np.random.default_rng(1)
    steps = []
    for t in range(GAME_LENGTH):
        start, over = np.full(games, t == 0), np.full(games, t == GAME_LENGTH - 1)
        steps.append(
            Step(
                screens=rng.integers(0, 256, (games, *SCREEN_SHAPE), np.uint8),
                actions=rng.integers(0, 6, games),
                rewards=rng.random(games, np.float32),
                terminals=over | (t == GAME_LENGTH // 2),
                truncations=np.zeros(games, np.bool_),
                resets=over,
                starts=start,
            )
        )
    return steps


def played_steps(game: str, count: int) -> list[Step]:
    """Return the first `count` steps of a random player of `game`."""
    rng = np.random.default_rng(1)
    with closing(
        make(EnvironmentConfig(game=game), [stream(0, "environment")], training=True)
    ) as environment:
        steps = [environment.reset()]
        while len(steps) < count:
            steps.append(environment.step(rng.integers(0, environment.actions, 1)))
    return steps


class LoopSampler:
    """Samples minibatches from a full memory of one game in a plain Python loop, for comparison."""

    def __init__(self, memory: ReplayMemory) -> None:
        assert isinstance(memory._screens, HostScreens)
        self.screens: NDArray[np.uint8] = memory._screens._screens[:, 0]  # a view: a copy may not fit
        self.starts: Mask = memory._ring.starts[:, 0]
        self.terminals: Mask = memory._ring.terminals[:, 0]
        self.rng = np.random.default_rng(2)

    def sample(self, batch_size: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        prestates = np.empty((batch_size, HISTORY, *SCREEN_SHAPE), np.uint8)
        poststates = np.empty_like(prestates)
        drawn = 0
        while drawn < batch_size:
            t = int(self.rng.integers(HISTORY, len(self.screens)))
            if self.starts[t - HISTORY + 1 : t + 1].any() or self.terminals[t - HISTORY : t].any():
                continue
            prestates[drawn] = self.screens[t - HISTORY : t]
            poststates[drawn] = self.screens[t - HISTORY + 1 : t + 1]
            drawn += 1
        return prestates, poststates
