"""TensorBoard event files, written without TensorFlow or PyTorch."""

import time
from dataclasses import fields
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from simple_dqn.errors import UserError
from simple_dqn.statistics.summary import PhaseSummary, Writer

SCALARS = [field.name for field in fields(PhaseSummary) if field.name not in ("phase", "more")]


class TensorboardWriter(Writer):
    """Writes the numbers of each phase as scalars, such as `test/average_reward`, over training steps."""

    def __init__(self, folder: Path) -> None:
        """Write to a new event file in `folder`, which is made when the first phase starts."""
        self._folder = folder
        self._events: EventFileWriter | None = None

    def open(self) -> None:
        """Open the event file.

        Raises:
            UserError: The folder cannot be written.
        """
        try:
            self._events = EventFileWriter(str(self._folder))
        except OSError as error:
            raise self._cannot_write(error) from error

    def on_phase_end(self, summary: PhaseSummary) -> None:
        """Write the numbers that exist.

        Raises:
            UserError: They did not get into the file.
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
