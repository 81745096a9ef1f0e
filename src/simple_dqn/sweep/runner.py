"""Carries out each run of a sweep in a process of its own: on this machine, or where a Ray cluster has room.

`python -m simple_dqn.sweep.runner PARENT CORES COMMAND ...` runs a command that does not outlive its parent.
"""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from simple_dqn.errors import UserError
from simple_dqn.machine import core_numbers

SOURCE = Path(__file__).resolve().parents[2]  # the folder of the package `simple_dqn`
ENDED_WELL = b"The run is done.\n"  # the end of its log
PR_SET_PDEATHSIG = 1  # <sys/prctl.h>; the setting outlives execv


@dataclass(frozen=True)
class Job:
    """One call of the program; all paths are absolute."""

    arguments: tuple[str, ...]  # of the program: the verb, then the verb's own
    log: str  # file for what the program prints
    shared_file: str  # a file of the sweep, which every machine of the cluster must see
    shared_text: str  # what it holds

    def sees_shared_file(self) -> bool:
        """Return whether this machine sees the shared file as the machine of the sweep does."""
        try:
            return Path(self.shared_file).read_text() == self.shared_text
        except OSError:
            return False


class LocalPool:
    """As many jobs at a time as this machine has room for, each on cores of its own."""

    def __init__(self, cpus: int, gpus: float) -> None:
        """Divide the machine into places of `cpus` cores and the share `gpus` of a GPU.

        Raises:
            UserError: It has too few.
        """
        cores = sorted(core_numbers())
        places = [cores[first : first + cpus] for first in range(0, len(cores) - cpus + 1, cpus)]
        if not places:
            raise UserError(f"--cpus_per_run {cpus} is more than this machine has: give at most {len(cores)}")
        devices = graphics_devices() * int(1 / gpus + 1e-9) if gpus else [""] * len(places)
        if not devices:
            raise UserError("--gpus_per_run needs a GPU, and nvidia-smi lists none here: leave it out")
        self._free: SimpleQueue[tuple[list[int], str]] = SimpleQueue()
        for place in zip(places, devices, strict=False):
            self._free.put(place)
        self._threads = ThreadPoolExecutor(self._free.qsize())
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def submit(self, job: Job) -> "Future[str]":
        """Put `job` into the queue; the result is that of `carry_out`."""
        return self._threads.submit(self._carry_out, job)

    def close(self) -> None:
        """Kill all jobs: each goes on from its latest checkpoint when the sweep is started again."""
        self._closed = True
        for process in list(self._processes):
            process.kill()
        self._threads.shutdown(cancel_futures=True)

    def _carry_out(self, job: Job) -> str:
        cores, device = place = self._free.get()
        try:
            return carry_out(job, cores, device, self._on_start)
        finally:
            self._free.put(place)

    def _on_start(self, process: "subprocess.Popen[bytes]") -> None:
        self._processes.add(process)
        if self._closed:
            process.kill()


class ClusterPool:
    """Ray's queue of jobs: each waits until its share of processors and GPUs is free on some machine."""

    def __init__(self, cpus: int, gpus: float) -> None:
        """Check that a machine of the cluster that this process has joined has the share of one job.

        Raises:
            UserError: No machine has that many.
        """
        import ray  # which takes seconds, and must be imported after `Session` has set its environment
        from ray import cloudpickle

        # The workers of a cluster that was started elsewhere may not find this project on their import path;
        # they get this module's `SOURCE` with it.
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        self._carry_out: Any = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0)(carry_out)
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        for flag, kind, wanted in (("cpus_per_run", "CPU", cpus), ("gpus_per_run", "GPU", gpus)):
            most = max((machine.get(kind, 0) for machine in machines), default=0)
            if wanted > most:
                raise UserError(
                    f"--{flag} {wanted:g} is more than any machine of the cluster has: give at most {most:g}"
                )

    def submit(self, job: Job) -> "Future[str]":
        """Put `job` into the queue; the result is that of `carry_out`."""
        future: Future[str] = self._carry_out.remote(job).future()
        return future

    def close(self) -> None:
        """Do nothing: the jobs end with the session."""


def graphics_devices() -> list[str]:
    """Return the numbers of the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return [name for name in os.environ["CUDA_VISIBLE_DEVICES"].split(",") if name]
    if not shutil.which("nvidia-smi"):
        return []
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    return [str(number) for number, line in enumerate(listed.splitlines()) if line.startswith("GPU ")]


def carry_out(
    job: Job,
    cores: "list[int] | tuple[()]" = (),
    device: str = "",
    on_start: "Callable[[subprocess.Popen[bytes]], None]" = lambda _process: None,
) -> str:
    """Carry out `job` in a process that ends with this thread, and wait for it.

    Args:
        job: The command.
        cores: Those that it may use; none: all.
        device: The GPU that it may use; empty: as this process.
        on_start: Is called with the process.

    Returns:
        Why it failed, in a line; empty: it did not.
    """
    if not job.sees_shared_file():
        return (
            f"{socket.gethostname()} does not see {job.shared_file} as the machine of the sweep does: put "
            "the project into a folder that all machines share, at the same path"
        )
    command = [
        sys.executable, "-P", "-m", "simple_dqn.sweep.runner", str(os.getpid()), ",".join(map(str, cores)),
        sys.executable, "-P", "-m", "simple_dqn.main", *job.arguments,
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "SIMPLE_DQN_PROGRAM": job.arguments[0]}
    environment |= {"CUDA_VISIBLE_DEVICES": device} if device else {}
    with Path(job.log).open("ab") as log:
        log.write(f"On {socket.gethostname()}: {' '.join(job.arguments)}\n".encode())
        log.flush()
        begin = log.tell()
        # A session of its own: Ctrl-C is for the process that started the sweep.
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            on_start(process)
            code = process.wait()
        finally:
            process.kill()
        if not code:
            log.write(ENDED_WELL)
    return failure(code, Path(job.log).read_bytes()[begin:]) if code else ""


def failure(code: int, log: bytes) -> str:
    """Return in a line why a process failed that ended with exit `code` and wrote `log`."""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    words = log.decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(words) if line.strip()), "no message")
    return f"ended with {code}: {last}"


def main() -> None:
    """Become the command in the arguments; the kernel kills it when its parent ends, even by `kill -9`.

    Only Linux offers that, and cores of its own; on other systems the command may outlive its parent.
    """
    parent, cores, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if cores:
            os.sched_setaffinity(0, map(int, cores.split(",")))
    if os.getppid() == parent:  # else the parent ended before the call above
        os.execv(command[0], command)


if __name__ == "__main__":
    main()
