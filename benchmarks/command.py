"""The command line of every table: a parser whose complaints are a line, and how the program ends."""

import os
import sys
from argparse import ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence

from fresh import FailedError

from simple_dqn.config import EnvironmentConfig
from simple_dqn.environment import game_name
from simple_dqn.errors import UserError, exit_code
from simple_dqn.flags import Parser, number


def program(table: str) -> str:
    """Return what the user called."""
    return f"{os.environ.get('SIMPLE_DQN_PROGRAM', './bench.sh')} {table}"


def parser(table: str, description: str) -> Parser:
    """Return a parser for the flags of `table`."""
    return Parser(prog=program(table), description=description, formatter_class=RawDescriptionHelpFormatter)


def positive(kind: type[int] | type[float]) -> Callable[[str], float]:
    """Return a function from a word to a number of `kind` above 0."""
    return number(kind, above=0)


def game(word: str) -> str:
    """Return the name of the game of ale-py's that `word` names, or `catch`."""
    try:
        return word if word == "catch" else game_name(EnvironmentConfig(game=word))
    except UserError as error:
        raise ArgumentTypeError(str(error)) from None


def console(table: str, main: Callable[[Sequence[str]], None]) -> int:
    """Carry out `main` of a `table` with what stands on the command line.

    Returns:
        The exit code: 2 for what the user can mend, 1 for a measurement that failed, 130 for Ctrl-C.
    """
    try:
        return exit_code(program(table), lambda: main(sys.argv[1:]))
    except FailedError as error:
        print(error.details or f"{program(table)}: {error}", file=sys.stderr)
        return 1
