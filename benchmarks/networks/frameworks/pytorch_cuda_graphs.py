"""PyTorch with CUDA graphs: the operations are recorded once, then replayed on the GPU."""

import torch
from torch import Tensor

from networks.frameworks.pytorch import PyTorchEager, TorchQNetwork
from networks.interface import QNetwork, UnsupportedError
from networks.work import Weights
from simple_dqn.device import CapturedGraph
from simple_dqn.types import QValues, States


class PyTorchCudaGraphs(PyTorchEager):
    """Eager PyTorch, recorded as a CUDA graph."""

    def __init__(self, device: str, threads: int) -> None:
        if device != "gpu":
            raise UnsupportedError("CUDA graphs need a GPU")
        super().__init__(device, threads)

    def q_network(self, weights: Weights, target: Weights, datatype: str) -> QNetwork:
        return GraphedQNetwork(weights, target, getattr(torch, datatype), self.torch_device)


class GraphedQNetwork(TorchQNetwork):
    def __init__(
        self, weights: Weights, target: Weights, datatype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__(weights, target, datatype, device, capturable=True)
        self._captured_values = CapturedGraph(torch.no_grad()(self._values))
        self._captured_step = CapturedGraph(super().step)

    def predict(self, states: States) -> QValues:
        return self._captured_values(torch.from_numpy(states).to(self.device)).cpu().numpy()

    def step(self, *tensors: Tensor) -> Tensor:
        return self._captured_step(*tensors)
