"""The command line `simple-dqn VERB ...`: calls the function of the verb, and returns the exit code."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NoReturn

from simple_dqn import __version__
from simple_dqn.errors import SIGNALS, UserError, exit_code, prepare_streams
from simple_dqn.own_code import take_imports

# Verb -> the module with its function, imported only when it is called.
VERBS = {
    "train": "verbs.train", "resume": "verbs.train", "test": "verbs.play", "play": "verbs.play",
    "record": "verbs.play", "nvis": "verbs.play", "plot": "plot", "sweep": "sweep", "doctor": "doctor",
    "snapshot": "verbs.snapshot", "profile_train": "verbs.train", "profile_test": "verbs.train",
    "profile_random": "verbs.train",
}  # fmt: skip
USAGE = f"usage: simple-dqn VERB [arguments]; VERB is one of {', '.join(VERBS)}; VERB --help lists its flags"


def function_of(verb: str) -> Callable[[Sequence[str], str], object]:
    """Return the function of `verb`, which takes its arguments and the program's name."""
    module = import_module(f"simple_dqn.{VERBS[verb]}")
    function: Callable[[Sequence[str], str], object] = getattr(module, "main", None) or getattr(module, verb)
    return function


def run(arguments: Sequence[str]) -> int:
    """Run one command, and return the exit code; see `errors.exit_code`."""
    verb = arguments[0] if arguments else "--help"
    program = os.environ.get("SIMPLE_DQN_PROGRAM", f"simple-dqn {verb}" if verb in VERBS else "simple-dqn")

    def work() -> None:
        if verb in ("-h", "--help", "--version"):
            print(f"simple-dqn {__version__}" if verb == "--version" else USAGE)
        elif verb not in VERBS:
            raise UserError(f"there is no verb {verb!r}: {USAGE}")
        else:  # plot and doctor run no code of the user's
            words = arguments[1:] if verb in ("plot", "doctor") else take_imports(arguments[1:])
            function_of(verb)(words, program)

    return exit_code(program, work)


def _stop(number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt(number)


def console() -> NoReturn:
    """Run the command line `simple-dqn`. After `kill`, no temporary file is left, as after Ctrl-C."""
    prepare_streams()
    for number in SIGNALS:
        if signal.getsignal(number) == signal.SIG_DFL:  # not as nohup sets it
            signal.signal(number, _stop)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    console()
