"""A job: one verb of the program, carried out in a process of its own. Nothing here knows Ray."""

import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]  # the folder that `simple_dqn` lies in


@dataclass(frozen=True)
class Job:
    """What one task carries out, wherever it is put; all paths are absolute."""

    name: str
    arguments: tuple[str, ...]  # of the program: the verb, then its own
    log: str  # file that takes what it prints
    seal: str  # file that the starting machine wrote, and every machine of the cluster must see
    sealed: str  # what it holds
    source: str = str(SOURCE)


def carry_out(job: Job) -> str:
    """Carry out `job` in a process that ends with this one, and wait for it.

    Returns:
        Why it failed, in a line; empty: it did not.
    """
    if not _is_sealed(job):
        return (
            f"{socket.gethostname()} does not see {job.seal} as the machine of the sweep does: put the "
            "project into a folder that all machines share, at the same path"
        )
    with Path(job.log).open("ab") as log:
        begin = log.tell()
        process = subprocess.Popen(
            [
                sys.executable, "-P", "-m", "simple_dqn.cluster.bound", str(os.getpid()),
                sys.executable, "-P", "-m", "simple_dqn.main", *job.arguments,
            ],
            env=os.environ | {"PYTHONPATH": job.source, "SIMPLE_DQN_PROGRAM": job.arguments[0]},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,  # Ctrl-C is for whoever started the sweep
        )  # fmt: skip
        try:
            code = process.wait()
        finally:
            process.kill()
    return _reason(code, Path(job.log), begin)


def _is_sealed(job: Job) -> bool:
    try:
        return Path(job.seal).read_text() == job.sealed
    except OSError:
        return False


def _reason(code: int, log: Path, begin: int) -> str:
    """Return in a line why a process ended with `code`, whose words stand in `log` from byte `begin` on."""
    if code == 0:
        return ""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    words = log.read_bytes()[begin:].decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(words) if line.strip()), "it said nothing")
    return f"ended with {code}: {last}"
