"""What `play` and `record` have in common: the seat that an agent plays from, and is looked at."""

from collections.abc import Callable
from pathlib import Path

from simple_dqn import random_streams
from simple_dqn.config import Config
from simple_dqn.environment import Environment
from simple_dqn.verbs.common import load_weights
from simple_dqn.watch.mind import Mind, Seat
from simple_dqn.wiring import make_network


def take_seat(
    config: Config, environment: Environment, looks: bool, person: Callable[[], int | None] = lambda: None
) -> Seat:
    """Return a seat at `environment` for the agent of the snapshot `config.run.load_weights`.

    Args:
        config: All settings; without a snapshot the seat is left to the person.
        environment: One game.
        looks: Whether it is to be known where the agent looks.
        person: Returns the action that a person wants, or None to leave it to the agent.

    Raises:
        UserError: The snapshot cannot be used, or is not for this game.
    """
    mind = None
    if config.run.load_weights:
        network = make_network(config, environment)
        load_weights(Path(config.run.load_weights), environment, network)
        mind = Mind(network.predict_to_play, network.look_into().saliency if looks else None)
    rng = random_streams.stream(config.seed, "test exploration")
    return Seat(environment, mind, config.memory.history_length, rng, person)
