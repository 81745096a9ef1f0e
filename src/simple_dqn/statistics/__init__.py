"""What a run did: counted step by step, summed up phase by phase, handed to writers."""

from collections.abc import Sequence
from pathlib import Path

from simple_dqn.statistics.console import Console, ConsoleHandler
from simple_dqn.statistics.csv_reader import Run, field_name, read_run
from simple_dqn.statistics.csv_writer import CsvWriter
from simple_dqn.statistics.statistics import Statistics
from simple_dqn.statistics.summary import CLUSTER_COLUMNS, PhaseOutcome, PhaseSummary, Progress, Writer

__all__ = [
    "CLUSTER_COLUMNS",
    "ConsoleHandler",
    "PhaseOutcome",
    "PhaseSummary",
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
) -> Sequence[Writer]:
    """Return the writers of a run: what a person sees, and the files that were asked for.

    Args:
        csv_file: Where the rows go, one per phase; None: nowhere.
        tensorboard_folder: Where TensorBoard's event files go; None: nowhere.
        resume_epoch: The last epoch that the resumed snapshot has seen, up to which the CSV keeps its rows;
            None: a new run.
        resume_phase: The last phase of that epoch that the snapshot has seen, train or test.
        more: Names of the CSV's columns after the usual ones.

    Raises:
        UserError: The CSV cannot be written there. Nothing is made before the first phase starts.
    """
    writers: list[Writer] = [Console()]
    if csv_file is not None:
        writers.append(CsvWriter(csv_file, resume_epoch, resume_phase, more))
    if tensorboard_folder is not None:
        # Imported when asked for: it takes as long as all the rest of this room.
        from simple_dqn.statistics.tensorboard_writer import TensorboardWriter

        writers.append(TensorboardWriter(tensorboard_folder, resumed=resume_epoch is not None))
    return writers
