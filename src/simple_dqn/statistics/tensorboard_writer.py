"""TensorBoard event files, written without TensorFlow or PyTorch."""

import logging
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from simple_dqn.files import numbered, reporting_failure
from simple_dqn.statistics.summary import PhaseSummary, Point, Writer
from simple_dqn.types import QValues

logger = logging.getLogger(__name__)

BUCKETS = 30  # of a histogram, as TensorBoard's own


class TensorboardWriter(Writer):
    """Writes the numbers of phases and points as scalars over training steps, such as `test/meanq`."""

    points = True

    def __init__(self, folder: Path, resumed: bool = False, histograms: bool = False) -> None:
        """Set up a writer; the event file is created when the first phase starts.

        Args:
            folder: The folder of the event files. A new run renames an existing folder to a numbered name.
            resumed: Whether the run was resumed; TensorBoard then drops the steps that are repeated.
            histograms: Whether to write histograms of the Q-values of held-out states.
        """
        self._folder, self._resumed, self._histograms = folder, resumed, histograms
        self._events: EventFileWriter | None = None

    def open(self) -> None:
        """Open the event file.

        Raises:
            UserError: The folder cannot be written.
        """
        with self._writing():
            if not self._resumed and any(self._folder.glob("events.out.tfevents.*")):
                aside = self._folder.rename(numbered(self._folder))
                logger.info("%s has the events of another run: it was renamed to %s", self._folder, aside)
            self._events = EventFileWriter(str(self._folder))

    def on_phase_end(self, summary: PhaseSummary) -> None:
        """Write the numbers that exist.

        Raises:
            UserError: They could not be written.
        """
        # A test has the same step as the training before it, whose numbers stay in a resumed run.
        first = summary.total_train_steps + (summary.phase == "test")
        self._write(summary.total_train_steps, summary.scalars(), None, first)
        assert self._events is not None
        with self._writing():
            self._events.flush()

    def on_point(self, point: Point) -> None:
        """Write the numbers, and the histogram of the Q-values if asked for.

        Raises:
            UserError: They could not be written.
        """
        self._write(point.step, point.scalars, point.qvalues if self._histograms else None, point.step)

    def _write(self, step: int, scalars: Mapping[str, float], qvalues: QValues | None, first: int) -> None:
        """Write the numbers at `step`; in a resumed run, those written before from `first` on are dropped."""
        assert self._events is not None
        values = [Summary.Value(tag=name, simple_value=number) for name, number in scalars.items()]
        if qvalues is not None:
            values.append(Summary.Value(tag="progress/q_values", histo=_histogram(qvalues)))
        with self._writing():
            if self._resumed:
                restart = SessionLog(status=SessionLog.START)
                self._events.add_event(Event(wall_time=time.time(), step=first, session_log=restart))
                self._resumed = False
            self._events.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))

    def close(self) -> None:
        """Close the event file."""
        if self._events is not None:
            self._events.close()

    def _writing(self) -> AbstractContextManager[None]:
        file = f"TensorBoard's event file in {self._folder}"
        return reporting_failure(file, "make room for it, or leave out --tensorboard")


def _histogram(qvalues: QValues) -> HistogramProto:
    """Return the histogram of all Q-values."""
    counts, edges = np.histogram(qvalues, BUCKETS)
    values = qvalues.astype(np.float64)
    return HistogramProto(
        min=values.min(), max=values.max(), num=values.size, sum=values.sum(), sum_squares=(values**2).sum(),
        bucket_limit=edges[1:].tolist(), bucket=counts.tolist(),
    )  # fmt: skip
