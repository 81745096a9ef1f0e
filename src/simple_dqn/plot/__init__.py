"""The verb `plot`: draws the curves of one or several runs from their CSVs; `figure.py` has the figure."""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from simple_dqn.command_line import Parser, number
from simple_dqn.config import yes_or_no
from simple_dqn.environment.atari import game_of
from simple_dqn.errors import UserError, printable
from simple_dqn.human_scores import references
from simple_dqn.plot.figure import AXES, PHASES, View, make_plot, write
from simple_dqn.statistics.csv_file import field_name, read_run

MAX_PIXELS = 100_000_000


def main(arguments: Sequence[str], program: str = "plot.sh") -> None:
    """Draw the figure that the command line describes.

    Raises:
        UserError: An argument is invalid, or a file cannot be read or written.
    """
    # In simple_dqn's own examples the CSV has a flag: `-csv_file FILE`.
    flags = _parser(program).parse([word for word in arguments if word not in ("-csv_file", "--csv_file")])
    names = run_names(flags["runs"])
    first, name = next(iter(names.items()))
    path: Path = flags["png_file"] or first.with_name(f"{Path(name).name}.png")
    size = flags["figure_width"], flags["figure_height"], flags["dpi"]
    if path.is_dir() or path in names:
        raise UserError(f"the figure cannot be written as {path}: give another --png_file")
    if math.prod(size) * size[2] > MAX_PIXELS:
        width, height, dpi = size
        raise UserError(f"a figure of {width:g} × {height:g} inches at {dpi} dpi is too large: lower --dpi")
    games = list(dict.fromkeys(filter(None, (game_of(csv.stem) for csv in names))))
    levels = references(games[0]) if flags["reference"] and len(games) == 1 else {}
    if flags["reference"] and not levels:
        raise UserError("--reference needs CSVs of one game with known scores, named after it: leave it out")
    heading = flags["title"] or title(games)
    fields = [field_name(word) for word in flags["fields"].split(",")]
    view = View(fields, flags["phases"], AXES[flags["x"]], flags["smooth"], levels, heading)
    runs = [read_run(csv, name, flags["skiprows"], flags["delimiter"]) for csv, name in names.items()]
    plot = make_plot(runs, list(dict.fromkeys(names.values())), view)
    write(plot, path, *size)
    print(printable(f"The figure is in {path}"))


def title(games: Sequence[str]) -> str:
    """Return the title of a figure of `games`, such as `Space Invaders`."""
    return ", ".join(game.replace("_", " ").title() for game in games)


def _phases(word: str) -> list[str]:
    asked = word.split(",")
    if not set(asked) <= set(PHASES):
        raise argparse.ArgumentTypeError(f"{word!r} is not a list of phases: choose from {', '.join(PHASES)}")
    return [phase for phase in PHASES if phase in asked]


def _separator(word: str) -> str:
    word = "\t" if word in ("\\t", "tab") else word
    if len(word) != 1 or word in '\r\n"':
        raise argparse.ArgumentTypeError(f"{word!r} is not a single character such as , or ;")
    return word


def _parser(program: str) -> Parser:
    description = "Draw the statistics of one run, or compare several."
    parser = Parser(prog=program, description=description, allow_abbrev=False)
    add, size = parser.add_argument, number(float, minimum=1, maximum=100)
    add("runs", metavar="CSV", nargs="+",
        help="statistics of one run; NAME=CSV,CSV: seeds, drawn as median and range")  # fmt: skip
    add("--png_file", type=Path, help="write the figure here (default: beside the first CSV)")
    add("--dpi", type=number(int, minimum=10, maximum=1200), default=80,
        help="pixels per inch (default: %(default)s)")  # fmt: skip
    add("--fields", default=",".join(View.fields), metavar="FIELD,FIELD,...",
        help="the columns to draw, one panel each (default: %(default)s)")  # fmt: skip
    add("--phases", type=_phases, default=PHASES, metavar="PHASE,PHASE,...",
        help=f"some of {', '.join(PHASES)} (default: all)")  # fmt: skip
    add("-x", "--x", choices=tuple(AXES), default="epoch", help="the horizontal axis (default: %(default)s)")
    add("--smooth", type=number(int, minimum=1, maximum=1e6), default=1, metavar="N",
        help="draw the mean of the latest N points of each run (default: %(default)s)")  # fmt: skip
    add("--reference", type=yes_or_no, nargs="?", const=True, default=False, metavar="BOOL",
        help="draw published scores: a person, random play, other agents (default: false)")  # fmt: skip
    add("--title", help="above the figure (default: the games in the names of the files)")
    add("--figure_width", type=size, default=16, help="in inches (default: %(default)s)")
    add("--figure_height", type=size, default=9, help="in inches (default: %(default)s)")
    add("--skiprows", type=number(int, minimum=0, maximum=1e9),
        help="rows before the data; 0: the file has no column names (default: 1, the names)")  # fmt: skip
    add("--delimiter", type=_separator, default=",",
        help="the character between columns (default: a comma)")  # fmt: skip
    return parser


def run_names(words: Sequence[str]) -> dict[Path, str]:
    """Return the name of each CSV's run: the file's name, with its folder if two files have the same.

    Seeds of one setting share the name before the `=`.

    Raises:
        UserError: A setting has no name, or no files; or a file has two names.
    """
    settings = {word for word in words if "=" in word and not Path(word).exists()}
    stems = [Path(word).stem for word in words if word not in settings]
    names: dict[Path, str] = {}
    for word in words:
        name, _, files = word.partition("=") if word in settings else ("", "", word)
        csvs = files.split(",") if word in settings else [word]
        if word in settings and not (name and all(csvs)):
            raise UserError(f"{word!r} names no seeds of a setting: give NAME=CSV,CSV with at least one CSV")
        for path in map(Path, csvs):
            if not path.name:  # '', a dot, or the root
                raise UserError(f"{str(path)!r} is a folder: give a CSV that train.sh wrote")
            own = name or (path.stem if len(set(stems)) == len(stems) else str(path.with_suffix("")))
            if names.setdefault(path, own) != own:
                raise UserError(f"{path} is both {names[path]} and {own}: draw one of them, or a copy")
    return names
