"""Functions that are recorded once on a GPU, then replayed as one CUDA graph.

An update of a network as small as Nature's consists of about a hundred kernels. Each runs for a few
microseconds, less than the CPU needs to launch it. A graph launches them all at once.
"""

import threading
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

Work: TypeAlias = Callable[..., Tensor]  # computes one tensor from others, and may change weights
Replay: TypeAlias = Callable[[], Tensor]  # does the same work again, on the current values of its inputs

RECORDING = threading.Lock()  # a recording begins by waiting for the GPU, which would break another thread's
WARM_UPS = 3  # calls before the recording, in which libraries choose kernels and allocate their workspace


class Recorded:
    """A function of tensors that is replayed, not run, from its fourth call on.

    Every call does the work exactly once. When the shapes of the inputs change, the work is recorded again.
    All other tensors that it reads or writes must stay at the same place in memory.
    """

    def __init__(
        self,
        work: Work,
        run: Callable[[Work, tuple[Tensor, ...]], Tensor] | None = None,
        record: Callable[[Replay, torch.device], Replay] | None = None,
    ) -> None:
        """Set up a recording of `work`; `run` and `record` run and record it, by default on a GPU."""
        self._work = work
        self._run = run or run_beside
        self._record = record or record_graph
        self._inputs: list[Tensor] = []
        self._replay: Replay | None = None
        self._shapes: list[torch.Size] = []
        self._calls = 0  # with these shapes

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Do the work on `inputs`; the result is the caller's to keep."""
        shapes = [values.shape for values in inputs]
        if shapes != self._shapes:
            self._shapes, self._calls, self._replay = shapes, 0, None
        self._calls += 1
        if self._calls <= WARM_UPS:
            return self._run(self._work, inputs)
        if self._replay is None:
            self._inputs = [values.clone() for values in inputs]
            self._replay = self._record(lambda: self._work(*self._inputs), inputs[0].device)
        for place, values in zip(self._inputs, inputs, strict=True):
            place.copy_(values)
        return self._replay().clone()


def run_beside(work: Work, inputs: tuple[Tensor, ...]) -> Tensor:
    """Run `work` on its own stream, as a recording does, and make the current stream wait for it."""
    with torch.cuda.device(inputs[0].device):  # otherwise the streams would be the first GPU's
        current, beside = torch.cuda.current_stream(), _new_stream()
        beside.wait_stream(current)
        with torch.cuda.stream(beside):
            result = work(*inputs)
        current.wait_stream(beside)
        result.record_stream(current)
    return result


_new_stream: Callable[[], torch.cuda.Stream] = torch.cuda.Stream


def record_graph(work: Replay, gpu: torch.device) -> Replay:
    """Record `work` on `gpu` without running it; other threads may use the GPU meanwhile."""
    graph = torch.cuda.CUDAGraph()
    with RECORDING, torch.cuda.device(gpu), torch.cuda.graph(graph, capture_error_mode="thread_local"):
        result = work()

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay
