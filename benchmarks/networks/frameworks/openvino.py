"""OpenVINO: inference only, from a hand-written graph that is compiled for each batch size."""

from typing import Any

import numpy as np
import openvino
from openvino import opset13 as ops

from networks.interface import Classifier, Framework, Images, QNetwork, UnsupportedError
from networks.work import STATE_SHAPE, Labels, NetworkSpec, Scores, Weights
from simple_dqn.types import Minibatch, QValues, States

PRECISIONS = {"float32": "f32", "bfloat16": "bf16"}


class OpenVino(Framework):
    def __init__(self, device: str, threads: int) -> None:
        super().__init__(device, threads)
        if device != "cpu":
            raise UnsupportedError("supports only Intel's GPUs")
        self.version = openvino.__version__.split("-")[0]
        self._core = openvino.Core()

    def classifier(self, spec: NetworkSpec, weights: Weights) -> Classifier:
        return OpenVinoNetwork(self, spec, weights, np.float32, "float32")

    def q_network(self, spec: NetworkSpec, weights: Weights, target: Weights, datatype: str) -> QNetwork:
        del target  # only used by updates
        if PRECISIONS[datatype].upper() not in self._precisions():
            raise UnsupportedError(f"no {datatype} on this CPU")
        return OpenVinoNetwork(self, spec, weights, np.uint8, datatype)

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


def build(spec: NetworkSpec, weights: Weights, batch: int, dtype: Any) -> Any:
    """Return the network as a graph from `batch` states of `dtype` to scores and classes.

    Bytes are divided by 255 first.
    """
    states = ops.parameter([batch, *STATE_SHAPE], dtype, "states")
    features: Any = states
    if dtype is np.uint8:
        features = ops.divide(ops.convert(states, np.float32), np.float32(255))
    for number, layer in enumerate(spec.convolutions, 1):
        weight, bias = weights[f"conv{number}.weight"], weights[f"conv{number}.bias"]
        strides, nothing = [layer.stride] * 2, [0, 0]
        features = ops.convolution(features, weight, strides, nothing, nothing, [1, 1])
        features = ops.relu(ops.add(features, bias.reshape(1, -1, 1, 1)))
    features = ops.reshape(features, [batch, -1], False)
    features = ops.relu(ops.add(_product(features, weights["dense.weight"]), weights["dense.bias"]))
    scores = ops.add(_product(features, weights["output.weight"]), weights["output.bias"])
    best = ops.topk(scores, np.int64(1), 1, "max", "none", index_element_type="i64")
    classes = ops.reshape(best.output(1), [batch], False)
    return openvino.Model([ops.result(scores), ops.result(classes)], [states], "network")


def _product(features: Any, weight: Any) -> Any:
    return ops.matmul(features, ops.constant(weight), False, True)


class OpenVinoNetwork:
    """A classifier or a Q-network without training."""

    def __init__(
        self, framework: OpenVino, spec: NetworkSpec, weights: Weights, dtype: Any, datatype: str
    ) -> None:
        self._framework, self._spec, self._weights = framework, spec, weights
        self._dtype, self._datatype = dtype, datatype
        self._requests: dict[int, Any] = {}  # by batch size

    def predict(self, states: States) -> QValues:
        values: QValues = self._ask(states)[0]
        return values

    def scores(self, images: Images) -> Scores:
        scores: Scores = self._ask(images)[0]
        return scores

    def classify(self, images: Images) -> Labels:
        labels: Labels = self._ask(images)[1]
        return labels

    def train(self, *_batch: Minibatch | Images | Labels) -> float:
        raise UnsupportedError("inference only")

    def _ask(self, inputs: States | Images) -> Any:
        batch = len(inputs)
        if batch not in self._requests:
            model = build(self._spec, self._weights, batch, self._dtype)
            self._requests[batch] = self._framework.compile(model, self._datatype)
        return self._requests[batch].infer([inputs], share_inputs=True)
