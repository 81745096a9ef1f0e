"""The player that `play` and `record` have in common."""

from collections.abc import Callable
from pathlib import Path

from simple_dqn import random_streams
from simple_dqn.config import Config
from simple_dqn.environment import Environment
from simple_dqn.verbs.common import load_weights
from simple_dqn.watch.watched_player import WatchedNetwork, WatchedPlayer
from simple_dqn.wiring import make_network


def make_watched_player(
    config: Config, environment: Environment, saliency: bool, person: Callable[[], int | None] = lambda: None
) -> WatchedPlayer:
    """Return a player at `environment` by the network of the snapshot `config.run.load_weights`.

    Args:
        config: All settings; without a snapshot a person plays alone.
        environment: One game.
        saliency: Whether heat maps are wanted.
        person: Returns the action that a person wants; None: the agent chooses.

    Raises:
        UserError: The snapshot cannot be used, or is not for this game.
    """
    watched = None
    if config.run.load_weights:
        network = make_network(config, environment)
        load_weights(Path(config.run.load_weights), environment, network)
        watched = WatchedNetwork(network.predict, network.look_into().saliency if saliency else None)
    rng = random_streams.stream(config.seed, "test exploration")
    return WatchedPlayer(environment, watched, config.memory.history_length, rng, person)
