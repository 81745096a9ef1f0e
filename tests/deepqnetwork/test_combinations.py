"""Every sensible pair of settings learns and resumes; every other is refused with the reason."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from simple_dqn import rules
from simple_dqn.config import Config
from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.deepqnetwork.networks import NETWORKS, Convolution, Dense, NetworkSpec, ResidualSection
from simple_dqn.errors import UserError
from simple_dqn.types import Minibatch
from tests.deepqnetwork.updates import take_losses, train

MakeNetwork = Callable[..., DeepQNetwork]
MakeMinibatch = Callable[..., Minibatch]

TINY = {"distributional": "none", "atoms": 5, "quantiles": 3, "learning_rate": 0.01}
CHOICES: list[dict[str, Any]] = [
    {"network": "neon"},
    {"network": "impala"},
    {"batch_norm": True},
    {"layer_norm": True},
    {"dueling": True},
    {"double": True},
    {"munchausen": True},
    {"noisy": True},
    {"distributional": "c51"},
    {"distributional": "quantile"},
    {"loss": "mse"},
    {"clip_error": 0.0},
    {"optimizer": "adam"},
    {"optimizer": "adadelta", "learning_rate": 1.0},
    {"datatype": "bfloat16"},
    {"datatype": "float16"},
    {"target_steps": 0},
]
PAIRS = [one | other for one, other in itertools.combinations(CHOICES, 2) if not one.keys() & other.keys()]
REFUSED = {
    ("batch_norm", "layer_norm"): "both normalise",
    ("double", "munchausen"): "averages over all",
    ("double", "target_steps"): "needs a target network",
    ("munchausen", "c51"): "fixed atoms",
    ("c51", "mse"): "has its own loss",
    ("quantile", "mse"): "has its own loss",
}


def words(pair: dict[str, Any]) -> set[str]:
    return {word for item in pair.items() for word in map(str, item)}


def reason_against(pair: dict[str, Any]) -> str | None:
    return next((why for both, why in REFUSED.items() if set(both) <= words(pair)), None)


def specs(network: str) -> NetworkSpec:
    """Return a network like the one that is called so, but tiny."""
    like, section = NETWORKS[network], ResidualSection(2, blocks=1)
    layers = (section, section) if network == "impala" else (Convolution(3, 5, 3), Convolution(4, 3, 1))
    return NetworkSpec((*layers, Dense(6)), like.biases, like.initializer)


def make(make_network: MakeNetwork, seed: int, pair: dict[str, Any]) -> DeepQNetwork:
    settings = {**TINY, **pair}
    has_target = settings.pop("target_steps", 1) > 0
    spec = specs(settings.get("network", "nature"))
    return make_network(seed=seed, use_target_network=has_target, spec=spec, **settings)


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if reason_against(pair)], ids=str)
def test_what_excludes_each_other_is_refused_with_the_reason(pair: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=reason_against(pair)) as error:
        rules.check(Config.from_flags(pair))
    assert "\n" not in str(error.value)
    assert sum(f"--{name}" in str(error.value) for name in pair) == 2


def test_atoms_need_room() -> None:
    with pytest.raises(UserError, match="--v_min 3 is not below --v_max 2"):
        rules.check(Config.from_flags({"distributional": "c51", "v_min": 3.0, "v_max": 2.0}))
    rules.check(Config.from_flags({"v_min": 3.0, "v_max": 2.0}))


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if not reason_against(pair)], ids=str)
def test_every_other_pair_learns_and_resumes(
    pair: dict[str, Any], make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    rules.check(Config.from_flags(pair))
    network, resumed = (make(make_network, seed, pair) for seed in (0, 1))
    before = network.get_weights()
    for seed in range(3):
        train(network, make_minibatch(seed))
        train(resumed, make_minibatch(seed + 20))
    states = make_minibatch(9).prestates
    network.predict(states, explore=True)  # draws, if there is noise
    resumed.set_state(network.get_state())
    assert train(resumed, make_minibatch(5)) == train(network, make_minibatch(5))
    for explore in (False, True):
        qvalues = network.predict(states, explore=explore)
        assert qvalues.shape == (8, 5)
        assert np.isfinite(qvalues).all()
        np.testing.assert_array_equal(resumed.predict(states, explore=explore), qvalues)
    network.update(network.prepare(make_minibatch(6)))
    (outcome,) = network.take_outcomes()
    assert outcome.errors.shape == (8,)
    assert np.isfinite(outcome.errors).all()
    assert (outcome.errors >= 0).all()
    after = network.get_weights()
    still = {name for name, values in after.items() if np.array_equal(values, before[name])}
    assert not still, "it does not learn"


def test_weights_scale_what_a_transition_counts(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    weighted, alone = make_network(optimizer="adam"), make_network(optimizer="adam")
    batch = make_minibatch(0)
    batch.weights[:] = [0, 0, 2, 0, 0, 0, 0, 0]
    arrays = {name: getattr(make_minibatch(0), name) for name in Minibatch.__slots__ if name != "returns"}
    single = Minibatch(**{name: array[2:3] for name, array in arrays.items()})
    assert train(weighted, batch) == pytest.approx(train(alone, single) / 4, rel=1e-5)
    slots = [network.get_state()["training"]["slots"] for network in (weighted, alone)]
    for name in slots[0]:
        np.testing.assert_allclose(slots[0][name]["exp_avg"] * 4, slots[1][name]["exp_avg"], atol=1e-6)


def test_outcomes_come_in_order_and_once(make_network: MakeNetwork, make_minibatch: MakeMinibatch) -> None:
    one_by_one, together = make_network(), make_network()
    sizes, expected = (8, 3, 5), []
    for seed, size in enumerate(sizes):
        one_by_one.update(one_by_one.prepare(make_minibatch(seed, size=size)))
        expected += one_by_one.take_outcomes()
        together.update(together.prepare(make_minibatch(seed, size=size)))
    outcomes = together.take_outcomes()
    assert [len(outcome.errors) for outcome in outcomes] == list(sizes)
    for one, other in zip(outcomes, expected, strict=True):
        assert one.loss == other.loss
        np.testing.assert_array_equal(one.errors, other.errors)
    assert not together.take_outcomes()
    assert not take_losses(together)


@pytest.mark.parametrize(
    ("theirs", "flags"),
    [
        ({"dueling": True}, ["--dueling"]),
        ({"noisy": True}, ["--noisy"]),
        ({"layer_norm": True}, ["--layer_norm"]),
        ({"network": "impala"}, ["--network"]),
        ({"distributional": "c51"}, ["--distributional", "--atoms"]),
        ({"distributional": "quantile"}, ["--distributional", "--quantiles"]),
    ],
    ids=str,
)
def test_another_networks_weights_are_refused_by_the_flags_that_differ(
    theirs: dict[str, Any], flags: list[str], make_network: MakeNetwork
) -> None:
    network, stranger = make(make_network, 0, {}), make(make_network, 0, theirs)
    with pytest.raises(UserError) as error:
        network.set_weights(stranger.get_weights())
    assert "\n" not in str(error.value)
    for flag in flags:
        assert flag in str(error.value)
