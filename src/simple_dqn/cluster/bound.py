"""`python -m simple_dqn.cluster.bound PARENT COMMAND ...`: run a command that does not outlive its parent.

However the parent ends, by `kill -9` too, the kernel kills the command at once. Linux alone offers that;
elsewhere the command runs as it would without.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # <sys/prctl.h>; what it sets outlives execv


def main() -> None:
    """Become the command that the arguments name."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == parent:  # else it had ended before the kernel knew
        os.execv(command[0], command)


if __name__ == "__main__":
    main()
