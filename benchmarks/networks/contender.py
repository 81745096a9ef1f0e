"""Runs a framework on one device in a process of its own, which is stopped while others are timed."""

import json
import os
import select
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from networks.catalogue import is_installed, python
from networks.interface import UnsupportedError

ANSWER_SECONDS = 900  # time limit of a request: the first calls of torch.compile and tinygrad take minutes
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class ContenderError(Exception):
    """The framework failed or is missing; the message is one line that gives the reason."""


class Contender:
    """A worker process that answers one request at a time.

    Between requests it is stopped: the threads of some frameworks use the CPU even while they wait.
    """

    def __init__(self, name: str, device: str, threads: int) -> None:
        """Start the worker, or raise ContenderError if the framework cannot run on this machine."""
        if not is_installed(name):
            raise ContenderError(f"not installed: ./bench.sh networks {name} --install")
        environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads))
        # Standard error goes to a file: a pipe that nobody reads would fill up and block the worker.
        descriptor, self._errors = tempfile.mkstemp()
        command = [python(name), "-P", "-m", "networks.worker", name, device, str(threads)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=descriptor, env=environment)
        os.close(descriptor)
        try:
            self.version: str = self._answer()["version"]
        except (ContenderError, UnsupportedError) as error:
            self.close()
            raise ContenderError(str(error)) from error
        self._process.send_signal(signal.SIGSTOP)

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        """Send the request `order` to the worker, and return its answer.

        Raises:
            UnsupportedError: The framework cannot do this; other requests may still succeed.
            ContenderError: The worker has ended, or did not answer in time.
        """
        self._process.send_signal(signal.SIGCONT)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
            return self._answer()
        except BrokenPipeError:
            raise ContenderError(self._last_words()) from None
        finally:
            self._process.send_signal(signal.SIGSTOP)

    def close(self) -> None:
        """End the worker process."""
        self._process.kill()
        self._process.wait()
        Path(self._errors).unlink()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], ANSWER_SECONDS)
        if not ready:
            raise ContenderError(f"no answer in {ANSWER_SECONDS} s")
        line = self._process.stdout.readline()
        if not line:
            raise ContenderError(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        if "unsupported" in answer:
            raise UnsupportedError(answer["unsupported"])
        return answer

    def _last_words(self) -> str:
        """Return the last line that the worker wrote to standard error before it ended."""
        self._process.wait()
        text = Path(self._errors).read_text(errors="replace")
        lines = [line for line in text.splitlines() if line.strip()]
        return lines[-1].strip() if lines else f"ended with exit code {self._process.returncode}"
