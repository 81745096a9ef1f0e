"""The curves of one game over all its seeds, as a picture."""

from collections.abc import Sequence
from pathlib import Path

from simple_dqn.errors import UserError
from simple_dqn.statistics import Run, read_run

FIELDS = ("average_reward", "meanq", "nr_games", "meancost")
WIDTH, HEIGHT, DPI = 16, 9, 80  # inches, inches, pixels per inch: as plot.sh


def draw_game(game: str, csv_files: Sequence[Path], picture: Path) -> None:
    """Draw what is known so far of the runs of one game; nothing, if that is nothing.

    Raises:
        UserError: The picture cannot be written.
    """
    runs = [run for run in map(_read, csv_files) if run is not None and len(run.phases)]
    if not runs:
        return
    from simple_dqn.plot import png, seeds  # matplotlib takes a second that a sweep begins sooner without

    png.save(png.draw(seeds.make_seeds_plot(runs, FIELDS, game), WIDTH, HEIGHT), picture, DPI)


def _read(path: Path) -> Run | None:
    try:
        return read_run(path, path.stem)
    except UserError:  # not there yet, or without a row
        return None
