from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.types import Minibatch


def train(network: DeepQNetwork, minibatch: Minibatch) -> float:
    """Make one update of `network`, and return its loss."""
    network.update(network.prepare(minibatch))
    return take_losses(network)[-1]


def take_losses(network: DeepQNetwork) -> list[float]:
    """Return the losses of the updates since the last call."""
    return [outcome.loss for outcome in network.take_outcomes()]
