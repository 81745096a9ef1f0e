"""PyTorch with torch.compile, which makes kernels for prediction and loss with a C++ compiler."""

import functools
import os
import shutil

import torch

from networks.frameworks.pytorch import PyTorchEager
from networks.interface import UnsupportedError

MAX_PROGRAMS = 64  # compiled versions of a function, one for each network and shape of its inputs


class PyTorchCompiled(PyTorchEager):
    """The optimizer is not compiled, because the fused one is a single kernel already."""

    compiler = staticmethod(functools.partial(torch.compile, dynamic=False))

    def __init__(self, device: str, threads: int) -> None:
        super().__init__(device, threads)
        compiler = os.environ.get("CXX", "g++")
        if shutil.which(compiler) is None:
            raise UnsupportedError(f"torch.compile needs a C++ compiler: install {compiler}")
        torch._dynamo.config.recompile_limit = MAX_PROGRAMS
