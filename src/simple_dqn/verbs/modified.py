"""`modified`: a verb with a change of the user's own: a file that makes the change, then calls `console`."""

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from simple_dqn.errors import UserError
from simple_dqn.snapshot import running_with

HELP = ("-h", "-help", "--help")
USAGE = "give the file of the change, then a verb: examples/combined_replay.py train pong, say"


def main(arguments: Sequence[str], program: str) -> None:
    """Run the file that stands first with the other arguments, as `python FILE.py VERB ...` would.

    Snapshots and checkpoints that the verb writes record the file.

    Raises:
        UserError: There is no such file, it cannot be read, or it carried out no verb.
    """
    if not arguments:
        raise UserError(USAGE)
    if arguments[0] in HELP:
        print(f"usage: {program} FILE.py VERB ...\n\nRun a verb with a change of your own: {USAGE}.")
        return
    path = Path(arguments[0])
    if path.suffix != ".py" or not path.is_file():
        raise UserError(f"there is no Python file {path}: {USAGE}")
    sys.argv = list(arguments)
    with running_with(path):
        runpy.run_path(str(path), run_name="__main__")  # `console` ends the program
    raise UserError(
        f"{path} carried out no verb: let it end with console(), as in examples/combined_replay.py"
    )
