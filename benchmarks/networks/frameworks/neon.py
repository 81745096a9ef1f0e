"""Neon, simple_dqn's own framework of 2015: a row that says why it has no figures."""

import importlib.util

from networks.interface import Classifier, Framework, QNetwork, UnsupportedError
from networks.work import NetworkSpec, Weights

ABSENT = "not on the package registry, and its CPU backend needs numpy below 2"
PRESENT = "can be imported here, but nothing was written for it: where this was made it could not be had"


class Neon(Framework):
    """It refuses everything."""

    def __init__(self, device: str, threads: int) -> None:
        super().__init__(device, threads)
        raise UnsupportedError(PRESENT if importlib.util.find_spec("neon") else ABSENT)

    def classifier(self, spec: NetworkSpec, weights: Weights) -> Classifier:
        del spec, weights
        raise UnsupportedError(ABSENT)

    def q_network(self, spec: NetworkSpec, weights: Weights, target: Weights, datatype: str) -> QNetwork:
        del spec, weights, target, datatype
        raise UnsupportedError(ABSENT)
