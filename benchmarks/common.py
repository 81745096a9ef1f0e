"""What all benchmarks share: the command line, the printed table, and the description of the machine."""

import os
import platform
import sys
from argparse import ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

from simple_dqn.command_line import Parser
from simple_dqn.config import EnvironmentConfig, number
from simple_dqn.environment import game_name
from simple_dqn.errors import UserError, exit_code
from simple_dqn.machine import usable_cores

PACKAGES = ("torch", "numpy", "ale-py")  # their versions are printed with the results


class FailedError(Exception):
    """A measurement failed; the message is one line that gives the reason."""

    def __init__(self, reason: str, details: str = "") -> None:
        """Create the error for `reason`; `details` is the standard error of the process, if it was one."""
        super().__init__(reason)
        self.details = details


def program(table: str) -> str:
    """Return the command that the user typed, for messages."""
    return f"{os.environ.get('SIMPLE_DQN_PROGRAM', './bench.sh')} {table}"


def parser(table: str, description: str) -> Parser:
    """Return a parser for the flags of `table`."""
    return Parser(prog=program(table), description=description, formatter_class=RawDescriptionHelpFormatter)


def positive(kind: type[int] | type[float]) -> Callable[[str], float]:
    """Return a function that parses a number of type `kind` above 0."""
    return partial(number, kind, above=0)


def game(word: str) -> str:
    """Return the name of the ale-py game given by `word`, or `catch`."""
    try:
        return word if word == "catch" else game_name(EnvironmentConfig(game=word))
    except UserError as error:
        raise ArgumentTypeError(str(error)) from None


def console(table: str, main: Callable[[Sequence[str]], None]) -> int:
    """Run `main` of a `table` with the arguments of the command line.

    Returns:
        The exit code: 2 for bad input, 1 for a measurement that failed, 130 for Ctrl-C.
    """
    try:
        return exit_code(program(table), lambda: main(sys.argv[1:]))
    except FailedError as error:
        print(error.details or f"{program(table)}: {error}", file=sys.stderr)
        return 1


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print `rows` under `header` in aligned columns: the first to the left, the others to the right.

    A row may be shorter than the header: its last cell is then a note that extends over the missing columns.
    """
    lines = [[str(cell) for cell in row] for row in (header, *rows)]
    whole = [line for line in lines if len(line) == len(header)]
    widths = [max(len(cell) for cell in column) for column in zip(*whole, strict=True)]
    widths[0] = max(len(line[0]) for line in lines)
    print(f"\n{title}")
    for index, line in enumerate(lines):
        note = [] if len(line) == len(header) else [line.pop()]
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=False)]
        print("  ".join(cells + note).rstrip())
        if index == 0:
            print("  ".join("-" * width for width in widths))


def machine() -> str:
    """Return a description of the machine: processor, cores, and versions of the main packages."""
    name = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        lines = information.read_text().splitlines()
        name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), name)
    versions = [f"{package} {version(package)}" for package in PACKAGES]
    python = f"Python {platform.python_version()}"
    return ", ".join([name, f"{usable_cores()} usable core(s)", python, *versions])
