"""A learning rate that falls while the network learns."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from simple_dqn.config import NetworkConfig
from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.deepqnetwork.compute.cuda_graphs import WARM_UPS
from simple_dqn.deepqnetwork.deepqnetwork import RATES
from simple_dqn.deepqnetwork.optimizers import FusedRAdam, learning_rate_share
from simple_dqn.types import Minibatch
from tests.deepqnetwork.test_cuda_graphs import Tape, record_on
from tests.deepqnetwork.updates import train

MakeNetwork = Callable[..., DeepQNetwork]
MakeMinibatch = Callable[..., Minibatch]


def test_it_falls_linearly_and_then_stays() -> None:
    config = NetworkConfig(learning_rate=4e-4, learning_rate_end=1e-4, learning_rate_decay_updates=7000)
    for updates in range(0, 9000, 30):
        assert learning_rate_share(config, updates) == pytest.approx(1 - 0.75 * min(updates / 7000, 1))
    assert learning_rate_share(config, 0) == 1
    assert learning_rate_share(config, 7000) == learning_rate_share(config, 10**9) == 0.25


def test_without_an_end_it_stays() -> None:
    assert {learning_rate_share(NetworkConfig(), updates) for updates in (0, 1, 10**9)} == {1.0}


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam", "radam", "adadelta"])
def test_a_later_step_is_as_much_shorter(
    optimizer: str, make_network: MakeNetwork, make_minibatch: MakeMinibatch
) -> None:
    network = make_network(
        optimizer=optimizer,
        datatype="float64",
        learning_rate=1e-3,
        learning_rate_end=2e-4,
        learning_rate_decay_updates=1000,
    )
    state, before = network.get_state(), network.get_weights()
    moved = []
    for updates in (0, 500, 1000, 5000, 0):
        network.set_state({**state, "updates": updates})
        train(network, make_minibatch(0))
        after = network.get_weights()
        moved.append(np.concatenate([(after[name] - before[name]).ravel() for name in before]))
    for steps, share in zip(moved, (1, 0.6, 0.2, 0.2, 1), strict=True):
        np.testing.assert_allclose(steps, share * moved[0], atol=1e-7)


def test_a_resume_says_what_it_is(make_network: MakeNetwork, caplog: pytest.LogCaptureFixture) -> None:
    """--learning_rate alone changes nothing once the rate has fallen to its end."""
    caplog.set_level("INFO", "simple_dqn.deepqnetwork.deepqnetwork")
    state = {**make_network().get_state(), "updates": 2000}
    make_network(learning_rate_decay_updates=0).set_state(state)
    assert not [message for message in caplog.messages if "rate" in message]
    make_network(learning_rate=3e-4, learning_rate_end=5e-5, learning_rate_decay_updates=2000).set_state(
        state
    )
    assert caplog.messages[-1] == "The learning rate is 5e-05 after 2000 updates"


def test_it_goes_on_after_a_resume(make_network: MakeNetwork, make_minibatch: MakeMinibatch) -> None:
    settings = {"optimizer": "adam", "learning_rate_decay_updates": 10}
    whole = make_network(**settings)
    for seed in range(5):
        train(whole, make_minibatch(seed))
    resumed = make_network(seed=1, **settings)
    resumed.set_state(whole.get_state())
    for seed in range(5, 12):
        assert train(resumed, make_minibatch(seed)) == train(whole, make_minibatch(seed))


def test_a_recording_is_renewed_with_it(
    make_network: MakeNetwork, make_minibatch: MakeMinibatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape, rates, updates = Tape(), 4, WARM_UPS + 2
    record_on(tape, monkeypatch)
    network = make_network(learning_rate_decay_updates=RATES * updates)
    for seed in range(rates * updates):
        train(network, make_minibatch(seed))
    assert tape.recordings == rates + 1  # and once the work on targets


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
