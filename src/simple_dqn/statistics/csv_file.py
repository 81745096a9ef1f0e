"""The CSV of a run: writes a row per phase, and reads any CSV of this project and of simple_dqn."""

import csv
import io
import logging
import math
import os
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simple_dqn import files
from simple_dqn.errors import UserError
from simple_dqn.statistics import COLUMNS, PhaseSummary, Writer

logger = logging.getLogger(__name__)

MOST_BYTES = 1 << 30  # of a CSV; a row has about 150
CLUSTER_COLUMNS = ("actors_alive", "experience_in_flight", "weight_age")  # of runs with --cluster
NO_NUMBER = 2.0**62  # simple_dqn wrote ±maxint as the minimum and maximum of no games

Column = NDArray[np.float64]


class CsvWriter(Writer):
    """Writes the summary of each phase as one row, on disk when the phase ends."""

    _file: io.FileIO | None = None

    def __init__(self, path: Path, resumed: str | None = None, more: Sequence[str] = ()) -> None:
        """Set up a writer of the CSV `path` with the additional columns `more`; see `PhaseSummary.more`.

        A resumed run continues after the last row that begins with `resumed`. A whole line, with its end,
        means that the next phase was stopped; the row of that phase is replaced. A new run (None), or one
        whose row is missing, starts a new file. If other rows would be lost, not just a header, the file is
        copied to a numbered name first.
        """
        self._path, self._resumed, self._columns = files.from_here(path), resumed, (*COLUMNS, *more)
        advice = "free disk space or give another --csv_file"
        self._writing = partial(files.reporting_failure, f"the statistics {self._path}", advice)

    def open(self) -> None:
        """Open the file, or raise UserError: it cannot be written, is locked, or is not such a CSV."""
        header, path = _line(self._columns), self._path
        with self._writing():
            files.check_target(path, "--csv_file", (b"epoch,phase,",), "it is not a CSV of statistics")
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = io.FileIO(path, "a")
            if not files.lock(self._file, path):
                raise UserError(f"{path} is being written by another run: wait, or give another --csv_file")
            lines, kept = _lines_to(path, self._resumed)
            kept = kept if kept[:1] == [header] else []
            replaced = int((self._resumed or "").endswith("\n"))  # the row of a stopped phase
            if len(lines) > max(1, len(kept) + replaced):
                copy = shutil.copy2(path, files.unused_path(path))
                logger.info("%s has rows of another run, or later ones: they are kept in %s", path, copy)
            self._file.truncate(sum(map(len, kept)))
            self.last_row = kept[-1] if kept else self._append(header)
        logger.info("Results are written to %s", path)

    def on_phase_end(self, summary: PhaseSummary) -> None:
        """Write one row; if that fails (UserError), the rows before it are complete."""
        row = summary.row()
        with self._writing():
            self.last_row = self._append(_line([row.get(name) for name in self._columns]))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _append(self, line: str) -> str:
        """Append `line`, flush it to disk and return it; if that fails, leave the file unchanged."""
        assert self._file is not None
        whole, rest = self._file.seek(0, os.SEEK_END), line.encode()
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(whole)
            raise
        return line


def _line(values: Sequence[object]) -> str:
    """Return a line of CSV; None is an empty field, and numbers have all their digits."""
    return ",".join("" if value is None else str(value) for value in values) + "\n"


def is_of_run(path: Path, last_row: str) -> bool | None:
    """Return whether `last_row` is a line of the CSV at `path`; None: there is no row, or no file.

    A row identifies a run, because it contains its times. Raise UserError if the file cannot be read.
    """
    lines, kept = _lines_to(path, last_row)
    return kept[-1:] == [last_row] if lines[1:] else None


def _lines_to(path: Path, row: str | None) -> tuple[list[str], list[str]]:
    """Return the whole lines of the CSV at `path`, and those up to the last that begins with `row`."""
    if not files.kind_of(path):
        return [], []
    content = files.read_file(path, MOST_BYTES, "give another --csv_file").decode("latin-1")
    lines = [f"{line}\n" for line in content.split("\n")[:-1]]
    found = [number for number, line in enumerate(lines, 1) if row is not None and line.startswith(row)]
    return lines, lines[: found[-1]] if found else []


@dataclass(frozen=True)
class RunData:
    """The content of a CSV: `columns[field]` float64 [rows], NaN where there is no value."""

    name: str
    phases: NDArray[np.str_]  # [rows]
    columns: dict[str, Column]

    def check(self, fields: Iterable[str], name: str) -> None:
        """Raise UserError unless the run, which the message calls `name`, has all `fields`."""
        if lacking := [field for field in fields if field not in self.columns]:
            known = textwrap.shorten(", ".join(self.columns), 300, placeholder=" ...")
            raise UserError(f"there is no field {lacking[0]!r} in {name}: choose among {known}")

    def line(self, phase: str, field: str) -> tuple[Column, Column]:
        """Return the epochs and values of the rows of `phase` that have a value."""
        there = (self.phases == phase) & np.isfinite(self.columns[field])
        return self.columns["epoch"][there], self.columns[field][there]


def field_name(word: str) -> str:
    """Return today's name of a column; the first versions of simple_dqn had another for one."""
    return word.strip().replace("phase_time", "epoch_time")


def read_run(path: Path, name: str, skip_rows: int | None = None, delimiter: str = ",") -> RunData:
    """Return the content of a run's CSV, which may be in progress, or raise UserError.

    There are `skip_rows` rows before the data, whose columns are today's; None: one row has their names.
    """
    text = files.read_text(path, MOST_BYTES, "give a CSV that train.sh wrote")
    text = text[: text.rfind("\n") + 1]  # without a row that is still being written
    phases, names = list[str](), list(COLUMNS)
    try:
        lines = filter(any, csv.reader(io.StringIO(text, newline=None), delimiter=delimiter))
        if skip_rows is None:
            names = [field_name(word) for word in next(lines, [])]
            if not {"epoch", "phase"} <= set(names):
                remedy = "give a CSV of train.sh's (plot.sh reads others with --skiprows 0 or --delimiter)"
                raise UserError(f"{path} does not begin with the names of columns: {remedy}")
        columns: dict[str, list[float]] = {field: [] for field in names if field != "phase"}
        for number, row in enumerate(islice(lines, skip_rows, None), 1):
            if len(row) < len(names):
                raise ValueError(f"row {number} of its data has {len(row)} columns instead of {len(names)}")
            cells = dict(zip(names, row, strict=False))
            phases.append(cells.pop("phase").strip())
            for field, word in cells.items():
                try:
                    value = float(word) if word.strip() else math.nan
                except ValueError:
                    cell = f"{word[:60]!r}{'...' * (len(word) > 60)}"
                    raise ValueError(f"{field[:60]!r} in row {number} of its data is {cell}") from None
                columns[field].append(value if abs(value) < NO_NUMBER else math.nan)
    except (csv.Error, ValueError) as error:
        raise UserError(f"{path} is not a CSV of statistics: {error}: give one of train.sh's") from error
    if not {"train", "test"} & set(phases):
        raise UserError(f"{path} has no row of training or of a test yet: wait for one")
    return RunData(name, np.array(phases), {field: np.array(values) for field, values in columns.items()})
