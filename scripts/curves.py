"""Draws the tests of several runs of each kind, a colour a kind: curves.py PNG KIND=CSV,CSV ..."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from simple_dqn.plot.panels import COLOURS, Line, Plot, make_plot
from simple_dqn.plot.png import draw, save
from simple_dqn.statistics import read_run

FIELDS = ("average_reward", "meanq")
WIDTH, HEIGHT, DPI = 10, 4, 72  # inches, and pixels in one


def plot_of(kinds: Mapping[str, Sequence[str]]) -> Plot:
    """Return what `plot.sh` would draw of the CSVs of each kind, each line named and coloured by its kind."""
    names = [file for files in kinds.values() for file in files]
    plot = make_plot([read_run(Path(file), file) for file in names], FIELDS, names)

    def by_kind(lines: Sequence[Line]) -> tuple[Line, ...]:
        return tuple(
            replace(line, label=kind, colour=colour, style="solid", width=1.2)
            for (kind, files), colour in zip(kinds.items(), COLOURS, strict=False)
            for line in lines
            if line.run in files and line.phase == "test"
        )

    return replace(plot, panels=tuple(replace(panel, lines=by_kind(panel.lines)) for panel in plot.panels))


if __name__ == "__main__":
    picture, *words = sys.argv[1:]
    kinds = {kind: files.split(",") for kind, files in (word.split("=") for word in words)}
    save(draw(plot_of(kinds), WIDTH, HEIGHT), Path(picture), DPI)
