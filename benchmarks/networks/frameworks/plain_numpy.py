"""Plain numpy, a baseline without a framework. Its BLAS library computes the matrix products."""

import numpy as np

from networks.interface import Framework, QNetwork, UnsupportedError
from networks.layers import NumpyQNetwork
from networks.work import Weights


class Numpy(Framework):
    """The BLAS library reads the number of threads from the environment."""

    def __init__(self, device: str, threads: int) -> None:
        super().__init__(device, threads)
        if device != "cpu":
            raise UnsupportedError("runs on the CPU only")
        self.version = np.__version__

    def q_network(self, weights: Weights, target: Weights, datatype: str) -> QNetwork:
        if datatype != "float32":
            raise UnsupportedError(f"no {datatype}")
        return NumpyQNetwork(weights, target)
