"""PyTorch with CUDA graphs: the GPU is told once what to do, and then only to do it again."""

from collections.abc import Callable

import torch
from torch import Tensor

from networks.frameworks.pytorch import PyTorchEager, TorchClassifier, TorchQNetwork
from networks.interface import Classifier, Images, QNetwork, UnsupportedError
from networks.work import Labels, NetworkSpec, Scores, Weights
from simple_dqn.types import QValues, States

WARM_UP_CALLS = 3  # as PyTorch's documentation has it


class PyTorchCudaGraphs(PyTorchEager):
    """Eager PyTorch, recorded."""

    def __init__(self, device: str, threads: int) -> None:
        if device != "gpu":
            raise UnsupportedError("CUDA graphs need a GPU")
        super().__init__(device, threads)

    def classifier(self, spec: NetworkSpec, weights: Weights) -> Classifier:
        return GraphedClassifier(spec, weights, self.torch_device)

    def q_network(self, spec: NetworkSpec, weights: Weights, target: Weights, datatype: str) -> QNetwork:
        return GraphedQNetwork(spec, weights, target, getattr(torch, datatype), self.torch_device)


class Recorder:
    """Records a function of tensors once for each shape of the first, and replays it after that."""

    def __init__(self, function: Callable[..., Tensor], learner: TorchClassifier | TorchQNetwork) -> None:
        self._function, self._learner = function, learner
        self._recorded: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, list[Tensor], Tensor]] = {}

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Return the function's result for `inputs`; the next call overwrites it."""
        shape = tuple(inputs[0].shape)
        if shape not in self._recorded:
            self._recorded[shape] = self._record([values.clone() for values in inputs])
        graph, places, result = self._recorded[shape]
        for place, values in zip(places, inputs, strict=True):
            place.copy_(values)
        graph.replay()
        return result

    @torch.no_grad()
    def _record(self, places: list[Tensor]) -> tuple[torch.cuda.CUDAGraph, list[Tensor], Tensor]:
        """Warm up, which the network and its optimizer must forget, and record one call."""
        before = {id(values): values.clone() for values in self._lasting()}
        stream = torch.cuda.Stream(self._learner.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_CALLS):
                self._function(*places)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        self._learner.optimizer.zero_grad()
        with torch.cuda.graph(graph):
            result = self._function(*places)
        for values in self._lasting():
            values.copy_(before.get(id(values), torch.zeros_like(values)))
        return graph, places, result

    def _lasting(self) -> list[Tensor]:
        slots = [slot for state in self._learner.optimizer.state.values() for slot in state.values()]
        return [*self._learner.weights.values(), *(slot for slot in slots if isinstance(slot, Tensor))]


class GraphedClassifier(TorchClassifier):
    def __init__(self, spec: NetworkSpec, weights: Weights, device: torch.device) -> None:
        super().__init__(spec, weights, device)
        self._recorded_scores = Recorder(self._scores, self)
        self._recorded_classes = Recorder(lambda images: self._scores(images).argmax(1), self)
        self._recorded_step = Recorder(torch.enable_grad()(super().step), self)

    def scores(self, images: Images) -> Scores:
        return self._recorded_scores(self._tensor(images)).cpu().numpy()

    def classify(self, images: Images) -> Labels:
        return self._recorded_classes(self._tensor(images)).cpu().numpy()

    def step(self, images: Tensor, labels: Tensor) -> Tensor:
        return self._recorded_step(images, labels)


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
        self._recorded_values = Recorder(self._values, self)
        self._recorded_step = Recorder(torch.enable_grad()(super().step), self)

    def predict(self, states: States) -> QValues:
        return self._recorded_values(torch.from_numpy(states).to(self.device)).cpu().numpy()

    def step(self, *tensors: Tensor) -> Tensor:
        return self._recorded_step(*tensors)
