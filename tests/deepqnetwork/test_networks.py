from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch

from simple_dqn.config import BackendConfig, NetworkConfig, known
from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.deepqnetwork.building import build
from simple_dqn.deepqnetwork.compute import device
from simple_dqn.deepqnetwork.networks import INITIALIZERS, NATURE, NETWORKS, Convolution, Dense
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
    network = build(NETWORKS[name], 6, 4, (84, 84), NetworkConfig(), np.random.default_rng(0))
    shapes = {name: tuple(values.shape) for name, values in network.named_parameters()}
    biases = {name.replace("weight", "bias"): shape[:1] for name, shape in NATURE_WEIGHTS.items()}
    assert shapes == (NATURE_WEIGHTS | biases if name == "nature" else NATURE_WEIGHTS)


def test_batch_norm_follows_every_hidden_layer_and_takes_over_its_biases() -> None:
    network = build(NATURE, 6, 4, (84, 84), NetworkConfig(normalization="batch"), np.random.default_rng(0))
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
            dict(
                build(
                    NETWORKS[kind], 6, 4, (84, 84), NetworkConfig(), np.random.default_rng(0)
                ).named_parameters()
            )
            for kind in ("nature", "neon")
        )
        for values in (nature[name], nature[name.replace("weight", "bias")]):
            assert values.abs().max() <= bound
        assert nature[name].std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
        assert nature[name].abs().max() > 0.99 * bound
        assert neon[name].std().item() == pytest.approx(0.01, rel=0.05)
        assert abs(neon[name].mean().item()) < 0.001


def test_orthogonal_weights_keep_lengths_but_for_the_square_root_of_two() -> None:
    config = NetworkConfig(initializer="orthogonal")
    network = build(NATURE, 6, 4, (84, 84), config, np.random.default_rng(0))
    for name, values in network.named_parameters():
        if values.dim() == 1:
            assert not values.any(), name
        else:
            rows = values.detach().double().flatten(1)
            products = rows @ rows.T  # every layer has at most as many units as inputs
            torch.testing.assert_close(
                products, 2 * torch.eye(len(rows), dtype=torch.double), atol=1e-5, rtol=0
            )
    assert set(INITIALIZERS) | {"auto"} == set(known()["initializer"][0].metadata["choices"])


@pytest.mark.parametrize(("name", "layers"), [
    ("small", {"hidden.conv1": (16, 4, 8, 8), "hidden.conv2": (32, 16, 4, 4), "hidden.dense1": (256, 2592)}),
    ("impala", {
        **{f"hidden.section{number}.{place}.sums": (filters, filters, 3, 3)
           for number, filters in ((1, 16), (2, 32), (3, 32))
           for place in ("blocks.0.branch.1", "blocks.0.branch.3", "blocks.1.branch.1", "blocks.1.branch.3")},
        "hidden.section1.convolution.sums": (16, 4, 3, 3),
        "hidden.section2.convolution.sums": (32, 16, 3, 3),
        "hidden.section3.convolution.sums": (32, 32, 3, 3),
        "hidden.dense1": (256, 32 * 11 * 11),
    }),
])  # fmt: skip
def test_layers_of_the_others(name: str, layers: dict[str, tuple[int, ...]]) -> None:
    network = build(NETWORKS[name], 6, 4, (84, 84), NetworkConfig(), np.random.default_rng(0))
    shapes = {name: tuple(values.shape) for name, values in network.named_parameters()}
    weights = {f"{layer}.weight": shape for layer, shape in layers.items()}
    weights["output.weight"] = (6, 256)
    biases = {name.replace("weight", "bias"): shape[:1] for name, shape in weights.items()}
    assert shapes == weights | biases
    assert network(torch.zeros(3, 4, 84, 84)).shape == (3, 6)


@pytest.mark.parametrize("shape", [(1, 1), (8, 9), (21, 50)])
def test_residual_sections_see_screens_of_any_size(shape: tuple[int, int]) -> None:
    assert NETWORKS["impala"].smallest_screen() == 1
    network = build(NETWORKS["impala"], 6, 2, shape, NetworkConfig(), np.random.default_rng(0))
    assert network(torch.zeros(3, 2, *shape)).shape == (3, 6)


@pytest.mark.parametrize("name", NETWORKS)
def test_dueling_streams_have_the_dense_layers_each(name: str) -> None:
    config = NetworkConfig(dueling=True, distributional="quantile", quantiles=7)
    network = build(NETWORKS[name], 6, 4, (84, 84), config, np.random.default_rng(0))
    shapes = {name: tuple(values.shape) for name, values in network.named_parameters()}
    (units,) = (layer.units for layer in NETWORKS[name].dense)
    assert shapes["output.value.output.weight"] == (7, units)
    assert shapes["output.advantages.output.weight"] == (6 * 7, units)
    assert shapes["output.value.dense1.weight"] == shapes["output.advantages.dense1.weight"]
    assert not any(name.startswith("hidden.dense") for name in shapes)
    assert network.outputs(torch.zeros(3, 4, 84, 84)).shape == (3, 6, 7)


def test_layer_norm_follows_every_hidden_layer_and_takes_over_its_biases() -> None:
    network = build(
        NETWORKS["impala"], 6, 4, (84, 84), NetworkConfig(normalization="layer"), np.random.default_rng(0)
    )
    parameters = dict(network.named_parameters())
    hidden = [name for name in parameters if name.endswith("weight") and parameters[name].dim() > 1]
    assert len(hidden) == 3 * 5 + 2
    for name in hidden[:-1]:
        layer = name.removesuffix(".weight")
        assert f"{layer}.bias" not in parameters
        assert parameters[f"{layer}_norm.weight"].shape == parameters[name].shape[:1]
    assert "output.bias" in parameters


def test_other_tables_of_layers_build_other_networks() -> None:
    spec = replace(NATURE, layers=(Convolution(16, 8, 4), Dense(256), Dense(64)))
    network = build(spec, 3, 2, (40, 44), NetworkConfig(), np.random.default_rng(0))
    assert network(torch.zeros(5, 2, 40, 44)).shape == (5, 3)
    no_hidden_dense = replace(NATURE, layers=(Dense(8),))
    assert build(no_hidden_dense, 3, 1, (2, 2), NetworkConfig(), np.random.default_rng(0))(
        torch.zeros(1, 1, 2, 2)
    ).shape


@pytest.mark.parametrize("shape", [(8, 8), (35, 84), (84, 35)])
def test_small_screens_are_refused_with_the_smallest_size(shape: tuple[int, int]) -> None:
    with pytest.raises(UserError, match="at least 36") as error:
        build(NATURE, 6, 4, shape, NetworkConfig(), np.random.default_rng(0))
    assert f"{shape[1]}x{shape[0]}" in str(error.value)


def test_smallest_screen_has_an_output() -> None:
    assert NATURE.smallest_screen() == 36
    network = build(NATURE, 6, 4, (36, 36), NetworkConfig(), np.random.default_rng(0))
    assert cast(torch.Tensor, network(torch.zeros(1, 4, 36, 36))).shape == (1, 6)


def test_without_a_gpu_the_cpu_is_used_and_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    device._warn.cache_clear()
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
    assert len([record for record in caplog.records if "names no GPU" in record.message]) == 1
    assert "--device_id 3 names no GPU, as no GPU that PyTorch can use was found" in caplog.text


def test_the_index_of_a_gpu_does_nothing_on_the_cpu(caplog: pytest.LogCaptureFixture) -> None:
    device._warn.cache_clear()
    device.choose_device(BackendConfig(backend="cpu", device_id=3))
    assert "--device_id 3 does nothing with --backend cpu" in caplog.text


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
