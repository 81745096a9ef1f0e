"""The frameworks by name, and where each is installed."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Entry:
    """One framework: how it is called, which class runs it, and whose packages it needs."""

    title: str
    place: str  # module and class, "jax:Jax", under `networks.frameworks`
    own_packages: bool = False  # in an environment of its own, or else those of the project


FRAMEWORKS = {
    "simple_dqn": Entry("simple_dqn (DeepQNetwork)", "simple_dqn:SimpleDqn"),
    "pytorch": Entry("PyTorch eager", "pytorch:PyTorchEager"),
    "pytorch_compiled": Entry("PyTorch compiled", "pytorch_compiled:PyTorchCompiled"),
    "pytorch_cuda_graphs": Entry("PyTorch CUDA graphs", "pytorch_cuda_graphs:PyTorchCudaGraphs"),
    "jax": Entry("JAX", "jax:Jax", own_packages=True),
    "tensorflow": Entry("TensorFlow", "tensorflow:TensorFlow", own_packages=True),
    "onnxruntime": Entry("ONNX Runtime", "onnxruntime:OnnxRuntime", own_packages=True),
    "openvino": Entry("OpenVINO", "openvino:OpenVino", own_packages=True),
    "tinygrad": Entry("tinygrad", "tinygrad:Tinygrad", own_packages=True),
    "numpy": Entry("numpy (yardstick)", "numpy_yardstick:Numpy"),
    "neon": Entry("Neon", "neon:Neon"),
}


def home() -> Path:
    """Return the folder of the project."""
    return Path(os.environ.get("SIMPLE_DQN_HOME", HERE.parents[1]))


def requirements(name: str) -> Path:
    """Return the file that pins the packages of framework `name`."""
    return HERE / "requirements" / f"{name}.txt"


def environment(name: str) -> Path:
    """Return the folder of the virtual environment of framework `name`."""
    return home() / ".venv-bench" / name


def is_installed(name: str) -> bool:
    """Tell whether the packages of framework `name` are there, in the versions that its file pins."""
    if not FRAMEWORKS[name].own_packages:
        return True
    kept = environment(name) / "requirements.txt"
    return kept.exists() and kept.read_bytes() == requirements(name).read_bytes()


def python(name: str) -> str:
    """Return the Python that runs framework `name`."""
    if FRAMEWORKS[name].own_packages:
        return str(environment(name) / "bin" / "python")
    return sys.executable
