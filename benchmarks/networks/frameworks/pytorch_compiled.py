"""PyTorch with torch.compile: prediction and loss become kernels of their own, made by a C++ compiler."""

import functools
import os
import shutil

import torch

from networks.frameworks.pytorch import PyTorchEager
from networks.interface import UnsupportedError

MOST_PROGRAMS = 64  # of one function: one for each shape of its inputs, of each network


class PyTorchCompiled(PyTorchEager):
    """The optimizer is the fused one as it is: that is one kernel already."""

    compiler = staticmethod(functools.partial(torch.compile, dynamic=False))

    def __init__(self, device: str, threads: int) -> None:
        super().__init__(device, threads)
        compiler = os.environ.get("CXX", "g++")
        if shutil.which(compiler) is None:
            raise UnsupportedError(f"torch.compile needs a C++ compiler, and there is no {compiler}")
        torch._dynamo.config.recompile_limit = MOST_PROGRAMS
