"""`UserError`, the error whose message is for the user, and the exit codes of programs."""

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
    """Print characters that standard output cannot encode, such as ±, as question marks."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def exit_code(program: str, work: Callable[[], object]) -> int:
    """Do `work`, and return the exit code of `program`.

    Returns:
        2 after a `UserError`, 130 after Ctrl-C, 143 after `kill`, 141 if the reader of its output has
        quit, as `head` does.
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
    """Flush standard output.

    Raises:
        UserError: It cannot be written, for example to a full disk.
    """
    try:
        if sys.stdout:  # None: it was closed from the start
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _silence()
        raise UserError(f"cannot write to standard output: {error.strerror}; redirect it elsewhere") from None


def _reader_has_left() -> bool:
    """Return whether the reader of standard output has quit; the rest of the output is then discarded."""
    if not sys.stdout:
        return False
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # errors are reported without being requested
    if not poll.poll(0):
        return False
    _silence()
    return True


def _silence() -> None:
    """Discard what standard output still buffers, or Python would try to flush it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
