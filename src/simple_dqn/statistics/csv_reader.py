"""Reading the CSV of a run, also of the original simple_dqn, and while it is being written."""

import csv
import io
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simple_dqn.errors import UserError
from simple_dqn.files import read_text
from simple_dqn.statistics.csv_writer import COLUMNS

OTHER_NAMES = {"phase_time": "epoch_time"}  # a column's name in the first versions of simple_dqn
MOST_BYTES = 1 << 30  # of a CSV; a row has about 200
WORDS = {"": math.nan, "true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
BLOCK = 10_000  # rows that are words at a time, which take ten times the memory of numbers
NO_NUMBER = 2.0**62  # simple_dqn wrote ±maxint as the minimum and maximum of no games

Column = NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """The content of a CSV: `columns[field]` float64 [rows], NaN where there is no value."""

    name: str
    phases: NDArray[np.str_]  # [rows]
    columns: dict[str, Column]

    def line(self, phase: str, field: str) -> tuple[Column, Column]:
        """Return the epochs and values of the rows of `phase` that have a value."""
        there = (self.phases == phase) & np.isfinite(self.columns[field])
        return self.columns["epoch"][there], self.columns[field][there]


def field_name(word: str) -> str:
    """Return the present name of a column, of which an older version of simple_dqn may have had another."""
    return OTHER_NAMES.get(word.strip(), word.strip())


def read_run(path: Path, name: str, skip_rows: int | None = None, delimiter: str = ",") -> Run:
    """Return the content of a run's CSV; the run may be in progress.

    Of the `skip_rows` rows before the data one may have the column names; None: there is one, which has them.

    Raises:
        UserError: The file cannot be read, is not such a CSV, or has no row of a phase yet.
    """
    text = read_text(path, MOST_BYTES, "give a CSV that train.sh wrote")
    whole, _, last = text.rpartition("\n")  # the last row is still being written, or empty
    first = 1 if skip_rows is None else skip_rows
    try:
        rows = (row for row in csv.reader(io.StringIO(whole, newline=None), delimiter=delimiter) if any(row))
        begin = list(islice(rows, first))
        if not (begin or whole.strip()):
            raise UserError(f"{path} is empty: give a CSV that train.sh wrote, or wait for its first row")
        names = _column_names(path, begin, required=skip_rows is None)
        half = next(csv.reader([last], delimiter=delimiter), [])
        more = [[*half[: len(names) - 1], ""]] if len(half) >= len(names) else []
        return _to_run(path, name, names, _blocks(path, len(names), rows, more))
    except csv.Error as error:
        raise UserError(f"{path} is not a CSV: {error}: give one that train.sh wrote") from error


def _column_names(path: Path, rows: list[list[str]], required: bool) -> list[str]:
    for row in rows:
        names = [field_name(word) for word in row]
        if "epoch" in names and "phase" in names:
            return names
    if required:
        raise UserError(
            f"{path} does not begin with the names of columns, epoch and phase among them: give a CSV that "
            "train.sh wrote, or, if it has no such row, --skiprows 0; other separators need --delimiter"
        )
    return list(COLUMNS)


def _blocks(
    path: Path, columns: int, rows: Iterator[list[str]], more: list[list[str]]
) -> Iterator[list[list[str]]]:
    """Yield `rows`, and then `more`, in blocks.

    Raises:
        UserError: One has fewer than `columns` columns.
    """
    number = 0
    while block := list(islice(rows, BLOCK)):
        for row in block:
            number += 1
            if len(row) < columns:
                raise UserError(
                    f"{path} is broken: row {number} of its data has {len(row)} columns instead of "
                    f"{columns}: delete that row"
                )
        yield block
    if more:
        yield more


def _to_run(path: Path, name: str, names: list[str], blocks: Iterable[list[list[str]]]) -> Run:
    phases: list[NDArray[np.str_]] = [np.zeros(0, np.str_)]
    columns: dict[str, list[Column]] = {field: [np.zeros(0)] for field in names if field != "phase"}
    try:
        for block in blocks:
            cells = dict(zip(names, zip(*block, strict=False), strict=False))
            phases.append(np.array([phase.strip() for phase in cells.pop("phase", ())], dtype=np.str_))
            for field, words in cells.items():
                columns[field].append(_numbers(words))
    except ValueError as error:
        raise UserError(
            f"{path} is not a CSV of statistics: {error}: give one that train.sh wrote"
        ) from error
    every = np.concatenate(phases)
    if not np.isin(every, ("train", "test")).any():
        found = f", only of {', '.join(sorted(set(every.tolist())))}" if len(every) else ""
        raise UserError(
            f"{path} has no row of training or a test yet{found}: wait for one, there is nothing to draw"
        )
    return Run(name, every, {field: np.concatenate(parts) for field, parts in columns.items()})


def _numbers(words: tuple[str, ...]) -> Column:
    """Return the numbers in `words`, a column of a block; see `_number`."""
    try:
        numbers = np.array([float(word or "nan") for word in words])
    except ValueError:
        return np.array([_number(word) for word in words])
    numbers[~(np.abs(numbers) < NO_NUMBER)] = math.nan
    return numbers


def _number(word: str) -> float:
    """Return the number in `word`, or NaN if it is empty or out of range."""
    word = word.strip().lower()
    number = WORDS[word] if word in WORDS else float(word)
    return number if abs(number) < NO_NUMBER else math.nan
