"""`modified`: a verb with a change of the user's own: a file that makes the change, then calls `console`."""

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from simple_dqn.errors import UserError

USAGE = "give the file of the change, then a verb: examples/combined_replay.py train pong, say"


def main(arguments: Sequence[str], _program: str) -> None:
    """Run the file that stands first with the other arguments, as `python FILE.py VERB ...` would.

    Raises:
        UserError: There is no such file.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        raise UserError(USAGE)
    path = Path(arguments[0])
    if path.suffix != ".py" or not path.is_file():
        raise UserError(f"there is no Python file {path}: {USAGE}")
    sys.argv = list(arguments)
    runpy.run_path(str(path), run_name="__main__")
