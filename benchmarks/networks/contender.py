"""One framework on one device, in a process of its own that stands still while others are timed."""

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from networks.catalogue import FRAMEWORKS, is_installed, python
from networks.interface import UnsupportedError

ANSWER_SECONDS = 900  # at most, to any one order: torch.compile and tinygrad take minutes at first
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class ContenderError(Exception):
    """The framework cannot go on; the message says why in a line."""


class Contender:
    """A worker process, asked one thing at a time."""

    def __init__(self, name: str, device: str, threads: int) -> None:
        """Start the worker.

        Raises:
            ContenderError: The framework is not installed, or cannot run here.
        """
        self.name, self.device = name, device
        if not is_installed(name):
            raise ContenderError(f"not installed: ./bench.sh networks {name} --install")
        environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads))
        # Its standard error, which must not fill a pipe that nobody empties.
        descriptor, self._errors = tempfile.mkstemp()
        self._process = subprocess.Popen(
            [python(name), "-P", "-m", "networks.worker", name, device, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=descriptor,
            env=environment,
        )
        os.close(descriptor)
        self._running = True
        try:
            self.version: str = self._answer(time.monotonic() + ANSWER_SECONDS)["version"]
        except (ContenderError, UnsupportedError) as error:
            self.close()
            raise ContenderError(str(error)) from error
        self._pause()

    @property
    def title(self) -> str:
        """Return what a reader calls it."""
        return FRAMEWORKS[self.name].title

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        """Return the worker's answer to `order`.

        Raises:
            UnsupportedError: The framework does not do this, but may do other things.
            ContenderError: The worker has ended.
        """
        self._resume()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
            return self._answer(time.monotonic() + ANSWER_SECONDS)
        except BrokenPipeError:
            raise ContenderError(self._last_words()) from None
        finally:
            self._pause()

    def close(self) -> None:
        """End the worker."""
        self._running = False
        self._process.kill()
        self._process.wait()
        Path(self._errors).unlink()

    def _answer(self, deadline: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], deadline - time.monotonic())
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
        """Return the last line that the worker, which has ended, wrote to standard error."""
        self._process.wait()
        self._running = False
        words = Path(self._errors).read_text(errors="replace")
        lines = [line for line in words.splitlines() if line.strip()]
        return lines[-1].strip() if lines else f"ended with exit code {self._process.returncode}"

    def _pause(self) -> None:
        """Let the worker stand still: some frameworks' threads wait by spinning."""
        if self._running:
            self._process.send_signal(signal.SIGSTOP)

    def _resume(self) -> None:
        if self._running:
            self._process.send_signal(signal.SIGCONT)
