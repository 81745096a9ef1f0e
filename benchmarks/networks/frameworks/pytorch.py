"""PyTorch in eager mode: a functional network, autocast for bfloat16, and the fused optimizer."""

import platform
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from networks.interface import Framework, QNetwork, UnsupportedError
from networks.work import ADAM_DECAYS, ADAM_EPSILON, ADAM_RATE, BATCH_FIELDS, CONVOLUTIONS, Weights
from simple_dqn.types import Minibatch, QValues, States

# Compiles a function of tensors that returns a tensor.
Compiler: TypeAlias = Callable[[Callable[..., Tensor]], Callable[..., Tensor]]


def eager(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return `function` unchanged: eager mode executes each operation as Python reaches it."""
    return function


class PyTorchEager(Framework):
    """PyTorch without compilation."""

    compiler: Compiler = staticmethod(eager)

    def __init__(self, device: str, threads: int) -> None:
        super().__init__(device, threads)
        if device == "gpu" and not torch.cuda.is_available():
            raise UnsupportedError("this build of PyTorch finds no GPU")
        torch.set_num_threads(threads)
        self.version = f"{torch.__version__}, Python {platform.python_version()}"
        self.torch_device = torch.device("cuda" if device == "gpu" else "cpu")

    def q_network(self, weights: Weights, target: Weights, datatype: str) -> QNetwork:
        return TorchQNetwork(weights, target, getattr(torch, datatype), self.torch_device, self.compiler)


def on_device(weights: Weights, device: torch.device) -> dict[str, Tensor]:
    """Return fresh copies of `weights` on `device`."""
    return {name: torch.from_numpy(values).clone().to(device) for name, values in weights.items()}


def forward(weights: dict[str, Tensor], states: Tensor, datatype: torch.dtype) -> Tensor:
    """Return the outputs [B, A] of `states` [B, 4, 84, 84], hidden layers in `datatype`."""
    with torch.autocast(states.device.type, datatype, enabled=datatype != torch.float32):
        features = states
        for number, layer in enumerate(CONVOLUTIONS, 1):
            weight, bias = weights[f"conv{number}.weight"], weights[f"conv{number}.bias"]
            features = functional.relu(functional.conv2d(features, weight, bias, layer.stride))
        features = functional.linear(features.flatten(1), weights["dense.weight"], weights["dense.bias"])
        features = functional.relu(features)
    return functional.linear(features.float(), weights["output.weight"], weights["output.bias"])


class TorchQNetwork:
    """The Q-network of `interface`."""

    def __init__(
        self, weights: Weights, target: Weights, datatype: torch.dtype, device: torch.device,
        compiler: Compiler = eager, capturable: bool = False,
    ) -> None:  # fmt: skip
        self.datatype, self.device = datatype, device
        self.weights, self.target = on_device(weights, device), on_device(target, device)
        for values in self.weights.values():
            values.requires_grad_()
        self.optimizer = torch.optim.Adam(
            self.weights.values(), ADAM_RATE, ADAM_DECAYS, ADAM_EPSILON, fused=True, capturable=capturable
        )
        self._compiled_values, self._compiled_loss = compiler(self._values), compiler(self._loss)

    def predict(self, states: States) -> QValues:
        with torch.inference_mode():
            return self._compiled_values(torch.from_numpy(states).to(self.device)).cpu().numpy()

    def train(self, minibatch: Minibatch) -> Tensor:
        return self.step(*self.tensors(minibatch))

    def step(self, *tensors: Tensor) -> Tensor:
        """Make the update of `train` with the result of `tensors`, and return the loss."""
        loss = self._compiled_loss(*tensors)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        self.optimizer.step()
        return loss.detach()

    def tensors(self, minibatch: Minibatch) -> list[Tensor]:
        """Return the `BATCH_FIELDS` on the device."""
        return [torch.from_numpy(getattr(minibatch, name)).to(self.device) for name in BATCH_FIELDS]

    def _values(self, states: Tensor) -> Tensor:
        return forward(self.weights, states.float() / 255, self.datatype)

    def _loss(
        self, prestates: Tensor, actions: Tensor, rewards: Tensor, poststates: Tensor, terminals: Tensor,
        discounts: Tensor,
    ) -> Tensor:  # fmt: skip
        with torch.no_grad():
            postvalues = forward(self.target, poststates.float() / 255, self.datatype).amax(1)
            targets = rewards[:, 0].clamp(-1, 1) + discounts * postvalues * ~terminals
        values = self._values(prestates).gather(1, actions[:, None])[:, 0]
        return functional.huber_loss(values, targets)
