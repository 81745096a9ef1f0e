"""The verb `plot`: its command line."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from simple_dqn.errors import UserError
from simple_dqn.flags import Parser, yes_or_no
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


def _separator(word: str) -> str:
    word = "\t" if word in ("\\t", "tab") else word
    if len(word) != 1 or word in '\r\n"':
        raise argparse.ArgumentTypeError(f"{word!r} is not a single character such as , or ;")
    return word


def _parser(program: str) -> Parser:
    description = "Draw the statistics of one run, or compare several."
    parser = Parser(prog=program, description=description, allow_abbrev=False)
    add = parser.add_argument
    add("csv_files", metavar="CSV", nargs="+", type=Path, help="the statistics of one run each")
    add("--png_file", type=Path, help="write the figure here (default: beside the first CSV)")
    add("--dpi", type=_number_in(int, 10, 1200), default=80, help="pixels per inch (default: 80)")
    add("--fields", default="average_reward,meanq,nr_games,meancost",
        help="the columns to draw, one panel each (default: %(default)s)")  # fmt: skip
    add("--figure_width", type=_number_in(float, 1, 100), default=16, help="in inches (default: 16)")
    add("--figure_height", type=_number_in(float, 1, 100), default=9, help="in inches (default: 9)")
    add("--skiprows", type=_number_in(int, 0, 1e9),
        help="rows before the data; 0 if no row names the columns (default: 1, which must)")  # fmt: skip
    add("--delimiter", type=_separator, default=",", help="what separates the columns (default: a comma)")
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


def _names(paths: Sequence[Path]) -> dict[Path, str]:
    """Return what to call each run: its file's name, with the folder where that alone is not enough."""
    stems = [path.stem for path in paths]
    if len(set(stems)) < len(stems):
        stems = [str(path.with_suffix("")) for path in paths]
    return dict(zip(paths, stems, strict=True))


def _request(flags: dict[str, Any]) -> Request:
    paths, dpi = flags["csv_files"], flags["dpi"]
    width, height = flags["figure_width"], flags["figure_height"]
    png_file: Path = flags["png_file"] or paths[0].with_suffix(".png")
    if png_file.is_dir() or png_file in paths:
        raise UserError(f"the figure cannot be written as {png_file}: give another --png_file")
    if width * height * dpi**2 > MAX_PIXELS:
        raise UserError(f"a figure of {width:g} × {height:g} inches at {dpi} dpi is too large: lower --dpi")
    return Request(
        names=_names(paths),
        fields=[field_name(word) for word in flags["fields"].split(",")],
        png_file=png_file,
        html_file=png_file.with_name(f"{png_file.stem}_plot.html") if flags["html"] else None,
        width=width,
        height=height,
        dpi=dpi,
        skip_rows=flags["skiprows"],
        delimiter=flags["delimiter"],
    )


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
