"""The replay memory's screens in GPU memory, where minibatches are gathered without the host."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simple_dqn.deepqnetwork.compute.device import CPU, tensor_on
from simple_dqn.types import DeviceStates, Flags, Screens, States

RESERVED = 2 * 10**9  # bytes of GPU memory left to the network and its updates


class DeviceScreens:
    """Screens of E games by row and game, in the order of `simple_dqn.replay_memory.ScreenStore`.

    For each minibatch only the indices of its screens travel to the GPU, and nothing comes back.
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

    def gather(self, windows: NDArray[np.int64], hidden: Flags | None) -> Tensor:
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

    def first(self, rows: int) -> NDArray[np.uint8]:
        """Return a copy of the first `rows` rows, uint8 [rows, E, H, W], in the host's memory."""
        return self.on_host(self._screens[:rows])


def screens_on(
    device: torch.device, rows: int, games: int, screen_shape: tuple[int, int]
) -> DeviceScreens | None:
    """Return storage for screens on `device`; None: it is the CPU, or has too little free memory."""
    if device == CPU:
        return None
    free, _ = torch.cuda.mem_get_info(device)
    height, width = screen_shape
    fits = rows * games * height * width <= free - RESERVED
    return DeviceScreens(rows, games, screen_shape, device) if fits else None
