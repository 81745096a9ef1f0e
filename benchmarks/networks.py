"""How long the network takes: one prediction and one update, by batch and datatype, in microseconds."""

import functools
import os
import time
from collections.abc import Callable

import numpy as np
import torch
from table import print_table

from simple_dqn.config import BackendConfig, NetworkConfig
from simple_dqn.deepqnetwork import DeepQNetwork
from simple_dqn.types import Minibatch

ACTIONS = 6
STATE_SHAPE = (4, 84, 84)
DATATYPES = ("float32", "bfloat16")
PREDICT_BATCHES = (1, 8, 32)
TRAIN_BATCHES = (32, 128)
REPEATS = 11  # of every variant, in turn; the first warms up and is not counted
REPEAT_SECONDS = 0.1  # that one repeat lasts, or one call where that is longer


def minibatch(size: int, rng: np.random.Generator) -> Minibatch:
    return Minibatch(
        prestates=rng.integers(0, 256, (size, *STATE_SHAPE), dtype=np.uint8),
        actions=rng.integers(0, ACTIONS, size),
        rewards=rng.integers(-1, 2, size).astype(np.float32),
        poststates=rng.integers(0, 256, (size, *STATE_SHAPE), dtype=np.uint8),
        terminals=rng.random(size) < 0.05,
        discounts=np.full(size, 0.99, np.float32),
    )


def variants(backend: str) -> dict[tuple[str, str], Callable[[], object]]:
    """Return what is measured, by what it is and its datatype."""
    rng = np.random.default_rng(0)
    networks = {
        datatype: DeepQNetwork(
            ACTIONS, 4, STATE_SHAPE[1:], NetworkConfig(), BackendConfig(backend, 0, datatype), rng
        )
        for datatype in DATATYPES
    }
    result: dict[tuple[str, str], Callable[[], object]] = {}
    for size in PREDICT_BATCHES:
        states = minibatch(size, rng).prestates
        for datatype, network in networks.items():
            result[f"predict {size}", datatype] = functools.partial(network.predict, states)
    for size in TRAIN_BATCHES:
        batch = minibatch(size, rng)
        for datatype, network in networks.items():
            result[f"update of {size}", datatype] = functools.partial(network.train, batch)
    return result


def seconds(call: Callable[[], object], calls: int) -> float:
    """Return how long one of `calls` calls took."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def measure(calls: dict[tuple[str, str], Callable[[], object]]) -> dict[tuple[str, str], list[float]]:
    """Return seconds by variant, which take turns so that a busy moment of the machine meets all of them."""
    counts = {key: max(1, int(REPEAT_SECONDS / seconds(call, 3))) for key, call in calls.items()}
    times: dict[tuple[str, str], list[float]] = {key: [] for key in calls}
    for repeat in range(REPEATS):
        for key, call in calls.items():
            elapsed = seconds(call, counts[key])
            if repeat:
                times[key].append(elapsed)
    return times


def main() -> None:
    for backend in ("cpu", "gpu") if torch.cuda.is_available() else ("cpu",):
        times = measure(variants(backend))
        rows = []
        for (what, datatype), values in times.items():
            low, middle, high = np.percentile(values, (0, 50, 100)) * 1e6
            rows.append((what, datatype, f"{middle:,.0f}", f"{low:,.0f}", f"{high:,.0f}"))
        threads = f"{torch.get_num_threads()} threads, {os.cpu_count()} cores, torch {torch.__version__}"
        print_table(
            f"Nature network on {backend}, µs a call ({threads})",
            ("what", "datatype", "median", "least", "most"),
            rows,
        )


if __name__ == "__main__":
    main()
