"""ONNX Runtime: inference only, from a hand-written graph."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from networks.interface import Framework, QNetwork, UnsupportedError
from networks.work import ACTIONS, CONVOLUTIONS, STATE_SHAPE, Weights
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

    def q_network(self, weights: Weights, target: Weights, datatype: str) -> QNetwork:
        del target  # only used by updates
        if datatype != "float32":
            raise UnsupportedError(f"no convolutions in {datatype}")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        model = build(weights).SerializeToString()
        providers = [PROVIDERS[self.device]]
        return OnnxNetwork(onnxruntime.InferenceSession(model, options, providers=providers))


def build(weights: Weights) -> Any:
    """Return the network as a graph from "states" to their Q-values, "values"."""
    nodes = []

    def add(operation: str, *inputs: str, output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(operation, list(inputs), [output], **attributes))
        return output

    constants = {**weights, "most": np.array(255, np.float32)}
    features = add("Cast", "states", output="floats", to=TensorProto.FLOAT)
    features = add("Div", features, "most", output="shares")
    for number, layer in enumerate(CONVOLUTIONS, 1):
        name, strides = f"conv{number}", [layer.stride, layer.stride]
        features = add("Conv", features, f"{name}.weight", f"{name}.bias", output=name, strides=strides)
        features = add("Relu", features, output=f"{name}.relu")
    features = add("Flatten", features, output="flat")
    features = add("Gemm", features, "dense.weight", "dense.bias", output="dense", transB=1)
    features = add("Relu", features, output="dense.relu")
    add("Gemm", features, "output.weight", "output.bias", output="values", transB=1)
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("states", TensorProto.UINT8, ["B", *STATE_SHAPE])],
        [helper.make_tensor_value_info("values", TensorProto.FLOAT, ["B", ACTIONS])],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(model)
    return model


class OnnxNetwork:
    """A Q-network without training."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def predict(self, states: States) -> QValues:
        values: QValues = self._session.run(["values"], {"states": states})[0]
        return values

    def train(self, _minibatch: Minibatch) -> float:
        raise UnsupportedError("inference only")
