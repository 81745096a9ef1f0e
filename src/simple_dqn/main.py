"""The command line `simple-dqn VERB ...`: which verb it is, and how it ends."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from simple_dqn import __version__
from simple_dqn.errors import UserError, exit_code, prepare_streams
from simple_dqn.own_code import take_imports

# Verb -> the module whose `main` carries it out, imported only when it is called, and further arguments.
VERBS: dict[str, tuple[str, dict[str, Any]]] = {
    "train": ("simple_dqn.verbs.train", {}),
    "resume": ("simple_dqn.verbs.resume", {}),
    "test": ("simple_dqn.verbs.test", {}),
    "play": ("simple_dqn.verbs.play", {}),
    "record": ("simple_dqn.verbs.record", {}),
    "nvis": ("simple_dqn.verbs.nvis", {}),
    "plot": ("simple_dqn.plot", {}),
    "sweep": ("simple_dqn.sweep.plan", {}),
    "doctor": ("simple_dqn.doctor", {}),
    "snapshot": ("simple_dqn.verbs.snapshot", {}),
    "profile_train": ("simple_dqn.verbs.profile", {"phase": "train"}),
    "profile_test": ("simple_dqn.verbs.profile", {"phase": "test"}),
    "profile_random": ("simple_dqn.verbs.profile", {"phase": "random"}),
}
USAGE = f"usage: simple-dqn VERB [arguments]; VERB is one of {', '.join(VERBS)}; each knows --help"


def run(arguments: Sequence[str]) -> int:
    """Carry out one command, and return the exit code: 2 after a UserError, 130 after Ctrl-C."""
    verb = arguments[0] if arguments else "--help"
    program = os.environ.get("SIMPLE_DQN_PROGRAM", f"simple-dqn {verb}" if verb in VERBS else "simple-dqn")
    return exit_code(program, lambda: _carry_out(verb, arguments[1:], program))


def _carry_out(verb: str, arguments: Sequence[str], program: str) -> None:
    if verb in ("-h", "--help", "--version"):
        print(f"simple-dqn {__version__}" if verb == "--version" else USAGE)
        return
    if verb not in VERBS:
        raise UserError(f"there is no verb {verb!r}: {USAGE}")
    module, told = VERBS[verb]
    if verb not in ("plot", "doctor"):  # which run nothing of the user's
        arguments = take_imports(arguments)
    import_module(module).main(arguments, program, **told)


def console() -> NoReturn:
    """Run the command line `simple-dqn`."""
    prepare_streams()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    console()
