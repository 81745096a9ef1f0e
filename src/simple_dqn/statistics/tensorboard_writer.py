"""TensorBoard event files, written without TensorFlow or PyTorch."""

import logging
import time
from dataclasses import fields
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from simple_dqn.errors import UserError
from simple_dqn.files import numbered
from simple_dqn.statistics.summary import PhaseSummary, Writer

logger = logging.getLogger(__name__)

SCALARS = [field.name for field in fields(PhaseSummary) if field.name not in ("phase", "more")]


class TensorboardWriter(Writer):
    """Writes the numbers of each phase as scalars, such as `test/average_reward`, over training steps."""

    def __init__(self, folder: Path, resumed: bool = False) -> None:
        """Set up a writer; the event file is created when the first phase starts.

        Args:
            folder: The folder of the event files. A new run renames an existing folder to a numbered name.
            resumed: Whether the run was resumed; TensorBoard then drops the steps that are repeated.
        """
        self._folder, self._resumed = folder, resumed
        self._events: EventFileWriter | None = None

    def open(self) -> None:
        """Open the event file.

        Raises:
            UserError: The folder cannot be written.
        """
        try:
            if not self._resumed and any(self._folder.glob("events.out.tfevents.*")):
                aside = self._folder.rename(numbered(self._folder))
                logger.info("%s holds the events of another run: it is kept as %s", self._folder, aside)
            self._events = EventFileWriter(str(self._folder))
        except OSError as error:
            raise self._cannot_write(error) from error

    def on_phase_end(self, summary: PhaseSummary) -> None:
        """Write the numbers that exist.

        Raises:
            UserError: They could not be written.
        """
        assert self._events is not None
        numbers = {name: getattr(summary, name) for name in SCALARS} | dict(summary.more)
        scalars = Summary(
            value=[
                Summary.Value(tag=f"{summary.phase}/{name}", simple_value=number)
                for name, number in numbers.items()
                if number is not None
            ]
        )
        event = Event(wall_time=time.time(), step=summary.total_train_steps, summary=scalars)
        try:
            if self._resumed:
                self._events.add_event(_restart_event(summary))
                self._resumed = False
            self._events.add_event(event)
            self._events.flush()
        except OSError as error:
            raise self._cannot_write(error) from error

    def close(self) -> None:
        """Close the event file."""
        if self._events is not None:
            self._events.close()

    def _cannot_write(self, error: OSError) -> UserError:
        return UserError(
            f"cannot write TensorBoard's event file in {self._folder}: {error.strerror}: "
            "make room for it, or leave out --tensorboard"
        )


def _restart_event(summary: PhaseSummary) -> Event:
    """Return the event that makes TensorBoard drop earlier events from the steps of `summary` on."""
    # A test has the same step as the training before it, whose numbers stay.
    first = summary.total_train_steps + (summary.phase == "test")
    return Event(wall_time=time.time(), step=first, session_log=SessionLog(status=SessionLog.START))
