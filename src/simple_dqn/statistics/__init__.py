"""Statistics of a run, counted step by step and summarized phase by phase: log, CSV and TensorBoard."""

from collections.abc import Sequence
from pathlib import Path

from simple_dqn.statistics.console import Console, ConsoleHandler
from simple_dqn.statistics.csv_reader import Run, field_name, read_run
from simple_dqn.statistics.csv_writer import CsvWriter
from simple_dqn.statistics.statistics import Statistics
from simple_dqn.statistics.summary import CLUSTER_COLUMNS, PhaseOutcome, PhaseSummary, Point, Progress, Writer

__all__ = [
    "CLUSTER_COLUMNS",
    "ConsoleHandler",
    "PhaseOutcome",
    "PhaseSummary",
    "Point",
    "Progress",
    "Run",
    "Statistics",
    "Writer",
    "field_name",
    "make_writers",
    "read_run",
]


def make_writers(
    csv_file: Path | None = None,
    tensorboard_folder: Path | None = None,
    resume_epoch: int | None = None,
    resume_phase: str = "test",
    more: Sequence[str] = (),
    histograms: bool = False,
) -> Sequence[Writer]:
    """Return the writers of a run: the console, and those of the given files.

    Args:
        csv_file: The CSV, with one row per phase; None: there is none.
        tensorboard_folder: The folder for TensorBoard's event files; None: there is none.
        resume_epoch: In a resumed run, the last epoch whose rows stay in the CSV; None: a new run.
        resume_phase: The last phase of that epoch whose row stays, train or test.
        more: Names of additional columns of the CSV.
        histograms: Whether TensorBoard gets histograms of Q-values.

    Raises:
        UserError: The CSV cannot be written. No file is created before the first phase starts.
    """
    writers: list[Writer] = [Console()]
    if csv_file is not None:
        writers.append(CsvWriter(csv_file, resume_epoch, resume_phase, more))
    if tensorboard_folder is not None:
        # Imported only when used, since it takes long to import.
        from simple_dqn.statistics.tensorboard_writer import TensorboardWriter

        writers.append(TensorboardWriter(tensorboard_folder, resume_epoch is not None, histograms))
    return writers
