"""The number of CPU threads that the network computes with."""

import logging
import time
from collections.abc import Callable, Hashable

import torch

from simple_dqn.machine import usable_cores

logger = logging.getLogger(__name__)

# Sums of floats depend on the number of threads, so a run can be repeated bit for bit only with the same
# number. Two measures keep the choice stable on a busy machine: the fastest of several calls counts, and a
# smaller number of threads must be faster by this factor.
LEAST_GAIN = 1.15
CALLS = 6  # for each number of threads; the first warms up
SECONDS = 0.1  # after which no further call is timed for this number

_choices: dict[tuple[Hashable, int], int] = {}  # by kind of work, and cores to choose from


def choose_threads(work: Callable[[], object], most: int) -> int:
    """Return the fastest number of threads for `work`, among 1, 2, 4, ... and `most`.

    The larger of two numbers is kept unless the smaller is faster by `LEAST_GAIN`. The calling thread keeps
    the last number measured.
    """
    chosen, least = 1, float("inf")
    for threads in sorted({most, *(2**power for power in range(most.bit_length()))}):
        torch.set_num_threads(threads)
        seconds = _fastest(work)
        if seconds <= least * LEAST_GAIN:
            chosen, least = threads, min(seconds, least)
    return chosen


def _fastest(work: Callable[[], object]) -> float:
    """Return the time of the fastest of a few calls, in seconds."""
    work()
    times: list[float] = []
    while len(times) < CALLS - 1 and sum(times) < SECONDS:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def use_threads(threads: int, spare_cores: int, kind: Hashable, work: Callable[[], object]) -> int:
    """Compute with `threads` threads in the calling thread from now on, and return their number.

    Args:
        threads: The number of threads; 0: `choose_threads` measures it.
        spare_cores: Usable cores that a measured number leaves to other threads.
        kind: Identifies `work`; each process measures a kind once.
        work: The function to measure.
    """
    cores = usable_cores()
    if not threads:
        most = max(1, cores - spare_cores)
        if (kind, most) not in _choices:
            _choices[kind, most] = choose_threads(work, most) if most > 1 else 1
        threads = _choices[kind, most]
    torch.set_num_threads(threads)
    logger.info("the network uses %d of %d cores", min(threads, cores), cores)
    return threads


def use_copying_threads(threads: int) -> int:
    """Copy arrays to a GPU with `threads` threads, 0: with one, and return their number.

    More would spin between two copies, on cores that the games need.
    """
    torch.set_num_threads(threads or 1)
    return threads or 1


def use_one_thread() -> None:
    """Compute on one core in the calling thread from now on; other threads keep their number."""
    torch.set_num_threads(1)
