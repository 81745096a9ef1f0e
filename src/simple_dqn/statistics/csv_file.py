"""The CSV of a run: writes a row per phase, and reads any CSV of this project and of simple_dqn."""

import csv
import hashlib
import io
import logging
import math
import os
import shutil
from array import array
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simple_dqn import files
from simple_dqn.errors import UserError
from simple_dqn.statistics import COLUMNS, PhaseSummary, Writer

logger = logging.getLogger(__name__)

MOST_BYTES = 1 << 30  # of a CSV; a row has about 150
ORDER = {"random": 0, "train": 1, "test": 2}  # order of the phases in an epoch
STARTS = (b"epoch,phase,",)  # of a CSV of any version
CLUSTER_COLUMNS = (
    "actors_alive",  # actors that have answered and have not failed
    "experience_in_flight",  # steps that were requested from actors and are not in the replay memory yet
    "weight_age",  # mean count of updates between the weights that actors used in this phase and the latest
)
OTHER_NAMES = {"phase_time": "epoch_time"}  # a column's name in the first versions of simple_dqn
WORDS = {"": math.nan, "true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
NO_NUMBER = 2.0**62  # simple_dqn wrote ±maxint as the minimum and maximum of no games

Column = NDArray[np.float64]


class Resumed(NamedTuple):
    """Where a CSV is continued: after the row of this epoch and phase."""

    epoch: int
    phase: str
    stopped: bool = False  # the next phase was stopped and goes on; its row is replaced


class CsvWriter(Writer):
    """Writes the summary of each phase as one row, on disk when the phase ends.

    The file is created when the first phase starts, so a run that fails before leaves no file and renames
    none.
    """

    def __init__(self, path: Path, resumed: Resumed | None = None, more: Sequence[str] = ()) -> None:
        """Check that `path` can be written.

        Args:
            path: The CSV. A new run renames an existing file to a numbered name.
            resumed: Where an existing file is continued; None: a new run.
            more: Names of additional columns; see `PhaseSummary.more`.

        Raises:
            UserError: The file cannot be written, or there is another kind of file.
        """
        self._path, self._resumed, self._columns = path, resumed, (*COLUMNS, *more)
        self._file: io.FileIO | None = None
        with self._writing():
            files.check_target(path, "--csv_file")
            nearest = next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())
            if not (path.exists() or nearest.is_dir()):
                raise NotADirectoryError(0, f"{nearest} is not a folder")
            if not os.access(nearest, os.R_OK | os.W_OK):
                raise PermissionError(0, f"{nearest} is read-only")
            if path.exists():
                files.check_start(path, STARTS, "CSV of statistics")

    def open(self) -> None:
        """Open the file, with its header and, in a resumed run, the rows so far.

        Raises:
            UserError: It cannot be written.
        """
        header = _line(self._columns)
        with self._writing():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.exists():
                if self._resumed and _whole_lines(self._path)[:1] in ([], [header]):
                    _remove_later_rows(self._path, self._resumed)
                elif self._path.stat().st_size:
                    aside = self._path.rename(files.numbered(self._path))
                    logger.info("%s belongs to another run: it was renamed to %s", self._path, aside)
            self._file = io.FileIO(self._path, "a")
            self._sum = hashlib.sha256(self._path.read_bytes())
            if self._file.tell() == 0:
                self._append(header)
        self.rows_sum = self._sum.hexdigest()
        logger.info("Results are written to %s", self._path)

    def on_phase_end(self, summary: PhaseSummary) -> None:
        """Write one row.

        Raises:
            UserError: The row could not be written; the rows before it are complete.
        """
        row = summary.row()
        with self._writing():
            self._append(_line([row.get(name) for name in self._columns]))
        self.rows_sum = self._sum.hexdigest()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _append(self, line: str) -> None:
        """Append `line` and flush it to disk; if that fails, leave the file unchanged."""
        assert self._file is not None
        whole, rest = self._file.tell(), line.encode()
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(whole)
            raise
        self._sum.update(line.encode())

    def _writing(self) -> AbstractContextManager[None]:
        return files.reporting_failure(
            f"the statistics {self._path}", "make room, or give another --csv_file"
        )


def _line(values: Sequence[object]) -> str:
    """Return a line of CSV; None is an empty field, and numbers have all their digits."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    return line.getvalue()


def is_of_run(path: Path, resumed: Resumed, rows_sum: str | None) -> bool | None:
    """Return whether the rows at `path` up to that of `resumed` are those with the checksum `rows_sum`.

    The rows identify a run: they contain its times. None: there is no row, or no file.

    Raises:
        UserError: The file cannot be read.
    """
    if not files.kind_of(path):
        return None
    whole = _whole_lines(path)
    kept = "".join(_until(whole, resumed))
    return hashlib.sha256(kept.encode()).hexdigest() == rows_sum if whole[1:] else None


def _remove_later_rows(path: Path, resumed: Resumed) -> None:
    """Remove the rows after the one that `resumed` names, and a last one that a crash cut short.

    If more is removed than the row of a stopped phase, the file is first copied to a numbered name.
    """
    whole = _whole_lines(path)
    kept = _until(whole, resumed)
    removed = [row for row in whole if row not in kept]
    if removed and not (resumed.stopped and len(removed) == 1 and _phase_of(removed[0])):
        aside = shutil.copy2(path, files.numbered(path))
        logger.info("%s has rows after epoch %d: a copy with all rows is kept as %s", path, resumed[0], aside)
    if "".join(kept).encode() != path.read_bytes():
        with files.replacing(path) as beside:
            beside.write_text("".join(kept), newline="")


def _whole_lines(path: Path) -> list[str]:
    content = files.read_file(path, MOST_BYTES, "give another --csv_file").decode(errors="replace")
    return [line for line in content.splitlines(keepends=True) if line.endswith("\n")]


def _until(lines: list[str], resumed: Resumed) -> list[str]:
    """Return the header and the rows up to that of `resumed`."""
    last = resumed.epoch, ORDER[resumed.phase]
    return lines[:1] + [row for row in lines[1:] if (phase := _phase_of(row)) and phase <= last]


def _phase_of(row: str) -> tuple[int, int] | None:
    """Return the epoch of `row` and the order of its phase; None: it is not the row of a phase."""
    epoch, phase, *_ = f"{row},".split(",")
    return (int(epoch), ORDER[phase]) if epoch.isdecimal() and phase in ORDER else None


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
    text = files.read_text(path, MOST_BYTES, "give a CSV that train.sh wrote")
    whole, _, last = text.rpartition("\n")  # the last row is still being written, or empty
    phases: list[str] = []
    try:
        lines = csv.reader(io.StringIO(whole, newline=None), delimiter=delimiter)
        rows = (row for row in lines if any(row))
        names = _column_names(path, list(islice(rows, 1 if skip_rows is None else skip_rows)), skip_rows)
        columns = {field: array("d") for field in names if field != "phase"}
        half = next(csv.reader([last], delimiter=delimiter), [])
        more = [[*half[: len(names) - 1], ""]] if len(half) >= len(names) else []
        for number, row in enumerate(chain(rows, more), 1):
            if len(row) < len(names):
                raise UserError(
                    f"{path} is broken: row {number} of its data has {len(row)} columns instead of "
                    f"{len(names)}: delete that row"
                )
            cells = dict(zip(names, row, strict=False))
            phases.append(cells.pop("phase", "").strip())
            for field, word in cells.items():
                columns[field].append(_number(word))
    except (csv.Error, ValueError) as error:
        raise UserError(f"{path} is not a CSV of statistics: {error}: give one of train.sh's") from error
    if not {"train", "test"} & set(phases):
        raise UserError(
            f"{path} has no row of training or a test: wait for one, there is nothing to draw yet"
        )
    return Run(name, np.array(phases), {field: np.array(values) for field, values in columns.items()})


def _column_names(path: Path, rows: list[list[str]], skip_rows: int | None) -> list[str]:
    """Return the names of columns in the `rows` before the data, or those of today."""
    if not rows and skip_rows != 0:
        raise UserError(f"{path} is empty: give a CSV that train.sh wrote, or wait for its first row")
    for row in rows:
        names = [field_name(word) for word in row]
        if "epoch" in names and "phase" in names:
            return names
    if skip_rows is None:
        raise UserError(
            f"{path} does not begin with the names of columns, epoch and phase among them: give a CSV that "
            "train.sh wrote, or, if it has no such row, --skiprows 0; other separators need --delimiter"
        )
    return list(COLUMNS)


def _number(word: str) -> float:
    """Return the number in `word`, or NaN if it is empty or out of range."""
    try:
        number = float(word)
    except ValueError:
        if (known := WORDS.get(word.strip().lower())) is None:
            raise
        return known
    return number if abs(number) < NO_NUMBER else math.nan
