"""PyTorch with CUDA graphs: the operations are recorded once, then replayed on the GPU."""

import torch
from torch import Tensor

from networks.frameworks.pytorch import PyTorchEager, TorchClassifier, TorchQNetwork
from networks.interface import Classifier, Images, QNetwork, UnsupportedError
from networks.work import Labels, NetworkSpec, Scores, Weights
from simple_dqn.device import CapturedGraph
from simple_dqn.types import QValues, States


class PyTorchCudaGraphs(PyTorchEager):
    """Eager PyTorch, recorded as a CUDA graph."""

    def __init__(self, device: str, threads: int) -> None:
        if device != "gpu":
            raise UnsupportedError("CUDA graphs need a GPU")
        super().__init__(device, threads)

    def classifier(self, spec: NetworkSpec, weights: Weights) -> Classifier:
        return GraphedClassifier(spec, weights, self.torch_device)

    def q_network(self, spec: NetworkSpec, weights: Weights, target: Weights, datatype: str) -> QNetwork:
        return GraphedQNetwork(spec, weights, target, getattr(torch, datatype), self.torch_device)


class GraphedClassifier(TorchClassifier):
    def __init__(self, spec: NetworkSpec, weights: Weights, device: torch.device) -> None:
        super().__init__(spec, weights, device)
        self._captured_scores = CapturedGraph(torch.no_grad()(self._scores))
        self._captured_classes = CapturedGraph(torch.no_grad()(lambda images: self._scores(images).argmax(1)))
        self._captured_step = CapturedGraph(super().step)

    def scores(self, images: Images) -> Scores:
        return self._captured_scores(self._tensor(images)).cpu().numpy()

    def classify(self, images: Images) -> Labels:
        return self._captured_classes(self._tensor(images)).cpu().numpy()

    def step(self, images: Tensor, labels: Tensor) -> Tensor:
        return self._captured_step(images, labels)


class GraphedQNetwork(TorchQNetwork):
    def __init__(
        self,
        spec: NetworkSpec,
        weights: Weights,
        target: Weights,
        datatype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__(spec, weights, target, datatype, device, capturable=True)
        self._captured_values = CapturedGraph(torch.no_grad()(self._values))
        self._captured_step = CapturedGraph(super().step)

    def predict(self, states: States) -> QValues:
        return self._captured_values(torch.from_numpy(states).to(self.device)).cpu().numpy()

    def step(self, *tensors: Tensor) -> Tensor:
        return self._captured_step(*tensors)
