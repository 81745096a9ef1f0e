"""Plain numpy, a baseline without a framework. Its BLAS library computes the matrix products."""

import numpy as np

from networks.interface import Classifier, Framework, QNetwork, UnsupportedError
from networks.layers import NumpyClassifier, NumpyQNetwork
from networks.work import NetworkSpec, Weights


class Numpy(Framework):
    """The BLAS library reads the number of threads from the environment."""

    def __init__(self, device: str, threads: int) -> None:
        super().__init__(device, threads)
        if device != "cpu":
            raise UnsupportedError("runs on the CPU only")
        self.version = np.__version__

    def classifier(self, spec: NetworkSpec, weights: Weights) -> Classifier:
        return NumpyClassifier(spec, weights)

    def q_network(self, spec: NetworkSpec, weights: Weights, target: Weights, datatype: str) -> QNetwork:
        if datatype != "float32":
            raise UnsupportedError(f"no {datatype}")
        return NumpyQNetwork(spec, weights, target)
