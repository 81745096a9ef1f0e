"""The device of the network, no part of the algorithm: datatypes, arrays, CUDA graphs and CPU threads."""

import functools
import logging
import math
import threading
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from simple_dqn.config import BackendConfig
from simple_dqn.errors import UserError
from simple_dqn.machine import SHARE, available_memory, idle_cores, usable_cores
from simple_dqn.replay import HostScreens
from simple_dqn.types import Mask, Screens, States, observation_dtype

logger = logging.getLogger(__name__)

CPU = torch.device("cpu")
# Whether the CPU multiplies matrices of bfloat16 (Intel's AMX), which favors channels-last convolutions.
AMX = torch.cpu.get_capabilities().get("amx_bf16", False)
RESERVED = 2 * 10**9  # bytes of GPU memory left to the network and its updates
MOST_THREADS = 8  # more would wait for each other in updates as small as these

Work: TypeAlias = Callable[..., Tensor]  # computes one tensor from others, and may change weights


class Device:
    """A device, and the datatypes in which the network computes there.

    The output layer and everything after it are float32 or wider, as are the optimizer's weights. In
    bfloat16, numbers near 1 are 0.004 to 0.008 apart: many Q-values would be equal, and small TD errors 0.
    """

    def __init__(self, torch_device: torch.device, datatype: str) -> None:
        self.torch_device, self.is_cpu = torch_device, torch_device == CPU
        self.datatype = datatype  # a value of `--datatype`
        self.loss_scaling = datatype == "float16"  # whether small gradients would underflow
        self.hidden: torch.dtype = getattr(torch, datatype)  # of the hidden layers
        # Of the output layer, the targets, the loss and the optimizer's weights.
        self.wide = torch.float64 if datatype == "float64" else torch.float32
        # The memory layout of screens and filters; on the CPU, the faster one in our measurements.
        planes = self.is_cpu and datatype == "bfloat16" and not AMX
        self.layout = torch.contiguous_format if planes else torch.channels_last

    @property
    def captures(self) -> bool:
        """Whether work runs as CUDA graphs; with loss scaling it cannot, as the host checks for overflows."""
        return self.torch_device.type == "cuda" and not self.loss_scaling

    def capture(self, work: Work) -> Work:
        """Return `work` as a CUDA graph if the device `captures`, else `work` itself."""
        return CapturedGraph(work) if self.captures else work

    def move(self, network: nn.Module) -> None:
        """Move `network` to the device, and its filters to the device's memory layout."""
        network.to(self.torch_device)
        for weight in network.parameters():
            if weight.dim() == 4:
                weight.data = weight.data.contiguous(memory_format=self.layout)

    def tensor(self, array: NDArray[np.generic] | Tensor) -> Tensor:
        """Return `array`, of any strides, on the device in its own datatype; it may share its memory."""
        if isinstance(array, Tensor):
            return array
        if min(array.strides, default=0) < 0:  # which NumPy calls contiguous if that axis has one element
            array = array.copy()
        values = torch.from_numpy(np.require(array, requirements=["C", "W"]))
        if self.torch_device.type == "cuda":  # so that the host does not wait for what the GPU has queued
            values = values.pin_memory()
        return values if self.is_cpu else values.to(self.torch_device, non_blocking=True)

    def floats(self, states: States | Tensor, block: int = 1, out: Tensor | None = None) -> Tensor:
        """Return `states` uint8 [B, S, H, W] as floats in [0, 1], in the datatype of the hidden layers.

        In bfloat16 on a CPU with AMX they are in blocks [B, S · 16, H / 4, W / 4], and in [0, 255], if
        `block`, that of the network's `ScreenConvolution`, is 4 and divides H and W. Observations that are
        not screens are only converted to the datatype. `out` is the tensor to write to; None: a new one.
        """
        layout, scale = torch.channels_last, 255
        if states.ndim != 4:
            values, layout, scale = self.tensor(states), torch.contiguous_format, 1
        elif not self.is_cpu or self.layout != torch.channels_last or isinstance(states, Tensor):
            values, layout = self.tensor(states), self.layout
        else:
            count, screens, height, width = states.shape
            if block == 4 and self.hidden == torch.bfloat16 and not height % 4 and not width % 4:
                states = states if states.strides[-1] == 1 else states.copy()  # a view needs whole rows
                # Each number is four pixels of a row, and four of these rows make a block.
                fours = states.view(np.uint32).reshape(count, screens, height // 4, 4, width // 4)
                ordered = np.ascontiguousarray(fours.transpose(0, 2, 4, 1, 3)).view(np.uint8)
                ordered, scale = ordered.reshape(count, height // 4, width // 4, screens * 16), 1
            else:  # Interleaving bytes takes a third of the time that interleaving floats does.
                ordered = np.empty((count, height, width, screens), np.uint8)
                for screen in range(screens):
                    ordered[..., screen] = states[:, screen]
            values = torch.from_numpy(ordered).permute(0, 3, 1, 2)
        if out is None:
            out = torch.empty_like(values, dtype=self.hidden, memory_format=layout)
        out.copy_(values)
        return out.div_(scale) if scale > 1 else out

    def spare_memory(self) -> int:
        """Return how many bytes of its free memory large arrays may take."""
        if self.is_cpu:
            return int(SHARE * available_memory())
        return torch.cuda.mem_get_info(self.torch_device)[0] - RESERVED

    def make_screens(self, rows: int, games: int, screen_shape: tuple[int, ...]) -> HostScreens | None:
        """Return storage for screens on the device; None if it is the CPU or has too little free memory."""
        if self.is_cpu:
            return None
        size = math.prod(screen_shape) * observation_dtype(screen_shape).itemsize
        fits = rows * games * size <= self.spare_memory()
        return DeviceScreens(rows, games, screen_shape, self) if fits else None


def take(states: Tensor, places: Tensor) -> Tensor:
    """Return `states` [N, ...] at `places` int64 [B], in their layout; PyTorch copies whole rows fastest."""
    if states.is_contiguous():
        return states.index_select(0, places)
    return states.movedim(1, -1).index_select(0, places).movedim(-1, 1)


def choose_device(config: BackendConfig) -> Device:
    """Return the device that `config` chooses; without a GPU the CPU. UserError: no GPU has that number."""
    device, number, found = CPU, config.device_id, torch.cuda.device_count()
    if config.backend == "cpu":
        if number:
            _warn(f"--device_id {number} does nothing with --backend cpu")
    elif not torch.cuda.is_available():
        asked = f"--device_id {number} names no GPU, as " if number else ""
        _warn(f"{asked}no GPU that PyTorch can use was found: the network runs on the CPU (--backend cpu)")
    elif number < found:
        device = torch.device("cuda", number)
    else:
        known = "0" if found == 1 else f"0 to {found - 1}"
        raise UserError(f"--device_id {number} names no GPU: give {known}")
    if device == CPU:
        # glibc returns freed blocks as large as a gradient to the kernel, and page faults when they are
        # allocated again can cost a third of an update in bfloat16. It keeps blocks up to the size of the
        # largest that was ever freed, at most 32 MB: so one is allocated and freed here.
        torch.empty(31 * 2**20, dtype=torch.uint8)
    else:
        torch.backends.cudnn.deterministic = True
    if config.datatype != "auto":
        return Device(device, config.datatype)
    if device == CPU:
        native = any(has for kind, has in torch.cpu.get_capabilities().items() if kind.endswith("bf16"))
    else:
        with torch.cuda.device(device):
            native = torch.cuda.is_bf16_supported(including_emulation=False)
    return Device(device, "bfloat16" if native else "float32")


def gpus() -> list[str]:
    """Return the names of the GPUs that PyTorch can use, in the order of `--device_id`."""
    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


@functools.cache  # one process may make several networks
def _warn(line: str) -> None:
    logger.warning("%s", line)


class DeviceScreens(HostScreens):
    """The screens on a GPU: a minibatch copies only indices there, and nothing comes back."""

    def __init__(self, rows: int, games: int, screen_shape: tuple[int, ...], device: Device) -> None:
        self._device, shape = device, (rows, games, *screen_shape)
        dtype: torch.dtype = getattr(torch, observation_dtype(screen_shape).name)
        self._on_device = torch.empty(shape, dtype=dtype, device=device.torch_device)

    def write(self, row: int, screens: Screens | Tensor) -> None:
        """Store `screens` uint8 [E, H, W] as `row`."""
        self._on_device[row].copy_(self._device.tensor(screens))

    def gather(self, windows: NDArray[np.int64], hidden: Mask) -> Tensor:
        """Return the screens at `windows` [B, K], zero where `hidden` [B, L]; a new tensor [B, K, H, W]."""
        places = self._device.tensor(windows).view(-1)
        screens = self._on_device.flatten(0, 1).index_select(0, places)
        screens = screens.view(*windows.shape, *screens.shape[1:])
        if hidden.any():  # else the GPU is spared the work
            covers = self._device.tensor(hidden.reshape(*hidden.shape, *[1] * (screens.ndim - 2)))
            screens[:, : hidden.shape[1]].masked_fill_(covers, 0)
        return screens


def use_threads(threads: int, device: Device, spare_cores: int) -> int:
    """Compute with `threads` threads in the calling thread from now on, and return their number.

    0: on the CPU one for each core that is idle now, less `spare_cores`, at most `MOST_THREADS`: a thread on
    a core that another program uses makes all others wait. With a GPU one, which copies arrays: more would
    spin between two copies. Sums of floats, and so the bits of a run, depend on the number of threads.
    """
    cores = usable_cores()
    if not threads:
        several = device.is_cpu and cores - spare_cores > 1
        threads = max(1, min(idle_cores() - spare_cores, MOST_THREADS)) if several else 1
    torch.set_num_threads(threads)
    if device.is_cpu:
        logger.info("The network uses %d of %d cores, and is being built", min(threads, cores), cores)
    return threads


# A capture begins by waiting for the GPU, which would break another thread's.
CAPTURE_LOCK = threading.Lock()
WARM_UPS = 3  # calls before the capture, in which libraries choose kernels and allocate their workspace


class CapturedGraph:
    """A function of tensors that is captured as a CUDA graph, and replayed from its fourth call on.

    An update of Nature's network is about a hundred kernels of a few microseconds each, less than the CPU
    needs to launch one; a graph launches all at once. Every call does the work exactly once. It is captured
    again when the shapes of its inputs change; all its other tensors must stay at their place in memory.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._inputs: list[Tensor] = []
        self._replay: Callable[[], Tensor] | None = None
        self._shapes: list[torch.Size] = []
        self._calls = 0  # with these shapes

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Do the work on `inputs`; the result is the caller's to keep."""
        shapes = [values.shape for values in inputs]
        if shapes != self._shapes:
            self._shapes, self._calls, self._replay = shapes, 0, None
        self._calls += 1
        if self._calls <= WARM_UPS:
            return on_side_stream(self._work, inputs)
        if self._replay is None:
            self._inputs = [values.clone() for values in inputs]
            self._replay = capture_graph(lambda: self._work(*self._inputs), inputs[0].device)
        for place, values in zip(self._inputs, inputs, strict=True):
            place.copy_(values)
        return self._replay().clone()


def on_side_stream(work: Work, inputs: tuple[Tensor, ...]) -> Tensor:
    """Run `work` on a stream of its own, as a capture does; the current stream waits for it."""
    with torch.cuda.device(inputs[0].device):  # otherwise the streams would be the first GPU's
        current, side = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(current)
        with torch.cuda.stream(side):
            result = work(*inputs)
        current.wait_stream(side)
        result.record_stream(current)
    return result


def capture_graph(work: Callable[[], Tensor], gpu: torch.device) -> Callable[[], Tensor]:
    """Capture `work` on `gpu` without running it; other threads may use the GPU meanwhile."""
    graph = torch.cuda.CUDAGraph()
    with CAPTURE_LOCK, torch.cuda.device(gpu), torch.cuda.graph(graph, capture_error_mode="thread_local"):
        result = work()

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay
