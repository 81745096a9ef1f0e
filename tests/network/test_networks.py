"""The networks of the table, their initial weights and noise; and guided backpropagation."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d, linear

from simple_dqn import networks
from simple_dqn.config import Config
from simple_dqn.dqn import DeepQNetwork
from simple_dqn.errors import UserError
from simple_dqn.networks import (
    INITIALIZERS,
    MOST_LAYERS,
    NATURE,
    NETWORKS,
    Convolution,
    Dense,
    NetworkSpec,
    NoisyLinear,
    ResidualSection,
    uniform_by_inputs,
)
from simple_dqn.snapshot import Snapshot
from tests.network.updates import SMALL, make_minibatch, make_network, take_losses, train

NATURES = {
    "hidden.conv1": (32, 4, 8, 8), "hidden.conv2": (64, 32, 4, 4), "hidden.conv3": (64, 64, 3, 3),
    "hidden.dense1": (512, 3136), "output": (6, 512),
}  # fmt: skip
LAYERS: dict[str, dict[str, tuple[int, ...]]] = {
    "nature": NATURES,
    "neon": NATURES,
    "small": {
        "hidden.conv1": (16, 4, 8, 8), "hidden.conv2": (32, 16, 4, 4), "hidden.dense1": (256, 2592),
        "output": (6, 256),
    },
    "mlp": {"hidden.dense1": (128, 4 * 84 * 84), "hidden.dense2": (128, 128), "output": (6, 128)},
    "minatar": {"hidden.conv1": (16, 4, 3, 3), "hidden.dense1": (128, 16 * 82 * 82), "output": (6, 128)},
    "impala": {
        **{f"hidden.section{number}.{place}.sums": (filters, filters, 3, 3)
           for number, filters in ((1, 16), (2, 32), (3, 32))
           for place in ("blocks.0.branch.1", "blocks.0.branch.3", "blocks.1.branch.1", "blocks.1.branch.3")},
        "hidden.section1.convolution.sums": (16, 4, 3, 3),
        "hidden.section2.convolution.sums": (32, 16, 3, 3),
        "hidden.section3.convolution.sums": (32, 32, 3, 3),
        "hidden.dense1": (256, 32 * 11 * 11),
        "output": (6, 256),
    },
}  # fmt: skip


def build(
    spec: NetworkSpec = NATURE, length: int = 4, shape: tuple[int, int] = (84, 84), **settings: Any
) -> networks.Network:
    config = Config.from_flags(settings).network
    return networks.build(spec, 6, length, shape, config, np.random.default_rng(0))


def shapes_of(network: networks.Network) -> dict[str, tuple[int, ...]]:
    return {name: tuple(values.shape) for name, values in network.named_parameters()}


@pytest.mark.parametrize("name", NETWORKS)
def test_layers_and_their_names(name: str) -> None:
    network = build(NETWORKS[name])
    expected = {f"{layer}.weight": shape for layer, shape in LAYERS[name].items()}
    if name != "neon":
        expected |= {f"{layer}.bias": shape[:1] for layer, shape in LAYERS[name].items()}
    assert shapes_of(network) == expected
    assert network(torch.zeros(3, 4, 84, 84)).shape == (3, 6)
    streams = build(NETWORKS[name], dueling=True, distributional="quantile", quantiles=7)
    assert streams.outputs(torch.zeros(3, 4, 84, 84)).shape == (3, 6, 7)
    shapes, units = shapes_of(streams), LAYERS[name]["output"][1]
    assert shapes["output.value.output.weight"] == (7, units)
    assert shapes["output.advantages.output.weight"] == (6 * 7, units)
    assert shapes["output.value.dense1.weight"] == shapes["output.advantages.dense1.weight"]
    assert not any(each.startswith("hidden.dense") for each in shapes)


@pytest.mark.parametrize("norm", ["batch_norm", "layer_norm"])
@pytest.mark.parametrize("name", ["nature", "impala"])
def test_a_normalization_follows_every_hidden_layer_and_takes_over_its_biases(norm: str, name: str) -> None:
    network = build(NETWORKS[name], normalization=norm.removesuffix("_norm"))
    shapes = shapes_of(network)
    for layer, shape in LAYERS[name].items():
        assert (f"{layer}.bias" in shapes) == (layer == "output")
        assert layer == "output" or shapes[f"{layer}_norm.weight"] == shape[:1]
    if name == "nature":
        order = [each for each, _ in network.hidden.named_children() if each != "flatten"]
        layers = ("conv1", "conv2", "conv3", "dense1")
        assert order == [each for layer in layers for each in (layer, f"{layer}_norm", f"{layer}_relu")]


def test_initial_weights() -> None:
    uniform, gaussian, orthogonal = (
        dict(build(NETWORKS["small"], initializer=name).named_parameters()) for name in INITIALIZERS
    )
    for layer, shape in LAYERS["small"].items():
        weight, bias = uniform[f"{layer}.weight"], uniform[f"{layer}.bias"]
        bound = float(np.prod(shape[1:])) ** -0.5
        assert 0 < bias.abs().max() <= bound
        assert 0.99 * bound < weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
        narrow = gaussian[f"{layer}.weight"]
        assert narrow.std().item() == pytest.approx(0.01, rel=0.05)
        assert abs(narrow.mean().item()) < 0.001
        assert not orthogonal[f"{layer}.bias"].any()
        rows = orthogonal[f"{layer}.weight"].detach().double().flatten(1)
        twice = 2 * torch.eye(len(rows), dtype=torch.double)  # layers have fewer units than inputs
        torch.testing.assert_close(rows @ rows.T, twice, atol=1e-5, rtol=0)
    for name, deviation in {"nature": (512 * 3) ** -0.5, "neon": 0.01}.items():  # the networks' own
        weights = dict(build(NETWORKS[name]).named_parameters())["output.weight"]
        assert weights.std().item() == pytest.approx(deviation, rel=0.05)


@pytest.mark.parametrize(("spec", "length", "shape"), [
    (replace(NATURE, layers=(Convolution(16, 8, 4), Dense(256), Dense(64))), 2, (40, 44)),
    (replace(NATURE, layers=(Dense(8),)), 1, (2, 2)),
    (NATURE, 4, (36, 36)),
    *((NETWORKS["impala"], 2, shape) for shape in ((1, 1), (8, 9), (21, 50))),
])  # fmt: skip
def test_other_layers_and_screens(spec: NetworkSpec, length: int, shape: tuple[int, int]) -> None:
    assert build(spec, length, shape)(torch.zeros(3, length, *shape)).shape == (3, 6)


def test_screens_that_are_too_small_are_refused() -> None:
    for shape in ((8, 8), (35, 84), (84, 35)):
        with pytest.raises(UserError, match=f"{shape[1]}x{shape[0]} .* at least 36"):
            build(shape=shape)


def test_layers_that_are_too_large_are_refused_before_their_weights_are_made() -> None:
    for layers in ((Dense(10**6),), (Convolution(10**8, 8, 4),), (ResidualSection(10**5),)):
        with pytest.raises(UserError, match="weights, too many: choose a smaller --network") as refusal:
            build(replace(NATURE, layers=layers))
        assert ("smaller" in str(refusal.value).split(", or ")[-1]) == (not isinstance(layers[0], Dense))


@pytest.mark.parametrize("drawn", ["list", "bias", "error"])
def test_an_initializer_that_draws_no_array_of_the_shape_is_refused(drawn: str) -> None:
    def draw(rng: np.random.Generator, shape: tuple[int, ...], inputs: int) -> Any:
        if drawn == "error":
            raise ZeroDivisionError
        return rng.random(shape).tolist() if drawn == "list" else rng.random((shape[0], 1))

    with pytest.raises(UserError, match=r"initializer (must return an array of the shape|failed: Zero)"):
        build(NetworkSpec((Dense(3),), True, draw))


@pytest.mark.parametrize("layer", [Dense(2), ResidualSection(2, MOST_LAYERS)])
def test_a_snapshot_of_the_most_layers_can_be_read(layer: networks.Layer, tmp_path: Path) -> None:
    spec = NetworkSpec((layer,) * (MOST_LAYERS if isinstance(layer, Dense) else 1), True, uniform_by_inputs)
    network = build(spec, 1, (8, 8), normalization="batch", noisy=True, dueling=True)
    weights = {name: values.numpy() for name, values in network.tensors().items()}
    Snapshot("catch", 1, 6, 0, Config().shared_flags(), weights).save(tmp_path / "catch_1.pkl")
    assert Snapshot.load(tmp_path / "catch_1.pkl").weights.keys() == weights.keys()


@pytest.mark.parametrize("settings", [{}, {"dueling": True, "noisy_sigma": 2.0}])
def test_all_dense_layers_are_noisy_and_begin_as_in_the_paper(settings: dict[str, Any]) -> None:
    network, dueling, sigma = build(noisy=True, **settings), bool(settings), settings.get("noisy_sigma", 0.5)
    layers = [layer for layer in network.modules() if isinstance(layer, NoisyLinear)]
    sizes = [(3136, 512), (512, 1), (3136, 512), (512, 6)] if dueling else [(3136, 512), (512, 6)]
    assert [(layer.in_features, layer.out_features) for layer in layers] == sizes
    taken = [range(layer.noise_start, layer.noise_start + layer.noise_size) for layer in layers]
    assert sorted(place for places in taken for place in places) == list(range(network.noise_size))
    assert network.noise_size == sum(sum(size) for size in sizes)
    for layer in layers:  # section 3.2
        bound = layer.in_features**-0.5
        assert 0.9 * bound < layer.weight.abs().max() <= bound
        assert layer.bias_sigma is not None
        for sigmas in (layer.weight_sigma, layer.bias_sigma):
            np.testing.assert_array_equal(sigmas.detach(), np.float32(sigma * bound))


def test_noise_is_drawn_for_each_state_and_acting_takes_none_from_learning() -> None:
    network, other = make_network(noisy=True), make_network(noisy=True)
    states = np.repeat(make_minibatch(0).prestates[:1], 6, axis=0)
    still = network.predict(states)
    np.testing.assert_array_equal(network.predict(states), still)
    implicit = make_network(distributional="iqn", quantiles=5)  # whose fractions are the midpoints
    for _ in range(2):
        np.testing.assert_array_equal(implicit.predict(states, explore=True), implicit.predict(states))
    for target in (False, True):
        noisy = np.concatenate([network.predict(states, explore=True, target=target) for _ in range(2)])
        assert len(np.unique(np.concatenate((noisy, still)).round(5), axis=0)) == 13
        one_by_one = [other.predict(states[:1], explore=True, target=target) for _ in range(12)]
        np.testing.assert_allclose(noisy, np.concatenate(one_by_one), rtol=0, atol=1e-6)
    alone, watched = (make_network(noisy=True, double=True, learning_rate=1e-12) for _ in range(2))
    prepared = []
    for _ in range(4):
        watched.predict(states, explore=True, target=True)
        prepared.append(watched.prepare(make_minibatch(0)))  # ahead of the updates, as in a thread
    for batch in prepared:
        watched.update(batch)
    losses = take_losses(watched)
    assert losses == [train(alone, make_minibatch(0)) for _ in range(4)]
    assert len(set(losses)) == 4


STATES = np.random.default_rng(7).integers(0, 256, (6, 3, 20, 17), dtype=np.uint8)
IMPALA = NetworkSpec((ResidualSection(3), ResidualSection(4), Dense(50)), True, uniform_by_inputs)
PLAIN: dict[str, dict[str, Any]] = {
    "plain": {}, "no biases": {"spec": replace(SMALL, biases=False)}, "batch norm": {"batch_norm": True},
}  # fmt: skip
OTHERS: dict[str, dict[str, Any]] = {
    "layer norm, dueling": {"layer_norm": True, "dueling": True},
    "c51": {"distributional": "c51", "atoms": 7},
    "quantile, noisy": {"distributional": "quantile", "quantiles": 5, "noisy": True},
    "impala, all": {
        "spec": IMPALA, "layer_norm": True, "dueling": True, "noisy": True, "distributional": "c51",
        "atoms": 5,
    },
    "impala, batch norm": {"spec": IMPALA, "batch_norm": True, "datatype": "bfloat16"},
}  # fmt: skip


def trained_network(kind: str) -> DeepQNetwork:
    network = make_network(learning_rate=0.002, **(PLAIN | OTHERS)[kind])
    for seed in range(5):
        train(network, make_minibatch(seed))
    return network


class Rectifier(torch.autograd.Function):
    """It passes a gradient only where both its input and the gradient are positive."""

    @staticmethod
    def forward(context: Any, values: Tensor) -> Tensor:
        context.save_for_backward(values)
        return values.clamp(min=0)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        values: Tensor = context.saved_tensors[0]
        return gradient.clamp(min=0) * (values > 0)


def written_out(network: DeepQNetwork, states: Tensor) -> dict[str, Tensor]:
    """Return each layer's outputs by plain conv2d and linear, and the rectifier of guided backpropagation."""
    arrays = network.get_weights().items()
    weights = {name.removeprefix("hidden."): torch.from_numpy(array).double() for name, array in arrays}
    outputs, values = dict[str, Tensor](), states
    for name, stride in (("conv1", 3), ("conv2", 1), ("dense1", 0)):
        weight, bias = weights[f"{name}.weight"], weights.get(f"{name}.bias")
        sums = conv2d(values, weight, bias, stride) if stride else linear(values.flatten(1), weight, bias)
        if f"{name}_norm.weight" in weights:
            names = ("running_mean", "running_var", "weight", "bias")
            mean, variance, gain, offset = (weights[f"{name}_norm.{part}"] for part in names)
            sums = batch_norm(sums, mean, variance, gain, offset)
        outputs[name] = values = Rectifier.apply(sums)  # type: ignore[no-untyped-call]
    outputs["qvalues"] = linear(values, weights["output.weight"], weights.get("output.bias"))
    return outputs


def assert_near(found: NDArray[np.float32], expected: Tensor) -> None:
    values = expected.detach().numpy()
    assert found.dtype == np.float32
    assert values.any()
    np.testing.assert_allclose(found, values, rtol=1e-4, atol=1e-5 * np.abs(values).max())


@pytest.mark.parametrize("kind", PLAIN)
def test_activations_and_gradients_are_those_written_out(kind: str) -> None:
    network, states = trained_network(kind), (torch.from_numpy(STATES).double() / 255).requires_grad_()
    guided, outputs = network.guided_backpropagation(), written_out(network, states)
    which = np.arange(len(STATES))
    for layer in guided.layers:
        expected = outputs[layer.name]
        assert expected.shape[1:] == (layer.filters, layer.rows, layer.columns)
        assert_near(guided.activations(STATES, layer.name), expected)
        filters = which % layer.filters
        rows, columns = filters % layer.rows, (filters + 1) % layer.columns
        filters[0], rows[0], columns[0] = (expected[0] == 0).nonzero()[0].tolist()  # blocked
        units = expected[which, filters, rows, columns]
        (gradients,) = torch.autograd.grad(units.sum(), states, retain_graph=True)
        assert (gradients.abs().amax((1, 2, 3)) > 0).tolist() == (units > 0).tolist()
        assert_near(guided.guided_gradients(STATES, layer.name, filters, rows, columns), gradients)
    best = outputs["qvalues"].argmax(1).numpy()
    for asked, actions in ((None, best), ((best + 1) % 5,) * 2):
        chosen = outputs["qvalues"][which, actions].sum()
        (gradients,) = torch.autograd.grad(chosen, states, retain_graph=True)
        assert_near(guided.saliency(STATES, asked), gradients)


@pytest.mark.parametrize("kind", ["plain", *OTHERS])
def test_the_copy_has_the_networks_values_and_receptive_fields(kind: str) -> None:
    """And saliency differs by action."""
    network = trained_network(kind)
    before = network.predict(STATES)
    guided = network.guided_backpropagation()
    pictures = [guided.saliency(STATES, np.full(len(STATES), action)) for action in range(2)]
    assert all(np.isfinite(picture).all() and np.any(picture) for picture in pictures)
    assert not np.allclose(pictures[0], pictures[1])
    inside = guided._network(torch.from_numpy(STATES) / 255).detach().numpy()
    np.testing.assert_allclose(inside, before, atol=0.02 * np.abs(before).max())
    np.testing.assert_array_equal(network.predict(STATES), before)
    assert len(guided.layers) == 2
    for layer in guided.layers:
        activations = guided.activations(STATES, layer.name)
        assert activations.shape[1:] == (layer.filters, layer.rows, layer.columns)
        for row, column in ((0, 0), (layer.rows - 1, layer.columns - 1), (layer.rows // 2, 1)):
            place = np.full(len(STATES), row), np.full(len(STATES), column)
            best = activations[:, :, row, column].argmax(1)
            gradients = guided.guided_gradients(STATES, layer.name, best, *place)
            starts = (layer.field_start + at * layer.field_stride for at in (row, column))
            field = tuple(slice(max(0, start), max(0, start + layer.field_size)) for start in starts)
            # Without padding the corners of the field count, too.
            inside = gradients[:, :, *field]
            assert np.any(inside[:, :, [0, -1], [0, -1]] if kind == "plain" else inside)
            gradients[:, :, *field] = 0
            assert not np.any(gradients)


def test_a_residual_section_against_one_written_out() -> None:
    network = make_network(spec=IMPALA)
    weights = {name: torch.from_numpy(values) for name, values in network.get_weights().items()}

    def convolution(name: str, values: Tensor) -> Tensor:
        where = f"hidden.{name}.sums"
        return nn.functional.conv2d(values, weights[f"{where}.weight"], weights[f"{where}.bias"], padding=1)

    values = torch.from_numpy(STATES) / 255
    for section in ("section1", "section2"):
        values = convolution(f"{section}.convolution", values)
        padded = nn.functional.pad(values, (1, 1, 1, 1), value=-torch.inf)
        values = padded.unfold(2, 3, 2).unfold(3, 3, 2).amax((-1, -2))
        for block in ("0", "1"):
            branch = convolution(f"{section}.blocks.{block}.branch.1", values.clamp(min=0))
            values = values + convolution(f"{section}.blocks.{block}.branch.3", branch.clamp(min=0))
    features = values.clamp(min=0).flatten(1)
    dense = (features @ weights["hidden.dense1.weight"].T + weights["hidden.dense1.bias"]).clamp(min=0)
    expected: NDArray[np.float32] = (dense @ weights["output.weight"].T + weights["output.bias"]).numpy()
    np.testing.assert_allclose(network.predict(STATES), expected, atol=1e-6)
