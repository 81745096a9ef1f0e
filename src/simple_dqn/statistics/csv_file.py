"""The CSV of a run: writes a row per phase, and reads any CSV of this project and of simple_dqn."""

import csv
import hashlib
import io
import logging
import math
import os
import re
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
ROW = re.compile(r"(\d+),(random|train|test),")
CLUSTER_COLUMNS = (
    "actors_alive",  # actors that have answered and have not failed
    "experience_in_flight",  # steps that were requested from actors and are not in the replay memory yet
    "weight_age",  # mean count of updates between the weights that actors used in this phase and the latest
)
NO_NUMBER = 2.0**62  # simple_dqn wrote ±maxint as the minimum and maximum of no games

Column = NDArray[np.float64]


class Resumed(NamedTuple):
    """Where a CSV is continued: after the row of this epoch and phase."""

    epoch: int
    phase: str
    stopped: bool = False  # the next phase was stopped and goes on; its row is replaced


class CsvWriter(Writer):
    """Writes the summary of each phase as one row, on disk when the phase ends.

    The file is created when the first phase starts: a run that fails before creates and renames none.
    """

    _file: io.FileIO | None = None

    def __init__(self, path: Path, resumed: Resumed | None = None, more: Sequence[str] = ()) -> None:
        """Set up a writer of the CSV `path` with the additional columns `more`; see `PhaseSummary.more`.

        A new run renames an existing file to a numbered name; `resumed` says where an existing one goes on.
        """
        self._path, self._resumed, self._columns = path, resumed, (*COLUMNS, *more)

    def open(self) -> None:
        """Open the file, with its header and, in a resumed run, the rows so far.

        Raises:
            UserError: It cannot be written, or there is a file of another kind.
        """
        header, path = _line(self._columns), self._path
        with self._writing():
            files.check_target(path, "--csv_file")
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                files.check_start(path, (b"epoch,phase,",), "CSV of statistics")
                lines = _whole_lines(path)
                if self._resumed and lines[:1] in ([], [header]):
                    self._keep(lines, _until(lines, self._resumed), self._resumed)
                elif path.stat().st_size:
                    aside = path.rename(files.numbered(path))
                    logger.info("%s belongs to another run: it was renamed to %s", path, aside)
            self._file = io.FileIO(path, "a")
            self._sum = hashlib.sha256(path.read_bytes())
            if self._file.tell() == 0:
                self._append(header)
        self.rows_sum = self._sum.hexdigest()
        logger.info("Results are written to %s", path)

    def _keep(self, lines: list[str], kept: list[str], resumed: Resumed) -> None:
        """Remove all but the `kept` lines; copy the file first if more goes than the stopped phase's row."""
        if len(lines) - len(kept) > resumed.stopped:
            aside = shutil.copy2(self._path, files.numbered(self._path))
            words = "%s has rows after epoch %d: a copy with all rows is kept as %s"
            logger.info(words, self._path, resumed.epoch, aside)
        with files.replacing(self._path) as beside:
            beside.write_text("".join(kept), newline="")

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
        what = f"the statistics {self._path}"
        return files.reporting_failure(what, "make room, or give another --csv_file")


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
    lines = _whole_lines(path) if files.kind_of(path) else []
    kept = "".join(_until(lines, resumed))
    return hashlib.sha256(kept.encode()).hexdigest() == rows_sum if lines[1:] else None


def _whole_lines(path: Path) -> list[str]:
    """Return the lines of the file, without a last one that a crash cut short."""
    content = files.read_file(path, MOST_BYTES, "give another --csv_file").decode(errors="replace")
    return [line for line in content.splitlines(keepends=True) if line.endswith("\n")]


def _until(lines: list[str], resumed: Resumed) -> list[str]:
    """Return the header and the rows up to that of `resumed`, without those that are of no phase."""
    last, found = (resumed.epoch, ORDER[resumed.phase]), map(ROW.match, lines)
    kept = [line for line, at in zip(lines, found, strict=True) if at and (int(at[1]), ORDER[at[2]]) <= last]
    return lines[:1] + kept


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
    """Return the present name of a column; the first versions of simple_dqn had another for one."""
    return word.strip().replace("phase_time", "epoch_time")


def read_run(path: Path, name: str, skip_rows: int | None = None, delimiter: str = ",") -> Run:
    """Return the content of a run's CSV; the run may be in progress.

    There are `skip_rows` rows before the data, whose columns are today's; None: one row has their names.

    Raises:
        UserError: The file cannot be read, is not such a CSV, or has no row of a phase yet.
    """
    text = files.read_text(path, MOST_BYTES, "give a CSV that train.sh wrote")
    whole, _, last = text.rpartition("\n")  # the last row is still being written, or empty
    phases, names = list[str](), list(COLUMNS)
    try:
        lines = filter(any, csv.reader(io.StringIO(whole, newline=None), delimiter=delimiter))
        if skip_rows is None:
            names = [field_name(word) for word in next(lines, [])]
            if not {"epoch", "phase"} <= set(names):
                raise UserError(
                    f"{path} does not begin with the names of columns, epoch and phase among them: give a "
                    "CSV of train.sh's, or, without this row, --skiprows 0; other separators need --delimiter"
                )
        half = [*last.split(delimiter)[:-1], ""]  # its last number may be cut short
        rows = chain(islice(lines, skip_rows, None), [half] if len(half) >= len(names) else [])
        columns = {field: array("d") for field in names if field != "phase"}
        for number, row in enumerate(rows, 1):
            if len(row) < len(names):
                problem = f"row {number} of its data has {len(row)} columns instead of {len(names)}"
                raise UserError(f"{path} is broken: {problem}: delete that row")
            cells = dict(zip(names, row, strict=False))
            phases.append(cells.pop("phase").strip())
            for field, word in cells.items():
                value = float(word) if word.strip() else math.nan
                columns[field].append(value if abs(value) < NO_NUMBER else math.nan)
    except (csv.Error, ValueError) as error:
        raise UserError(f"{path} is not a CSV of statistics: {error}: give one of train.sh's") from error
    if not {"train", "test"} & set(phases):
        raise UserError(f"{path} has no row of training or a test: wait for one, nothing to draw yet")
    return Run(name, np.array(phases), {field: np.array(values) for field, values in columns.items()})
