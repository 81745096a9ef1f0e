"""Statistics of a run, counted step by step and summarized phase by phase: log, CSV and TensorBoard."""

from simple_dqn.statistics.console import Console, ConsoleHandler
from simple_dqn.statistics.csv_reader import Run, field_name, read_run
from simple_dqn.statistics.csv_writer import CsvWriter, Resumed, is_of_run
from simple_dqn.statistics.statistics import Scores, Statistics
from simple_dqn.statistics.summary import CLUSTER_COLUMNS, PhaseOutcome, PhaseSummary, Point, Progress, Writer

__all__ = [
    "CLUSTER_COLUMNS",
    "Console",
    "ConsoleHandler",
    "CsvWriter",
    "PhaseOutcome",
    "PhaseSummary",
    "Point",
    "Progress",
    "Resumed",
    "Run",
    "Scores",
    "Statistics",
    "Writer",
    "field_name",
    "is_of_run",
    "read_run",
]
