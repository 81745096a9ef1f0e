"""Speed of large matrix products on this machine, to which the speed of the networks is compared.

python -m networks.peak DEVICE THREADS
"""

import json
import sys
import time

import torch

from networks.work import DATATYPES

SIDE = 2048
PRODUCTS = 12  # of which the fastest is reported


def peak(datatype: torch.dtype, device: torch.device) -> float:
    """Return the floating-point operations per second of the fastest product."""
    left, right = (torch.rand(SIDE, SIDE).to(device, datatype) for _ in range(2))
    seconds = []
    for _ in range(PRODUCTS):
        start = time.perf_counter()
        left @ right
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return 2 * SIDE**3 / min(seconds)


def main(device: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    place = torch.device("cuda" if device == "gpu" else "cpu")
    print(json.dumps({datatype: peak(getattr(torch, datatype), place) for datatype in DATATYPES}))


if __name__ == "__main__":
    main(*sys.argv[1:])
