"""Carries out each run of a sweep in a process of its own, on the machine of the cluster that Ray chooses.

`python -m simple_dqn.sweep.runner PARENT COMMAND ...` runs a command that does not outlive its parent.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from simple_dqn.errors import UserError

SOURCE = Path(__file__).resolve().parents[2]  # the folder of the package `simple_dqn`
PR_SET_PDEATHSIG = 1  # <sys/prctl.h>; the setting outlives execv


@dataclass(frozen=True)
class Job:
    """One call of the program; all paths are absolute."""

    name: str
    arguments: tuple[str, ...]  # of the program: the verb, then the verb's own
    log: str  # file for what the program prints
    shared_file: str  # a file of the sweep, which every machine of the cluster must see
    shared_text: str  # what it holds
    source: str = str(SOURCE)


class JobEvent(NamedTuple):
    """The start or the end of a job."""

    name: str
    ended: bool  # else it has started
    words: str  # at the start the machine's name, at the end why the job failed; empty: it did not


class JobRunner:
    """Ray's queue of jobs: each waits until its share of processors and GPUs is free on some machine."""

    def __init__(self, cpus: int, gpus: float) -> None:
        """Check that a machine of the cluster has `cpus` processors and `gpus` GPUs, the share of one job.

        Raises:
            UserError: No machine has that many.
        """
        import ray  # which takes seconds, and must be imported after `Session` has set its environment
        from ray import cloudpickle

        # The workers of a cluster that was started elsewhere may not find this project on their import path.
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        self._ray = ray
        self._share = {"num_cpus": cpus, "num_gpus": gpus}
        self._jobs: dict[Any, str] = {}  # the generator of a job's events -> the job's name
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        for flag, kind, wanted in (("cpus_per_run", "CPU", cpus), ("gpus_per_run", "GPU", gpus)):
            most = max((machine.get(kind, 0) for machine in machines), default=0)
            if wanted > most:
                raise UserError(
                    f"--{flag} {wanted:g} is more than any machine of the cluster has: give at most {most:g}"
                )

    def start(self, job: Job) -> None:
        """Put `job` into the queue."""
        task = self._ray.remote(run_job).options(**self._share, max_retries=0, num_returns="streaming")
        self._jobs[task.remote(job)] = job.name

    def wait(self, seconds: float) -> list[JobEvent]:
        """Return the next events, at least one unless none happens within `seconds`."""
        if not self._jobs:
            time.sleep(seconds)
            return []
        ready, _ = self._ray.wait(list(self._jobs), num_returns=len(self._jobs), timeout=0)
        if not ready:
            ready, _ = self._ray.wait(list(self._jobs), num_returns=1, timeout=seconds)
        return [self._next_event(generator) for generator in ready]

    def _next_event(self, generator: Any) -> JobEvent:
        name = self._jobs[generator]
        try:
            ended, words = self._ray.get(next(generator))
        except StopIteration:
            ended, words = True, "its task ended without a word"
        except Exception as error:  # Ray has many kinds: the machine is lost, the task was killed, …
            ended, words = True, f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
        if ended:
            del self._jobs[generator]
        return JobEvent(name, ended, words)


def run_job(job: Job) -> Iterator[tuple[bool, str]]:
    """Carry out `job` on the machine that Ray chose; yield (ended, words) of its two events."""
    yield False, socket.gethostname()
    yield True, carry_out(job)


def carry_out(job: Job) -> str:
    """Carry out `job` in a process that ends with this one, and wait for it.

    Returns:
        Why it failed, in a line; empty: it did not.
    """
    if not _sees_shared_file(job):
        return (
            f"{socket.gethostname()} does not see {job.shared_file} as the machine of the sweep does: put "
            "the project into a folder that all machines share, at the same path"
        )
    with Path(job.log).open("ab") as log:
        begin = log.tell()
        process = subprocess.Popen(
            [
                sys.executable, "-P", "-m", "simple_dqn.sweep.runner", str(os.getpid()),
                sys.executable, "-P", "-m", "simple_dqn.main", *job.arguments,
            ],
            env=os.environ | {"PYTHONPATH": job.source, "SIMPLE_DQN_PROGRAM": job.arguments[0]},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,  # Ctrl-C is for the process that started the sweep.
        )  # fmt: skip
        try:
            code = process.wait()
        finally:
            process.kill()
    return _failure(code, Path(job.log), begin)


def _sees_shared_file(job: Job) -> bool:
    try:
        return Path(job.shared_file).read_text() == job.shared_text
    except OSError:
        return False


def _failure(code: int, log: Path, begin: int) -> str:
    """Return in a line why a process ended with exit `code`; it wrote to `log` from byte `begin` on."""
    if code == 0:
        return ""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    words = log.read_bytes()[begin:].decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(words) if line.strip()), "it said nothing")
    return f"ended with {code}: {last}"


def main() -> None:
    """Become the command in the arguments; the kernel kills it when its parent ends, even by `kill -9`.

    Only Linux offers that; on other systems the command may outlive its parent.
    """
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == parent:  # else the parent ended before the call above
        os.execv(command[0], command)


if __name__ == "__main__":
    main()
