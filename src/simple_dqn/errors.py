"""The one kind of error that a user is meant to read, and how a program ends by it."""

import os
import select
import signal
import sys
from collections.abc import Callable


class UserError(Exception):
    """Something the user gave cannot be used.

    The message is one line: what is wrong, then what to do.
    `exit_code` prints it without a traceback, for a program that ends with exit code 2.
    """


def exit_code(program: str, work: Callable[[], object]) -> int:
    """Do `work`, and return how `program` ends.

    Returns:
        2 for what the user can mend, 130 for Ctrl-C, 143 for a `kill` that was heeded, 141 if who reads its
        output has left, as `head` does.
    """
    try:
        work()
        sys.stdout.flush()
    except UserError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        return 128 + (stop.args[0] if stop.args else signal.SIGINT)
    except BrokenPipeError:
        if not _reader_has_left():
            raise  # It is the pipe to another process.
        return 128 + signal.SIGPIPE
    return 0


def _reader_has_left() -> bool:
    """Return whether nobody reads standard output any more; what is left of it then goes nowhere."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # errors are told unasked
    if not poll.poll(0):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True
