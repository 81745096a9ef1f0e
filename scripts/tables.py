"""Writes the tables of figures in README.md and docs/*.md from docs/data/*.csv: `make tables`.

Such a table stands between two lines, and what stands between them is written by this script alone:

    <!-- table: speed -->                               all of docs/data/speed.csv
    <!-- table: speed | who, steps/s -->                these columns of it, in this order
    <!-- table: speed | who, "a, b" | game=pong -->     of the rows with this in a column
    <!-- end -->

Lines of a CSV that begin with # are about it: `# command:` says what made the figures, and `# machine:` on
what; where rows differ in that, these are columns. Whole numbers from 1000 on are shown with commas, and -
before a number as a minus.
"""

import csv
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
BLOCK = re.compile(
    r"^<!-- table: (?P<request>[^\n]*?) -->\n(?P<body>.*?)^<!-- end -->$", re.DOTALL | re.MULTILINE
)
MARKER = re.compile(r"^<!-- (?:table: [^\n]*|end) -->$", re.MULTILINE)
ORIGIN = ("command", "machine")


class TableError(Exception):
    """A marker, or what it names, is wrong; the message says where and why in a line."""


@dataclass(frozen=True)
class Data:
    """A CSV: its columns, its rows as text, and what is said about it."""

    columns: list[str]
    rows: list[dict[str, str]]
    about: dict[str, str]


def read(path: Path) -> Data:
    """Return the CSV at `path`.

    Raises:
        TableError: It cannot be read, two columns have one name, a row is longer or shorter than the header,
            or it does not say by which command and on which machine its figures were made.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror}") from error
    notes = [line[1:].partition(":") for line in lines if line.startswith("#")]
    header, *rows = csv.reader(line for line in lines if line and not line.startswith("#"))
    if len(set(header)) < len(header):
        raise TableError(f"{path}: two columns have one name: {header}")
    for row in rows:
        if len(row) != len(header):
            raise TableError(f"{path}: a row has {len(row)} cells and the header {len(header)}: {row}")
    about = {name.strip(): text.strip() for name, _, text in notes}
    for name in ORIGIN:
        if name not in (*about, *header):
            raise TableError(f"{path} does not say its {name}: add a line `# {name}: …`, or a column")
    return Data(header, [dict(zip(header, row, strict=True)) for row in rows], about)


def table(request: str, folder: Path) -> str:
    """Return, in Markdown, the table that a marker asks for.

    Args:
        request: What the marker says: a name, and perhaps columns and which rows.
        folder: Where the CSV files lie.

    Raises:
        TableError: There is no such file, column or row.
    """
    name, columns, rows = [part.strip() for part in [*request.split("|"), "", ""][:3]]
    data = read(folder / f"{name}.csv")
    shown = next(csv.reader([columns], skipinitialspace=True)) if columns else data.columns
    column, _, value = rows.partition("=")
    for wanted in [*shown, *([column] if rows else [])]:
        if wanted not in data.columns:
            raise TableError(f"{name}.csv has no column {wanted!r}: choose among {', '.join(data.columns)}")
    chosen = [row for row in data.rows if not rows or row[column] == value]
    if not chosen:
        raise TableError(f"{name}.csv has no row with {rows}" if rows else f"{name}.csv has no rows")
    cells = [shown, ["---"] * len(shown), *([shape(row[column]) for column in shown] for row in chosen)]
    lines = ["|" + "|".join(f" {cell} " if cell else " " for cell in row) + "|" for row in cells]
    lines[1] = lines[1].replace(" ", "")
    return "\n".join(lines)


def shape(cell: str) -> str:
    """Return a cell as it is shown."""
    if re.fullmatch(r"-?\d+", cell):
        cell = f"{int(cell):,}"
    return re.sub(r"^-(?=[\d.])", "−", cell)


def renewed(text: str, folder: Path) -> str:
    """Return a document with each of its tables as it should be.

    Raises:
        TableError: A marker is without its other half, or asks for what there is not.
    """
    if len(MARKER.findall(text)) != 2 * len(BLOCK.findall(text)):
        raise TableError("a table lacks its first line or its last, <!-- end -->")
    return BLOCK.sub(
        lambda block: f"<!-- table: {block['request']} -->\n{table(block['request'], folder)}\n<!-- end -->",
        text,
    )


def documents(home: Path) -> Iterator[Path]:
    """Yield every document that may have tables."""
    yield home / "README.md"
    yield from sorted((home / "docs").rglob("*.md"))


def stale(home: Path) -> dict[Path, str]:
    """Return the documents whose tables are not as they should be, and how they should read.

    Raises:
        TableError: Where, and what is wrong.
    """
    found = {}
    for path in documents(home):
        text = path.read_text(encoding="utf-8")
        try:
            new = renewed(text, home / "docs" / "data")
        except TableError as error:
            raise TableError(f"{path.relative_to(home)}: {error}") from error
        if new != text:
            found[path] = new
    return found


def main(words: Sequence[str]) -> int:
    """Write what is stale, or with `--check` only name it; return the exit code."""
    try:
        found = stale(HOME)
    except TableError as error:
        print(f"tables: {error}", file=sys.stderr)
        return 2
    check = "--check" in words
    for path, text in found.items():
        if not check:
            path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(HOME)}: tables {'are stale: make tables' if check else 'written'}")
    return 1 if found and check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
