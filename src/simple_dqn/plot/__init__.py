"""The curves of one run or of several, read from their CSVs: as a picture, as a page, and in a live window.

`panels.py` turns runs into lines, `png.py` and `html.py` draw them, and `live.py` does so again when a CSV
grows.
"""

from collections.abc import Sequence

from simple_dqn.plot.command import Request, parse

__all__ = ["Request", "main"]


def main(arguments: Sequence[str], program: str = "plot.sh") -> None:
    """Draw what the command line asks for.

    Raises:
        UserError: Something in it cannot be used, or a file cannot be read or written.
        KeyboardInterrupt: A signal ended a live figure.
    """
    request, is_live = parse(arguments, program)
    if is_live:
        from simple_dqn.plot.live import follow  # looks for a display when it is imported

        follow(request)
        return
    request.write(request.plot([request.read(path) for path in request.names]))
    print(f"The figure is in {request.files}")
