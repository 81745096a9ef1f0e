"""Every pair of settings that do not exclude each other learns, and goes on from its state."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from simple_dqn import rules
from simple_dqn.config import Config
from simple_dqn.dqn import DeepQNetwork
from simple_dqn.networks import NETWORKS, Convolution, Dense, NetworkSpec, ResidualSection
from simple_dqn.optimizers import AVERAGE_EVERY
from tests.network.updates import assert_same, learn, make_minibatch, make_network

TINY = {"distributional": "none", "atoms": 5, "quantiles": 3, "learning_rate": 0.01}
CHOICES: list[dict[str, Any]] = [
    {"network": "neon"}, {"network": "impala"}, {"batch_norm": True}, {"layer_norm": True},
    {"dueling": True}, {"double": True}, {"munchausen": True}, {"noisy": True}, {"distributional": "c51"},
    {"distributional": "quantile"}, {"distributional": "iqn"}, {"loss": "mse"}, {"clip_error": 0.0},
    {"optimizer": "adam"}, {"optimizer": "adadelta", "learning_rate": 1.0}, {"datatype": "bfloat16"},
    {"datatype": "float16"}, {"target_steps": 0}, {"average_updates": 2 * AVERAGE_EVERY},
    {"learning_rate_decay_updates": 10}, {"optimizer": "radam"},
]  # fmt: skip
# Refused: see tests/test_flags.py.
EXCLUDE = (
    {"batch_norm", "layer_norm"}, {"double", "munchausen"}, {"double", "target_steps"},
    {"munchausen", "c51"}, {"c51", "mse"}, {"quantile", "mse"}, {"iqn", "mse"},
)  # fmt: skip


def go_together(one: dict[str, Any], other: dict[str, Any]) -> bool:
    words = {*one, *one.values(), *other, *other.values()}
    return not one.keys() & other.keys() and not any(names <= words for names in EXCLUDE)


def combinations() -> Iterator[dict[str, Any]]:
    """Yield settings of as many choices as go together, until every pair was among them."""
    left = [pair for pair in itertools.combinations(CHOICES, 2) if go_together(*pair)]
    while left:
        chosen = list(left[0])
        for one in itertools.chain(*left):
            if all(go_together(one, other) for other in chosen):
                chosen.append(one)
        left = [pair for pair in left if not all(one in chosen for one in pair)]
        yield {name: value for one in chosen for name, value in one.items()}


def make(seed: int, chosen: dict[str, Any]) -> DeepQNetwork:
    settings = {**TINY, **chosen}
    has_target = settings.pop("target_steps", 1) > 0
    like, section = NETWORKS[settings.get("network", "nature")], ResidualSection(2, blocks=1)
    impala = settings.get("network") == "impala"
    layers = (section, section) if impala else (Convolution(3, 5, 3), Convolution(4, 3, 1))
    spec = NetworkSpec((*layers, Dense(6)), like.biases, like.initializer)
    return make_network(seed, use_target_network=has_target, spec=spec, **settings)


@pytest.mark.parametrize("settings", list(combinations()), ids=str)
def test_every_pair_learns_and_goes_on_from_its_state(settings: dict[str, Any]) -> None:
    rules.check(Config.from_flags(settings))
    whole, resumed = (make(seed, settings) for seed in (0, 1))
    fresh, states = whole.get_state(), make_minibatch(9).prestates
    losses = learn(whole, range(AVERAGE_EVERY + 1))
    whole.predict(states, explore=True)  # draws, if there is noise
    halfway = whole.get_state()
    learn(resumed, range(90, 92))  # these must not matter
    resumed.set_state(halfway)
    assert_same(resumed.get_state(), halfway)
    seeds = range(AVERAGE_EVERY + 1, 2 * AVERAGE_EVERY + 2)
    assert learn(resumed, seeds) == learn(whole, seeds)
    assert_same(resumed.get_state(), whole.get_state())
    for how in ({}, {"explore": True}, {"average": True}):
        qvalues = whole.predict(states, **how)
        assert np.isfinite(qvalues).all()
        np.testing.assert_array_equal(resumed.predict(states, **how), qvalues)
    for name, values in whole.get_weights().items():
        assert np.any(values != fresh["online"][name]), f"{name} does not learn"
    resumed.set_state(fresh)  # of before the first update: it was a copy, and undoes all of them
    assert_same(resumed.get_state(), fresh)
    assert learn(resumed, range(AVERAGE_EVERY + 1)) == losses
