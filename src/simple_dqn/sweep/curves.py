"""The curves of one game over all its seeds, as a picture."""

from collections.abc import Sequence
from pathlib import Path

from simple_dqn.errors import UserError
from simple_dqn.plot.request import Request
from simple_dqn.statistics import Run


def draw_game(game: str, csv_files: Sequence[Path], picture: Path) -> None:
    """Draw what is known so far of the runs of one game; nothing, if that is nothing.

    Raises:
        UserError: The picture cannot be written.
    """
    request = Request(dict.fromkeys(csv_files, game), picture)
    runs = [run for run in (_read(request, path) for path in csv_files) if run is not None]
    if runs:
        request.write(request.plot(runs))


def _read(request: Request, path: Path) -> Run | None:
    try:
        return request.read(path)
    except UserError:  # not there yet, or without a row
        return None
