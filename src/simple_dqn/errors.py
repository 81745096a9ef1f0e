"""`UserError`, whose message is for the user, and the exit codes of programs."""

import importlib.util
import io
import os
import re
import select
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path


def printable(text: str) -> str:
    r"""Return `text` in one line, with escapes such as `\x1b` for characters that could change a terminal.

    These are control characters, marks of direction, lone surrogates, and separators other than the space.
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


class UserError(Exception):
    """An argument, a file or the machine does not allow what the user asked for.

    The message is one printable line: the problem, then the remedy. `exit_code` prints it without a traceback
    and returns 2.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


# The packages of the extras of pyproject.toml that a flag or a verb may need.
EXTRAS = {
    "cluster": ("ray>=2.60,<3",),
    "emulator": ("warp-lang==1.19.0",),
    "onnx": ("onnx==1.23.2", "onnxruntime==1.31.1", "onnxscript==0.7.2"),
    "trackio": ("trackio==0.43.0",),
    "tune": ("optuna==5.0.0",),
    "wandb": ("wandb==0.31.0",),
}


def require_extra(extra: str, what: str) -> None:
    """Check that the packages of `extra`, a key of `EXTRAS`, are installed, which `what` needs.

    Raises:
        UserError: One is not.
    """
    try:
        if all(importlib.util.find_spec(re.split("[=>]", pin)[0]) for pin in EXTRAS[extra]):
            return
    except ValueError:  # raised if a test has set sys.modules[...] to None
        pass
    raise missing_extra(extra, what)


def missing_extra(extra: str, what: str) -> UserError:
    """Return the error for `what`, which needs the packages of `extra`, a key of `EXTRAS`."""
    python, here = Path(sys.executable), Path.cwd()
    python = python.relative_to(here) if python.is_relative_to(here) else python
    return UserError(
        f"{what} needs packages that are not installed: {shlex.quote(str(python))} -m pip install "
        f"{shlex.join(EXTRAS[extra])}, the extra `{extra}` of pyproject.toml"
    )


def one_line(error: Exception) -> str:
    """Return the message of `error` in one line."""
    return " ".join(str(error).split())


def replace_unencodable_output() -> None:
    """Print characters that standard output cannot encode, such as ±, as question marks."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def exit_code(program: str, work: Callable[[], object]) -> int:
    """Do `work`, and return the exit code of `program`.

    Returns:
        0 after success, 2 after a `UserError`, 130 after Ctrl-C, 143 after `kill`, 141 if the reader of its
        output has quit, as `head` does.
    """
    try:
        work()
        _flush_output()
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


def _flush_output() -> None:
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
        _discard_output()
        raise UserError(f"cannot write to standard output: {error.strerror}; redirect it elsewhere") from None


def _reader_has_left() -> bool:
    """Return whether the reader of standard output has quit; the rest of the output is then discarded."""
    if not sys.stdout:
        return False
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # errors are reported without being requested
    if not poll.poll(0):
        return False
    _discard_output()
    return True


def _discard_output() -> None:
    """Discard the buffer of standard output, which Python would otherwise flush again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
