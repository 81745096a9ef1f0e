"""Every sensible pair of settings learns and resumes; every other is refused with the reason."""

import itertools
from typing import Any

import numpy as np
import pytest

from simple_dqn import rules
from simple_dqn.config import BOOLEANS, Config
from simple_dqn.dqn import DeepQNetwork
from simple_dqn.errors import UserError
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
PAIRS = [one | other for one, other in itertools.combinations(CHOICES, 2) if not one.keys() & other.keys()]
REFUSED = {
    ("batch_norm", "layer_norm"): "exclude each other",
    ("double", "munchausen"): "exclude each other",
    ("double", "target_steps"): "needs a target network",
    ("munchausen", "c51"): "fixed atoms",
    ("c51", "mse"): "has its own loss",
    ("quantile", "mse"): "has its own loss",
}


def reason_against(pair: dict[str, Any]) -> str | None:
    words = {word for item in pair.items() for word in map(str, item)}
    return next((why for both, why in REFUSED.items() if set(both) <= words), None)


def make(seed: int, pair: dict[str, Any]) -> DeepQNetwork:
    settings = {**TINY, **pair}
    has_target = settings.pop("target_steps", 1) > 0
    like, section = NETWORKS[settings.get("network", "nature")], ResidualSection(2, blocks=1)
    impala = settings.get("network") == "impala"
    layers = (section, section) if impala else (Convolution(3, 5, 3), Convolution(4, 3, 1))
    spec = NetworkSpec((*layers, Dense(6)), like.biases, like.initializer)
    return make_network(seed, use_target_network=has_target, spec=spec, **settings)


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if reason_against(pair)], ids=str)
def test_settings_that_exclude_each_other_are_refused_with_the_reason(pair: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=reason_against(pair)) as error:
        rules.check(Config.from_flags(pair))
    # A boolean of earlier versions may be named by the choice that replaced it.
    named = [{f"--{name}", f"--{BOOLEANS.get(name, (name,))[0]}"} for name in pair]
    assert all(any(flag in str(error.value) for flag in flags) for flags in named)


def test_atoms_need_room() -> None:
    with pytest.raises(UserError, match="--v_min 3 is not below --v_max 2"):
        rules.check(Config.from_flags({"distributional": "c51", "v_min": 3.0, "v_max": 2.0}))


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if not reason_against(pair)], ids=str)
def test_every_other_pair_learns_and_resumes(pair: dict[str, Any]) -> None:
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
