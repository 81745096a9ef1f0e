import numpy as np
import pytest

from nvis.game import PlayedGame, play_game
from simple_dqn.agent import Player
from simple_dqn.config import BackendConfig, EnvironmentConfig, NetworkConfig
from simple_dqn.dqn import DeepQNetwork
from simple_dqn.environment import make

HISTORY_LENGTH = 3
SCREEN_SHAPE = (40, 36)


@pytest.fixture(scope="session")
def network() -> DeepQNetwork:
    """A network that has learned nothing: its filters are random, and so all different."""
    backend, rng = BackendConfig(backend="cpu", threads=1), np.random.default_rng(3)
    return DeepQNetwork(3, HISTORY_LENGTH, SCREEN_SHAPE, NetworkConfig(), backend, rng)


@pytest.fixture(scope="session")
def catch(network: DeepQNetwork) -> PlayedGame:
    """A game of Catch."""
    height, width = SCREEN_SHAPE
    config = EnvironmentConfig(environment="catch", screen_height=height, screen_width=width)
    environment = make(config, [np.random.default_rng(0)], training=False)
    player = Player(environment, network.predict, HISTORY_LENGTH, np.random.default_rng(1))
    return play_game(player, HISTORY_LENGTH, exploration_rate=0.5)


@pytest.fixture(scope="session")
def noise() -> PlayedGame:
    """A game with more states than are looked at together, none like another."""
    rng = np.random.default_rng(5)
    return PlayedGame(
        HISTORY_LENGTH,
        ("LEFT", "NOOP", "RIGHT"),
        rng.integers(0, 256, (75, *SCREEN_SHAPE), dtype=np.uint8),
        rng.integers(0, 3, 75),
        rng.integers(-1, 2, 75).astype(np.float32),
    )
