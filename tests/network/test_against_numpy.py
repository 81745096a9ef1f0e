"""Updates with every extension against the same in plain numpy, one transition at a time, in float64.

Gradients are compared with the change of the loss when a weight changes.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from statistics import NormalDist
from typing import Any, cast

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from simple_dqn.config import Config, NetworkConfig
from simple_dqn.config import read as read_settings
from simple_dqn.types import CheckpointState, Minibatch
from tests.network.updates import ACTIONS, SMALL, make_minibatch, make_network, train

Array = NDArray[np.float64]
Weights = dict[str, Array]


class PlainNetwork:
    def __init__(self, weights: Weights, config: NetworkConfig) -> None:
        self.weights, self.config = weights, config

    def outputs(self, state: Array, noise: Array | None) -> Array:
        """Return the numbers that represent the returns of the actions, [A, N]."""
        self.noise = iter(()) if noise is None else iter(noise)
        self.fractions = fractions_of(noise, self.config)
        values = state
        for name, stride in (("hidden.conv1", 3), ("hidden.conv2", 1)):
            weight, bias = self.weight_and_bias(name)
            patches = sliding_window_view(values, weight.shape[1:])[0, ::stride, ::stride]
            sums = np.einsum("oikl,rcikl->orc", weight, patches) + bias[:, None, None]
            values = np.maximum(self.normalized(name, sums), 0)
        values = values.reshape(-1)
        if not self.config.dueling:
            return self.stream("hidden.dense1", "output", values).reshape(ACTIONS, -1)
        value = self.stream("output.value.dense1", "output.value.output", values)
        advantages = self.stream("output.advantages.dense1", "output.advantages.output", values)
        advantages = advantages.reshape(ACTIONS, -1)
        return cast(Array, value + advantages - advantages.mean(0))

    def weight_and_bias(self, name: str) -> tuple[Array, Array]:
        weight = self.weights[f"{name}.weight"]
        return weight, self.weights.get(f"{name}.bias", np.zeros(len(weight)))

    def normalized(self, name: str, values: Array) -> Array:
        """Ba et al. 2016, equation 3: over all units of the layer, then a gain and an offset."""
        if self.config.normalization != "layer":
            return values
        shape = (-1,) + (1,) * (values.ndim - 1)
        gain, offset = (self.weights[f"{name}_norm.{what}"].reshape(shape) for what in ("weight", "bias"))
        normal = (values - values.mean()) / math.sqrt(values.var() + 1e-5)
        return cast(Array, normal * gain + offset)

    def stream(self, dense: str, output: str, values: Array) -> Array:
        features = np.maximum(self.normalized(dense, self.linear(dense, values)), 0)
        if self.config.distributional != "iqn":
            return self.linear(output, features)
        columns = []  # Dabney et al. 2018b, equation 4
        for fraction in self.fractions:
            weight, bias = self.weight_and_bias(f"{output}.embedding")
            embedded = weight @ np.cos(np.pi * np.arange(64) * fraction) + bias
            columns.append(self.linear(output, features * np.maximum(embedded, 0)))
        return np.stack(columns, 1).reshape(-1)

    def linear(self, name: str, values: Array) -> Array:
        """Fortunato et al. 2018, equation 9, with noise for every weight from equations 10 and 11."""
        weight, bias = self.weight_and_bias(name)
        if f"{name}.weight_sigma" not in self.weights:
            return weight @ values + bias
        outputs, inputs = weight.shape
        of_inputs, of_outputs = (
            np.array([next(self.noise, 0.0) for _ in range(n)]) for n in (inputs, outputs)
        )
        noisy_weight = weight + self.weights[f"{name}.weight_sigma"] * np.outer(of_outputs, of_inputs)
        bias_sigma = self.weights.get(f"{name}.bias_sigma", np.zeros(outputs))
        return cast(Array, noisy_weight @ values + bias + bias_sigma * of_outputs)


def fractions_of(noise: Array | None, config: NetworkConfig) -> Array:
    """Return τ [N]: the midpoints, or with noise those of IQN, drawn by the inverse of the normal CDF."""
    if config.distributional != "iqn" or noise is None:
        return (np.arange(config.quantiles) + 0.5) / config.quantiles
    return np.array([0.5 + math.erf(f * abs(f) / 2**0.5) / 2 for f in noise[-config.quantiles :]])


def softmax(values: Array) -> Array:
    powers = np.exp(values - values.max())
    return cast(Array, powers / powers.sum())


def atoms_of(config: NetworkConfig) -> Array:
    return np.linspace(config.v_min, config.v_max, config.atoms)


def qvalues(outputs: Array, config: NetworkConfig) -> Array:
    if config.distributional == "c51":
        return np.array([(softmax(row) * atoms_of(config)).sum() for row in outputs])
    return cast(Array, outputs.mean(1))


def projected(odds: Array, reward: float, discount: float, config: NetworkConfig) -> Array:
    """Bellemare et al. 2017, Algorithm 1."""
    atoms, result = atoms_of(config), np.zeros(config.atoms)
    for j, atom in enumerate(atoms):
        moved = min(max(reward + discount * atom, config.v_min), config.v_max)
        place = (moved - config.v_min) / (atoms[1] - atoms[0])
        lower, upper = math.floor(place), min(math.floor(place) + 1, config.atoms - 1)
        result[lower] += odds[j] * (1 - (place - lower))
        result[upper] += odds[j] * (place - lower)
    return result


def target_of(n: int, batch: Minibatch, nets: dict[str, Any], config: NetworkConfig) -> Array:
    clipped = batch.rewards[n].astype(float).clip(config.min_reward, config.max_reward)
    reward = float(sum(config.discount_rate**k * paid for k, paid in enumerate(clipped)))
    discount = 0.0 if batch.terminals[n] else float(batch.discounts[n])
    target, noise = nets["target"], nets["target noise"][n]
    after = target.outputs(batch.poststates[n] / 255.0, noise)
    values = qvalues(after, config)
    if config.target_rule == "munchausen":  # Vieillard et al. 2020, equation 1
        tau = config.munchausen_tau
        before = qvalues(target.outputs(batch.prestates[n] / 255.0, noise), config)
        taken = tau * math.log(softmax(before / tau)[batch.actions[n]])
        reward += config.munchausen_alpha * min(max(taken, config.munchausen_floor), 0)
        policy = softmax(values / tau)
        follows = sum(p * (z - tau * math.log(p)) for p, z in zip(policy, after, strict=True))
        return cast(Array, reward + discount * follows)
    if config.target_rule == "double":  # van Hasselt et al. 2016, equation 4
        values = qvalues(nets["online"].outputs(batch.poststates[n] / 255.0, nets["choice noise"][n]), config)
    best = after[values.argmax()]
    if config.distributional == "c51":
        return projected(softmax(best), reward, discount, config)
    return cast(Array, reward + discount * best)


def huber(error: float, clip: float) -> float:
    if clip == 0 or abs(error) <= clip:
        return error**2 / 2
    return clip * (abs(error) - clip / 2)


def loss_of(outputs: Array, y: Array, noise: Array, config: NetworkConfig) -> tuple[float, float]:
    """Return the loss of one action's `outputs` [N], and the error for the priorities."""
    clip = config.clip_error
    if config.distributional == "c51":
        odds = softmax(outputs)
        loss = -float((y * np.log(odds)).sum())
        return loss, float(sum(p * math.log(p / q) for p, q in zip(y, odds, strict=True) if p > 0))
    error = float(y.mean() - outputs.mean())
    if config.distributional == "none":
        return huber(error, 0 if config.loss == "mse" else clip), abs(error)
    loss = 0.0  # Dabney et al. 2018, Algorithm 1, with equations 9 and 10
    for quantile, fraction in zip(outputs, fractions_of(noise, config), strict=True):
        for sample in y:
            u = float(sample - quantile)
            cost = huber(u, clip) / clip if clip else abs(u)
            loss += abs(fraction - (u < 0)) * cost / len(y)
    return loss, abs(error)


CASES = """
loss=huber
biases=no learning_rate=0.002
clip_error=0.1 min_reward=-0.2 max_reward=2.5 discount_rate=0.7
clip_error=0
steps=1 loss=mse
double=yes
noisy=yes
munchausen=yes munchausen_tau=0.05 munchausen_floor=-0.1
munchausen=yes munchausen_tau=0.002 munchausen_alpha=0.5
distributional=c51 atoms=11 v_min=-2 v_max=3
distributional=c51 atoms=7 v_min=-1 v_max=1 double=yes dueling=yes noisy=yes
distributional=quantile quantiles=6
distributional=quantile quantiles=5 clip_error=0
distributional=iqn quantiles=4 double=yes dueling=yes noisy=yes
distributional=iqn quantiles=3 munchausen=yes munchausen_tau=0.05 layer_norm=yes
distributional=quantile quantiles=4 munchausen=yes munchausen_tau=0.05 layer_norm=yes noisy=yes clip_error=0.1
double=yes dueling=yes layer_norm=yes noisy=yes noisy_sigma=2
"""


def f(normal: NDArray[Any]) -> Array:
    """Fortunato et al. 2018, below equation 11; noise is drawn in float32."""
    return cast(Array, np.copysign(np.sqrt(np.abs(normal)), normal).astype(np.float64))


@pytest.mark.parametrize("case", CASES.strip().splitlines())
def test_an_update(case: str) -> None:
    flags = {"optimizer": "adam", "learning_rate": "0.02", **dict(word.split("=") for word in case.split())}
    spec, steps = replace(SMALL, biases=flags.pop("biases", "") != "no"), int(flags.pop("steps", 3))
    settings = read_settings(flags)
    config = Config.from_flags(settings).network
    network = make_network(3, datatype="float64", spec=spec, **settings)
    streams = dict(zip(("acting", "targets", "updates"), np.random.default_rng(3).spawn(3), strict=True))
    train(network, make_minibatch(9))  # so that the two networks differ
    before = network.get_state()
    sizes = [w.shape for name, w in before["online"].items() if name.endswith("weight_sigma")]
    iqn = config.distributional == "iqn"
    count = sum(sum(size) for size in sizes) + iqn * config.quantiles
    for name, draws in (("targets", 1), ("updates", 1 + (config.target_rule == "double"))):
        streams[name].standard_normal((draws * (8 if iqn else 1), count), np.float32)  # the update before

    def draw(stream: str) -> Array:  # [B, K]; only IQN draws for each state
        normal = streams[stream].standard_normal((6 if iqn else 1, count), np.float32)
        return np.broadcast_to(f(normal), (6, count))

    nets: dict[str, Any] = {
        "online": PlainNetwork(before["online"], config),
        "target": PlainNetwork(before["target"], config),
        "target noise": draw("targets"),
    }
    if config.target_rule == "double":
        nets["choice noise"] = draw("updates").copy()
        if iqn:  # the next action is chosen by the midpoints
            normal = np.array([NormalDist().inv_cdf(fraction) for fraction in fractions_of(None, config)])
            nets["choice noise"][:, -config.quantiles :] = f(normal)
    noise = draw("updates")
    batch = make_minibatch(0, size=6, steps=steps)
    batch.weights[:] = np.random.default_rng(1).uniform(0.2, 1, 6)
    targets = [target_of(n, batch, nets, config) for n in range(6)]

    def loss_and_errors() -> tuple[float, list[float]]:
        pairs = zip(batch.prestates, noise, strict=True)
        outputs = [nets["online"].outputs(state / 255.0, own) for state, own in pairs]
        chosen = zip(outputs, batch.actions, targets, noise, strict=True)
        both = [loss_of(values[action], y, own, config) for values, action, y, own in chosen]
        losses = [float(w) * loss for w, (loss, _) in zip(batch.weights, both, strict=True)]
        return sum(losses) / 6, [error for _, error in both]

    loss, errors = loss_and_errors()
    still = [qvalues(nets["online"].outputs(state / 255.0, None), config) for state in batch.prestates]
    np.testing.assert_allclose(network.predict(batch.prestates), still, rtol=0, atol=1e-5)
    network.update(network.prepare(batch))
    (outcome,) = network.take_outcomes()
    assert outcome.loss == pytest.approx(loss, rel=0, abs=1e-10)
    np.testing.assert_array_equal(outcome.numbers, batch.numbers)
    assert outcome.errors.dtype == np.float32
    np.testing.assert_allclose(outcome.errors, errors, rtol=0, atol=1e-6)
    check_gradients(before, network.get_state(), lambda: loss_and_errors()[0])


def check_gradients(before: CheckpointState, after: CheckpointState, loss: Callable[[], float]) -> None:
    """Compare the gradients of some weights with how the loss changes as they do; Adam's mean has them."""
    rng, apart, moved = np.random.default_rng(2), 1e-5, 0
    for name, weight in before["online"].items():
        mean, mean_before = (state["training"]["slots"][name]["exp_avg"] for state in (after, before))
        gradient = ((mean - 0.9 * mean_before) / 0.1).reshape(-1)
        for place in rng.choice(weight.size, min(weight.size, 4), replace=False):
            flat = weight.reshape(-1)
            value, results = flat[place], []
            for side in (apart, -apart):
                flat[place] = value + side
                results.append(loss())
            flat[place] = value
            expected = (results[0] - results[1]) / (2 * apart)
            assert gradient[place] == pytest.approx(expected, rel=1e-4, abs=1e-7), name
            moved += abs(expected) > 1e-4
    assert moved > 5, "too weak a test"
