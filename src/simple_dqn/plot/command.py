"""The verb `plot`: its command line."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from simple_dqn.errors import UserError
from simple_dqn.flags import Parser, yes_or_no
from simple_dqn.plot.panels import PHASES
from simple_dqn.plot.request import Request
from simple_dqn.statistics import field_name

MAX_PIXELS = 100_000_000


def _number_in(kind: type[float], least: float, most: float) -> Callable[[str], float]:
    """Return a function from a word to a `kind` between `least` and `most`."""

    def convert(word: str) -> float:
        try:
            number = kind(word)
        except ValueError:
            number = kind(-1)
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{word!r} is not a number from {least:g} to {most:g}")
        return number

    return convert


def _words(word: str) -> list[str]:
    return [field_name(name) for name in word.split(",")]


def _phases(word: str) -> list[str]:
    asked = word.split(",")
    if not set(asked) <= set(PHASES):
        raise argparse.ArgumentTypeError(f"{word!r} are not some of {', '.join(PHASES)}")
    return [phase for phase in PHASES if phase in asked]


def _separator(word: str) -> str:
    word = "\t" if word in ("\\t", "tab") else word
    if len(word) != 1 or word in '\r\n"':
        raise argparse.ArgumentTypeError(f"{word!r} is not a single character such as , or ;")
    return word


def _parser(program: str) -> Parser:
    description = "Draw the statistics of one run, or compare several."
    parser = Parser(prog=program, description=description, allow_abbrev=False)
    add = parser.add_argument
    add("runs", metavar="CSV", nargs="+",
        help="statistics of one run; NAME=CSV,CSV: seeds of one setting, "
        "their median and range where all have values")  # fmt: skip
    add("--png_file", type=Path, help="write the figure here (default: beside the first CSV)")
    add("--dpi", type=_number_in(int, 10, 1200), default=Request.dpi,
        help="pixels per inch (default: %(default)s)")  # fmt: skip
    add("--fields", type=_words, default=Request.fields, metavar="FIELD,FIELD,...",
        help=f"the columns to draw, one panel each (default: {','.join(Request.fields)})")  # fmt: skip
    add("--phases", type=_phases, default=PHASES, metavar="PHASE,PHASE,...",
        help=f"some of {', '.join(PHASES)} (default: all)")  # fmt: skip
    add("--figure_width", type=_number_in(float, 1, 100), default=Request.width,
        help="in inches (default: %(default)s)")  # fmt: skip
    add("--figure_height", type=_number_in(float, 1, 100), default=Request.height,
        help="in inches (default: %(default)s)")  # fmt: skip
    add("--skiprows", type=_number_in(int, 0, 1e9),
        help="rows before the data; 0 if no row names the columns (default: 1, which must)")  # fmt: skip
    add("--delimiter", type=_separator, default=Request.delimiter,
        help="what separates the columns (default: a comma)")  # fmt: skip
    truth: dict[str, Any] = {
        "type": yes_or_no,
        "nargs": "?",
        "const": True,
        "default": False,
        "metavar": "BOOL",
    }
    add("--html", **truth, help="write a page as well, to zoom into, beside the figure (default: false)")
    add("--live", **truth, help="draw anew each time the CSV grows, in a window too (default: false)")
    return parser


def _names(words: Sequence[str]) -> dict[Path, str]:
    """Return what to call each run: its file's name, with the folder where that alone is not enough.

    Seeds of one setting have the name that was given them.

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


def _request(flags: dict[str, Any]) -> Request:
    names, dpi = _names(flags["runs"]), flags["dpi"]
    width, height = flags["figure_width"], flags["figure_height"]
    png_file: Path = flags["png_file"] or _beside(flags["runs"][0], names)
    if png_file.is_dir() or png_file in names:
        raise UserError(f"the figure cannot be written as {png_file}: give another --png_file")
    if width * height * dpi**2 > MAX_PIXELS:
        raise UserError(f"a figure of {width:g} × {height:g} inches at {dpi} dpi is too large: lower --dpi")
    return Request(
        names=names,
        png_file=png_file,
        html_file=png_file.with_name(f"{png_file.stem}_plot.html") if flags["html"] else None,
        fields=flags["fields"],
        phases=flags["phases"],
        width=width,
        height=height,
        dpi=dpi,
        skip_rows=flags["skiprows"],
        delimiter=flags["delimiter"],
    )


def _beside(word: str, names: dict[Path, str]) -> Path:
    """Return where the figure lies by default: beside the first CSV, by the name of what it shows."""
    first = next(iter(names))
    name = Path(names[first]).name if _is_setting(word) else first.stem
    return first.with_name(f"{name}.png")


def main(arguments: Sequence[str], program: str = "plot.sh") -> None:
    """Draw what the command line asks for.

    Raises:
        UserError: Something in it cannot be done.
        KeyboardInterrupt: A live figure was told to stop.
    """
    # In simple_dqn's own examples the CSV has a flag: `-csv_file FILE`.
    flags = _parser(program).parse([word for word in arguments if word not in ("-csv_file", "--csv_file")])
    request = _request(flags)
    if flags["live"]:
        from simple_dqn.plot.live import follow  # It looks for a display.

        follow(request)
        return
    request.write(request.plot([request.read(path) for path in request.names]))
    print(f"The figure is in {request.files}")
