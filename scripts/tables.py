"""Writes the tables of figures in README.md and docs/*.md from docs/data/*.csv: `make tables`.

A table is between two marker lines; only this script writes the text between them:

    <!-- table: speed -->                               all of docs/data/speed.csv
    <!-- table: speed | name, steps/s -->               these columns, in this order
    <!-- table: speed | name, "a, b" | game=pong -->    only rows with this value in a column
    <!-- end -->

Comments in a CSV begin with #: `# command:` is the command that made the figures, `# machine:` the machine.
If these differ between rows, they are columns. Whole numbers from 1000 on are written with commas, and -
before a number as a minus sign.
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
    """A marker or its data is invalid; the message is one line with the place and the reason."""


@dataclass(frozen=True)
class Data:
    """A CSV: its columns, and its rows as text."""

    columns: list[str]
    rows: list[dict[str, str]]


def read(path: Path) -> Data:
    """Return the CSV at `path`.

    Raises:
        TableError: The file cannot be read, two columns have the same name, a row has another length than the
            header, or the command or machine is missing.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror}") from error
    notes = {line[1:].partition(":")[0].strip() for line in lines if line.startswith("#")}
    header, *rows = [*csv.reader(line for line in lines if line and not line.startswith("#"))] or [[]]
    if len(set(header)) < len(header):
        raise TableError(f"{path}: two columns have the same name: {header}")
    for row in rows:
        if len(row) != len(header):
            raise TableError(f"{path}: a row has {len(row)} cells and the header {len(header)}: {row}")
    for name in ORIGIN:
        if name not in (*notes, *header):
            raise TableError(f"{path} does not say its {name}: add a line `# {name}: …`, or a column")
    return Data(header, [dict(zip(header, row, strict=True)) for row in rows])


def table(request: str, folder: Path) -> str:
    """Return the table of a marker in Markdown.

    Args:
        request: The text of the marker: a name, optionally columns and a condition on rows.
        folder: The folder of the CSV files.

    Raises:
        TableError: A file, column or row does not exist.
    """
    name, columns, rows = [part.strip() for part in [*request.split("|"), "", ""][:3]]
    data = read(folder / f"{name}.csv")
    shown = next(csv.reader([columns], skipinitialspace=True)) if columns else data.columns
    column, _, value = rows.partition("=")
    for wanted in [*shown, *([column] if rows else [])]:
        if wanted not in data.columns:
            raise TableError(f"{name}.csv has no column {wanted!r}: choose from {', '.join(data.columns)}")
    chosen = [row for row in data.rows if not rows or row[column] == value]
    if not chosen:
        raise TableError(f"{name}.csv has no row with {rows}" if rows else f"{name}.csv has no rows")
    cells = [shown, ["---"] * len(shown), *([shape(row[column]) for column in shown] for row in chosen)]
    lines = ["|" + "|".join(f" {cell} " if cell else " " for cell in row) + "|" for row in cells]
    lines[1] = lines[1].replace(" ", "")
    return "\n".join(lines)


def shape(cell: str) -> str:
    """Return the text of a cell in the page."""
    if re.fullmatch(r"-?\d+", cell):
        cell = f"{int(cell):,}"
    return re.sub(r"^-(?=[\d.])", "−", cell)


def renewed(text: str, folder: Path) -> str:
    """Return a document with all its tables up to date.

    Raises:
        TableError: A marker lacks its counterpart, or its data does not exist.
    """
    if len(MARKER.findall(text)) != 2 * len(BLOCK.findall(text)):
        raise TableError("a table lacks its first or its last marker, <!-- end -->")
    return BLOCK.sub(
        lambda block: f"<!-- table: {block['request']} -->\n{table(block['request'], folder)}\n<!-- end -->",
        text,
    )


def documents(home: Path) -> Iterator[Path]:
    """Yield all documents that may have tables."""
    yield home / "README.md"
    yield from sorted((home / "docs").rglob("*.md"))


def stale(home: Path) -> dict[Path, str]:
    """Return the documents with outdated tables, and their correct texts.

    Raises:
        TableError: A table is wrong; the message names the document.
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
    """Update outdated tables, or only list them with `--check`; return the exit code."""
    try:
        found = stale(HOME)
    except TableError as error:
        print(f"tables: {error}", file=sys.stderr)
        return 2
    check = "--check" in words
    for path, text in found.items():
        if not check:
            path.write_text(text, encoding="utf-8")
        state = "are out of date: run make tables" if check else "updated"
        print(f"{path.relative_to(HOME)}: tables {state}")
    return 1 if found and check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
