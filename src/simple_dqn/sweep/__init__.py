"""Trains games with several settings and seeds (`plan`), in processes (`pool`), and compares them."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


def begin() -> None:
    """Carry out the command `PARENT CORES VERB ...` in `sys.argv`, killed when its parent ends (on Linux)."""
    parent, cores, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if cores:
            os.sched_setaffinity(0, map(int, cores.split(",")))
    if os.getppid() == int(parent):  # else the parent ended before the call above
        from simple_dqn.main import console  # The libraries that it imports count the cores.

        sys.argv[1:] = command
        console()
