"""Compares the arithmetic operations per second of a training with the machine's peak."""

import time
from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

from simple_dqn.deepqnetwork.compute.device import Device
from simple_dqn.machine import usable_cores

SIDE = {"cpu": 1024, "cuda": 8192}  # of the matrices that measure the peak
SECONDS = 0.2  # for the measurement of the peak, at most
SHARE = 0.01  # of the training's time, at most
PRODUCTS = 3  # matrix products, at least


def share_of_peak(device: Device, update: Callable[[], object], updates: float, seconds: float) -> str:
    """Return a line for the log: the operations per second of `updates` in `seconds`, beside the peak.

    Args:
        device: The device.
        update: Does the arithmetic of one update; its operations are counted.
        updates: The number of updates.
        seconds: The wall time of the training, in which other work was done, too.
    """
    with FlopCounterMode(display=False) as counter:
        update()
    most = peak(device, min(SECONDS, SHARE * seconds))
    rate = counter.get_total_flops() * updates / seconds
    return (
        f"Of peak: {rate / most:.1%}; the updates made {rate / 1e9:.1f} of the {most / 1e9:.0f} GFLOP/s of a "
        f"matrix product in {device.datatype}"
    )


def peak(device: Device, seconds: float) -> float:
    """Return the operations per second of the fastest product of large matrices within `seconds`.

    The datatype is that of the hidden layers. The CPU uses all usable cores, whatever the network's number of
    threads, which is restored afterwards.
    """
    on, threads = device.torch_device, torch.get_num_threads()
    side = SIDE[on.type]
    one, other = (torch.ones((side, side), dtype=device.precision.hidden, device=on) for _ in range(2))
    if device.is_cpu:
        torch.set_num_threads(usable_cores())
    try:
        times: list[float] = []
        while sum(times) < seconds or len(times) < PRODUCTS:
            start = time.perf_counter()
            torch.mm(one, other)[0, 0].item()  # waits for the product
            times.append(time.perf_counter() - start)
    finally:
        torch.set_num_threads(threads)
    return float(2 * side**3 / min(times))
