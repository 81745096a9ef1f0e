from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch

from simple_dqn.config import BackendConfig, NetworkConfig
from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.deepqnetwork.networks import NATURE, NETWORKS, Convolution, Dense, build
from simple_dqn.errors import UserError

NATURE_WEIGHTS = {
    "hidden.conv1.weight": (32, 4, 8, 8),
    "hidden.conv2.weight": (64, 32, 4, 4),
    "hidden.conv3.weight": (64, 64, 3, 3),
    "hidden.dense1.weight": (512, 3136),
    "output.weight": (6, 512),
}


@pytest.mark.parametrize("name", ["nature", "neon"])
def test_layers_are_natures(name: str) -> None:
    network = build(NETWORKS[name], 6, 4, (84, 84), False, np.random.default_rng(0))
    shapes = {name: tuple(values.shape) for name, values in network.named_parameters()}
    biases = {name.replace("weight", "bias"): shape[:1] for name, shape in NATURE_WEIGHTS.items()}
    assert shapes == (NATURE_WEIGHTS | biases if name == "nature" else NATURE_WEIGHTS)


def test_batch_norm_follows_every_hidden_layer_and_takes_over_its_biases() -> None:
    network = build(NATURE, 6, 4, (84, 84), True, np.random.default_rng(0))
    order = [name for name, _ in network.hidden.named_children()]
    layers = ("conv1", "conv2", "conv3", "dense1")
    expected = [name for layer in layers for name in (layer, f"{layer}_norm", f"{layer}_relu")]
    expected.insert(expected.index("dense1"), "flatten")
    assert order == expected
    assert not any(f"hidden.{layer}.bias" in dict(network.named_parameters()) for layer in layers)
    assert "output.bias" in dict(network.named_parameters())


def test_nature_starts_uniform_by_inputs_and_neon_gaussian() -> None:
    for name, shape in NATURE_WEIGHTS.items():
        bound = float(np.prod(shape[1:])) ** -0.5
        nature, neon = (
            dict(build(NETWORKS[kind], 6, 4, (84, 84), False, np.random.default_rng(0)).named_parameters())
            for kind in ("nature", "neon")
        )
        for values in (nature[name], nature[name.replace("weight", "bias")]):
            assert values.abs().max() <= bound
        assert nature[name].std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
        assert nature[name].abs().max() > 0.99 * bound
        assert neon[name].std().item() == pytest.approx(0.01, rel=0.05)
        assert abs(neon[name].mean().item()) < 0.001


def test_other_tables_of_layers_build_other_networks() -> None:
    spec = replace(NATURE, layers=(Convolution(16, 8, 4), Dense(256), Dense(64)))
    network = build(spec, 3, 2, (40, 44), False, np.random.default_rng(0))
    assert network(torch.zeros(5, 2, 40, 44)).shape == (5, 3)
    no_hidden_dense = replace(NATURE, layers=(Dense(8),))
    assert build(no_hidden_dense, 3, 1, (2, 2), False, np.random.default_rng(0))(
        torch.zeros(1, 1, 2, 2)
    ).shape


@pytest.mark.parametrize("shape", [(8, 8), (35, 84), (84, 35)])
def test_small_screens_are_refused_with_the_smallest_size(shape: tuple[int, int]) -> None:
    with pytest.raises(UserError, match="at least 36") as error:
        build(NATURE, 6, 4, shape, False, np.random.default_rng(0))
    assert f"{shape[1]}x{shape[0]}" in str(error.value)


def test_smallest_screen_has_an_output() -> None:
    assert NATURE.smallest_screen() == 36
    network = build(NATURE, 6, 4, (36, 36), False, np.random.default_rng(0))
    assert cast(torch.Tensor, network(torch.zeros(1, 4, 36, 36))).shape == (1, 6)


def test_without_a_gpu_the_cpu_is_used_and_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from simple_dqn.deepqnetwork import backend

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    backend._say_that_there_is_no_gpu.cache_clear()
    for _ in range(2):
        network = DeepQNetwork(
            4,
            4,
            (84, 84),
            NetworkConfig(),
            BackendConfig(backend="gpu", device_id=3),
            np.random.default_rng(0),
        )
    assert network.predict(np.zeros((1, 4, 84, 84), np.uint8)).shape == (1, 4)
    assert len(caplog.records) == 1
    assert "no GPU" in caplog.text


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UserError, match=r"--device_id 2 .* give 0 to 1"):
        DeepQNetwork(
            4,
            4,
            (84, 84),
            NetworkConfig(),
            BackendConfig(backend="gpu", device_id=2),
            np.random.default_rng(0),
        )
