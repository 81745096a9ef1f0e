"""A stand-in for a GPU: PyTorch's meta device, whose tensors have shapes, datatypes and no values.

What mixes tensors of the CPU and of the device fails here as it would on a GPU, or is caught by hooks on each
module. Not covered: Adam's fused kernel and loss scaling (float16), which the meta device does not have, and
CUDA graphs, which `test_cuda_graphs.py` replaces by a tape.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from simple_dqn import dqn
from simple_dqn.device import Device
from simple_dqn.networks import NETWORKS
from tests.network.updates import make_minibatch, make_network

META = torch.device("meta")
EXTENSIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "mse": {"loss": "mse", "optimizer": "adadelta"},
    "batch_norm": {"batch_norm": True, "learning_rate_decay_updates": 2},
    "munchausen": {"munchausen": True, "distributional": "quantile", "quantiles": 5},
    "rainbow": {"double": True, "dueling": True, "noisy": True, "distributional": "c51"},
    "residual": {"spec": NETWORKS["impala"], "layer_norm": True, "optimizer": "radam"},
}


@pytest.mark.parametrize("datatype", ["float32", "bfloat16"])
@pytest.mark.parametrize("extension", EXTENSIONS)
def test_an_update_stays_on_the_device(
    extension: str, datatype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dqn, "choose_device", lambda _config: Device(META, datatype))
    fetched, ran = list[torch.Size](), set[nn.Module]()

    def fetch(values: Tensor) -> Tensor:
        """Stand in for the copy to the host, which a tensor without values does not have."""
        assert values.device == META
        fetched.append(values.shape)
        return torch.zeros(values.shape, dtype=values.dtype)

    def check(module: nn.Module, inputs: Any, output: Any) -> None:
        ran.add(module)
        assert {value.device for value in (*inputs, output) if isinstance(value, Tensor)} == {META}, module

    monkeypatch.setattr(Tensor, "cpu", fetch)
    network = make_network(**EXTENSIONS[extension])
    for module in (*network._online.modules(), *network._target.modules()):
        module.register_forward_hook(check)
    for seed in range(3):
        network.update(network.prepare(make_minibatch(seed)))
    network.update_target_network()
    states = make_minibatch(0).prestates
    for options in ({}, {"explore": True}, {"explore": True, "target": True}):
        assert network.predict(states, **options).shape == (len(states), 5)
    assert len(fetched) == 3
    assert all(ran & set(each.modules()) for each in (network._online, network._target))
    assert [outcome.errors.shape for outcome in network.take_outcomes()] == [(8,)] * 3
    for tensors in (network._master.tensors(), dict(network._target.state_dict())):
        assert {values.device for values in tensors.values()} == {META}


def test_the_returns_of_a_rollout_become_targets_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dqn, "choose_device", lambda _config: Device(META, "bfloat16"))
    network, minibatch = make_network(optimizer="radam"), make_minibatch(0)
    batch = network.prepare(replace(minibatch, returns=np.zeros(len(minibatch.actions), np.float32)))
    assert batch.targets.shape == (len(minibatch.actions), 1, 1)
    assert (batch.targets.device, batch.targets.dtype) == (META, torch.float32)
    network.update(batch)
    assert network.updates == 1
