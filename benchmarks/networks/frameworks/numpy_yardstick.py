"""Plain numpy: what one gets without a framework. The matrix products are its BLAS library's."""

import numpy as np

from networks.interface import Classifier, Framework, QNetwork, UnsupportedError
from networks.layers import NumpyClassifier, NumpyQNetwork
from networks.work import NetworkSpec, Weights


class Numpy(Framework):
    """Threads are those of the BLAS library, which reads its number from the environment."""

    def __init__(self, device: str, threads: int) -> None:
        super().__init__(device, threads)
        if device != "cpu":
            raise UnsupportedError("it computes on the CPU alone")
        self.version = np.__version__

    def classifier(self, spec: NetworkSpec, weights: Weights) -> Classifier:
        return NumpyClassifier(spec, weights)

    def q_network(self, spec: NetworkSpec, weights: Weights, target: Weights, datatype: str) -> QNetwork:
        if datatype != "float32":
            raise UnsupportedError(f"no {datatype}")
        return NumpyQNetwork(spec, weights, target)
