"""Jobs as Ray's tasks, each with its own share of processors."""

import socket
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import ray
from ray import cloudpickle

from simple_dqn.cluster import job as job_module
from simple_dqn.cluster.job import Job, carry_out
from simple_dqn.errors import UserError

# The workers of a cluster that was started elsewhere need not find this project on their import path.
for module in (job_module, sys.modules[__name__]):
    cloudpickle.register_pickle_by_value(module)


class Event(NamedTuple):
    """What became known of a job."""

    name: str
    ended: bool  # else it has begun
    words: str  # on which machine it has begun; or why it failed, empty if it did not


class Tasks:
    """The jobs that were handed to the cluster, which decides when each begins, and where."""

    def __init__(self, cpus: int, gpus: float) -> None:
        """Check that a machine of the cluster has `cpus` processors and `gpus` GPUs, a job's share.

        Raises:
            UserError: None has.
        """
        self._share = {"num_cpus": cpus, "num_gpus": gpus}
        self._jobs: dict[Any, str] = {}  # what yields the news of a job -> its name
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        for flag, kind, wanted in (("cpus_per_run", "CPU", cpus), ("gpus_per_run", "GPU", gpus)):
            most = max((machine.get(kind, 0) for machine in machines), default=0)
            if wanted > most:
                raise UserError(
                    f"--{flag} {wanted:g} is more than any machine of the cluster has: give at most {most:g}"
                )

    def start(self, job: Job) -> None:
        """Hand over a job; it waits until its share is free somewhere."""
        task = ray.remote(_news).options(**self._share, max_retries=0, num_returns="streaming")
        self._jobs[task.remote(job)] = job.name

    def wait(self, seconds: float) -> list[Event]:
        """Return what becomes known within `seconds`, as soon as there is something."""
        if not self._jobs:
            time.sleep(seconds)
            return []
        told, _ = ray.wait(list(self._jobs), num_returns=len(self._jobs), timeout=0)
        if not told:
            told, _ = ray.wait(list(self._jobs), num_returns=1, timeout=seconds)
        return [event for news in told for event in self._hear(news)]

    def _hear(self, news: Any) -> Iterator[Event]:
        """Yield what one job has to tell, if anything."""
        name = self._jobs[news]
        try:
            ended, words = ray.get(next(news))
        except StopIteration:
            ended, words = True, "its task ended without a word"
        except Exception as error:  # Ray's are of many kinds: the machine is lost, the task was killed, …
            ended, words = True, f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
        if ended:
            del self._jobs[news]
        yield Event(name, ended, words)


def _news(job: Job) -> Iterator[tuple[bool, str]]:
    """Carry out `job` on the machine that Ray chose; yield whether it has ended, and words as in `Event`."""
    yield False, socket.gethostname()
    yield True, carry_out(job)
