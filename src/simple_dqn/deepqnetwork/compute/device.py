"""The device that the network computes on: its choice, its datatypes, and the transfer of arrays.

The replay memory's screens can be on the GPU too, so that minibatches are gathered without the host.
"""

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from simple_dqn.config import BackendConfig
from simple_dqn.deepqnetwork.compute.cuda_graphs import Recorded
from simple_dqn.errors import UserError
from simple_dqn.types import DeviceStates, Mask, Screens, States

logger = logging.getLogger(__name__)

CPU = torch.device("cpu")
# Whether the CPU multiplies matrices of bfloat16 (Intel's AMX), which favours channels-last convolutions.
AMX = torch.cpu.get_capabilities().get("amx_bf16", False)
RESERVED = 2 * 10**9  # bytes of GPU memory left to the network and its updates


@dataclass(frozen=True, slots=True)
class Precision:
    """The datatypes of one value of `--datatype`.

    The output layer and everything after it are float32 or wider. In bfloat16, neighbouring numbers near 1
    are 0.004 to 0.008 apart: many Q-values would be equal, and small TD errors would be rounded to 0. The
    optimizer's weights are float32 or wider, too.
    """

    hidden: torch.dtype  # of the hidden layers
    master: torch.dtype  # of the output layer, the targets, the loss and the optimizer's weights
    cpu_layout: torch.memory_format  # of convolutions on the CPU: the faster one in our measurements
    loss_scaling: bool = False  # small gradients would underflow in `hidden`


PRECISIONS = {
    "float32": Precision(torch.float32, torch.float32, torch.channels_last),
    "bfloat16": Precision(
        torch.bfloat16, torch.float32, torch.channels_last if AMX else torch.contiguous_format
    ),
    "float16": Precision(torch.float16, torch.float32, torch.channels_last, loss_scaling=True),
    "float64": Precision(torch.float64, torch.float64, torch.channels_last),
}


@dataclass(frozen=True, slots=True)
class Device:
    """A device and the datatype that the network computes in."""

    torch_device: torch.device
    datatype: str  # one of `PRECISIONS`

    @property
    def is_cpu(self) -> bool:
        """Whether it is the CPU."""
        return self.torch_device == CPU

    @property
    def precision(self) -> Precision:
        """The datatypes of `datatype`."""
        return PRECISIONS[self.datatype]

    @property
    def layout(self) -> torch.memory_format:
        """The memory layout of screens and filters."""
        return self.precision.cpu_layout if self.is_cpu else torch.channels_last

    @property
    def records(self) -> bool:
        """Whether an update runs as CUDA graphs.

        Loss scaling asks the host at each update whether a gradient overflowed, which a graph cannot do.
        """
        return self.torch_device.type == "cuda" and not self.precision.loss_scaling

    def record(self, work: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """Return `work` as a CUDA graph if the device `records`, else `work` itself."""
        return Recorded(work) if self.records else work

    def move(self, network: nn.Module) -> None:
        """Move `network` to the device, and its filters to the device's memory layout."""
        network.to(self.torch_device)
        for weight in network.parameters():
            if weight.dim() == 4:
                weight.data = weight.data.contiguous(memory_format=self.layout)

    def tensor(self, array: NDArray[np.generic] | Tensor) -> Tensor:
        """Return `array`, of any strides, on the device in its own datatype; see `tensor_on`."""
        return tensor_on(self.torch_device, array)

    def floats(self, states: States | Tensor) -> Tensor:
        """Return `states` uint8 [B, S, H, W] as floats in [0, 1], in the datatype of the hidden layers."""
        if self.is_cpu and self.layout == torch.channels_last and isinstance(states, np.ndarray):
            return _channels_last(states).to(self.precision.hidden).div_(255).permute(0, 3, 1, 2)
        values = self.tensor(states)
        return values.to(self.precision.hidden, memory_format=self.layout).div_(255)


def _channels_last(states: States) -> Tensor:
    """Return `states` [B, S, H, W] as a tensor uint8 [B, H, W, S].

    Interleaving bytes takes a third of the time that interleaving floats does.
    """
    count, screens, height, width = states.shape
    interleaved = np.empty((count, height, width, screens), np.uint8)
    for screen in range(screens):
        interleaved[..., screen] = states[:, screen]
    return torch.from_numpy(interleaved)


def tensor_on(device: torch.device, array: NDArray[np.generic] | Tensor) -> Tensor:
    """Return `array`, of any strides, on `device` in its own datatype; it may share the array's memory.

    A tensor is returned as it is. An array reaches a GPU through pinned memory, so that the host does not
    wait for the work that the GPU has queued.
    """
    if isinstance(array, Tensor):
        return array
    if min(array.strides, default=0) < 0:  # which NumPy calls contiguous if that axis has one element
        array = array.copy()
    values = torch.from_numpy(np.require(array, requirements=["C", "W"]))
    if device.type == "cuda":
        values = values.pin_memory()
    return values if device == CPU else values.to(device, non_blocking=True)


def choose_device(config: BackendConfig) -> Device:
    """Return the device that `config` chooses; without a GPU the CPU, with a warning.

    Raises:
        UserError: There are GPUs, but none with the number `device_id`.
    """
    device = CPU
    if config.backend == "gpu":
        device = _gpu(config.device_id) or CPU
    elif config.device_id:
        _warn(f"--device_id {config.device_id} does nothing with --backend cpu")
    if device == CPU:
        # glibc returns freed blocks as large as an activation or a gradient to the kernel, and page faults
        # when they are allocated again can cost a third of an update in bfloat16. glibc raises its threshold
        # to the largest block that was ever freed, up to 32 MB: so one is allocated and freed here.
        torch.empty(31 * 2**20, dtype=torch.uint8)
    else:
        torch.backends.cudnn.deterministic = True
    return Device(device, choose_datatype(config.datatype, device))


def choose_datatype(name: str, device: torch.device) -> str:
    """Return the datatype for `--datatype NAME`; for auto, bfloat16 if `device` has instructions for it."""
    if name != "auto":
        return name
    if device == CPU:
        native = any(has for kind, has in torch.cpu.get_capabilities().items() if kind.endswith("bf16"))
    else:
        with torch.cuda.device(device):
            native = torch.cuda.is_bf16_supported(including_emulation=False)
    return "bfloat16" if native else "float32"


def gpus() -> list[str]:
    """Return the names of the GPUs that PyTorch can use, in the order of `--device_id`."""
    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


def _gpu(number: int) -> torch.device | None:
    if not torch.cuda.is_available():
        asked = f"--device_id {number} names no GPU, as " if number else ""
        _warn(f"{asked}no GPU that PyTorch can use was found: the network runs on the CPU (--backend cpu)")
        return None
    found = torch.cuda.device_count()
    if number >= found:
        raise UserError(
            f"--device_id {number} names no GPU: this machine has {found}, so give 0 to {found - 1}"
        )
    return torch.device("cuda", number)


@functools.cache  # one process may make several networks
def _warn(line: str) -> None:
    logger.warning("%s", line)


class DeviceScreens:
    """A `ScreenStore` of the replay memory on a GPU.

    For a minibatch only the indices of its screens are copied to the GPU, and nothing comes back.
    """

    def __init__(self, rows: int, games: int, screen_shape: tuple[int, int], device: torch.device) -> None:
        """Allocate `rows` screens of each game on `device`."""
        self._screens = torch.empty((rows, games, *screen_shape), dtype=torch.uint8, device=device)
        self._flat = self._screens.view(rows * games, *screen_shape)
        self._device = device

    @property
    def nbytes(self) -> int:
        """Bytes of all the screens."""
        return self._screens.nbytes

    def write(self, row: int, screens: Screens) -> None:
        """Store `screens` uint8 [E, H, W] as `row`."""
        self._screens[row].copy_(tensor_on(self._device, screens))

    def gather(self, windows: NDArray[np.int64], hidden: Mask | None) -> Tensor:
        """Return the screens at `windows` int64 [B, K]; those where `hidden` bool [B, L] is true are zero.

        Returns:
            uint8 [B, K, H, W] on the device, fresh.
        """
        places = tensor_on(self._device, windows)
        screens = self._flat.index_select(0, places.view(-1)).view(*windows.shape, *self._flat.shape[1:])
        if hidden is not None:
            covers = tensor_on(self._device, hidden)[:, :, None, None]
            screens[:, : hidden.shape[1]].masked_fill_(covers, 0)
        return screens

    def on_host(self, screens: DeviceStates) -> States:
        """Return a copy of `screens`, from `gather`, in the host's memory."""
        return np.array(screens.cpu().numpy())


def screens_on(
    device: torch.device, rows: int, games: int, screen_shape: tuple[int, int]
) -> DeviceScreens | None:
    """Return storage for screens on `device`; None if it is the CPU or has too little free memory."""
    if device == CPU:
        return None
    free, _ = torch.cuda.mem_get_info(device)
    height, width = screen_shape
    fits = rows * games * height * width <= free - RESERVED
    return DeviceScreens(rows, games, screen_shape, device) if fits else None
