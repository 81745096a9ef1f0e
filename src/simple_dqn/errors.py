"""The one kind of error that a user is meant to read, and how a program ends by it."""

import io
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


def speak_plainly() -> None:
    """Let standard output take letters that its encoding lacks, such as ±, as question marks."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def exit_code(program: str, work: Callable[[], object]) -> int:
    """Do `work`, and return how `program` ends.

    Returns:
        2 for what the user can mend, 130 for Ctrl-C, 143 for a `kill` that was heeded, 141 if who reads its
        output has left, as `head` does.
    """
    try:
        work()
        _finish_speaking()
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


def _finish_speaking() -> None:
    """Hand over what was printed and is still held back.

    Raises:
        UserError: There is no room for it.
    """
    try:
        if sys.stdout:  # None: it was closed from the start
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _silence()
        raise UserError(f"cannot write to standard output: {error.strerror}; send it elsewhere") from None


def _reader_has_left() -> bool:
    """Return whether nobody reads standard output any more; what is left of it then goes nowhere."""
    if not sys.stdout:
        return False
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # errors are told unasked
    if not poll.poll(0):
        return False
    _silence()
    return True


def _silence() -> None:
    """Send nowhere what standard output still holds back, or Python would try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
