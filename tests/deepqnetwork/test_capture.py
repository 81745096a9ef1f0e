"""Optimizers whose steps a CUDA graph may be made of; tensors without data stand in for a GPU's."""

from types import SimpleNamespace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from simple_dqn.config import NetworkConfig
from simple_dqn.deepqnetwork.optimizers import OPTIMIZERS


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make PyTorch take this machine for one with a GPU, on which a graph is being recorded."""
    gpu, stream = torch.device("cuda"), SimpleNamespace(is_capturing=lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: gpu)
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda: stream)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_step_of_every_optimizer_can_be_recorded(kind: str, recording: None) -> None:
    with FakeTensorMode():
        weight = torch.nn.Parameter(torch.zeros(3, 2, device="cuda"))
        optimizer = OPTIMIZERS[kind]([weight], NetworkConfig(optimizer=kind))
        weight.grad = torch.ones_like(weight)
        optimizer.step()


def test_on_the_cpu_none_says_so() -> None:
    optimizer = OPTIMIZERS["adam"]([torch.zeros(2)], NetworkConfig(optimizer="adam"))
    assert not optimizer.param_groups[0]["capturable"]
