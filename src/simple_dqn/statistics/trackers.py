"""Experiment trackers, chosen by `--track`: Weights & Biases, trackio, and writers of one's own.

The packages are extras, imported when a run that asks for them begins. The file `results/NAME.wandb` or
`results/NAME.trackio` holds the tracker's id of the run, by which a resumed run and a film find it.
"""

import logging
import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from simple_dqn.errors import UserError, one_line, require_extra
from simple_dqn.statistics.summary import PhaseSummary, Point, Writer

logger = logging.getLogger(__name__)

PROJECT = "simple-dqn"


class Tracker(Writer):
    """Writes to Weights & Biases or to trackio, which have one interface."""

    points = True
    _tracked: Any = None  # the package's own object of the run, once it is open

    def __init__(self, package: str, run: Path, settings: Mapping[str, Any], resumed: bool) -> None:
        """Set up a writer, which writes nothing yet.

        Args:
            package: `wandb` or `trackio`.
            run: The path of the run's CSV, without its ending.
            settings: Settings of the run that are not about this machine.
            resumed: Whether to continue the run that was recorded under this name.

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
        try:
            package = import_module(self._package)
            own: dict[str, Any] = {}
            if self._package == "wandb":  # trackio finds a run by its name, and writes to its own folder
                quiet = package.Settings(console="off", silent=True)
                own = {"id": self._id, "dir": self._run.parent.absolute(), "settings": quiet}
            resume = "allow" if self._id else "never"
            self._tracked = package.init(
                project=PROJECT, name=self._run.name, config=self._settings, resume=resume, **own
            )
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
            self._try(partial(self._tracked.log_artifact, str(path), name=name, type=kind))

    def close(self) -> None:
        """End the run, once everything is uploaded."""
        if self._tracked is not None:
            self._tracked.finish()

    def _log(self, step: int, scalars: Mapping[str, float]) -> None:
        own = {} if self._package == "wandb" else {"step": step}
        self._try(partial(self._tracked.log, {**scalars, "train_steps": step}, **own))

    def _try(self, call: Callable[[], object]) -> None:
        """Do `call`; a server that fails costs a line of the log, not the run."""
        try:
            call()
        except Exception as error:  # as above
            logger.warning("--track %s failed: %s", self._package, one_line(error)[:200])


# Name of `--track` -> what makes the writer of a run; `simple_dqn.register_track` adds to it.
TRACKERS: dict[str, Callable[[Path, Mapping[str, Any], bool], Writer]] = {
    package: partial(Tracker, package) for package in ("wandb", "trackio")
}
