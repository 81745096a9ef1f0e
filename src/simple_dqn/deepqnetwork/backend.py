"""What the network runs on: the device, the datatypes on it, and how arrays come to it."""

import functools
import logging
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from simple_dqn.config import BackendConfig
from simple_dqn.errors import UserError
from simple_dqn.types import States

log = logging.getLogger(__name__)

CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Precision:
    """The datatypes of one `--datatype`.

    The output layer and all that follows it are never narrower than float32: in bfloat16 Q-values near 1
    lie 0.004 to 0.008 apart, so that the arg-max would often be the first of several ties and the
    temporal-difference error would be rounded away. The optimizer too works on weights of that width.
    """

    hidden: torch.dtype  # in which the hidden layers compute
    master: torch.dtype  # of the output layer, targets and loss, and of the weights the optimizer changes
    cpu_layout: torch.memory_format  # of convolutions on the CPU: the one that measured faster
    loss_scaling: bool = False  # whether small gradients would vanish in `hidden`


PRECISIONS = {
    "float32": Precision(torch.float32, torch.float32, torch.channels_last),
    "bfloat16": Precision(torch.bfloat16, torch.float32, torch.contiguous_format),
    "float16": Precision(torch.float16, torch.float32, torch.channels_last, loss_scaling=True),
    "float64": Precision(torch.float64, torch.float64, torch.channels_last),
}


@functools.cache
def _say_that_there_is_no_gpu() -> None:
    log.warning("no GPU that PyTorch can use was found: the network runs on the CPU (--backend cpu)")


def gpus() -> list[str]:
    """Return the names of the GPUs that PyTorch can use, in the order of `--device_id`."""
    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


def choose_device(backend: BackendConfig) -> torch.device:
    """Return the GPU that `backend` asks for, or the CPU where there is none.

    Raises:
        UserError: There are GPUs, but not as many as `device_id` says.
    """
    if backend.backend == "cpu":
        return CPU
    if not torch.cuda.is_available():
        _say_that_there_is_no_gpu()
        return CPU
    found = torch.cuda.device_count()
    if backend.device_id >= found:
        raise UserError(
            f"--device_id {backend.device_id} names no GPU: there are {found}, so give 0 to {found - 1}"
        )
    return torch.device("cuda", backend.device_id)


def choose_datatype(backend: BackendConfig, device: torch.device) -> str:
    """Return the `--datatype` of `backend`; for auto bfloat16, unless `device` can only imitate it."""
    if backend.datatype != "auto":
        return backend.datatype
    if device == CPU:
        computes = any(has for name, has in torch.cpu.get_capabilities().items() if name.endswith("bf16"))
    else:
        with torch.cuda.device(device):
            computes = torch.cuda.is_bf16_supported(including_emulation=False)
    return "bfloat16" if computes else "float32"


def set_up(device: torch.device) -> None:
    """Set up `device` for updates that are fast, and the same each time.

    An update needs and frees some dozens of MB. glibc gives blocks as large as an activation or a gradient
    back to the kernel at once, and faulting them in again can cost a third of an update in bfloat16. Its
    thresholds rise to the largest block that was ever freed, up to 32 MB: so one is freed here, untouched.
    """
    if device.type == "cuda":
        torch.backends.cudnn.deterministic = True
    else:
        torch.empty(31 * 2**20, dtype=torch.uint8)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where and how a network computes."""

    device: torch.device
    precision: Precision
    layout: torch.memory_format  # of convolutions

    def floats(self, states: States | Tensor) -> Tensor:
        """Return `states` uint8 [B, S, H, W] as floats in [0, 1], as the hidden layers take them."""
        on_device = tensor(states, self.device)
        return on_device.to(self.precision.hidden, memory_format=self.layout).div_(255)


def place(device: torch.device, datatype: str) -> Placement:
    """Return how a network computes in `datatype` on `device`."""
    precision = PRECISIONS[datatype]
    return Placement(device, precision, precision.cpu_layout if device == CPU else torch.channels_last)


def lay_out(network: nn.Module, layout: torch.memory_format) -> None:
    """Put the filters of `network` in memory as `layout` says."""
    for weight in network.parameters():
        if weight.dim() == 4:
            weight.data = weight.data.contiguous(memory_format=layout)


def tensor(array: NDArray[np.generic] | Tensor, device: torch.device) -> Tensor:
    """Return `array`, of any strides, on `device` in its own datatype; it may share the array's memory.

    What is a tensor on `device` already is returned as it is. To a GPU the array travels from pages that
    stay in place, so that the host need not wait for what the GPU does meanwhile.
    """
    if isinstance(array, Tensor):
        return array
    values = torch.from_numpy(np.require(array, requirements=["C", "W"]))
    return values if device == CPU else values.pin_memory().to(device, non_blocking=True)
