"""Carries out the runs of a sweep, each in a process of its own, on this machine or on a Ray cluster."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from typing import Any

from simple_dqn.cluster.session import Session
from simple_dqn.errors import UserError
from simple_dqn.machine import core_numbers
from simple_dqn.snapshot.checkpoint import CheckpointFolder
from simple_dqn.snapshot.saver import checkpoint_folder
from simple_dqn.statistics.csv_file import RunData, read_run

SOURCE = Path(__file__).resolve().parents[2]  # the folder of the package `simple_dqn`
ENDED_WELL = b"The run is done.\n"  # the last line of its log
MAX_FAILURES = 3  # in a row, without a new checkpoint between them
RETRY_SECONDS = 3.0  # before the next attempt, times the failures: the process may still be ending
POLL_SECONDS = 1.0
# The program of a run, on the cores of the second argument, if any. The system kills it when its parent
# ends, whose process id is the first.
BEGIN = """import ctypes, os, sys
cores = sys.argv.pop(2)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG of <sys/prctl.h>
    if cores:
        os.sched_setaffinity(0, map(int, cores.split(",")))
if os.getppid() == int(sys.argv.pop(1)):
    from simple_dqn.main import console
    console()
"""

Job = tuple[tuple[str, ...], str]  # a command and its log: the first two arguments of `carry_out`
Work = Callable[[Job, Event], str]  # carries out a job until the event is set; returns why it failed


@dataclass(eq=False)
class Member:
    """A run that may be compared."""

    game: str
    setting: str
    data: RunData | None  # the content of its CSV; None: it has no row of training or a test yet
    state: str = "done"  # or waiting, running, failed (for good)


class SweepRun(Member):
    """The training of a game by one setting with one seed: its files, its state, and its results so far."""

    job: Job = ((), "")  # starts or continues it

    def __init__(self, game: str, setting: str, seed: int, results: Path, snapshots: Path) -> None:
        self.name, self.seed = "_".join(filter(None, (game, setting, f"seed{seed}"))), seed  # of its files
        self.csv, self.log = results / f"{self.name}.csv", results / f"{self.name}.log"
        self.prefix = snapshots / self.name
        self.reason = ""  # why the latest attempt failed
        self._time_read = 0  # when the CSV that was read last had been written, in ns
        done = self.log.exists() and self.log.read_bytes().endswith(ENDED_WELL)
        super().__init__(game, setting, None, "done" if done else "waiting")

    def attempt(self, work: Work, stopped: Event) -> None:
        """Carry out the job until it ends well, or has failed too often without a new checkpoint."""
        # The numbers of checkpoints only grow.
        failures, folder = 0, CheckpointFolder(checkpoint_folder(self.prefix))
        while self.state != "failed" and not stopped.is_set():
            self.state, checkpoint = "running", folder.latest_number()
            try:
                self.reason = work(self.job, stopped)
            except Exception as error:  # Ray has many kinds: the machine is lost, the task was killed, …
                self.reason = f"{type(error).__name__}: {error}".splitlines()[0]
            if not self.reason or stopped.is_set():
                self.state, self.reason = "waiting" if self.reason else "done", ""
                return
            failures = 1 if folder.latest_number() > checkpoint else failures + 1
            self.state = "waiting" if failures < MAX_FAILURES else "failed"
            stopped.wait(RETRY_SECONDS * failures)

    def look(self) -> None:
        """Read the CSV if it has changed."""
        with suppress(OSError, UserError):  # It has no row of training yet, or is being replaced.
            before, self._time_read = self._time_read, self.csv.stat().st_mtime_ns
            if self._time_read != before:
                self.data = read_run(self.csv, self.setting)


def run_all(runs: Sequence[SweepRun], slots: int, work: Work, report: Callable[[], None]) -> None:
    """Do `work` on every waiting run, at most `slots` at a time, and `report` each second, until all end."""
    stopped, threads = Event(), ThreadPoolExecutor(slots)
    attempts = [threads.submit(run.attempt, work, stopped) for run in runs if run.state == "waiting"]
    try:
        left: object = attempts
        while left:
            report()
            done, left = wait(attempts, POLL_SECONDS, FIRST_EXCEPTION)
            for attempt in done:
                attempt.result()  # raises what it raised, such as that a folder cannot be read
    finally:  # A run that is killed here continues when the sweep is started again.
        stopped.set()
        threads.shutdown(cancel_futures=True)


@contextmanager
def local_pool(cpus: int, gpus: float) -> Iterator[tuple[int, Work]]:
    """Yield this machine's number of slots, and a function that carries out a job in the next free slot.

    A slot has `cpus` cores and the share `gpus` of a GPU.
    """
    cores = sorted(core_numbers())
    groups = [cores[first : first + cpus] for first in range(0, len(cores) - cpus + 1, cpus)]
    devices = visible_gpus() * int(1 / gpus + 1e-9) if gpus else [""] * len(groups)
    free = SimpleQueue[tuple[list[int], str]]()
    for slot in zip(groups, devices, strict=False):
        free.put(slot)

    def work(job: Job, stopped: Event) -> str:
        slot = free.get()
        try:
            return carry_out(*job, *slot, stopped)
        finally:
            free.put(slot)

    yield free.qsize(), work


@contextmanager
def ray_pool(cluster: str, cpus: int, gpus: float) -> Iterator[tuple[int, Work]]:
    """Join a Ray cluster, and yield what `local_pool` does; Ray chooses the machine of a job."""
    with closing(Session(cluster)):
        import ray  # which takes seconds, and must be imported after `Session` has set its environment
        from ray import cloudpickle

        # The workers may not find this project on their import path: they get this module with its `SOURCE`.
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        wanted = {"CPU": cpus, "GPU": gpus} if gpus else {"CPU": cpus}
        slots = sum(min(int(node.get(kind, 0) / each) for kind, each in wanted.items()) for node in machines)
        remote: Any = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0)(carry_out)

        def work(job: Job, stopped: Event) -> str:
            future = remote.remote(*job).future()
            while not stopped.is_set():
                if wait([future], 0.2).done:
                    return str(future.result())
            return "stopped"  # The job ends with the session.

        yield slots, work


def visible_gpus() -> list[str]:
    """Return the numbers of the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return [gpu for gpu in os.environ["CUDA_VISIBLE_DEVICES"].split(",") if gpu not in ("", "-1")]
    program = shutil.which("nvidia-smi")
    listed = subprocess.run([program, "-L"], capture_output=True, check=False).stdout if program else b""
    return [str(number) for number in range(sum(line.startswith(b"GPU ") for line in listed.splitlines()))]


def carry_out(
    arguments: tuple[str, ...], log: str, cores: Collection[int] = (), device: str = "",
    stopped: Event | None = None,
) -> str:  # fmt: skip
    """Carry out a command in a process of its own, and return in a line why it failed; "": it succeeded.

    The process ends with this thread, and when `stopped` is set. It may use the `cores`, or all if there are
    none, and the GPU `device`.
    """
    host, stopped = socket.gethostname(), stopped or Event()
    if not Path(log).parent.is_dir():
        return f"{host} has no folder {Path(log).parent}: put the project where all machines find it"
    path = os.pathsep.join(filter(None, (str(SOURCE), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": path, "SIMPLE_DQN_PROGRAM": arguments[0]}
    environment |= {"CUDA_VISIBLE_DEVICES": device} if device else {}
    with Path(log).open("ab", buffering=0) as file:
        file.write(f"On {host}: {' '.join(arguments)}\n".encode())
        start = file.tell()
        # A session of its own: Ctrl-C is for the process that started the sweep.
        numbers = ",".join(map(str, cores))
        process = subprocess.Popen([sys.executable, "-P", "-c", BEGIN, str(os.getpid()), numbers, *arguments],
                                   env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                   start_new_session=True)  # fmt: skip
        try:
            while process.poll() is None and not stopped.wait(0.1):
                pass
        finally:  # also after Ctrl-C
            process.kill()
        if not (code := process.wait()):
            file.write(ENDED_WELL)
            return ""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    last = Path(log).read_bytes()[start:].decode(errors="replace").strip().rpartition("\n")[2]
    return f"ended with {code}: {last or 'no message'}"
