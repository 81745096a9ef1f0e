"""Runs each measurement of a training in a process of its own.

A process that trained before has other threads and another allocator than one that starts.
"""

import json
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from simple_dqn.errors import UserError

Flags: TypeAlias = dict[str, Any]
Outcome: TypeAlias = dict[str, Any]

OURS = Path(__file__).with_name("ours.py")
REFUSED = 2  # the exit code of what the user can mend
SLACK_SECONDS = 900  # beyond those to be measured, for importing, compiling and filling the memory


class FailedError(Exception):
    """A measurement failed; the message is one line that says why."""

    def __init__(self, reason: str, details: str = "") -> None:
        """Make one for `reason`, with all that the process wrote to standard error as `details`."""
        super().__init__(reason)
        self.details = details


def measure(command: Sequence[str], task: Any, seconds: float, gpu: bool = True) -> Outcome:
    """Return what `command` prints as its last line, JSON, when it is given `task` as JSON.

    Args:
        command: What measures, without its last argument, the task.
        task: What it is to do.
        seconds: For how long it will do so, besides `SLACK_SECONDS` at most.
        gpu: Whether it may see a GPU.

    Raises:
        UserError: It cannot do what was asked for; the message says why.
        FailedError: It failed, or did not end.
    """
    environment = os.environ if gpu else os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    try:
        done = subprocess.run(
            [*command, json.dumps(task)],
            capture_output=True,
            text=True,
            env=environment,
            timeout=seconds + SLACK_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise FailedError(f"no answer in {error.timeout:.0f} s") from None
    except OSError as error:
        raise FailedError(f"{command[0]} cannot be started: {error.strerror}") from None
    if done.returncode:
        words = [line for line in done.stderr.splitlines() if line.strip()]
        last = words[-1].strip() if words else f"ended with exit code {done.returncode}"
        raise UserError(last) if done.returncode == REFUSED else FailedError(last, done.stderr)
    outcome: Outcome = json.loads(done.stdout.splitlines()[-1])
    return outcome


def train(arguments: Namespace, flags: Flags, what: str = "rate", **limits: float) -> Outcome:
    """Return the outcome of one measurement of this project.

    Args:
        arguments: The command line: the game, flags of training for all rows, the seconds of a measurement.
        flags: The flags of training that make this row; they go before the others.
        what: Which of `ours.MEASURES`.
        limits: What that takes besides flags; the seconds where nothing is given.

    Raises:
        UserError: The flags cannot be used.
        FailedError: The training failed.
    """
    flags = {"game": arguments.game, **arguments.flags, **flags}
    limits = limits or {"seconds": arguments.seconds}
    return measure([sys.executable, str(OURS)], [what, {"flags": flags, **limits}], max(limits.values()))
