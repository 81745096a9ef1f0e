"""The CSV of a run: one row per phase, on disk when the phase ends. Rows of earlier runs are never lost."""

import csv
import hashlib
import io
import logging
import os
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

from simple_dqn.files import check_start, kind_of, numbered, read_file, replacing, reporting_failure
from simple_dqn.statistics.summary import PhaseSummary, Writer

logger = logging.getLogger(__name__)

MOST_BYTES = 1 << 30  # of a CSV; a row has about 150
ORDER = {"random": 0, "train": 1, "test": 2}  # order of the phases in an epoch
STARTS = (b"epoch,phase,",)  # of a CSV of any version
COLUMNS = tuple(field.name for field in fields(PhaseSummary) if field.name != "more")


class Resumed(NamedTuple):
    """Where a CSV is continued: after the row of this epoch and phase."""

    epoch: int
    phase: str
    stopped: bool = False  # the next phase was stopped and goes on; its row is replaced


def _line(values: Sequence[object]) -> str:
    """Return a line of CSV; None is an empty field, and numbers have all their digits."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    return line.getvalue()


class CsvWriter(Writer):
    """Writes the summary of each phase as one row.

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
        self._path = path
        self._more = tuple(more)
        self._header = _line((*COLUMNS, *more))
        self._resumed = resumed
        self._file: io.FileIO | None = None
        self._sum = hashlib.sha256()
        with _writing(path):
            _check_writable(path)
            if path.exists():
                check_start(path, STARTS, "CSV of statistics")

    def open(self) -> None:
        """Open the file, with its header and, in a resumed run, the rows so far.

        Raises:
            UserError: It cannot be written.
        """
        with _writing(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.exists():
                if self._resumed is None:
                    _rename(self._path)
                else:
                    _remove_later_rows(self._path, self._resumed, self._header)
            self._file = io.FileIO(self._path, "a")
            if self._file.tell() == 0:
                _append(self._file, self._header)
            self._sum = hashlib.sha256(self._path.read_bytes())
        logger.info("Results are written to %s", self._path)

    def on_phase_end(self, summary: PhaseSummary) -> None:
        """Write one row.

        Raises:
            UserError: The row could not be written; the rows before it are complete.
        """
        assert self._file is not None
        row = summary.row()
        line = _line([row.get(name) for name in (*COLUMNS, *self._more)])
        with _writing(self._path):
            _append(self._file, line)
        self._sum.update(line.encode())

    @property
    def rows_sum(self) -> str:
        """A checksum of the rows so far, by which a checkpoint knows the CSV of its run; see `is_of_run`."""
        return self._sum.hexdigest()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _check_writable(path: Path) -> None:
    """Raise an `OSError` unless `path` is, or can become, a writable file."""
    if path.exists() and not path.is_file():
        raise IsADirectoryError(0, "it is not a file")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir():
        raise NotADirectoryError(0, f"{folder} is not a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(0, f"no files can be made in {folder}")
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise PermissionError(0, "it is read-only")


def _writing(path: Path) -> AbstractContextManager[None]:
    return reporting_failure(f"the statistics {path}", "make room for it, or give another --csv_file")


def _append(file: io.FileIO, line: str) -> None:
    """Append `line` and flush it to disk; if that fails, leave the file unchanged."""
    whole, rest = file.tell(), line.encode()
    try:
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
    except OSError:
        file.truncate(whole)
        raise


def _rename(path: Path) -> None:
    """Rename the file, unless it is empty, to a numbered name."""
    if path.stat().st_size:
        aside = path.rename(numbered(path))
        logger.info("%s belongs to another run: it was renamed to %s", path, aside)


def is_of_run(path: Path, resumed: Resumed, rows_sum: str | None) -> bool | None:
    """Return whether the rows at `path` up to that of `resumed` are those with the checksum `rows_sum`.

    The rows identify a run: they contain its times. None: there is no row, or no file.

    Raises:
        UserError: The file cannot be read.
    """
    if not kind_of(path):
        return None
    whole = _whole_lines(path)
    kept = "".join(_until(whole, resumed))
    return hashlib.sha256(kept.encode()).hexdigest() == rows_sum if whole[1:] else None


def _remove_later_rows(path: Path, resumed: Resumed, header: str) -> None:
    """Remove the rows after the one that `resumed` names.

    A last row without an end of line was cut short by a crash, and is removed. So is the row of a stopped
    phase. If more is removed, the file is first copied to a numbered name. A file with another header is
    renamed.
    """
    whole = _whole_lines(path)
    if whole and whole[0] != header:
        _rename(path)
        return
    kept = _until(whole, resumed)
    removed = [row for row in whole if row not in kept]
    replaced = resumed.stopped and len(removed) == 1 and _phase_of(removed[0])
    if removed and not replaced:
        aside = numbered(path)
        shutil.copy2(path, aside)
        logger.info(
            "%s has rows after epoch %d: a copy with all rows is kept as %s", path, resumed.epoch, aside
        )
    if "".join(kept).encode() != path.read_bytes():
        with replacing(path) as beside:
            beside.write_text("".join(kept), newline="")


def _whole_lines(path: Path) -> list[str]:
    content = read_file(path, MOST_BYTES, "give another --csv_file")
    lines = content.decode(errors="replace").splitlines(keepends=True)
    return [line for line in lines if line.endswith("\n")]


def _until(lines: list[str], resumed: Resumed) -> list[str]:
    """Return the header and the rows up to that of `resumed`."""
    last = resumed.epoch, ORDER[resumed.phase]
    return lines[:1] + [row for row in lines[1:] if (phase := _phase_of(row)) and phase <= last]


def _phase_of(row: str) -> tuple[int, int] | None:
    """Return the epoch of `row` and the order of its phase; None: it is not the row of a phase."""
    epoch, phase, *_ = f"{row},".split(",")
    return (int(epoch), ORDER[phase]) if epoch.isdecimal() and phase in ORDER else None
