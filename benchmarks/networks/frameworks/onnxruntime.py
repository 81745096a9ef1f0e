"""ONNX Runtime: inference only, from a hand-written graph."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from networks.interface import Classifier, Framework, Images, QNetwork, UnsupportedError
from networks.work import STATE_SHAPE, Labels, NetworkSpec, Scores, Weights
from simple_dqn.types import Minibatch, QValues, States

OPSET = 17  # supported by every current ONNX Runtime, and has all operations used here
IR_VERSION = 8
PROVIDERS = {"cpu": "CPUExecutionProvider", "gpu": "CUDAExecutionProvider"}


class OnnxRuntime(Framework):
    def __init__(self, device: str, threads: int) -> None:
        super().__init__(device, threads)
        if PROVIDERS[device] not in onnxruntime.get_available_providers():
            raise UnsupportedError("this build of ONNX Runtime finds no GPU")
        self.version = onnxruntime.__version__

    def classifier(self, spec: NetworkSpec, weights: Weights) -> Classifier:
        return OnnxNetwork(self._session(spec, weights, TensorProto.FLOAT))

    def q_network(self, spec: NetworkSpec, weights: Weights, target: Weights, datatype: str) -> QNetwork:
        del target  # only used by updates
        if datatype != "float32":
            raise UnsupportedError(f"no convolutions in {datatype}")
        return OnnxNetwork(self._session(spec, weights, TensorProto.UINT8))

    def _session(self, spec: NetworkSpec, weights: Weights, kind: int) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        model = build(spec, weights, kind).SerializeToString()
        return onnxruntime.InferenceSession(model, options, providers=[PROVIDERS[self.device]])


def build(spec: NetworkSpec, weights: Weights, kind: int) -> Any:
    """Return the network as a graph from inputs "states" of `kind` to "scores" and "classes".

    Bytes are divided by 255 first.
    """
    nodes = []

    def add(operation: str, *inputs: str, output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(operation, list(inputs), [output], **attributes))
        return output

    constants = dict(weights)
    features = "states"
    if kind == TensorProto.UINT8:
        constants["most"] = np.array(255, np.float32)
        features = add("Cast", features, output="floats", to=TensorProto.FLOAT)
        features = add("Div", features, "most", output="shares")
    for number, layer in enumerate(spec.convolutions, 1):
        name, strides = f"conv{number}", [layer.stride, layer.stride]
        features = add("Conv", features, f"{name}.weight", f"{name}.bias", output=name, strides=strides)
        features = add("Relu", features, output=f"{name}.relu")
    features = add("Flatten", features, output="flat")
    features = add("Gemm", features, "dense.weight", "dense.bias", output="dense", transB=1)
    features = add("Relu", features, output="dense.relu")
    scores = add("Gemm", features, "output.weight", "output.bias", output="scores", transB=1)
    add("ArgMax", scores, output="classes", axis=1, keepdims=0)
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("states", kind, ["B", *STATE_SHAPE])],
        [
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["B", spec.outputs]),
            helper.make_tensor_value_info("classes", TensorProto.INT64, ["B"]),
        ],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(model)
    return model


class OnnxNetwork:
    """A classifier or a Q-network without training."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def predict(self, states: States) -> QValues:
        values: QValues = self._session.run(["scores"], {"states": states})[0]
        return values

    def scores(self, images: Images) -> Scores:
        scores: Scores = self._session.run(["scores"], {"states": images})[0]
        return scores

    def classify(self, images: Images) -> Labels:
        labels: Labels = self._session.run(["classes"], {"states": images})[0]
        return labels

    def train(self, *_batch: Minibatch | Images | Labels) -> float:
        raise UnsupportedError("inference only")
