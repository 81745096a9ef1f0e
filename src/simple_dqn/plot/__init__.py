"""The verb `plot`: draws the curves of one or several runs from their CSVs.

`panels.py` turns runs into lines, and `png.py` draws them.
"""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from simple_dqn.command_line import Parser, number
from simple_dqn.conversion import yes_or_no
from simple_dqn.environment.roms import game_of
from simple_dqn.errors import UserError, printable
from simple_dqn.human_scores import references
from simple_dqn.plot.panels import AXES, PHASES, View, make_plot
from simple_dqn.statistics import field_name, read_run

MAX_PIXELS = 100_000_000


def main(arguments: Sequence[str], program: str = "plot.sh") -> None:
    """Draw the figure that the command line describes.

    Raises:
        UserError: An argument is invalid, or a file cannot be read or written.
    """
    # In simple_dqn's own examples the CSV has a flag: `-csv_file FILE`.
    flags = _parser(program).parse([word for word in arguments if word not in ("-csv_file", "--csv_file")])
    names = run_names(flags["runs"])
    path: Path = flags["png_file"] or _beside(flags["runs"][0], names)
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
    view = View(flags["fields"], flags["phases"], AXES[flags["x"]], flags["smooth"], levels, heading)
    runs = [read_run(csv, name, flags["skiprows"], flags["delimiter"]) for csv, name in names.items()]
    plot = make_plot(runs, list(dict.fromkeys(names.values())), view)
    from simple_dqn.plot.png import write  # Importing matplotlib takes a second.

    write(plot, path, *size)
    print(printable(f"The figure is in {path}"))


def title(games: Sequence[str]) -> str:
    """Return the title of a figure of `games`, such as `Space Invaders`."""
    return ", ".join(game.replace("_", " ").title() for game in games)


def _words(word: str) -> list[str]:
    return [field_name(name) for name in word.split(",")]


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
        help="statistics of one run; NAME=CSV,CSV: seeds of one setting, "
        "drawn as median and range")  # fmt: skip
    add("--png_file", type=Path, help="write the figure here (default: beside the first CSV)")
    add("--dpi", type=number(int, minimum=10, maximum=1200), default=80,
        help="pixels per inch (default: %(default)s)")  # fmt: skip
    add("--fields", type=_words, default=View.fields, metavar="FIELD,FIELD,...",
        help=f"the columns to draw, one panel each (default: {','.join(View.fields)})")  # fmt: skip
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
        UserError: A setting has no name, or no files.
    """
    alone = [Path(word) for word in words if not _is_setting(word)]
    distinct = len({path.stem for path in alone}) == len(alone)
    names: dict[Path, str] = {}
    for word in words:
        if _is_setting(word):
            new = _seeds(word)
        else:
            new = {Path(word): Path(word).stem if distinct else str(Path(word).with_suffix(""))}
        for path in new:
            if not path.name:  # '', a dot, or the root
                raise UserError(f"{str(path)!r} is a folder: give a CSV that train.sh wrote")
        for path in new.keys() & names.keys():
            if new[path] != names[path]:
                raise UserError(f"{path} is both {names[path]} and {new[path]}: draw one of them, or a copy")
        names |= new
    return names


def _is_setting(word: str) -> bool:
    return "=" in word and not Path(word).exists()


def _seeds(word: str) -> dict[Path, str]:
    name, _, files = word.partition("=")
    if not (name and all(files.split(","))):
        raise UserError(f"{word!r} names no seeds of a setting: give NAME=CSV,CSV with at least one CSV")
    return dict.fromkeys(map(Path, files.split(",")), name)


def _beside(word: str, names: dict[Path, str]) -> Path:
    """Return the default path of the figure: beside the first CSV, with the name of its run or setting."""
    first = next(iter(names))
    name = Path(names[first]).name if _is_setting(word) else first.stem
    return first.with_name(f"{name}.png")
