"""The optimizers against their formulas in numpy, and a learning rate that falls while the network learns."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.testing import assert_close

from simple_dqn.config import NetworkConfig
from simple_dqn.optimizers import FusedRAdam, make_optimizer
from tests.network.updates import make_minibatch, make_network, train

Array = NDArray[np.float64]
OPTIMIZERS = ("rmsprop", "adam", "radam", "adadelta")


def rmsprop(config: NetworkConfig, gradients: list[Array]) -> Iterator[Array]:
    v: Any = 0.0
    for g in gradients:
        v = config.decay_rate * v + (1 - config.decay_rate) * g**2
        yield -config.learning_rate * g / (np.sqrt(v + 1e-6) + 1e-6)


def adam(config: NetworkConfig, gradients: list[Array]) -> Iterator[Array]:
    m: Any = 0.0
    v: Any = 0.0
    for t, g in enumerate(gradients, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        mean, mean_square = m / (1 - 0.9**t), v / (1 - 0.999**t)
        yield -config.learning_rate * mean / (np.sqrt(mean_square) + config.adam_epsilon)


def adadelta(config: NetworkConfig, gradients: list[Array]) -> Iterator[Array]:
    v: Any = 0.0
    steps: Any = 0.0
    for g in gradients:
        v = config.decay_rate * v + (1 - config.decay_rate) * g**2
        step = -np.sqrt(steps + 1e-6) / np.sqrt(v + 1e-6) * g
        steps = config.decay_rate * steps + (1 - config.decay_rate) * step**2
        yield config.learning_rate * step


@pytest.mark.parametrize(("formula", "settings"), [
    (rmsprop, {}), (rmsprop, {"decay_rate": 0.0}), (rmsprop, {"decay_rate": 1.0}), (adam, {}),
    (adam, {"adam_epsilon": 1e-8}), (adadelta, {"decay_rate": 0.9, "learning_rate": 0.5}),
])  # fmt: skip
def test_three_steps_are_those_of_the_formula(formula: Any, settings: dict[str, Any]) -> None:
    config = NetworkConfig(optimizer=formula.__name__, **settings)
    rng = np.random.default_rng(0)
    first, gradients = rng.normal(size=(7, 5)), [rng.normal(0, 0.1, (7, 5)) for _ in range(3)]
    weights = torch.from_numpy(first.copy())
    optimizer = make_optimizer([weights], config)
    for gradient in gradients:
        weights.grad = torch.from_numpy(gradient.copy())
        optimizer.step()
    expected = sum(formula(config, gradients), first)
    np.testing.assert_allclose(weights.numpy(), expected, rtol=0, atol=1e-12)
    assert np.abs(expected - first).max() > 1e-5


def test_radam_is_that_of_pytorch() -> None:
    """In its first five steps, which are those of momentum alone, and after them."""
    generator = torch.Generator().manual_seed(1)
    theirs, ours = ([torch.ones(3, 2, dtype=torch.float64, requires_grad=True)] for _ in range(2))
    reference = torch.optim.RAdam(theirs, lr=1e-3, eps=1e-4)
    optimizer = FusedRAdam(ours, lr=1e-3, eps=1e-4, fused=True)
    for _ in range(40):
        theirs[0].grad = 1e-3 * torch.randn(3, 2, dtype=torch.float64, generator=generator)
        ours[0].grad = theirs[0].grad.clone()
        reference.step()
        optimizer.step()
        assert_close(ours[0], theirs[0], rtol=0, atol=1e-12)
    assert (theirs[0] - 1).abs().max() > 1e-4


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_later_step_is_as_much_shorter(optimizer: str, caplog: pytest.LogCaptureFixture) -> None:
    """The rate falls linearly, then stays; a resumed network has that of its updates, and logs it."""
    caplog.set_level("INFO", "simple_dqn.dqn")
    rates = {"learning_rate": 1e-3, "learning_rate_end": 2e-4, "learning_rate_decay_updates": 1000}
    network = make_network(optimizer=optimizer, datatype="float64", **rates)
    state, before = network.get_state(), network.get_weights()
    moved = []
    for updates in (0, 500, 1000, 5000, 0):
        network.set_state({**state, "updates": updates})
        train(network, make_minibatch(0))
        after = network.get_weights()
        moved.append(np.concatenate([(after[name] - before[name]).ravel() for name in before]))
    assert caplog.messages[1] == "The learning rate is 0.0006 after 500 updates"
    for steps, share in zip(moved, (1, 0.6, 0.2, 0.2, 1), strict=True):
        np.testing.assert_allclose(steps, share * moved[0], atol=1e-7)
