"""Writers that a run may add: TensorBoard, Weights & Biases, trackio, and those of one's own (`--track`).

The trackers' packages are extras, imported when a run that asks for them begins. The file
`results/NAME.wandb` or `results/NAME.trackio` holds the tracker's id of the run, by which a resumed run and
a film find it.
"""

import logging
import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from simple_dqn.errors import UserError, one_line, require_extra
from simple_dqn.files import numbered, reporting_failure
from simple_dqn.statistics import PhaseSummary, Point, Writer
from simple_dqn.types import QValues

logger = logging.getLogger(__name__)

BUCKETS = 30  # of a histogram, as TensorBoard's own
PROJECT = "simple-dqn"


class TensorboardWriter(Writer):
    """Writes the numbers of phases and points as scalars over training steps, such as `test/meanq`.

    Each method raises a `UserError` if the events cannot be written.
    """

    points = True
    _events: EventFileWriter

    def __init__(self, folder: Path, resumed: bool = False, histograms: bool = False) -> None:
        """Set up a writer of event files in `folder`, which is created when the first phase starts.

        A new run renames a folder that exists; TensorBoard drops the steps that a `resumed` one repeats.
        """
        self._folder, self._resumed, self._histograms = folder, resumed, histograms

    def open(self) -> None:
        """Open the event file."""
        with self._writing():
            if not self._resumed and any(self._folder.glob("events.out.tfevents.*")):
                aside = self._folder.rename(numbered(self._folder))
                logger.info("%s has the events of another run: it was renamed to %s", self._folder, aside)
            self._events = EventFileWriter(str(self._folder))

    def on_phase_end(self, summary: PhaseSummary) -> None:
        """Write the numbers that exist."""
        # A test has the same step as the training before it, whose numbers stay in a resumed run.
        first = summary.total_train_steps + (summary.phase == "test")
        self._write(summary.total_train_steps, summary.scalars(), None, first)
        with self._writing():
            self._events.flush()

    def on_point(self, point: Point) -> None:
        """Write the numbers, and the histogram of the Q-values if asked for."""
        self._write(point.step, point.scalars, point.qvalues if self._histograms else None, point.step)

    def _write(self, step: int, scalars: Mapping[str, float], qvalues: QValues | None, first: int) -> None:
        """Write the numbers at `step`; in a resumed run, those written before from `first` on are dropped."""
        values = [Summary.Value(tag=name, simple_value=number) for name, number in scalars.items()]
        if qvalues is not None:
            counts, edges = np.histogram(qvalues, BUCKETS)
            histogram = HistogramProto(
                min=qvalues.min(), max=qvalues.max(), num=qvalues.size, sum=qvalues.sum(dtype=np.float64),
                sum_squares=np.square(qvalues, dtype=np.float64).sum(),
                bucket_limit=edges[1:].tolist(), bucket=counts.tolist(),
            )  # fmt: skip
            values.append(Summary.Value(tag="progress/q_values", histo=histogram))
        with self._writing():
            if self._resumed:
                restart = SessionLog(status=SessionLog.START)
                self._events.add_event(Event(wall_time=time.time(), step=first, session_log=restart))
                self._resumed = False
            self._events.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))

    def close(self) -> None:
        """Close the event file."""
        if hasattr(self, "_events"):
            self._events.close()

    def _writing(self) -> AbstractContextManager[None]:
        file = f"TensorBoard's event file in {self._folder}"
        return reporting_failure(file, "make room for it, or leave out --tensorboard")


class Tracker(Writer):
    """Writes to Weights & Biases or to trackio, which have one interface."""

    points = True
    _tracked: Any = None  # the package's own object of the run, once it is open

    def __init__(self, package: str, run: Path, settings: Mapping[str, Any], resumed: bool) -> None:
        """Set up a writer to `package`; `run` is the path of the CSV without its ending.

        Raises:
            UserError: The package is not installed.
        """
        require_extra(package, f"--track {package}")
        self._package, self._run, self._settings = package, run, dict(settings)
        self._id_file = run.with_name(f"{run.name}.{package}")
        self._id = self._id_file.read_text("utf-8") if resumed and self._id_file.exists() else None

    def open(self) -> None:
        """Start the run, or continue it.

        Raises:
            UserError: The tracker cannot be reached.
        """
        self._run.parent.mkdir(parents=True, exist_ok=True)
        given: dict[str, Any] = {"project": PROJECT, "name": self._run.name, "config": self._settings}
        try:
            package = import_module(self._package)
            if self._package == "wandb":  # trackio finds a run by its name, and writes to its own folder
                quiet = package.Settings(console="off", silent=True)
                given |= {"id": self._id, "dir": self._run.parent.absolute(), "settings": quiet}
            self._tracked = package.init(resume="allow" if self._id else "never", **given)
            if self._package == "wandb":  # whose own count only grows: a test has the steps of the training
                self._tracked.define_metric("*", step_metric="train_steps")
        except Exception as error:  # the packages raise many types
            reason = f"{one_line(error)[:200]}: fix it, or leave out --track"
            raise UserError(f"--track {self._package}: {reason}") from error
        self._id_file.write_text(str(self._tracked.id), encoding="utf-8")

    def on_phase_end(self, summary: PhaseSummary) -> None:
        """Write the numbers."""
        self._log(summary.total_train_steps, summary.scalars())

    def on_point(self, point: Point) -> None:
        """Write the numbers."""
        self._log(point.step, point.scalars)

    def on_file(self, path: Path) -> None:
        """Add a snapshot or a film to the run."""
        if path.exists():
            kind = "snapshot" if path.suffix == ".pkl" else "film"
            name = re.sub(r"[^\w.-]", "_", f"{path.stem}.{kind}", flags=re.ASCII)
            self._try("log_artifact", str(path), name=name, type=kind)

    def close(self) -> None:
        """End the run, once everything is uploaded."""
        if self._tracked is not None:
            self._tracked.finish()

    def _log(self, step: int, scalars: Mapping[str, float]) -> None:
        own = {} if self._package == "wandb" else {"step": step}
        self._try("log", {**scalars, "train_steps": step}, **own)

    def _try(self, call: str, *arguments: Any, **named: Any) -> None:
        """Call a method of the package's run; a server that fails costs a line of the log, not the run."""
        try:
            getattr(self._tracked, call)(*arguments, **named)
        except Exception as error:  # as above
            logger.warning("--track %s failed: %s", self._package, one_line(error)[:200])


# Name of `--track` -> what makes the writer of a run; `simple_dqn.register_track` adds to it.
TRACKERS: dict[str, Callable[[Path, Mapping[str, Any], bool], Writer]] = {
    package: partial(Tracker, package) for package in ("wandb", "trackio")
}
