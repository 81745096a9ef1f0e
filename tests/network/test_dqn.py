"""`DeepQNetwork`: predictions and updates, saved states, every pair of settings, datatypes, optimizers."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor
from torch.testing import assert_close

from simple_dqn import rules
from simple_dqn.config import Config, NetworkConfig
from simple_dqn.device import CPU, Device
from simple_dqn.dqn import DeepQNetwork
from simple_dqn.errors import UserError
from simple_dqn.networks import NETWORKS, Convolution, Dense, NetworkSpec, ResidualSection, ScreenConvolution
from simple_dqn.optimizers import AVERAGE_EVERY, make_optimizer
from simple_dqn.types import Minibatch
from tests.command_line import Logs, Patch
from tests.network import updates
from tests.network.updates import assert_same, assert_same_weights, learn, make_minibatch, make_network, train


@pytest.mark.filterwarnings("error")
def test_input_arrays_may_be_strided_or_read_only_and_are_not_changed() -> None:
    network, batch, expected = make_network(), make_minibatch(1, size=7), make_minibatch(1, size=7)
    screens = make_minibatch(0, size=3).prestates.reshape(9, 20, 17)
    windows = np.moveaxis(sliding_window_view(screens, 3, axis=0), -1, 1)  # [7, 3, 20, 17], read-only
    for view in (windows[::-1], windows[:, ::-1]):
        np.testing.assert_array_equal(network.predict(view), network.predict(view.copy()))
    qvalues = network.predict(windows)
    kept = qvalues.copy()
    for count in (1, 2):  # Q-values do not depend on the batch
        np.testing.assert_allclose(network.predict(windows[:count]), kept[:count], rtol=0, atol=1e-6)
    strided, copied = make_network(), make_network()
    train(strided, replace(batch, prestates=windows, poststates=windows[::-1]))
    train(copied, replace(batch, prestates=windows.copy(), poststates=windows[::-1].copy()))
    assert_same_weights(strided, copied)
    np.testing.assert_array_equal(qvalues, kept)
    for name in Minibatch.__slots__:
        np.testing.assert_array_equal(getattr(batch, name), getattr(expected, name), err_msg=name)


def test_targets_come_from_the_last_copy_or_else_from_the_online_network() -> None:
    without, copied, kept = make_network(use_target_network=False), make_network(), make_network()
    states, at_first = make_minibatch(9).prestates, kept.get_weights()
    for seed in range(4):
        copied.update_target_network()
        losses = [train(network, make_minibatch(seed)) for network in (without, copied, kept)]
        assert losses[0] == losses[1]
    assert losses[0] != losses[2]
    assert_same_weights(without, copied)
    assert_same(kept.get_state()["target"], at_first)
    np.testing.assert_array_equal(kept.predict(states, target=True), make_network().predict(states))
    kept.update_target_network()
    np.testing.assert_array_equal(kept.predict(states, target=True), kept.predict(states))


def test_batch_norm_uses_the_batch_in_training_and_running_means_in_prediction() -> None:
    network, batch, mean = make_network(batch_norm=True), make_minibatch(0), "hidden.conv1_norm.running_mean"
    before, together = network.get_weights(), network.predict(batch.prestates)
    np.testing.assert_allclose(network.predict(batch.prestates[:1]), together[:1], rtol=0, atol=1e-6)
    assert_same(network.get_weights(), before)
    other = make_network(batch_norm=True)
    other.set_weights({**before, mean: before[mean] + 1})  # running means do not matter in training
    assert train(network, batch) == train(other, batch)
    assert np.any(network.get_weights()[mean] != before[mean])
    np.testing.assert_array_equal(network.get_state()["target"][mean], before[mean])
    network.update_target_network()
    np.testing.assert_array_equal(network.get_state()["target"][mean], network.get_weights()[mean])


def test_a_missing_target_network_or_mean_begins_with_the_weights() -> None:
    without = make_network(use_target_network=False)
    learn(without, range(3))
    network = make_network(1, average_updates=2 * AVERAGE_EVERY)
    network.set_state(without.get_state())
    assert_same(network.get_state()["target"], without.get_weights())
    assert_same(network.get_weights(average=True), without.get_weights())
    network.set_weights(make_network(2).get_weights())
    assert_same(network.get_weights(average=True), make_network(2).get_weights())


@pytest.mark.parametrize(("updates", "datatype", "batch_norm"), [
    (2 * AVERAGE_EVERY, "bfloat16", False), (5 * AVERAGE_EVERY, "float32", True), (1, "float64", False),
])  # fmt: skip
def test_the_mean_is_that_of_saved_weights(updates: int, datatype: str, batch_norm: bool) -> None:
    """Weights, and the mean of them, carry the Q-values."""
    settings: dict[str, Any] = {
        "datatype": datatype, "batch_norm": batch_norm, "learning_rate": 0.01, "optimizer": "adam",
    }  # fmt: skip
    network, other = make_network(average_updates=updates, **settings), make_network(1, **settings)
    saved, states = [], make_minibatch(99).prestates
    np.testing.assert_array_equal(network.predict(states, average=True), network.predict(states))
    for seed in range(5 * AVERAGE_EVERY):
        train(network, make_minibatch(seed))
        saved.append(network.get_weights())
    mean = {name: np.float64(0) * values for name, values in saved[0].items()}
    for count, weights in enumerate(saved[AVERAGE_EVERY - 1 :: AVERAGE_EVERY], 1):
        share = min(1.0, max(AVERAGE_EVERY / updates, 1 / count))
        mean = {name: (1 - share) * mean[name] + share * weights[name].astype(float) for name in mean}
    averaged = network.get_weights(average=True)
    for name, values in mean.items():
        np.testing.assert_allclose(averaged[name], values, rtol=1e-5, atol=1e-6, err_msg=name)
    assert any(np.any(averaged[name] != values) for name, values in saved[-1].items()) == (updates > 1)
    for average in (False, True):
        other.set_weights(network.get_weights(average))
        expected = network.predict(states, average=average)
        np.testing.assert_allclose(other.predict(states), expected, rtol=0, atol=1e-6)


IMPALA = NetworkSpec(NETWORKS["impala"].layers[-3:], True, updates.SMALL.initializer)


@pytest.mark.parametrize("other", [
    {"actions": 4}, {"state_shape": (2, 20, 17)}, {"state_shape": (3, 30, 17)}, {"batch_norm": True},
    {"dueling": True}, {"noisy": True}, {"layer_norm": True}, pytest.param({"spec": IMPALA}, id="impala"),
    {"distributional": "c51"}, {"distributional": "quantile"},
], ids=str)  # fmt: skip
def test_another_networks_weights_are_refused_and_change_nothing(other: dict[str, Any]) -> None:
    network, stranger = make_network(0, average_updates=9), make_network(1, average_updates=9, **other)
    before = network.get_state()
    with pytest.raises(UserError, match=r"give the game and --observation, .*--quantiles as in training"):
        network.set_weights(stranger.get_weights())
    assert_same(network.get_state(), before)


TINY = {"distributional": "none", "atoms": 5, "quantiles": 3, "learning_rate": 0.01}
CHOICES: list[dict[str, Any]] = [
    {"network": "neon"}, {"network": "impala"}, {"batch_norm": True}, {"layer_norm": True},
    {"dueling": True}, {"double": True}, {"munchausen": True}, {"noisy": True}, {"distributional": "c51"},
    {"distributional": "quantile"}, {"distributional": "iqn"}, {"loss": "mse"}, {"clip_error": 0.0},
    {"optimizer": "adam"}, {"optimizer": "adadelta"}, {"datatype": "bfloat16"},
    {"datatype": "float16"}, {"target_steps": 0}, {"average_updates": 2 * AVERAGE_EVERY},
    {"learning_rate_decay_updates": 10}, {"optimizer": "radam"},
]  # fmt: skip
# Refused: see tests/test_settings.py.
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
    options: list[dict[str, Any]] = [{}, {"explore": True}, {"average": True}]
    for how in options:
        qvalues = whole.predict(states, **how)
        assert np.isfinite(qvalues).all()
        np.testing.assert_array_equal(resumed.predict(states, **how), qvalues)
    for name, values in whole.get_weights().items():
        assert np.any(values != fresh["online"][name]), f"{name} does not learn"
    resumed.set_state(fresh)  # of before the first update: it was a copy, and undoes all of them
    assert_same(resumed.get_state(), fresh)
    assert learn(resumed, range(AVERAGE_EVERY + 1)) == losses


NATURES: dict[str, Any] = {"actions": 4, "state_shape": (4, 84, 84)}


# Relative spacing of numbers: 2^-8 in bfloat16 and 2^-11 in float16; four layers each round a few times.
@pytest.mark.parametrize(("datatype", "of_q", "of_gradient"), [
    ("bfloat16", 4 * 2.0**-8, 0.1), ("float16", 4 * 2.0**-11, 0.05), ("float32", 1e-6, 1e-5),
])  # fmt: skip
def test_natures_network_is_near_that_of_float64(datatype: str, of_q: float, of_gradient: float) -> None:
    batch, settings = make_minibatch(1, size=4, **NATURES), {"spec": NETWORKS["nature"], "optimizer": "adam"}
    exact, near = (make_network(datatype=kind, **settings, **NATURES) for kind in ("float64", datatype))
    expected, found = (network.predict(batch.prestates) for network in (exact, near))
    assert found.dtype == np.float32
    assert np.abs(found - expected).max() < of_q * np.abs(expected).max()
    assert train(near, batch) == pytest.approx(train(exact, batch), rel=of_gradient)
    slots = [network.get_state()["training"]["slots"] for network in (exact, near)]
    for name in slots[0]:  # after one update, a tenth of the gradient
        gradient, other = (each[name]["exp_avg"] for each in slots)
        assert np.linalg.norm(other - gradient) < of_gradient * np.linalg.norm(gradient), name


@pytest.mark.parametrize(("datatype", "narrow"), [("bfloat16", torch.bfloat16), ("float16", torch.float16)])
def test_hidden_layers_are_narrow_and_the_output_layer_is_not(datatype: str, narrow: torch.dtype) -> None:
    network = make_network(datatype=datatype)
    states = make_minibatch(0, size=32).prestates
    qvalues = torch.from_numpy(network.predict(states))
    assert (qvalues != qvalues.to(narrow).float()).float().mean() > 0.9
    # A change to a weight that is lost in the narrow datatype alters Q-values through the output layer only.
    for name, matters in (("hidden.dense1.weight", False), ("output.weight", True)):
        weights = network.get_weights()
        rounded = torch.from_numpy(weights[name]).to(narrow).float().numpy()
        assert np.any(rounded != weights[name])
        network.set_weights({**weights, name: rounded})
        assert np.any(network.predict(states) != qvalues.numpy()) == matters
        network.set_weights(weights)


def test_steps_too_small_for_a_narrow_datatype_add_up() -> None:
    batch = replace(make_minibatch(0), terminals=np.ones(8, np.bool_))
    networks = [make_network(datatype=name, learning_rate=1e-6) for name in ("bfloat16", "float32")]
    before = networks[0].get_weights()["hidden.dense1.weight"]
    for network in networks:
        for _ in range(50):
            train(network, batch)
    narrow, exact = (network.get_weights()["hidden.dense1.weight"] - before for network in networks)
    assert np.linalg.norm(narrow - exact) < 0.1 * np.linalg.norm(exact)


def test_float16_skips_a_step_that_overflows_and_lowers_the_scale() -> None:
    network, batch = make_network(datatype="float16", min_reward=-1e6, clip_error=0), make_minibatch(0)
    before = network.get_weights()
    train(network, replace(batch, rewards=np.full((8, 1), -1e6, np.float32)))
    for name, values in network.get_weights().items():
        np.testing.assert_array_equal(values, before[name])
    assert network.get_state()["training"]["scaler"]["scale"] == 2.0**15
    train(network, batch)
    assert all(np.any(values != before[name]) for name, values in network.get_weights().items())


@pytest.mark.parametrize(("capabilities", "datatype"), [
    ({"avx512_bf16": True, "amx_bf16": False}, "bfloat16"), ({"avx512_bf16": False}, "float32"),
])  # fmt: skip
def test_auto_is_the_machines_own(capabilities: dict[str, bool], datatype: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert make_network(datatype="auto").device.datatype == datatype


def test_a_convolution_over_blocks_is_the_same_function() -> None:
    device = Device(CPU, "bfloat16")
    device.layout = torch.channels_last  # as where the CPU has AMX
    states = make_minibatch(0, size=3, **NATURES).prestates
    screens, blocks = torch.from_numpy(states).double() / 255, device.floats(states, 4)
    assert blocks.shape == (3, 64, 21, 21)
    convolution = ScreenConvolution(4, 32, 8, 4).double()
    outputs = [convolution(each.double()) for each in (screens, blocks)]
    gradients = [torch.autograd.grad(each.square().sum(), convolution.weight)[0] for each in outputs]
    torch.testing.assert_close(*outputs)
    torch.testing.assert_close(*gradients)
    mirrored = states[..., ::-1]
    assert torch.equal(device.floats(mirrored, 4), device.floats(mirrored.copy(), 4))
    odd = states[:, :, :83, :82]
    assert torch.equal(device.floats(odd, 4), device.floats(odd))


# PyTorch's own, one pass after another; that of rmsprop is in tests/examples/test_page.py.
PLAIN: dict[str, Callable[[list[Tensor], NetworkConfig], torch.optim.Optimizer]] = {
    "adam": lambda weights, c: torch.optim.Adam(weights, c.learning_rate, (0.9, 0.999), c.adam_epsilon),
    "radam": lambda weights, c: torch.optim.RAdam(weights, c.learning_rate, (0.9, 0.999), c.adam_epsilon),
    "adadelta": lambda weights, c: torch.optim.Adadelta(weights, 1.0, c.decay_rate, 1e-6),
}


@pytest.mark.parametrize(("name", "settings"), [
    ("adam", {}), ("adam", {"adam_epsilon": 1e-8}), ("radam", {"learning_rate": 1e-3, "adam_epsilon": 1e-4}),
    ("adadelta", {"decay_rate": 0.9, "learning_rate": 0.5}),
])  # fmt: skip
def test_steps_are_those_of_the_plain_optimizer(name: str, settings: dict[str, Any]) -> None:
    """In RAdam's first five steps, which are those of momentum alone, and after them."""
    config, generator = NetworkConfig(optimizer=name, **settings), torch.Generator().manual_seed(1)
    theirs, ours = ([torch.ones(3, 2, dtype=torch.float64, requires_grad=True)] for _ in range(2))
    plain, optimizer = PLAIN[name](theirs, config), make_optimizer(ours, config)
    for _ in range(40):
        theirs[0].grad = 1e-3 * torch.randn(3, 2, dtype=torch.float64, generator=generator)
        ours[0].grad = theirs[0].grad.clone()
        plain.step()
        optimizer.step()
        assert_close(ours[0], theirs[0], rtol=0, atol=1e-12)
    assert (theirs[0] - 1).abs().max() > 1e-4


@pytest.mark.parametrize("optimizer", ["rmsprop", *PLAIN])
def test_a_later_step_is_as_much_shorter(optimizer: str, caplog: Logs) -> None:
    """The rate falls linearly, then stays; a resumed network has that of its updates, and logs it."""
    caplog.set_level("INFO", "simple_dqn.dqn")
    rates = {"learning_rate": 1e-3, "learning_rate_end": 2e-4, "learning_rate_decay_updates": 1000}
    network = make_network(optimizer=optimizer, datatype="float64", **rates)
    state, before = network.get_state(), network.get_weights()
    moved = []
    for count in (0, 500, 1000, 5000, 0):
        network.set_state({**state, "updates": count})
        train(network, make_minibatch(0))
        after = network.get_weights()
        moved.append(np.concatenate([(after[name] - before[name]).ravel() for name in before]))
    assert caplog.messages[1] == "The learning rate is 0.0006 after 500 updates"
    for steps, share in zip(moved, (1, 0.6, 0.2, 0.2, 1), strict=True):
        np.testing.assert_allclose(steps, share * moved[0], atol=1e-7)
