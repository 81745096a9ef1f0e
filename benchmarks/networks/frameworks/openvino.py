"""OpenVINO: inference only, from a hand-written graph that is compiled for each batch size."""

from typing import Any

import numpy as np
import openvino
from openvino import opset13 as ops

from networks.interface import Framework, QNetwork, UnsupportedError
from networks.work import CONVOLUTIONS, STATE_SHAPE, Weights
from simple_dqn.types import Minibatch, QValues, States

PRECISIONS = {"float32": "f32", "bfloat16": "bf16"}


class OpenVino(Framework):
    def __init__(self, device: str, threads: int) -> None:
        super().__init__(device, threads)
        if device != "cpu":
            raise UnsupportedError("supports only Intel's GPUs")
        self.version = openvino.__version__.split("-")[0]
        self._core = openvino.Core()

    def q_network(self, weights: Weights, target: Weights, datatype: str) -> QNetwork:
        del target  # only used by updates
        if PRECISIONS[datatype].upper() not in self._precisions():
            raise UnsupportedError(f"no {datatype} on this CPU")
        return OpenVinoNetwork(self, weights, datatype)

    def compile(self, model: Any, datatype: str) -> Any:
        """Compile `model`, and return a request for inference."""
        settings = {
            "INFERENCE_PRECISION_HINT": PRECISIONS[datatype],
            "INFERENCE_NUM_THREADS": self.threads,
            "PERFORMANCE_HINT": "LATENCY",
        }
        return self._core.compile_model(model, "CPU", settings).create_infer_request()

    def _precisions(self) -> list[str]:
        return ["F32", *self._core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")]


def build(weights: Weights, batch: int) -> Any:
    """Return the network as a graph from `batch` states to their Q-values."""
    states = ops.parameter([batch, *STATE_SHAPE], np.uint8, "states")
    features: Any = ops.divide(ops.convert(states, np.float32), np.float32(255))
    for number, layer in enumerate(CONVOLUTIONS, 1):
        weight, bias = weights[f"conv{number}.weight"], weights[f"conv{number}.bias"]
        strides, nothing = [layer.stride] * 2, [0, 0]
        features = ops.convolution(features, weight, strides, nothing, nothing, [1, 1])
        features = ops.relu(ops.add(features, bias.reshape(1, -1, 1, 1)))
    features = ops.reshape(features, [batch, -1], False)
    features = ops.relu(ops.add(_product(features, weights["dense.weight"]), weights["dense.bias"]))
    values = ops.add(_product(features, weights["output.weight"]), weights["output.bias"])
    return openvino.Model([ops.result(values)], [states], "network")


def _product(features: Any, weight: Any) -> Any:
    return ops.matmul(features, ops.constant(weight), False, True)


class OpenVinoNetwork:
    """A Q-network without training."""

    def __init__(self, framework: OpenVino, weights: Weights, datatype: str) -> None:
        self._framework, self._weights, self._datatype = framework, weights, datatype
        self._requests: dict[int, Any] = {}  # by batch size

    def predict(self, states: States) -> QValues:
        batch = len(states)
        if batch not in self._requests:
            model = build(self._weights, batch)
            self._requests[batch] = self._framework.compile(model, self._datatype)
        values: QValues = self._requests[batch].infer([states], share_inputs=True)[0]
        return values

    def train(self, _minibatch: Minibatch) -> float:
        raise UnsupportedError("inference only")
