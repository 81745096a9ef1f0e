"""Every pair of settings that do not exclude each other learns and resumes."""

import itertools
from typing import Any

import numpy as np
import pytest

from simple_dqn import rules
from simple_dqn.config import Config
from simple_dqn.dqn import DeepQNetwork
from simple_dqn.networks import NETWORKS, Convolution, Dense, NetworkSpec, ResidualSection
from tests.network.updates import make_minibatch, make_network, train

TINY = {"distributional": "none", "atoms": 5, "quantiles": 3, "learning_rate": 0.01}
CHOICES: list[dict[str, Any]] = [
    {"network": "neon"}, {"network": "impala"}, {"batch_norm": True}, {"layer_norm": True},
    {"dueling": True}, {"double": True}, {"munchausen": True}, {"noisy": True}, {"distributional": "c51"},
    {"distributional": "quantile"}, {"loss": "mse"}, {"clip_error": 0.0}, {"optimizer": "adam"},
    {"optimizer": "adadelta", "learning_rate": 1.0}, {"datatype": "bfloat16"}, {"datatype": "float16"},
    {"target_steps": 0},
]  # fmt: skip
# Refused: see tests/test_flags.py.
EXCLUDE = (
    {"batch_norm", "layer_norm"}, {"double", "munchausen"}, {"double", "target_steps"},
    {"munchausen", "c51"}, {"c51", "mse"}, {"quantile", "mse"},
)  # fmt: skip
PAIRS = [
    one | other
    for one, other in itertools.combinations(CHOICES, 2)
    if not one.keys() & other.keys()
    and not any(names <= {*one, *one.values(), *other, *other.values()} for names in EXCLUDE)
]


def make(seed: int, pair: dict[str, Any]) -> DeepQNetwork:
    settings = {**TINY, **pair}
    has_target = settings.pop("target_steps", 1) > 0
    like, section = NETWORKS[settings.get("network", "nature")], ResidualSection(2, blocks=1)
    impala = settings.get("network") == "impala"
    layers = (section, section) if impala else (Convolution(3, 5, 3), Convolution(4, 3, 1))
    spec = NetworkSpec((*layers, Dense(6)), like.biases, like.initializer)
    return make_network(seed, use_target_network=has_target, spec=spec, **settings)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_every_pair_learns_and_resumes(pair: dict[str, Any]) -> None:
    rules.check(Config.from_flags(pair))
    network, resumed = (make(seed, pair) for seed in (0, 1))
    before = network.get_weights()
    for seed in range(3):
        train(network, make_minibatch(seed))
        train(resumed, make_minibatch(seed + 20))
    states = make_minibatch(9).prestates
    network.predict(states, explore=True)  # draws, if there is noise
    resumed.set_state(network.get_state())
    for each in (network, resumed):
        each.update(each.prepare(make_minibatch(5)))
    (outcome,), (other,) = (each.take_outcomes() for each in (network, resumed))
    assert outcome.loss == other.loss
    assert (outcome.errors >= 0).all()  # and none is NaN
    for explore in (False, True):
        qvalues = network.predict(states, explore=explore)
        assert np.isfinite(qvalues).all()
        np.testing.assert_array_equal(resumed.predict(states, explore=explore), qvalues)
    for name, values in network.get_weights().items():
        assert np.any(values != before[name]), f"{name} does not learn"
