"""Runs one framework in this process; reads requests and writes answers, each a line of JSON.

python -m networks.worker FRAMEWORK DEVICE THREADS
"""

import importlib
import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, SupportsFloat, TypeAlias

from networks.catalogue import FRAMEWORKS
from networks.interface import Framework, QNetwork, UnsupportedError
from networks.proof import TARGET_SEED, WEIGHTS_SEED, q_answers
from networks.work import Task, draw_minibatch, draw_target, draw_weights

POOL = 4  # alternating batches, so that a batch is not in the cache from the previous call
BLOCK_SECONDS = 0.05  # duration of a block of calls during the warm-up
STABLE = 0.05  # the warm-up ends when blocks differ by less than this share

Call: TypeAlias = Callable[[], SupportsFloat | None]  # returns a loss, perhaps not yet computed, or nothing


class Worker:
    """One framework and its networks."""

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._networks: dict[str, QNetwork] = {}  # by datatype
        self._calls: dict[Task, Call] = {}

    def prove(self, datatype: str) -> dict[str, Any]:
        """Return the results that are compared with the reference."""
        given = q_answers(self._network(datatype))
        return {"outputs": given.outputs.tolist(), "loss": given.loss}

    def warm_up(self, task: Task, limit: float) -> dict[str, Any]:
        """Run the task until three successive blocks of calls take the same time, at most `limit` seconds.

        Returns:
            The seconds that this took; the first call may take most of them.
        """
        call, start = self._call(task), time.perf_counter()
        finish(call())
        blocks = [time_calls(call, BLOCK_SECONDS)["seconds"]]
        while time.perf_counter() - start < limit:
            blocks.append(time_calls(call, BLOCK_SECONDS)["seconds"])
            last = blocks[-3:]
            if len(last) == 3 and max(last) - min(last) <= STABLE * min(last):
                break
        return {"seconds": time.perf_counter() - start}

    def measure(self, task: Task, seconds: float) -> dict[str, Any]:
        """Return the seconds per call and the number of busy cores."""
        call = self._call(task)
        finish(call())
        return time_calls(call, seconds)

    def _network(self, datatype: str) -> QNetwork:
        if datatype not in self._networks:
            online, target = draw_weights(WEIGHTS_SEED), draw_target(TARGET_SEED)
            self._networks[datatype] = self._framework.q_network(online, target, datatype)
        return self._networks[datatype]

    def _call(self, task: Task) -> Call:
        if task not in self._calls:
            self._calls[task] = call_of(self._network(task.datatype), task)
        return self._calls[task]


def call_of(network: QNetwork, task: Task) -> Call:
    """Return a function that runs `task` once, with the next batch on each call."""
    minibatches = itertools.cycle([draw_minibatch(task.batch, seed) for seed in range(POOL)])

    def update() -> SupportsFloat:
        return network.train(next(minibatches))

    def predict() -> None:  # The prediction is on the host, so there is nothing to wait for.
        network.predict(next(minibatches).prestates)

    return update if task.training else predict


def finish(loss: SupportsFloat | None) -> None:
    """Wait until the computation of `loss` is done."""
    if loss is not None:
        float(loss)


def time_calls(call: Call, seconds: float) -> dict[str, float]:
    """Repeat the call for about `seconds`, at least once; return the seconds per call and the busy cores."""
    calls, busy, start = 0, time.process_time(), time.perf_counter()
    loss: SupportsFloat | None = None
    while calls == 0 or time.perf_counter() - start < seconds:
        loss = call()
        calls += 1
    finish(loss)
    wall = time.perf_counter() - start
    return {"seconds": wall / calls, "cores": (time.process_time() - busy) / wall}


def open_framework(name: str, device: str, threads: int) -> Framework:
    """Limit this process to `threads` cores, except on macOS, and import framework `name`."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    module, kind = FRAMEWORKS[name].place.split(":")
    framework: Framework = getattr(importlib.import_module(f"networks.frameworks.{module}"), kind)(
        device, threads
    )
    return framework


def answer_to(worker: Worker, order: dict[str, Any]) -> dict[str, Any]:
    """Execute the request `order`, and return the answer."""
    if order["do"] == "prove":
        return worker.prove(order["datatype"])
    task = Task(order["training"], order["batch"], order["datatype"])
    action = {"warm_up": worker.warm_up, "measure": worker.measure}[order["do"]]
    return action(task, order["seconds"])


def main(name: str, device: str, threads: str) -> None:
    # Standard output is for answers only, so anything that a library prints goes to standard error.
    answer = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        framework = open_framework(name, device, int(threads))
        answer.write(json.dumps({"version": framework.version}) + "\n")
    except UnsupportedError as error:
        answer.write(json.dumps({"unsupported": str(error)}) + "\n")
        return
    worker = Worker(framework)
    for line in sys.stdin:
        try:
            answer.write(json.dumps(answer_to(worker, json.loads(line))) + "\n")
        except UnsupportedError as error:
            answer.write(json.dumps({"unsupported": str(error)}) + "\n")
        except Exception as error:  # Other requests may still succeed.
            lines = str(error).strip().splitlines() or [""]
            answer.write(json.dumps({"unsupported": f"failed: {type(error).__name__}: {lines[0]}"}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
