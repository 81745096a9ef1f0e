"""How much of the machine's arithmetic a training uses: its operations per second, and the peak."""

import time
from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

from simple_dqn.deepqnetwork.compute.device import Device
from simple_dqn.machine import usable_cores

SIDE = {"cpu": 1024, "cuda": 8192}  # of the matrices that measure the peak
SECONDS = 0.2  # for which the peak is measured


def share_of_peak(device: Device, update: Callable[[], object], updates: float, seconds: float) -> str:
    """Return a line for the log: the operations per second of `updates` in `seconds`, beside the peak.

    Args:
        device: The device.
        update: Does the arithmetic of one update; its operations are counted.
        updates: How many there were.
        seconds: The wall time that they took, with all that was done beside them.
    """
    with FlopCounterMode(display=False) as counter:
        update()
    most = peak(device)
    rate = counter.get_total_flops() * updates / seconds
    return (
        f"Of peak: {rate / most:.0%}; the updates made {rate / 1e9:.1f} of the {most / 1e9:.0f} GFLOP/s of a "
        f"matrix product in {device.datatype}"
    )


def peak(device: Device) -> float:
    """Return the operations per second of the fastest of several products of large matrices.

    The datatype is that of the hidden layers. On the CPU all usable cores take part, whatever the number of
    threads of the network; the calling thread's number is as before when this returns.
    """
    on, threads = device.torch_device, torch.get_num_threads()
    side = SIDE[on.type]
    one, other = (torch.ones((side, side), dtype=device.precision.hidden, device=on) for _ in range(2))
    if device.is_cpu:
        torch.set_num_threads(usable_cores())
    try:
        best, end = float("inf"), time.perf_counter() + SECONDS
        while time.perf_counter() < end or best == float("inf"):
            start = time.perf_counter()
            torch.mm(one, other)[0, 0].item()  # waits for the product
            best = min(best, time.perf_counter() - start)
    finally:
        torch.set_num_threads(threads)
    return float(2 * side**3 / best)
