"""Errors whose message is for the user, the exit codes of programs, and signals such as Ctrl-C."""

import errno
import importlib.util
import io
import logging
import os
import re
import select
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

logger = logging.getLogger(__name__)

# The packages of the extras of pyproject.toml that a flag or a verb may need.
EXTRAS = {
    "cluster": ("ray>=2.60,<3",),
    "emulator": ("warp-lang==1.19.0",),
    "hub": ("huggingface_hub==2.4.0", "safetensors==0.8.0"),
    "onnx": ("onnx==1.23.2", "onnxruntime==1.31.1", "onnxscript==0.7.2"),
    "trackio": ("trackio==0.43.0",),
    "wandb": ("wandb==0.31.0",),
}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C, kill, a closed terminal
# Errors of a system that has run out of a resource, or has lost a disk.
EXHAUSTED = (
    errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ENOMEM,
)  # fmt: skip


def printable(text: str) -> str:
    r"""Return `text` in one line, with escapes such as `\x1b` for characters that could change a terminal.

    These are control characters, marks of direction, lone surrogates, and separators other than the space.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class UserError(Exception):
    """An argument, a file or the machine does not allow what the user asked for.

    The message is one printable line: the problem, then the remedy. `exit_code` prints it without a traceback
    and returns `code`.
    """

    code = 2

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class LostError(UserError):
    """A process that this one needs has ended; the user asked for nothing wrong."""

    code = 1


class MissingError(UserError):
    """An extra is not installed, or cannot work on this machine."""


def require_extra(extra: str, what: str) -> None:
    """Raise UserError unless the packages of `extra`, a key of `EXTRAS`, are installed; `what` needs them."""
    if not all(importlib.util.find_spec(re.split("[=>]", pin)[0]) for pin in EXTRAS[extra]):
        raise missing_extra(extra, what)


def beside_python(name: str = "") -> str:
    """Return Python's path, or that of the program `name` beside it, as a word for a shell in this folder."""
    path, here = Path(sys.executable), Path.cwd()
    path = path.with_name(name or path.name)
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def missing_extra(extra: str, what: str) -> MissingError:
    """Return the error for `what`, which needs the packages of `extra`, a key of `EXTRAS`."""
    return MissingError(
        f"{what} needs packages that are not installed: {beside_python()} -m pip install "
        f"{shlex.join(EXTRAS[extra])}, the extra `{extra}` of pyproject.toml"
    )


def one_line(error: BaseException) -> str:
    """Return the message of `error` in one line."""
    return " ".join(str(error).split())


def reason_in_file(error: BaseException) -> str:
    """Return in one line what `error` means for the content of a file; Python's own limits are reworded."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "a number in it is too long" if "int_max_str_digits" in str(error) else one_line(error)


def call_foreign(what: str, work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Return what `work` returns, a function of an environment or a game that others have written.

    Raises:
        UserError: It raised any exception, or called `sys.exit`; the line has `what` and the place in a file.
    """
    try:
        return work(*arguments, **named)
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:  # such as SystemExit, or a class of the environment's own
        raise UserError(f"{what} failed: {cause(error, work)}") from error


def cause(error: BaseException, work: Any = None) -> str:
    """Return the message of `error`, and the file and line that raised it, in one line.

    The place is the last outside this package; if calling `work` itself failed, it is the start of `work`.
    """
    if isinstance(error, ModuleNotFoundError) or type(error).__name__ == "DependencyNotInstalled":
        return f"a library is not installed: {one_line(error)}"
    code = getattr(vars(work).get("__init__") if isinstance(work, type) else work, "__code__", None)
    places: list[tuple[str, int | None]] = [(code.co_filename, code.co_firstlineno)] if code else []
    places += [(call.filename, call.lineno) for call in traceback.extract_tb(error.__traceback__)]
    own = (f"{Path(__file__).parent}{os.sep}", "<frozen")  # this package's files, and Python's import system
    theirs = [f" ({file}, line {line})" for file, line in places if not file.startswith(own)]
    what = ": ".join(filter(None, (type(error).__name__, one_line(error))))
    return f"{what}{theirs[-1] if theirs else ''}: fix it"


def prepare_streams() -> None:
    """Let a program print wherever its standard streams lead.

    A stream that is closed gets its number back, which the next file opened would get otherwise. Writing to
    standard output remains an error then, as the result would be lost; messages are discarded. Characters
    that standard output cannot encode, such as ±, are printed as question marks.
    """
    for name, access, mode in (
        ("stdin", os.O_RDONLY, "r"), ("stdout", os.O_RDONLY, "w"), ("stderr", os.O_WRONLY, "w")
    ):  # fmt: skip
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, access), mode))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def discard(stream: TextIO | None) -> None:
    """Discard buffered and later output of `stream`, because its reader has quit or its disk is full."""
    with suppress(OSError, AttributeError), Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())  # type: ignore[union-attr]


def exit_code(program: str, work: Callable[[], object]) -> int:
    """Do `work`, and return the exit code of `program`.

    Returns:
        0 after success, 2 after a `UserError` or if a file cannot be used or the disk is full, 1 after a
        `LostError`, 130 after Ctrl-C, 143 after `kill`, 141 if the reader of the output has quit, as `head`
        does.
    """
    try:
        try:
            work()
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            _flush()
            if error.filename is not None:
                raise UserError(f"cannot use {os.fsdecode(error.filename)}: {error.strerror}") from error
            if error.errno in EXHAUSTED:
                raise UserError(f"cannot write: {error.strerror}: fix it, or redirect the output") from error
            raise
        except SystemExit:  # as after --help
            _flush()
            raise
        _flush()
    except UserError as error:
        try:
            print(f"{program}: {error}", file=sys.stderr, flush=True)
        except OSError:
            discard(sys.stderr)
        return error.code
    except KeyboardInterrupt as stop:
        return 128 + (stop.args[0] if stop.args else signal.SIGINT)
    except BrokenPipeError:
        poll = select.poll()
        if sys.stdout:
            poll.register(sys.stdout.fileno(), 0)  # errors are reported without being requested
        if not poll.poll(0):
            raise  # It is the pipe to another process.
        discard(sys.stdout)
        return 128 + signal.SIGPIPE
    return 0


def _flush() -> None:
    """Flush standard output, if it was not closed from the start."""
    try:
        if sys.stdout:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard(sys.stdout)
        raise UserError(f"cannot write to standard output: {error.strerror}; redirect it elsewhere") from None


class Interrupt:
    """A context in which the first signal sets `requested`, and a second Ctrl-C stops immediately.

    Further SIGTERMs and SIGHUPs change nothing: `timeout`, a closed terminal and batch systems send several.
    Without a signal, setting `requested` ends a run in the same way.
    """

    def __init__(self) -> None:
        self.requested = False
        self.number = 0  # the first signal that was received; 0: none
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> "Interrupt":
        """Install the handlers in the main thread; Python allows no other thread to."""
        for number in SIGNALS if threading.current_thread() is threading.main_thread() else ():
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it
                self._handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the previous handlers."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.number:
            return
        self.requested, self.number = True, number
        signal.signal(signal.SIGINT, self._handlers.pop(signal.SIGINT))
        logger.info("Stopping cleanly. Press Ctrl-C again to quit immediately.")
