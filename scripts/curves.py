"""Draws the test scores of several runs of each kind: curves.py PNG KIND=CSV,CSV,... KIND=CSV,...; one colour a kind."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from simple_dqn.plot.panels import COLOURS, Line, make_plot
from simple_dqn.plot.png import draw, save
from simple_dqn.statistics import read_run

FIELDS = ("average_reward", "meanq")
WIDTH, HEIGHT, DPI = 10, 4, 72  # inches, and pixels in one


def main(picture: str, *kinds: str) -> None:
    """Draw `kinds`, each its name, =, and the CSVs of its runs, into the file `picture`."""
    files = {kind.split("=")[0]: kind.split("=")[1].split(",") for kind in kinds}
    names = [file for of_kind in files.values() for file in of_kind]
    plot = make_plot([read_run(Path(file), file) for file in names], FIELDS, names)

    def of_kind(lines: Sequence[Line]) -> tuple[Line, ...]:
        """Return the lines of tests, named and coloured by kind."""
        return tuple(
            replace(line, label=kind, colour=colour, style="solid", width=1.2)
            for (kind, runs), colour in zip(files.items(), COLOURS, strict=False)
            for line in lines
            if line.run in runs and line.phase == "test"
        )

    panels = tuple(replace(panel, lines=of_kind(panel.lines)) for panel in plot.panels)
    save(draw(replace(plot, panels=panels), WIDTH, HEIGHT), Path(picture), DPI)


if __name__ == "__main__":
    main(*sys.argv[1:])
