"""The one kind of error that a user is meant to read, and how a program ends by it."""

import sys
from collections.abc import Callable


class UserError(Exception):
    """Something the user gave cannot be used.

    The message is one line: what is wrong, then what to do.
    `exit_code` prints it without a traceback, for a program that ends with exit code 2.
    """


def exit_code(program: str, work: Callable[[], object]) -> int:
    """Do `work`, and return how `program` ends: 2 for what the user can mend, 130 for Ctrl-C."""
    try:
        work()
    except UserError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0
