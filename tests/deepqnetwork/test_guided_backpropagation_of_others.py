"""Guided backpropagation through what other networks have: norms, streams, distributions, residual blocks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.deepqnetwork.networks import Dense, NetworkSpec, ResidualSection, uniform_by_inputs
from simple_dqn.types import Minibatch
from tests.deepqnetwork.updates import train

MakeNetwork = Callable[..., DeepQNetwork]

IMPALA = NetworkSpec((ResidualSection(3), ResidualSection(4), Dense(50)), True, uniform_by_inputs)
STATES = np.random.default_rng(7).integers(0, 256, (4, 3, 20, 17), dtype=np.uint8)
KINDS: dict[str, dict[str, Any]] = {
    "layer norm": {"layer_norm": True},
    "dueling": {"dueling": True},
    "c51": {"distributional": "c51", "atoms": 7},
    "quantile, noisy": {"distributional": "quantile", "quantiles": 5, "noisy": True},
    "impala": {"spec": IMPALA},
    "impala, all": {
        "spec": IMPALA, "layer_norm": True, "dueling": True, "noisy": True, "distributional": "c51",
        "atoms": 5,
    },
    "impala, batch norm": {"spec": IMPALA, "batch_norm": True},
    "impala, bfloat16": {"spec": IMPALA, "datatype": "bfloat16", "layer_norm": True},
}  # fmt: skip


@pytest.fixture(params=KINDS)
def network(
    request: pytest.FixtureRequest, make_network: MakeNetwork, make_minibatch: Callable[..., Minibatch]
) -> DeepQNetwork:
    """A network of one kind that has learnt a little."""
    network = make_network(learning_rate=0.002, **KINDS[request.param])
    for seed in range(3):
        train(network, make_minibatch(seed))
    return network


def test_it_is_the_same_network(network: DeepQNetwork) -> None:
    """What is looked at leads to the same Q-values, and looking changes none of them."""
    before = network.predict(STATES)
    guided = network.guided_backpropagation()
    guided.saliency(STATES)
    inside = guided._network(torch.from_numpy(STATES) / 255).detach().numpy()
    np.testing.assert_allclose(inside, before, atol=0.02 * np.abs(before).max())
    np.testing.assert_array_equal(network.predict(STATES), before)


def test_a_unit_sees_its_receptive_field_alone(network: DeepQNetwork) -> None:
    guided = network.guided_backpropagation()
    assert len(guided.layers) == 2
    for layer in guided.layers:
        answers = guided.activations(STATES, layer.name)
        assert answers.shape[1:] == (layer.filters, layer.rows, layer.columns)
        assert answers.min() == 0 < answers.max()
        for row, column in ((0, 0), (layer.rows - 1, layer.columns - 1), (layer.rows // 2, 1)):
            place = np.full(len(STATES), row), np.full(len(STATES), column)
            best = answers[:, :, row, column].argmax(1)
            gradients = guided.guided_gradients(STATES, layer.name, best, *place)
            assert np.any(gradients), "nothing to see"
            seen = [
                slice(max(0, layer.field_start + at * layer.field_stride),
                      max(0, layer.field_start + at * layer.field_stride + layer.field_size))
                for at in (row, column)
            ]  # fmt: skip
            gradients[:, :, *seen] = 0
            assert not np.any(gradients)


def test_fields_of_residual_sections_reach_as_far_as_is_said(make_network: MakeNetwork) -> None:
    guided = make_network(spec=IMPALA, state_shape=(3, 90, 90)).guided_backpropagation()
    states = np.random.default_rng(0).integers(0, 256, (40, 3, 90, 90), dtype=np.uint8)
    for layer in guided.layers:
        middle = layer.rows // 2
        touched = np.zeros((90, 90), bool)
        for filter_ in range(layer.filters):
            unit = (np.full(40, at) for at in (filter_, middle, middle))
            touched |= np.any(guided.guided_gradients(states, layer.name, *unit), axis=(0, 1))
        start = layer.field_start + middle * layer.field_stride
        rows, columns = (np.flatnonzero(touched.any(axis)) for axis in (1, 0))
        for reach in (rows, columns):
            assert start <= reach[0] <= start + layer.field_size // 3
            assert start + layer.field_size * 2 // 3 <= reach[-1] < start + layer.field_size


def test_saliency_differs_by_action(network: DeepQNetwork) -> None:
    guided = network.guided_backpropagation()
    pictures = [guided.saliency(STATES, np.full(len(STATES), action)) for action in range(3)]
    assert all(np.isfinite(picture).all() and np.any(picture) for picture in pictures)
    assert not np.allclose(pictures[0], pictures[1])


def test_a_residual_section_against_one_written_out(make_network: MakeNetwork) -> None:
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
