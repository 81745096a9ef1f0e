"""`doctor`: check whether this machine can train."""

import argparse
import sys
from collections.abc import Sequence

from simple_dqn.doctor.checks import CHECKS, trial_of
from simple_dqn.doctor.findings import Check, Finding, Level, examine
from simple_dqn.files import home
from simple_dqn.flags import Parser

__all__ = ["CHECKS", "Check", "Finding", "Level", "examine", "main", "trial_of"]


def main(arguments: Sequence[str], program: str) -> None:
    """Print a line for each check: ok, or what is missing and what to do.

    Raises:
        SystemExit: With 1, if a check found an error.
    """
    parser = Parser(
        prog=program, description="Look at whether all is well on this machine.", allow_abbrev=False
    )
    parser.add_argument("--trial_seconds", type=_seconds, default=20.0, metavar="SECONDS",
        help="how long to train on trial, to see how fast it is; 0: not at all (default: 20)")  # fmt: skip
    seconds = parser.parse(arguments)["trial_seconds"]
    checks = CHECKS | ({"speed": trial_of(seconds)} if seconds else {})
    levels = set()
    for name, finding in examine(checks, home()):
        print(finding.line(name), flush=True)
        levels.add(finding.level)
    if Level.ERROR in levels:
        sys.exit(1)


def _seconds(word: str) -> float:
    try:
        seconds = float(word)
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{word!r} is not a number of seconds from 0 to 3600")
    return seconds
