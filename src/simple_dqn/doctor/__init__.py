"""`doctor`: check whether this machine can train."""

import sys
from collections.abc import Sequence

from simple_dqn.doctor.checks import CHECKS, trial_of
from simple_dqn.doctor.findings import Check, Finding, Level, examine
from simple_dqn.files import home
from simple_dqn.flags import Parser, number

__all__ = ["CHECKS", "Check", "Finding", "Level", "examine", "main", "trial_of"]


def main(arguments: Sequence[str], program: str) -> None:
    """Print a line for each check: ok, or what is missing and what to do.

    Raises:
        SystemExit: With 1, if a check found an error.
    """
    parser = Parser(prog=program, description="Check whether this machine can train.", allow_abbrev=False)
    parser.add_argument("--trial_seconds", type=number(float, minimum=0, maximum=3600),
        default=20.0, metavar="SECONDS",
        help="length of a trial training that measures the speed; 0: none (default: 20)")  # fmt: skip
    seconds = parser.parse(arguments)["trial_seconds"]
    checks = CHECKS | ({"speed": trial_of(seconds)} if seconds else {})
    levels = set()
    for name, finding in examine(checks, home()):
        print(finding.line(name), flush=True)
        levels.add(finding.level)
    if Level.ERROR in levels:
        sys.exit(1)
