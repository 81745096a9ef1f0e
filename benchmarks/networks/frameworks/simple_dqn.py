"""This project's `DeepQNetwork` with Adam, as in training."""

import numpy as np
import torch

from networks.interface import Framework, QNetwork, UnsupportedError
from networks.work import ACTIONS, ADAM_EPSILON, ADAM_RATE, STATE_SHAPE, Weights
from simple_dqn import __version__
from simple_dqn.config import BackendConfig, NetworkConfig
from simple_dqn.dqn import DeepQNetwork
from simple_dqn.networks import NATURE
from simple_dqn.types import Minibatch

CONFIG = NetworkConfig(optimizer="adam", learning_rate=ADAM_RATE, adam_epsilon=ADAM_EPSILON)


class OwnNetwork(DeepQNetwork):
    """`DeepQNetwork` with an update in one call."""

    def train(self, minibatch: Minibatch) -> float:
        """Make one update, and return its loss."""
        self.update(self.prepare(minibatch))
        return self.take_outcomes()[-1].loss


class SimpleDqn(Framework):
    def __init__(self, device: str, threads: int) -> None:
        super().__init__(device, threads)
        if device == "gpu" and not torch.cuda.is_available():
            raise UnsupportedError("this build of PyTorch finds no GPU")
        self.version = f"{__version__} on torch {torch.__version__}"

    def q_network(self, weights: Weights, target: Weights, datatype: str) -> QNetwork:
        backend = BackendConfig(self.device, 0, datatype, self.threads)
        history, screen, rng = STATE_SHAPE[0], STATE_SHAPE[1:], np.random.default_rng(0)
        network = OwnNetwork(ACTIONS, history, screen, CONFIG, backend, rng, spec=NATURE)
        network.set_weights(_named(target))
        network.update_target_network()
        network.set_weights(_named(weights))
        return network


def _named(weights: Weights) -> Weights:
    """Return `weights` under the names that `DeepQNetwork` uses."""
    places = {"conv": "hidden.conv", "dense": "hidden.dense1", "output": "output"}
    result = {}
    for name, values in weights.items():
        start = next(start for start in places if name.startswith(start))
        result[places[start] + name.removeprefix(start)] = values
    return result
