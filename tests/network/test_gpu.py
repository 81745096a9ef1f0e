"""The network, its CUDA graphs and the memory's screens on a real GPU; skipped without one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from simple_dqn.device import WARM_UPS, Device
from simple_dqn.dqn import DeepQNetwork
from simple_dqn.networks import NETWORKS
from tests.command_line import Patch, Start
from tests.network.test_device import EXTENSIONS
from tests.network.updates import assert_same_weights, make_minibatch, make_network, take_losses, train
from tests.replay_memory.test_replay import SCREEN_SHAPE, feed, make_memory
from tests.replay_memory.test_replay import assert_same as assert_same_minibatch
from tests.test_learning import SCHEDULES, score
from tests.test_learning import train as train_catch
from tests.test_resume import assert_same, command

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU that PyTorch can use")
GPU = torch.device("cuda", 0)


def learn_and_take_losses(network: DeepQNetwork, updates: int = WARM_UPS + 9) -> list[float]:
    for seed in range(updates):
        network.update(network.prepare(make_minibatch(seed)))
        if seed == WARM_UPS + 1:
            network.update_target_network()
    return take_losses(network)


@pytest.mark.parametrize("datatype", ["float32", "bfloat16"])
@pytest.mark.parametrize("extension", EXTENSIONS)
def test_a_graph_learns_what_its_kernels_learn(extension: str, datatype: str, monkeypatch: Patch) -> None:
    """Bit for bit: the graph launches the same kernels."""
    settings = {**EXTENSIONS[extension], "datatype": datatype, "backend": "gpu"}
    graph = make_network(**settings)
    with monkeypatch.context() as patch:
        patch.setattr(Device, "captures", False)
        kernels = make_network(**settings)
    assert graph.device.captures
    assert learn_and_take_losses(graph) == learn_and_take_losses(kernels)
    assert_same_weights(graph, kernels)
    for explore in (False, True):
        for seed in range(WARM_UPS + 3):
            states = make_minibatch(seed).prestates
            expected = kernels.predict(states, explore=explore)
            assert_array_equal(graph.predict(states, explore=explore), expected)


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_in_float64_it_learns_what_the_cpu_learns(extension: str) -> None:
    settings = {**EXTENSIONS[extension], "datatype": "float64"}
    here, there = make_network(**settings), make_network(backend="gpu", **settings)
    assert_allclose(learn_and_take_losses(there, 6), learn_and_take_losses(here, 6), rtol=1e-6)
    theirs = here.get_weights()
    for name, values in there.get_weights().items():
        assert_allclose(values, theirs[name], rtol=0, atol=1e-5 * np.abs(values).max(), err_msg=name)
    states = make_minibatch(1).prestates
    assert_allclose(there.predict(states), here.predict(states), rtol=1e-4, atol=1e-5)


def test_loss_scaling_learns_about_the_same() -> None:
    half, single = (make_network(backend="gpu", datatype=kind) for kind in ("float16", "float32"))
    assert not half.device.captures
    assert_allclose(learn_and_take_losses(half), learn_and_take_losses(single), rtol=0.05)


def test_new_graphs_take_no_more_memory() -> None:
    network = make_network(
        backend="gpu", state_shape=(4, 84, 84), spec=NETWORKS["nature"], learning_rate_decay_updates=200
    )
    minibatch = make_minibatch(0, state_shape=(4, 84, 84))
    taken = []
    for _ in range(200):
        train(network, minibatch)
        taken.append(torch.cuda.memory_reserved(GPU))
    assert max(taken[100:]) <= 1.2 * max(taken[:50])


def test_guided_backpropagation_is_that_of_the_cpu(monkeypatch: Patch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    states = make_minibatch(0).prestates
    here, there = (make_network(backend=each).guided_backpropagation() for each in ("cpu", "gpu"))
    assert_allclose(there.saliency(states), here.saliency(states), atol=1e-6)
    for layer in here.layers:
        ours = there.activations(states, layer.name)
        assert_allclose(ours, here.activations(states, layer.name), atol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"n_step": 3, "sampler": "prioritized"}], ids=str)
def test_minibatches_of_screens_on_the_gpu_are_the_same(settings: dict[str, Any]) -> None:
    host, on_gpu = (make_memory(3, 99, SCREEN_SHAPE, kind, **settings) for kind in ("none", "cuda"))
    feed([host, on_gpu], 3, 70)
    for _ in range(20):
        ours, theirs = host.sample(16), on_gpu.sample(16)
        assert isinstance(theirs.prestates, torch.Tensor)
        assert theirs.prestates.is_cuda
        assert_same_minibatch(ours, theirs)
    assert_array_equal(host.sample_states(5), on_gpu.sample_states(5))


@pytest.mark.parametrize("kind", ["serial", "concurrent", "overlapped", "adam", "rollouts", "prioritized"])
def test_a_run_is_repeated_and_resumed_exactly(kind: str, tmp_path: Path, start: Start) -> None:
    flags = [*command(kind), "--backend", "gpu", "--average_updates", "40"]  # not a share of the epochs
    for folder in ("whole", "again"):
        assert start(folder, "train", *flags) == 0
    assert_same(tmp_path / "again", tmp_path / "whole")
    assert start("halves", "train", *flags, "--epochs", "1", "--checkpoint_minutes", "0") == 0
    assert start("halves", "resume", "snapshots/catch_1.pkl", "--epochs", "2") == 0
    assert_same(tmp_path / "halves", tmp_path / "whole")
    for backend in ("gpu", "cpu"):
        command_line = ("test", "snapshots/catch_2.pkl", "--test_steps", "50", "--backend", backend)
        assert start("whole", *command_line) == 0


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_catch_is_solved(schedule: str) -> None:
    run, config = train_catch(0, **SCHEDULES[schedule], backend="gpu")
    assert score(run, config) >= 0.9
