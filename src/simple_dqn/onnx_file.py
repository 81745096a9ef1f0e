"""Exports a network as an ONNX file, for programs without PyTorch; needs the extra `onnx`."""

import logging
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from simple_dqn.dqn import DeepQNetwork
from simple_dqn.errors import require_extra
from simple_dqn.networks import Network
from simple_dqn.types import QValues, States


class _FromBytes(nn.Module):
    """A network that divides the bytes of a state by 255 itself."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, states: Tensor) -> Tensor:
        """Return the Q-values, float32 [B, A], of states uint8 [B, S, H, W]."""
        qvalues: Tensor = self.network(states.to(torch.float32) / 255, None)
        return qvalues


def write_onnx(network: DeepQNetwork, path: Path, states: States, facts: Mapping[str, str]) -> QValues:
    """Write the online network, of float32 on the CPU, and return the Q-values that ONNX Runtime computes.

    Its input is `states` uint8 [B, S, H, W], of which two or more are given as an example, and its output
    `q_values` float32 [B, A]. `facts` are metadata of the file. UserError: a package is not installed.
    """
    require_extra("onnx", "export --onnx")
    import onnxruntime

    for log in ("onnxscript", "torch.onnx"):  # warn of operations that no network here has
        logging.getLogger(log).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's exporter uses what PyTorch deprecates
        program = torch.onnx.export(
            _FromBytes(network._online).eval(), (torch.from_numpy(states),), input_names=["states"],
            output_names=["q_values"], dynamic_shapes=({0: torch.export.Dim("batch")},), dynamo=True,
            verbose=False,
        )  # fmt: skip
    assert program is not None
    program.model.metadata_props.update(facts)
    program.save(str(path), external_data=False)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (qvalues,) = session.run(None, {"states": states})
    return np.asarray(qvalues)
