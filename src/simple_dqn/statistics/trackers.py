"""Experiment trackers: Weights & Biases, MLflow, and writers of one's own, chosen by `--track`.

The packages are extras, imported when a run that asks for them begins. A file beside the CSV keeps the
tracker's id of the run, by which a resumed run and a film find it.
"""

import logging
import os
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from simple_dqn.errors import UserError, one_line, require_extra
from simple_dqn.statistics.summary import PhaseSummary, Point, Writer

logger = logging.getLogger(__name__)

PROJECT = "simple-dqn"  # the project of W&B, the experiment of MLflow


class Tracker(Writer):
    """The parts that both trackers share."""

    points = True
    package = ""

    def __init__(self, run: Path, settings: Mapping[str, Any], resumed: bool) -> None:
        """Set up a writer, which writes nothing yet.

        Args:
            run: The path of the run's CSV, without its ending.
            settings: Settings of the run that are not about this machine.
            resumed: Whether to continue the run that was recorded under this name.

        Raises:
            UserError: The package is not installed.
        """
        require_extra(self.package, f"--track {self.package}")
        self._name, self._folder, self._settings = run.name, run.parent.absolute(), dict(settings)
        self._id_file = run.with_name(f"{run.name}.{self.package}")
        self._id = self._id_file.read_text("utf-8") if resumed and self._id_file.exists() else None

    def open(self) -> None:
        """Start the run, or continue it.

        Raises:
            UserError: The tracker cannot be reached.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._id = self._start()
        except Exception as error:  # the packages raise many types
            reason = f"{one_line(error)[:200]}: fix it, or leave out --track"
            raise UserError(f"--track {self.package}: {reason}") from error
        self._id_file.write_text(self._id, encoding="utf-8")

    def on_phase_end(self, summary: PhaseSummary) -> None:
        """Write the numbers."""
        self._log(summary.total_train_steps, summary.scalars())

    def on_point(self, point: Point) -> None:
        """Write the numbers."""
        self._log(point.step, point.scalars)

    @abstractmethod
    def _start(self) -> str:
        """Start or continue the run, and return its id."""

    @abstractmethod
    def _log(self, step: int, scalars: Mapping[str, float]) -> None:
        """Write the numbers."""

    def _try(self, call: Callable[..., object], *arguments: Any) -> None:
        """Do `call`; a server that fails costs a line of the log, not the run."""
        try:
            call(*arguments)
        except Exception as error:  # as above
            logger.warning("--track %s failed: %s", self.package, one_line(error)[:200])


class WandbWriter(Tracker):
    """Writes to Weights & Biases; WANDB_MODE=offline keeps the run in the folder of the CSV."""

    package = "wandb"
    _run: Any = None

    def _start(self) -> str:
        import wandb

        self._run = wandb.init(
            project=PROJECT, name=self._name, id=self._id, resume="allow", dir=self._folder,
            config=self._settings, settings=wandb.Settings(console="off", silent=True),
        )  # fmt: skip
        # Not W&B's own count, which only grows: a test has the steps of the training before it.
        self._run.define_metric("*", step_metric="train_steps")
        return str(self._run.id)

    def _log(self, step: int, scalars: Mapping[str, float]) -> None:
        self._try(self._run.log, {**scalars, "train_steps": step})

    def on_file(self, path: Path) -> None:
        """Add a snapshot or a film to the run."""
        if path.exists():
            name = re.sub(r"[^\w.-]", "_", f"{path.stem}.{_kind(path)}", flags=re.ASCII)
            self._try(partial(self._run.log_artifact, str(path), name=name, type=_kind(path)))

    def close(self) -> None:
        """End the run, once everything is uploaded."""
        if self._run is not None:
            self._run.finish()


class MlflowWriter(Tracker):
    """Writes to the MLflow server MLFLOW_TRACKING_URI, or without one to mlflow.db in the CSV's folder."""

    package = "mlflow"
    _client: Any = None

    def _start(self) -> str:
        import mlflow

        address = os.environ.get("MLFLOW_TRACKING_URI")
        client = mlflow.MlflowClient(address or f"sqlite:///{self._folder / 'mlflow.db'}")
        if self._id is None:
            experiment = client.get_experiment_by_name(PROJECT)
            files = None if address else (self._folder / "mlruns").as_uri()
            number = experiment.experiment_id if experiment else client.create_experiment(PROJECT, files)
            self._id = str(client.create_run(number, run_name=self._name).info.run_id)
            settings = [mlflow.entities.Param(name, str(value)) for name, value in self._settings.items()]
            client.log_batch(self._id, params=settings)
        client.update_run(self._id, status="RUNNING")
        self._client, self._metric = client, mlflow.entities.Metric
        return self._id

    def _log(self, step: int, scalars: Mapping[str, float]) -> None:
        now = int(1000 * time.time())
        metrics = [self._metric(name, number, now, step) for name, number in scalars.items()]
        self._try(self._client.log_batch, self._id, metrics)

    def on_file(self, path: Path) -> None:
        """Add a snapshot or a film to the run."""
        if path.exists():
            self._try(self._client.log_artifact, self._id, str(path), f"{_kind(path)}s")

    def close(self) -> None:
        """End the run."""
        if self._client is not None:
            self._try(self._client.set_terminated, self._id)


def _kind(path: Path) -> str:
    return "snapshot" if path.suffix == ".pkl" else "film"


# Name of `--track` -> what makes the writer of a run; `simple_dqn.register_track` adds to it.
TRACKERS: dict[str, Callable[[Path, Mapping[str, Any], bool], Writer]] = {
    "wandb": WandbWriter,
    "mlflow": MlflowWriter,
}
