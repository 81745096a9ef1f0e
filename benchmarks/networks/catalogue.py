"""The table of frameworks, and their installation.

Each framework that this project does not need itself has a virtual environment of its own, so that version
requirements cannot conflict. The environment holds a copy of the requirements it was made from. The copy is
written last: without it the environment is incomplete.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from simple_dqn.files import home

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Entry:
    """One framework: its title, the class that runs it, and where its packages are."""

    title: str
    place: str  # module and class in `networks.frameworks`: "jax:Jax"
    own_packages: bool = False  # True: in an environment of its own; False: packages of the project


FRAMEWORKS = {
    "simple_dqn": Entry("Simple-DQN (DeepQNetwork)", "simple_dqn:SimpleDqn"),
    "pytorch": Entry("PyTorch eager", "pytorch:PyTorchEager"),
    "pytorch_compiled": Entry("PyTorch compiled", "pytorch_compiled:PyTorchCompiled"),
    "pytorch_cuda_graphs": Entry("PyTorch CUDA graphs", "pytorch_cuda_graphs:PyTorchCudaGraphs"),
    "jax": Entry("JAX", "jax:Jax", own_packages=True),
    "tensorflow": Entry("TensorFlow", "tensorflow:TensorFlow", own_packages=True),
    "onnxruntime": Entry("ONNX Runtime", "onnxruntime:OnnxRuntime", own_packages=True),
    "openvino": Entry("OpenVINO", "openvino:OpenVino", own_packages=True),
    "tinygrad": Entry("tinygrad", "tinygrad:Tinygrad", own_packages=True),
    "numpy": Entry("plain numpy", "plain_numpy:Numpy"),
}


def requirements(name: str) -> Path:
    """Return the file that pins the packages of framework `name`."""
    return HERE / "requirements" / f"{name}.txt"


def environment(name: str) -> Path:
    """Return the folder of the virtual environment of framework `name`."""
    return home() / ".venv-bench" / name


def is_installed(name: str) -> bool:
    """Return whether the packages of framework `name` are installed in the pinned versions."""
    if not FRAMEWORKS[name].own_packages:
        return True
    kept = environment(name) / "requirements.txt"
    return kept.exists() and kept.read_bytes() == requirements(name).read_bytes()


def python(name: str) -> str:
    """Return the Python that runs framework `name`."""
    if FRAMEWORKS[name].own_packages:
        return str(environment(name) / "bin" / "python")
    return sys.executable


def install(names: Sequence[str]) -> dict[str, str]:
    """Install the missing frameworks among `names`; return the error message of each that failed."""
    failures = {}
    for name in names:
        if is_installed(name):
            continue
        folder = environment(name)
        print(f"Installing {FRAMEWORKS[name].title} into {folder}", file=sys.stderr)
        reason = _make(name)
        if reason:
            print(f"  failed: {reason}", file=sys.stderr)
            failures[name] = f"could not be installed: {reason}"
    return failures


def _make(name: str) -> str:
    """Create the environment of framework `name`; return an error message, empty on success."""
    folder = environment(name)
    folder.parent.mkdir(exist_ok=True)
    (folder.parent / ".gitignore").write_text("*\n")
    shutil.rmtree(folder, ignore_errors=True)
    pip = [python(name), "-m", "pip", "install", "--requirement", str(requirements(name))]
    reason = error_of([sys.executable, "-m", "venv", str(folder)]) or error_of(pip)
    if not reason:
        shutil.copy(requirements(name), folder / "requirements.txt")
    return reason


def error_of(command: Sequence[str]) -> str:
    """Run `command`; return the last error that pip printed, else its last line, and "" on success."""
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["pip printed nothing"])[-1] if done.returncode else ""
