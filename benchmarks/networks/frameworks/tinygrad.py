"""tinygrad: its JIT records prediction and update for each shape; a C compiler makes the kernels."""

import importlib.util
import os
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from tinygrad import Context, Device, Tensor, TinyJit, dtypes, nn

from networks.interface import Framework, QNetwork, UnsupportedError
from networks.work import ADAM_DECAYS, ADAM_EPSILON, ADAM_RATE, BATCH_FIELDS, CONVOLUTIONS, Weights
from simple_dqn.types import Minibatch, QValues, States

Tensors: TypeAlias = dict[str, Any]  # of tinygrad, by name


class Tinygrad(Framework):
    def __init__(self, device: str, threads: int) -> None:
        super().__init__(device, threads)
        if device == "cpu":
            find_clang()
        os.environ["DEV"] = "CPU" if device == "cpu" else "CUDA"
        Context(DEV=os.environ["DEV"], NUM_CPU_THREADS=threads, TRAINING=1).__enter__()
        try:
            Tensor([1.0]).realize()
        except Exception as error:
            raise UnsupportedError(f"tinygrad cannot use {os.environ['DEV']}: {error}") from error
        self.version = f"{version('tinygrad')}, {Device.DEFAULT}"

    def q_network(self, weights: Weights, target: Weights, datatype: str) -> QNetwork:
        if datatype != "float32" and self.device == "cpu":
            raise UnsupportedError(f"emulates {datatype} on the CPU: some ten times as slow as float32")
        return TinygradQNetwork(weights, target, getattr(dtypes, datatype))


def find_clang() -> None:
    """Let tinygrad use the clang in the package ziglang if the system has none.

    Raises:
        UnsupportedError: Neither is installed.
    """
    if shutil.which(os.environ.get("CC", "clang")):
        return
    package = importlib.util.find_spec("ziglang")
    if package is None or package.origin is None:
        raise UnsupportedError("tinygrad needs clang on the CPU: apt install clang")
    os.environ["ZIG"] = str(Path(package.origin).with_name("zig"))
    os.environ["CC"] = str(Path(__file__).with_name("clang"))


def on_device(weights: Weights) -> Tensors:
    return {name: Tensor(values).realize() for name, values in weights.items()}


def forward(weights: Tensors, states: Any, datatype: Any) -> Any:
    """Return the outputs [B, A] of `states` [B, 4, 84, 84], hidden layers in `datatype`."""
    hidden = {name: values.cast(datatype) for name, values in weights.items()}
    features = states.cast(datatype)
    for number, layer in enumerate(CONVOLUTIONS, 1):
        filters, bias = hidden[f"conv{number}.weight"], hidden[f"conv{number}.bias"]
        features = features.conv2d(filters, bias, stride=layer.stride).relu()
    features = features.flatten(1).linear(hidden["dense.weight"].T, hidden["dense.bias"]).relu()
    return features.cast(dtypes.float32).linear(weights["output.weight"].T, weights["output.bias"])


class Loss:
    """A loss that may not be computed yet."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __float__(self) -> float:
        return float(self._tensor.item())


class TinygradQNetwork:
    """The Q-network of `interface`."""

    def __init__(self, weights: Weights, target: Weights, datatype: Any) -> None:
        self.datatype = datatype
        self.weights, self.target = on_device(weights), on_device(target)
        self._optimizer = nn.optim.Adam(
            list(self.weights.values()), ADAM_RATE, *ADAM_DECAYS, eps=ADAM_EPSILON
        )
        self._values = jit_by_shape(lambda states: self._forward(self.weights, states))
        self._step = jit_by_shape(self._update)

    def predict(self, states: States) -> QValues:
        values: QValues = self._values(states).numpy()
        return values

    def train(self, minibatch: Minibatch) -> Loss:
        return Loss(self._step(*(getattr(minibatch, name) for name in BATCH_FIELDS)))

    def _forward(self, weights: Tensors, states: Any) -> Any:
        return forward(weights, states.cast(dtypes.float32) / 255, self.datatype)

    def _update(
        self, prestates: Any, actions: Any, rewards: Any, poststates: Any, terminals: Any, discounts: Any
    ) -> Any:
        postvalues = self._forward(self.target, poststates).max(1).detach()
        targets = rewards[:, 0].clip(-1, 1) + terminals.where(0, discounts * postvalues)
        values = self._forward(self.weights, prestates).gather(1, actions.unsqueeze(1)).squeeze(1)
        differences = values - targets
        sizes = differences.abs()
        loss = (sizes < 1).where(differences.square() / 2, sizes - 0.5).mean()
        self._optimizer.zero_grad()
        loss.backward()
        Tensor.realize(loss, *self._optimizer.schedule_step())
        return loss


def jit_by_shape(function: Any) -> Any:
    """Return `function`, recorded for each shape of its first argument: TinyJit supports one shape only."""
    recorded: dict[tuple[int, ...], Any] = {}

    def call(*arrays: Any) -> Any:
        shape = arrays[0].shape
        if shape not in recorded:
            recorded[shape] = TinyJit(lambda *tensors: function(*tensors).realize())
        return recorded[shape](*(Tensor(array).realize() for array in arrays))

    return call
