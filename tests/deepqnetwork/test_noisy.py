"""Noisy layers: what is drawn for whom, and that it is enough to explore with."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from simple_dqn.config import NetworkConfig
from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.deepqnetwork.building import build
from simple_dqn.deepqnetwork.networks import NATURE, Dense, NetworkSpec, uniform_by_inputs
from simple_dqn.deepqnetwork.noisy import NoisyLinear, noisy_layers
from simple_dqn.types import Minibatch
from tests.deepqnetwork.updates import take_losses, train

MakeNetwork = Callable[..., DeepQNetwork]
MakeMinibatch = Callable[..., Minibatch]


def test_all_dense_layers_are_noisy_and_begin_as_in_the_paper() -> None:
    network = build(NATURE, 6, 4, (84, 84), NetworkConfig(noisy=True), np.random.default_rng(0))
    layers = list(noisy_layers(network))
    assert [(layer.in_features, layer.out_features) for layer in layers] == [(3136, 512), (512, 6)]
    assert network.noise_size == 3136 + 512 + 512 + 6
    for layer in layers:  # section 3.2
        bound = layer.in_features**-0.5
        assert 0.9 * bound < layer.weight.abs().max() <= bound
        assert layer.bias_sigma is not None
        for sigma in (layer.weight_sigma, layer.bias_sigma):
            np.testing.assert_array_equal(sigma.detach(), np.float32(0.5 * bound))


def test_every_layer_has_noise_of_its_own() -> None:
    config = NetworkConfig(noisy=True, dueling=True)
    network = build(NATURE, 6, 4, (84, 84), config, np.random.default_rng(0))
    taken = [
        range(layer.noise_start, layer.noise_start + layer.noise_size) for layer in noisy_layers(network)
    ]
    assert sorted(place for places in taken for place in places) == list(range(network.noise_size))


def test_noise_is_of_mean_0_and_as_strong_as_sigma_says() -> None:
    torch.manual_seed(0)
    layer = NoisyLinear(3, 2, True, sigma=0.7)
    inputs, noise = torch.tensor([[0.5, -2.0, 1.0]]), torch.randn(200_000, 5)
    noise = noise.sign() * noise.abs().sqrt()
    deviations = (layer(inputs, noise) - layer(inputs)).detach()
    # Each f(ε) has the mean 0 and the variance E|ε| = √(2/π).
    variance = np.sqrt(2 / np.pi)
    expected = (0.7**2 / 3) * (variance**2 * (0.25 + 4 + 1) + variance)
    np.testing.assert_allclose(deviations.mean(0), 0, atol=0.01)
    np.testing.assert_allclose(deviations.var(0), expected, rtol=0.02)


def test_only_acting_is_noisy_and_each_state_has_its_own(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network = make_network(noisy=True)
    states = np.repeat(make_minibatch(0).prestates[:1], 6, axis=0)
    still = network.predict(states)
    np.testing.assert_array_equal(network.predict(states), still)
    for target in (False, True):
        noisy = np.concatenate([network.predict(states, explore=True, target=target) for _ in range(2)])
        assert len(np.unique(np.concatenate((noisy, still)).round(5), axis=0)) == 13


def test_without_noise_acting_is_predicting(make_network: MakeNetwork, make_minibatch: MakeMinibatch) -> None:
    network, states = make_network(), make_minibatch(0).prestates
    np.testing.assert_array_equal(network.predict(states, explore=True), network.predict(states))
    assert network.get_state()["noise"] == {}


def test_one_by_one_draws_the_noise_of_all_together(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    together, apart = make_network(noisy=True), make_network(noisy=True)
    states = make_minibatch(0).prestates
    exploring = {"explore": True, "target": True}
    one_by_one = np.concatenate([apart.predict(state[np.newaxis], **exploring) for state in states])
    np.testing.assert_allclose(together.predict(states, **exploring), one_by_one, rtol=0, atol=1e-6)


def test_who_acts_draws_nothing_from_who_learns(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    alone, watched = make_network(noisy=True, double=True), make_network(noisy=True, double=True)
    prepared = []
    for seed in range(4):
        watched.predict(make_minibatch(seed).prestates, explore=True, target=True)
        prepared.append(watched.prepare(make_minibatch(seed)))  # ahead of the updates, as in a thread
    for seed in range(4):
        watched.update(prepared[seed])
    assert take_losses(watched) == [train(alone, make_minibatch(seed)) for seed in range(4)]


def test_each_update_has_fresh_noise(make_network: MakeNetwork, make_minibatch: MakeMinibatch) -> None:
    network = make_network(noisy=True, learning_rate=1e-12)
    losses = [train(network, make_minibatch(0)) for _ in range(5)]
    assert len(set(losses)) == 5


ACTIONS, STEPS, BATCH = 5, 400, 8
ONE_STATE = np.full((1, 1, 1, 4), 255, np.uint8)


def play_bandit(network: DeepQNetwork, seed: int) -> list[int]:
    """Play without ε: the action liked at first pays 0.4, the one liked least 1, all others nothing."""
    liked = network.predict(ONE_STATE)[0].argsort()
    pays = np.zeros(ACTIONS, np.float32)
    pays[liked[-1]], pays[liked[0]] = 0.4, 1.0
    rng, taken = np.random.default_rng(seed), []
    for _ in range(STEPS):
        taken.append(int(network.predict(ONE_STATE, explore=True)[0].argmax()))
        actions = rng.choice(np.array(taken), BATCH)
        states, ones = np.repeat(ONE_STATE, BATCH, axis=0), np.ones(BATCH, np.float32)
        rewards = pays[actions, np.newaxis]
        train(network, Minibatch(states, actions, rewards, states, ones > 0, ones, ones, np.arange(BATCH)))
    return [int(action == liked[0]) for action in taken]


@pytest.mark.parametrize("seed", range(3))
def test_it_explores_without_epsilon(seed: int, make_network: MakeNetwork) -> None:
    spec = NetworkSpec((Dense(32),), biases=True, initializer=uniform_by_inputs)
    found = {
        noisy: play_bandit(
            make_network(
                seed=seed, actions=ACTIONS, state_shape=(1, 1, 4), spec=spec, noisy=noisy,
                noisy_sigma=1.0, optimizer="adam", learning_rate=0.003,
            ),
            seed,
        )
        for noisy in (False, True)
    }  # fmt: skip
    assert sum(found[False]) == 0
    assert np.mean(found[True][-50:]) > 0.7
